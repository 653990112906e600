-- Each bad input of runnel.flow is an error with a message of its own, at the line of the program.

local rn = require "runnel"
local flow = require "runnel.flow"
local sim = require "runnel.sim"

local function id(value) return value end

-- The message of an error that a function raises, without the line, which must be this file's.
local function message(f)
  local ok, err = pcall(f)
  assert.is_false(ok)
  local file, text = tostring(err):match "^(.-):%d+: (.*)$"
  assert.is_truthy(file and file:find "bad_input_spec.lua$", tostring(err))
  return text
end

local function of_graph(given)
  return message(function()
    local f = flow("job", given)
    return f
  end)
end

describe("flow: bad input", function()
  it("is an error: not an edge", function()
    local wrong = { "a", "a >", "> a", "a >>> b", "a > b.odd", "a b > c", "a. > b", "a > , b", "", "a > *", "a - > b" }
    for _, text in ipairs(wrong) do
      assert.matches('^flow: ".*" is not an edge; write "a > b"', of_graph { a = { from = {} }, b = id, text }, text)
    end
    assert.equal('flow: an edge is a text; write "a > b", "a.output > b", "a, b > c, d" or "a >> b"',
      of_graph { a = { from = {} }, 7 })
    assert.equal('flow: "*.odd > b": * stands for all stages only in "*.error > a"',
      of_graph { a = { from = {} }, b = id, "*.odd > b" })
  end)

  it("is an error: an unknown stage, output or option", function()
    assert.equal('flow: an edge names "c", which is not a stage', of_graph { a = { from = {} }, b = id, "a > b > c" })
    assert.equal('flow: stage a has no output "odd"; name it in outs = { "odd" }',
      of_graph { a = { from = {} }, b = id, "a.odd > b" })
    assert.matches('^flow: stage b: unknown option "m"; known: '
        .. "backoff, buffer, close, flush, from, init, input, key, n, ",
      of_graph { a = { from = {} }, b = { id, m = 3 }, "a > b" })
    assert.equal("flow: stage b: one function expected, got several",
      of_graph { a = { from = {} }, b = { id, id }, "a > b" })
    local f = flow("job", { a = { from = {} }, b = id, "a > b" })
    assert.equal('pause: flow job has no stage "c"; it has a, b', message(function() f:pause "c" end))
    assert.equal('tap: stage b has no output "odd"; name it in outs = { "odd" }',
      message(function() f:tap "b.odd" end))
  end)

  it("is told at its end: it was never started", function()
    for _ = 1, 2 do collectgarbage() end -- those of other tests
    local stderr, told = io.stderr, {}
    io.stderr = { write = function(_, text) told[#told + 1] = text end } -- luacheck: ignore 122
    local ok, err = pcall(function()
      flow("job", { a = { from = {} }, b = id, "a > b" })
      flow { a = { from = {} }, b = id, "a > b" }
      pcall(flow, "wrong", { a = { from = {} }, b = id })
      rn.go(function() flow("used", { a = { from = {} }, b = id, "a > b" }):wait() end):take()
      collectgarbage()
      collectgarbage()
    end)
    io.stderr = stderr -- luacheck: ignore 122
    assert(ok, err)
    table.sort(told)
    assert.equal(2, #told, table.concat(told))
    assert.matches("^runnel: the flow job made at .*bad_input_spec.lua:%d+ was never started: f:start%(%), or f:wait",
      told[1])
    assert.matches("^runnel: the flow made at .*bad_input_spec.lua:%d+ was never started", told[2])
  end)

  it("has its file and line as its name if it gets none", function()
    local f = flow { a = { from = {} }, b = id, "a > b" }
    assert.matches("bad_input_spec.lua:%d+$", f.name)
    f:stop()
  end)

  it("is an error: an edge twice, to a source, or from an output", function()
    assert.equal('flow: "a > b": that edge is there already', of_graph { a = { from = {} }, b = id, "a > b", "a > b" })
    assert.equal('flow: "b > a": a is a source; nothing leads to it',
      of_graph { a = { from = {} }, b = id, "a > b", "b > a" })
    assert.equal('flow: "a > out > b": the channel out is an output; nothing leads from it',
      of_graph { a = { from = {} }, b = id, out = rn.chan(), "a > out > b" })
  end)

  it("is an error: nothing leads to a stage", function()
    assert.equal("flow: nothing leads to stage b: name it in an edge, give it a source, or set input = true",
      of_graph { a = { from = {} }, b = id })
    assert.equal("flow: nothing leads to stage b: name it in an edge, give it a source, or set input = true",
      of_graph { a = { from = {} }, b = id, c = id, "b >> c > b" })
    assert.equal("flow: there are no stages", of_graph {})
  end)

  it("is an error: a cycle without an edge that grows", function()
    assert.equal('flow: b > c > b is a cycle, which could fill up and stop; one edge of it must grow, as in "a >> b"',
      of_graph { a = { from = {} }, b = id, c = id, "a > b > c > b" })
    assert.equal('flow: b > b is a cycle, which could fill up and stop; one edge of it must grow, as in "a >> b"',
      of_graph { a = { from = {} }, b = id, c = id, "a > b > b", "b > c", "c >> b" })
    local f = flow("job", { a = { from = {} }, b = id, c = id, "a > b > c" })
    assert.equal('connect: "c >> b" would close a cycle; name its edges in flow(...)',
      message(function() f:connect "c >> b" end))
  end)

  it("is an error: a stage that is none", function()
    assert.equal("flow: stage b: a function, a table of options or a channel expected, got a number",
      of_graph { a = { from = {} }, b = 7, "a > b" })
    assert.equal("flow: stage b: it does nothing: a function, `step`, `source` or `from` expected",
      of_graph { a = { from = {} }, b = {}, "a > b" })
    assert.equal("flow: stage b: one of a function, `step`, `source` and `from` expected, got 2 of them",
      of_graph { a = { from = {} }, b = { id, step = id }, "a > b" })
    assert.equal("flow: stage b: step: a function expected, got a string; pass the function itself: f, not f()",
      of_graph { a = { from = {} }, b = { step = "x" }, "a > b" })
    assert.equal("flow: stage a: from: a channel, a list or an iterator expected, got a number",
      of_graph { a = { from = 1 }, b = id, "a > b" })
    assert.equal('flow: "a b" cannot be the name of a stage: letters, digits, _ and - expected',
      of_graph { ["a b"] = id })
    assert.equal("flow: true is neither the name of a stage nor an edge", of_graph { [true] = id, a = { from = {} } })
    assert.equal("flow: stage a: n: a stage with `from` does not have that option",
      of_graph { a = { from = {}, n = 2 } })
    assert.equal("flow: stage a: tries: a stage with `source` does not have that option",
      of_graph { a = { source = id, tries = 2 } })
  end)

  it("is an error: a value of an option", function()
    local wrong = {
      { "n", 0, "n: an integer of at least 1 expected, got 0" },
      { "n", "2", 'n: an integer of at least 1 expected, got "2"' },
      { "buffer", -1, "buffer: an integer of at least 0 expected, got -1" },
      { "ordered", 1, "ordered: true or false expected, got 1" },
      { "input", "x", 'input: true or false expected, got "x"' },
      { "init", 1, "init: a function expected, got a number; pass the function itself: f, not f()" },
      { "outs", "odd", "outs: a list of names expected, got a string" },
      { "outs", { "error" }, 'outs: "error" cannot be the name of an output' },
      { "outs", { "odd", nil, "even" }, "outs: element 2 is nil, although the list goes on" },
      { "outs", { odd = true }, "outs: a list expected, got a table with keys but no values 1, 2, ..." },
      { "tries", 0, "tries: an integer of at least 1 expected, got 0" },
      { "backoff", -1, "backoff: a number of milliseconds, at least 0, expected, got -1" },
      { "timeout", "1", 'timeout: a number of milliseconds, at least 0, expected, got "1"' },
    }
    for _, case in ipairs(wrong) do
      assert.equal("flow: stage b: " .. case[3],
        of_graph { a = { from = {} }, b = { id, [case[1]] = case[2] }, "a > b" })
    end
  end)

  it("is an error: how flow itself is called", function()
    assert.equal('flow: a name expected, got a number; call it as flow(name, { stages..., "a > b" })',
      message(function() local _ = flow(1, {}) end))
    assert.equal("flow: a table of stages and edges expected, got nothing", message(function() local _ = flow "x" end))
    assert.matches("^flow.batch: n: an integer of at least 1 expected", message(function() local _ = flow.batch(0) end))
    assert.matches("^flow.rate: ms: a number of milliseconds", message(function() local _ = flow.rate(1) end))
    assert.matches("^flow.debounce: ms: a number of milliseconds", message(function() local _ = flow.debounce "x" end))
  end)

  it("is an error: methods", function()
    sim.run(function()
      local function sleep() rn.sleep(1) end
      local f = flow("job", { a = { from = {} }, b = id, s = { source = sleep }, "a > b", "s > b" })
      assert.equal("drain: flow job was not started", message(function() f:drain() end))
      assert.equal("workers: n: an integer of at least 1 expected, got 0", message(function() f:workers("b", 0) end))
      assert.equal("workers: stage a has one worker", message(function() f:workers("a", 2) end))
      assert.equal("replace: stage a has no function", message(function() f:replace("a", id) end))
      assert.equal("replace: stage: a function expected, got nothing; pass the function itself: f, not f()",
        message(function() f:replace("b") end))
      assert.equal("replace: migrate: a function expected, got a number; pass the function itself: f, not f()",
        message(function() f:replace("b", id, 1) end))
      assert.equal("replace: stage b: flow.batch(2) takes the place only of another flow.batch; add a stage with f:add",
        message(function() f:replace("b", flow.batch(2)) end))
      local g = flow("timed", { a = { from = {} }, b = flow.batch(2), "a > b" })
      assert.matches("^replace: stage b: flow.rate%(2, 10%) takes the place only of another flow.rate",
        message(function() g:replace("b", flow.rate(2, 10)) end))
      assert.equal("inject: nil cannot be a value", message(function() f:inject("b", nil) end))
      assert.equal('inject: s is a source with a function; inject behind it: "s.out"',
        message(function() f:inject("s", 1) end))
      assert.equal("inject: nothing leads from b.out", message(function() f:inject("b.out", 1) end))
      assert.matches('^inject: the name of a stage, as "parse"', message(function() f:inject(1, 1) end))
      assert.equal('disconnect: "b > a": that edge is not there', message(function() f:disconnect "b > a" end))
      f:wait()
      assert.equal("start: flow job was started before", message(function() f:start() end))
      assert.equal("inject: the input of stage b has ended", message(function() f:inject("b", 1) end))
      assert.equal("workers: stage b has ended", message(function() f:workers("b", 2) end))
      assert.equal('connect: "s > b": that edge is there already', message(function() f:connect "s > b" end))
    end)
  end)

  it("is an error of the step: a put of nil, or on an unknown output", function()
    local seen = {}
    sim.run(function()
      flow("job", {
        a = { from = { 1, 2, 3 } },
        b = { step = function(value, put)
          if value == 1 then put(nil) elseif value == 2 then put(1, "odd") else return 1, "even" end
        end },
        bad = function(e) seen[#seen + 1] = tostring(e.error) end,
        "a > b", "b.error > bad",
      }):wait()
    end)
    assert.matches("bad_input_spec.lua:%d+: put: .*nil", seen[1])
    assert.matches('bad_input_spec.lua:%d+: put: stage b has no output "odd"', seen[2])
    assert.matches('put: stage b has no output "even"', seen[3])
  end)
end)
