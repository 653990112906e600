-- What observes a program (a profile, a trace, a graph, traceparent) does not change what it does.
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local function doubling(rf)
  return function(acc, ...)
    if select("#", ...) == 0 then return rf(acc) end
    local v = ...
    if v == "last" then return rn.reduced(rf(acc, v)) end
    return rf(rf(acc, v), v)
  end
end

local function policy()
  local values = {}
  return {
    full = function() return #values >= 1 end,
    add = function(_, v) values[#values + 1] = v end,
    remove = function() return table.remove(values, 1) end,
    count = function() return #values end,
  }
end

-- Each puts, with takes that wait or not, what the next one returns.
local CHANNELS = {
  ["without a buffer"] = function() return rn.chan() end,
  ["with a buffer"] = function() return rn.chan(1) end,
  ["with a large buffer"] = function() return rn.chan(200) end,
  ["with a sliding buffer"] = function() return rn.chan(rn.sliding_buffer(1)) end,
  ["with a policy"] = function() return rn.chan(policy()) end,
  ["with a transducer"] = function() return rn.chan(2, doubling) end,
  ["of a promise"] = function() return rn.promise_chan() end,
  ["shared by threads"] = function() return rn.shared_chan(1) end,
}

-- Everything that can happen to such a channel; returns a list of it.
local function live(make)
  local log, n = {}, 0
  local function note(...)
    n = n + 1
    log[n] = table.concat({ ... }, " ")
  end
  local ch = make()
  local function put(v) note("put", v, tostring(ch:put(v))) end
  local function take() note("took", tostring((ch:take()))) end
  local takers = { rn.go(take), rn.go(take) } -- wait
  rn.sleep(1)
  put "a"
  local putters = {}
  for i, v in ipairs { "b", "c", "d" } do putters[i] = rn.go(put, v) end -- some wait
  rn.sleep(1)
  for _ = 1, 5 do
    note("alts", tostring((rn.alts({ ch, rn.timeout(1) }, { priority = true }))))
    rn.sleep(1)
  end
  local more = { rn.go(put, "e"), rn.go(put, "f"), rn.go(put, "last"), rn.go(put, "after") }
  rn.sleep(1)
  local dies = rn.go(function()
    ch:poll()
    error("on purpose", 0)
  end)
  note("died", select(2, dies:take()))
  for _ = 1, 4 do
    note("polled", tostring(ch:poll()))
    rn.sleep(1)
  end
  local fails = rn.go(function() return nil, "no result" end)
  note("failed", select(2, fails:take()))
  local cancelled = rn.go(function() rn.chan():take() end)
  rn.yield()
  rn.cancel(cancelled, "enough")
  note("cancelled", select(2, cancelled:take()))
  ch:take_async(function(v) note("called with", tostring(v)) end)
  ch:put_async("g", function(ok) note("called with", tostring(ok)) end)
  rn.sleep(1)
  rn.sleep(1)
  ch:close "over"
  take()
  for _, list in ipairs { takers, putters, more } do
    for _, block in ipairs(list) do rn.cancel(block) end
  end
  table.sort(log)
  return table.concat(log, "\n")
end

local OBSERVERS = {
  ["a profile"] = function(f)
    local _, log = rn.profile(f)
    return log
  end,
  ["a trace"] = function(f)
    local file = os.tmpname()
    rn.trace(file)
    local log = f()
    rn.trace(false)
    os.remove(file)
    return log
  end,
  ["a graph"] = function(f)
    rn.graph()
    local log = f()
    rn.graph(false)
    return log
  end,
  ["traceparent"] = function(f)
    rn.traceparent(true)
    local log = f()
    rn.traceparent(false)
    return log
  end,
  ["a profile and a graph"] = function(f)
    rn.graph()
    local _, log = rn.profile(f)
    rn.graph(false)
    return log
  end,
}

describe("a program that is observed", function()
  before_each(stage.open)
  after_each(stage.close)

  for kind, make in pairs(CHANNELS) do
    it(("does the same on a channel %s"):format(kind), function()
      local usual = sim.run(function() return live(make) end)
      for name, observe in pairs(OBSERVERS) do
        assert.equal(usual, observe(function() return sim.run(function() return live(make) end) end), name)
      end
    end)
  end

  it("does the same when it is searched", function()
    local seen, usual = {}, {}
    local function program(list)
      return function()
        local ch = rn.chan(1, doubling)
        rn.go(function() list[#list + 1] = table.concat({ ch:take(), ch:take() }, " ") end)
        rn.yield() -- so that the take waits
        ch:put "a"
        rn.yield()
      end
    end
    sim.run(program(usual))
    sim.explore(program(seen), { share = "channels" })
    assert.same({ "a a" }, usual)
    for _, got in ipairs(seen) do assert.equal("a a", got) end
    assert.is_true(#seen >= 1)
  end)
end)
