-- runnel.monitor without a browser: commands from the page, and the values that it asks for.

local json = require "runnel.json"
local monitored = require "spec.support.monitored"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local shell = require "spec.support.shell"

describe("runnel.monitor", function()
  local start, stop = monitored.starter()
  after_each(stop)

  local CONTROLLED = [[
    local m = listen(0, { control = %s, show = %s })
    local jobs = rn.chan(2):name "jobs"
    local block = rn.go(function() rn.rename "victim" rn.chan():take() end)
    rn.go(function() local _, err = block:take() print("killed: " .. tostring(err)) end)
    jobs:put("secret") jobs:put { 1, 2, key = "hidden" }
    rn.go(function() rn.rename "putter" jobs:put(3.5) end)
    while not told() do rn.sleep(20) end
    for _ = 1, #jobs do print("job", (jobs:take())) end
    for _ = 1, 3 do print("job", (jobs:poll())) end
  ]]

  -- The ids of the go block and the channel with these names.
  local function ids(p, go, chan)
    local rows, texts = monitored.rows_of(monitored.messages(p:events_until(("\"%s\""):format(go or chan))))
    local go_id, chan_id
    for _, row in pairs(rows[2]) do go_id = texts[row[3]] == go and row[11] or go_id end
    for id, row in pairs(rows[0]) do chan_id = texts[row[3]] == chan and id or chan_id end
    return go_id, chan_id
  end

  -- Posts commands, which get the numbers from 1 on.
  local function post(p, ...)
    for i, command in ipairs { ... } do
      local status, answer = p:post(command[1] .. "?", command[2])
      assert.equal(202, status)
      assert.equal(tostring(i), answer:match '"number":(%d+)')
    end
  end

  it("kills a go block and puts values where control = true", function()
    local p = start(CONTROLLED:format("true", '"types"'))
    local victim, jobs = ids(p, "victim", "jobs")
    local stream = p:open_stream "seven"
    local value = "id=" .. jobs .. "&type=number&text="
    post(p, { "/kill", "id=" .. victim }, { "/kill", "id=987654" }, { "/inject", value .. "77" },
      { "/inject", value .. "seven" })
    local got = {}
    for _, message in ipairs(monitored.messages(stream())) do
      for _, result in ipairs(message.r) do got[result[1]] = result[2] and "yes" or result[3] end
    end
    assert.same({ "yes", "there is no go block #987654 any more", "yes", "not a number: seven" }, got)
    local out = p:finish()
    assert.match("killed: killed from the monitor's page", out)
    assert.match("job\t77", out)
  end)

  it("refuses both without control = true, and forms that are wrong", function()
    local p = start(CONTROLLED:format("false", '"types"'))
    assert.equal(403, (p:post("/kill?", "id=1")))
    assert.equal(403, (p:post("/inject?", "id=1&type=string&text=x")))
    assert.equal(400, (p:post("/values?", "id=1&evil=1")))
    assert.equal(400, (p:post("/values?", "id=" .. ("1"):rep(100))))
    assert.equal(404, (p:post("/load?", "text=x")))
    assert.not_match("killed: killed", p:finish())
  end)

  it("asks for a form that waits for it (100-continue)", function()
    local p = start "local m = listen(0) rn.sleep(600000)"
    local head = "POST /values?token=%s HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\nConnection: close\\r\\n"
      .. "Expect: 100-continue\\r\\nContent-Type: application/x-www-form-urlencoded\\r\\nContent-Length: 4\\r\\n\\r\\n"
    local answer = shell.run(([[timeout %d bash -c '
      exec 3<>/dev/tcp/127.0.0.1/%d; printf "]] .. head .. [[" >&3
      read -r line <&3; echo "$line"; read -r line <&3; printf id=1 >&3; cat <&3']]):format(patience.seconds(10),
      p.port, p.token, p.port))
    assert.match("^HTTP/1.1 100 Continue\r\nHTTP/1.1 202 ", answer)
  end)

  it("refuses forms with a zero in a field or without a type, and drops one that is not complete", function()
    local p = start "local m = listen(0) rn.sleep(600000)"
    assert.equal(400, (p:post("/values?", "id=1%00")))
    local head = ("POST /values?token=%s HTTP/1.1\nContent-Length: "):format(p.token)
    assert.equal(400, (monitored.request(p.port, head .. "0")))
    local typed = "\nContent-Type: application/x-www-form-urlencoded"
    local status = monitored.request(p.port, head .. "100" .. typed, nil, 0.5)
    assert.is_true(status == nil or status == 408, status) -- the latter on a machine so slow that it waits for long
    assert.equal(202, (p:post("/values?", "id=1")))
  end)

  it("decodes the fields of a form, and refuses forms whose codes or fields are wrong", function()
    local p = start(CONTROLLED:format("true", '"types"'))
    local _, jobs = ids(p, "victim", "jobs")
    for _, form in ipairs { "id=%", "id=%3", "id=%g1", "id=%3g", "id", "=1", "&id=1", "id=1&&type=x" } do
      assert.equal(400, (p:post("/values?", form)), form)
    end
    assert.equal(202, (p:post("/inject?", "type=string&text=a+b%21%7E&id=" .. jobs)))
    local typed = "Content-Type: application/x-www-form-urlencoded"
    assert.equal(202, (p:post("/values?", nil, typed))) -- of channel 0, which is never there
    assert.match("job\ta b!~\n", p:finish())
  end)

  for show, expected in pairs {
    ['"types"'] = { "string (6 bytes)", "table (3 entries)", "float" },
    ['"values"'] = { '"secret"', '{ 1, 2, "key" = "hidden" }', "3.5" },
    ['function(v) return "a " .. type(v) end'] = { "a string", "a table", "a number" },
  } do
    it("shows of values what `show` allows: " .. show, function()
      local p = start(CONTROLLED:format("false", show))
      local _, jobs = ids(p, "victim", "jobs")
      local stream = p:open_stream [["r":\[\[]]
      post(p, { "/values", "id=" .. jobs })
      local got
      for _, message in ipairs(monitored.messages(stream())) do
        for _, result in ipairs(message.r) do got = result end
      end
        assert.same({ 1, true, table.unpack(expected) }, got)
    end)
  end

  it("shows the values in a buffer, the oldest first, and then those of puts that wait", function()
    local p = start [[
      local m = listen(0, { show = "values" })
      local big = rn.chan(1000):name "big"
      for i = 1, 1000 do big:put(i) end
      for _ = 1, 990 do big:take() end
      for i = 1001, 1005 do big:put(i) end
      local long, crowded = rn.chan(30):name "long", rn.chan():name "crowded"
      for i = 1, 30 do long:put(i) end
      for i = 1, 30 do rn.go(function() crowded:put(i) end) end
      local small, unbuffered = rn.chan(2):name "small", rn.chan():name "unbuffered"
      small:put "first" small:put "second" small:take() small:put "third"
      rn.go(function() small:put "fourth" end)
      rn.go(function() unbuffered:put "waits" end)
      rn.go(function() rn.alts { { unbuffered, "of alts" }, rn.chan() } end)
      local shared = rn.shared_chan(2):name "shared"
      shared:put(1)
      local policy = rn.chan(rn.priority_buffer(2)):name "policy"
      policy:put(1)
      local block = rn.go(function() rn.rename "waiter" rn.chan():take() end)
      rn.go(function() rn.sleep(600000) end)
      block:take()
    ]]
    local rows, texts = monitored.rows_of(monitored.messages(p:events_until '"waiter"'))
    local id_of = {}
    for id, row in pairs(rows[0]) do id_of[texts[row[3]]] = id end
    for _, row in pairs(rows[2]) do
      if texts[row[3]] == "waiter" then id_of.result = row[11] end
    end
    local stream = p:open_stream "there is no channel #987654"
    local names = { "long", "crowded", "big", "small", "unbuffered", "shared", "policy", "result" }
    local posted = {}
    for i, name in ipairs(names) do posted[i] = { "/values", "id=" .. id_of[name] } end
    posted[#posted + 1] = { "/values", "id=987654" }
    post(p, table.unpack(posted))
    local got = {}
    for _, message in ipairs(monitored.messages(stream())) do
      for _, result in ipairs(message.r) do got[names[result[1]] or "none"] = table.move(result, 2, #result, 1, {}) end
    end
    local function numbers(from, to)
      local list = { true }
      for i = from, to do list[#list + 1] = tostring(i) end
      return list
    end
    assert.same({
      long = numbers(1, 20),
      crowded = numbers(1, 20),
      big = numbers(991, 1005),
      small = { true, '"second"', '"third"', '"fourth"' },
      unbuffered = { true, '"waits"', '"of alts"' },
      shared = { true },
      policy = { true },
      result = { true },
      none = { false, "there is no channel #987654 any more" },
    }, got)
  end)

  it("keeps a number of commands while the program computes, and refuses more", function()
    local p = start "local m = listen(0) rn.sleep(1) repeat until told() rn.sleep(600000)"
    local stream = p:open_stream "\\[64,false"
    local accepted = {}
    for i = 1, 64 do accepted[i] = 202 end
    assert.same(accepted, p:post_often(64, "/values?", "id=987654"))
    local status, answer = p:post("/values?", "id=987654")
    assert.equal(503, status)
    assert.match("the program computes, and takes no more commands", answer)
    p:tell()
    local numbers, expected = {}, {}
    for _, message in ipairs(monitored.messages(stream())) do
      for _, result in ipairs(message.r) do numbers[#numbers + 1] = result[1] end
    end
    for i = 1, 64 do expected[i] = i end
    assert.same(expected, numbers)
  end)

  it("records for the timeline until no page has asked for a while, even if none is open any more", function()
    local p = start [[
      local m, core = listen(0), require "runnel.core"
      local trace, real, passed = core.internal.trace, core.now, 0
      function core.now() return real() + passed end
      local function records() return pcall(trace.ring) and trace.ring() ~= nil end
      repeat rn.sleep(2) until records()
      passed = 5001
      repeat rn.sleep(2) until not records()
      print "over"
    ]]
    assert.equal(202, (p:post("/timeline?", "id=")))
    assert.equal("over\n", p:wait())
  end)

  it("refuses more pages than it can feed, until one is closed", function()
    local p = start "local m = listen(0) rn.sleep(600000)"
    local script = ([[
      for i in {1..16}; do
        exec {fd}<>/dev/tcp/127.0.0.1/%d
        printf "GET /events?token=%s HTTP/1.0\r\nHost: 127.0.0.1:%d\r\n\r\n" >&$fd
        read -t 20 -u $fd && fds="$fds $fd"
      done
      echo $fds | wc -w
      exec sleep 60]]):format(p.port, p.token, p.port)
    local holding = assert(io.popen(("echo $$; exec bash -c '%s' 2>/dev/null"):format(script)))
    local pid, held = holding:read("l", "l")
    assert.equal("16", held:match "%d+")
    local status, answer = p:get "/events?"
    assert.equal(503, status)
    assert.match("too many pages are open", answer)
    assert.equal(200, (p:get "/?"))
    os.execute("kill " .. pid)
    holding:close()
    local function has_room() return #monitored.messages(p:events(2)) == 2 end
    assert.is_true(patience.wait_until(has_room)) -- the server has to notice that they are gone
  end)

  -- What the page's tab of queues shows.
  local function table_of_queues(p)
    local stream, has_come = p:open_stream "redelivered"
    repeat -- the first answers say that it looks
      assert.equal(202, (p:post("/queues?", "id=0")))
    until has_come()
    local text
    for _, message in ipairs(monitored.messages(stream())) do
      for _, result in ipairs(message.r) do
        if result[3]:find "redelivered" then text = result[3] end
      end
    end
    return text
  end

  it("shows the queues of the program's connection, without values by default #ci", function()
    local nats, missing = nats_server.library()
    if not nats then return pending(missing) end
    local server <close> = nats_server.start()
    local p = start(([[
      local conn, begun = assert(require("runnel.nats").connect "%s"), rn.chan()
      conn:serve("resize", 2, function() begun:close() rn.sleep(600000) end, { drain_on_term = false })
      local stage = conn:remote "resize"
      rn.go(function() stage "secret" end)
      begun:take()
      local m = listen(0)
      while not told() do rn.sleep(20) end
      rn.exit(0)]]):format(server.url))
    local text = table_of_queues(p)
    assert.matches("\nresize +0 +1 +0 +0 ", text)
    assert.matches("1 of 2 running, 0 done, 0 failed; a call for ", text)
    assert.not_matches("secret", text)
    p:finish()
  end)

  it("has the queues of a store", function()
    if not pcall(require, "runnel.sqlite") then return pending "libsqlite3 is not installed" end
    local p = start [[
      local store = require("runnel.store").open ":memory:"
      assert(store:stream "words")
      assert(assert(store:sink "words"):put "secret")
      local begun = rn.chan()
      store:stage("words", 2, function() begun:close() rn.sleep(1e6) end, nil, { name = "spell" })
      begun:take()
      local m = listen(0)
      while not told() do rn.sleep(20) end
      rn.exit(0)]]
    local text = table_of_queues(p)
    assert.matches("words/spell +0 +1 +0 +0 ", text)
    assert.matches("1 of 2 running, 0 done, 0 failed; a call for ", text)
    assert.not_matches("secret", text)
    p:finish()
  end)

  it("has the queues of the program's server, and those of its store #ci", function()
    if not pcall(require, "runnel.sqlite") then return pending "libsqlite3 is not installed" end
    local nats, missing = nats_server.library()
    if not nats then return pending(missing) end
    local server <close> = nats_server.start()
    local p = start(([[
      local conn = assert(require("runnel.nats").connect "%s")
      conn:serve("resize", 2, function() end, { drain_on_term = false })
      local store = require("runnel.store").open ":memory:"
      assert(store:stream "words")
      store:stage("words", 2, function() end, nil, { name = "spell" })
      local m = listen(0)
      while not told() do rn.sleep(20) end
      rn.exit(0)]]):format(server.url))
    local text = table_of_queues(p)
    assert.matches("^NATS at nats://[^\n]+\nqueue .*\nresize .*\n\nthe store :memory:\nqueue .*\nwords/spell ", text)
    p:finish()
  end)

  it("has the runs of a store, and answers each question with its number", function()
    if not pcall(require, "runnel.sqlite") then return pending "libsqlite3 is not installed" end
    local p = start [[
      local store = require("runnel.store").open ":memory:"
      local charge = store:once("charge", function() return "secret" end)
      local runs = store:runs("order", function(run)
        charge "secret"
        run:wait "approved"
      end)
      for i = 1, 3 do assert(runs:start(i)) end
      while #runs:list { state = "waiting" } < 3 do rn.sleep(5) end
      local m = listen(0)
      while not told() do rn.sleep(20) end
      rn.exit(0)]]
    -- The answer to a question, which has a text.
    local function ask(question, pattern)
      local stream = p:open_stream(pattern)
      local text = question:gsub("[^%w]", function(c) return ("%%%02X"):format(c:byte()) end)
      local _, answer = p:post("/runs?", "text=" .. text)
      local number = tonumber(answer:match "\"number\":(%d+)")
      for _, message in ipairs(monitored.messages(stream())) do
        for _, result in ipairs(message.r) do
          if result[1] == number then return result end
        end
      end
    end
    local answers = {
      ask("{}", "counts"), ask('{"name":"order","run":"2"}', "charge"), ask("7", "the question is wrong"),
    }
    assert.is_true(answers[1][2])
    local counts = json.decode(answers[1][3]).stores[1].counts[1]
    assert.same({ "order", 3, { waiting = 3 } }, { counts.name, counts.total, counts.states })
    local one = json.decode(answers[2][3])
    assert.same({ 3, "2", "waiting" }, { #one.list, one.run.id, one.run.state })
    assert.same({ "charge", 'wait["approved"]' }, { one.steps[1].step, one.steps[2].step })
    assert.not_matches("secret", answers[2][3])
    assert.same({ false, "the question is wrong" }, { answers[3][2], answers[3][3] })
    p:finish()
  end)

  it("has no runs without a store", function()
    local p = start "local m = listen(0) while not told() do rn.sleep(20) end"
    local stream = p:open_stream "no store open"
    post(p, { "/runs", "text=%7B%7D" })
    assert.matches("this program has no store open", stream())
    p:finish()
  end)

  it("has no queues without a connection", function()
    local p = start "local m = listen(0) while not told() do rn.sleep(20) end"
    local stream = p:open_stream "no connection"
    post(p, { "/queues", "id=0" })
    assert.matches("this program has no connection to NATS", stream())
    p:finish()
  end)
end)
