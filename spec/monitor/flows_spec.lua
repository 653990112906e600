-- runnel.monitor without a browser: flows by stage, and what the buttons of the page do.

local monitored = require "spec.support.monitored"

describe("flows in runnel.monitor", function()
  local start, stop = monitored.starter()
  after_each(stop)

  -- A flow that gets its values by inject only, and holds those that are no numbers.
  local FED = [[
    local m = listen(0, { control = %s })
    local flow = require "runnel.flow"
    local f = flow("fed", {
      double = { function(n) return 2 * n end, input = true },
      save = function(n) print("saved", n) end,
      "double > save",
    })
    local new = flow("not started", { a = { from = {} } })
    f:start()
    while not told() do rn.sleep(20) end
    print("at the end", f:stats().state, f:stats()[1].state, f:stats()[1].error)
    rn.exit(0)
  ]]

  -- Posts commands one after another, and returns the results by their numbers.
  local function results(p, commands)
    local stream = p:open_stream "there is no channel #987654"
    commands[#commands + 1] = { "/values", "id=987654" } -- ends the stream
    for i, command in ipairs(commands) do
      local status, answer = p:post(command[1] .. "?", command[2] or "id=0")
      assert.equal(202, status)
      assert.equal(tostring(i), answer:match '"number":(%d+)')
    end
    local got = {}
    for _, message in ipairs(monitored.messages(stream())) do
      for _, result in ipairs(message.r) do got[result[1]] = table.move(result, 2, #result, 1, {}) end
    end
    return got
  end

  -- The rows of a flow's text: its head, and the cells of each stage.
  local function rows_of(text)
    local rows = {}
    for line in (text .. "\n"):gmatch "([^\n]*)\n" do
      local cells = {}
      for cell in (line .. "\t"):gmatch "([^\t]*)\t" do cells[#cells + 1] = cell end
      rows[#rows + 1] = cells
    end
    return rows
  end

  it("are shown by stage once they were started", function()
    local p = start(FED:format "false")
    local got = results(p, { { "/flows" } })
    assert.is_true(got[1][1])
    assert.matches("^%d+\t1$", got[1][2]) -- one flow
    assert.is_nil(got[1][4])
    local rows = rows_of(got[1][3])
    assert.same({ "1", "running", "fed" }, rows[1])
    assert.same({ "double", "running", "0", "1", "0", "16", "0", "0", "", "", "", "", "> save" }, rows[2])
    assert.same({ "save", "running", "0", "1", "0", "16", "0", "0", "", "", "", "", "" }, rows[3])
    assert.is_nil(rows[4])
  end)

  it("are paused, fed, resumed and drained", function()
    local p = start(FED:format "true")
    local got = results(p, {
      { "/flow_pause", "id=1.1" },
      { "/flow_inject", "id=1.1&type=JSON&text=21" },
      { "/flows" },
      { "/flow_resume", "id=1.1" },
      { "/flow_pause", "id=1" },
      { "/flow_resume", "id=1" },
      { "/flow_pause", "id=7" },
      { "/flow_inject", "id=1.9&type=string&text=x" },
      { "/flow_inject", "id=1.1&type=JSON&text={" },
      { "/flow_inject", "id=1.2&type=string&text=text" },
      { "/flow_drain", "id=1" },
    })
    assert.same({ true, "stage double of flow fed is paused" }, got[1])
    assert.same({ true, "the value is injected into stage double of flow fed" }, got[2])
    local double = rows_of(got[3][3])[2]
    assert.same({ "double", "paused", "0", "1", "1" }, table.move(double, 1, 5, 1, {}))
    assert.same({ true, "stage double of flow fed goes on" }, got[4])
    assert.same({ true, "flow fed is paused" }, got[5])
    assert.same({ true, "flow fed goes on" }, got[6])
    assert.same({ false, "the flow has ended" }, got[7])
    assert.same({ false, "there is no such stage" }, got[8])
    assert.matches("^not JSON: ", got[9][2])
    assert.is_true(got[10][1])
    assert.same({ true, "flow fed is drained" }, got[11])
    local out = p:finish()
    assert.matches("saved\t42\n", out)
    assert.matches("saved\ttext\n", out)
    assert.matches("at the end\tended\tended\tnil", out)
  end)

  it("are left alone if the page names a stage that is not there any more", function()
    local p = start(FED:format "true")
    local got = results(p, {
      { "/flow_pause", "id=1.9" }, { "/flow_resume", "id=1.9" }, { "/flow_drain", "id=1.0" },
      { "/flow_inject", "id=1&type=string&text=x" }, { "/flows" },
    })
    for i = 1, 4 do assert.same({ false, "there is no such stage" }, got[i]) end
    assert.same({ "1", "running", "fed" }, rows_of(got[5][3])[1])
  end)

  it("are channels and go blocks by the names of the stages, without what only the engine knows", function()
    local p = start [[
      local flow = require "runnel.flow"
      local saved = 0
      local f = flow("seen", {
        count = { source = function(put) for i = 1, math.huge do rn.sleep(5) put(i) end end },
        double = { function(n) return 2 * n end, n = 4 },
        paused = { function() end, buffer = 1000 },
        save = function() saved = saved + 1 end,
        "count > double > save, paused",
      })
      f:pause "paused"
      f:start()
      while saved < 10 do rn.sleep(1) end
      local m = listen(0)
      f:wait()]]
    local rows, texts = monitored.rows_of(monitored.messages(p:events(12)))
    local moved, waits, edges = {}, {}, {}
    for id, row in pairs(rows[0]) do moved[texts[row[3]]] = rows[1][id][3] > 0 end
    assert.same({ ["seen.double"] = true, ["seen.paused"] = true, ["seen.save"] = true }, moved)
    for _, row in pairs(rows[2]) do
      local name = texts[row[3]]:match "^[%w.]+"
      waits[name] = waits[name] or {}
      waits[name][row[6]] = true
    end
    -- One worker of `double` takes, and the others wait until it is their turn.
    assert.same({ ["seen.count"] = { [0] = true }, ["seen.double"] = { [0] = true, true }, ["seen.save"] = { true },
      ["seen.paused"] = { [0] = true }, main = { [0] = true } }, waits)
    for _, row in pairs(rows[3]) do
      edges[("%s %s"):format(texts[row[3]]:match "^[%w.]+", row[5] == 1 and "puts" or "takes")] = row[6] ~= 0
    end
    assert.same({ ["seen.count puts"] = true, ["seen.double takes"] = true, ["seen.double puts"] = true,
      ["seen.save takes"] = true }, edges)
  end)

  it("can be resumed although the program waits for nothing else", function()
    local p = start [[
      local m = listen(0, { control = true })
      local flow = require "runnel.flow"
      local f = flow("alone", { count = { source = function(put)
        for i = 1, math.huge do
          if told() then return end
          rn.sleep(1)
          put(i)
        end
      end }, drop = function() end, "count > drop" })
      f:start()
      rn.go(function() -- says when the source has waited in its put for a while
        local seen = 0
        repeat
          rn.sleep(10)
          seen = seen + 1
          for _, entry in ipairs(rn.ps()) do
            if entry.name:find "^alone.count" and entry.operation ~= "put" then seen = 0 end
          end
        until seen == 5
        print "waits"
        io.stdout:flush()
      end)
      print("ended", f:done():take())]]
    assert.equal(202, (p:post("/flow_pause?", "id=1.2")))
    assert.equal("waits", p.out:read())
    assert.equal(202, (p:post("/flow_resume?", "id=1.2")))
    local out = p:finish()
    assert.matches("ended\tnil", out)
    assert.not_matches("deadlock", out)
  end)

  it("show the error that a stage holds", function()
    local p = start(FED:format "true")
    p:post("/flow_inject?", "id=1.1&type=string&text=secret")
    local stream, has_come = p:open_stream "held"
    repeat p:post("/flows?", "id=0") until has_come()
    assert.matches("attempt to mul a 'number' with a 'string'\\u0009> save", stream())
    assert.matches("at the end\trunning\theld\t.*attempt", p:finish())
  end)

  it("cannot be changed without control = true", function()
    local p = start(FED:format "false")
    for _, what in ipairs { "pause", "resume", "drain", "inject" } do
      local status, answer = p:post("/flow_" .. what .. "?", "id=1.1&type=string&text=x")
      assert.equal(403, status)
      assert.matches("commands are off: start the monitor with control = true", answer)
    end
    local out = p:finish()
    assert.matches("at the end\trunning\trunning\tnil", out)
    assert.not_matches("saved", out)
  end)

  it("are none where the program has not loaded runnel.flow, or all have ended", function()
    local p = start [[
      local m = listen(0)
      while not told() do rn.sleep(20) end]]
    local stream = p:open_stream '"r":\\[\\['
    p:post("/flows?", "id=0")
    assert.matches('%[1,true,"0\\u00090"%]', stream())
    p:finish()
    p = start [[
      local m = listen(0)
      require("runnel.flow")("short", { a = { from = { 1 } } }):wait()
      print "ended"
      io.stdout:flush()
      while not told() do rn.sleep(20) end]]
    assert.equal("ended", p.out:read())
    stream = p:open_stream '"r":\\[\\['
    p:post("/flows?", "id=0")
    assert.matches('%[1,true,"%d+\\u00090"%]', stream())
  end)
end)
