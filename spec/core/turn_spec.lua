-- A go block that does only channel operations cannot starve the others (csrc/lua/turn.h).
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local raises = require "spec.support.raises"

local TURN = 128 -- in csrc/lua/turn.h
local MANY = 100000 -- operations after which a loop has starved the others

local function nothing() end

-- Channels, each made by a function, on which at least one operation completes at once for ever.
local CHANNELS = {
  closed = function()
    local ch = rn.chan()
    ch:close()
    return ch
  end,
  ["closed with an error"] = function()
    local ch = rn.chan(3)
    ch:close "why"
    ch:take()
    return ch
  end,
  ["a promise with a value"] = function()
    local ch = rn.promise_chan()
    ch:put(1)
    return ch
  end,
  ["an old timeout"] = function()
    local ch = rn.timeout(0)
    rn.sleep(1)
    return ch
  end,
  ["done() of a closed one"] = function()
    local ch = rn.chan()
    local done = ch:done()
    ch:close()
    return done
  end,
  ["the result of a go block that has ended"] = function()
    local ch = rn.go(nothing)
    ch:take()
    return ch
  end,
  dropping = function() return rn.chan(rn.dropping_buffer(2)) end,
  sliding = function() return rn.chan(rn.sliding_buffer(2)) end,
  ["a policy that is never full"] = function()
    return rn.chan({ full = function() return false end, add = nothing, remove = function() return 1 end,
      count = function() return 1 end })
  end,
  ["a transducer that drops all"] = function() return rn.chan(1, function(rf)
    return function(acc, ...) return select("#", ...) == 0 and rf(acc) or acc end
  end) end,
  ["shared and closed"] = function()
    local ch = rn.shared_chan()
    ch:close()
    return ch
  end,
  ["shared and sliding"] = function() return rn.shared_chan(rn.sliding_buffer(2)) end,
  ["a shared promise with a value"] = function()
    local ch = rn.shared_chan "promise"
    ch:put(1)
    return ch
  end,
  ["without a buffer"] = function() return rn.chan() end,
  ["with a slot"] = function() return rn.chan(1) end,
  ["with slots"] = function() return rn.chan(7) end,
  ["with a large buffer"] = function() return rn.chan(300) end,
}

local OPERATIONS = {
  take = function(ch) ch:take() end,
  put = function(ch) ch:put(1) end,
  ["put and take"] = function(ch)
    ch:put(1)
    ch:take()
  end,
  ["puts and takes"] = function(ch)
    for i = 1, 3 do ch:put(i) end
    for _ = 1, 3 do ch:take() end
  end,
  ["offer and poll"] = function(ch)
    ch:offer(1)
    ch:poll()
  end,
  poll = function(ch) ch:poll() end,
  offer = function(ch) ch:offer(1) end,
  ["a for loop"] = function(ch)
    for _ in ch do break end -- luacheck: ignore 512
  end,
  ["alts with a take"] = function(ch) rn.alts { ch, rn.chan() } end,
  ["alts with a put"] = function(ch) rn.alts({ { ch, 1 }, rn.chan() }, { priority = true }) end,
  ["alts with a default"] = function(ch) rn.alts({ ch }, { default = 0 }) end,
  alt = function(ch) rn.alt { { ch, nothing } } end,
  ["alt with a default"] = function(ch) rn.alt { { ch, nothing }, default = nothing } end,
  take_async = function(ch) if ch:closed() or #ch > 0 then ch:take_async(nothing) end end,
  put_async = function(ch) if ch:stats().puts_waiting == 0 then ch:put_async(1, nothing) end end,
  closed = function(ch) return ch:closed() end,
  len = function(ch) return #ch end,
}

-- Does an operation until a go block has had 3 turns, or it raises, or MANY times. Returns how often.
local function loop_until_others_ran(operation, ch)
  local n, is_over = 0, false
  rn.go(function()
    for _ = 1, 3 do rn.yield() end
    is_over = true
  end)
  while not is_over and n < MANY and pcall(operation, ch) do n = n + 1 end
  return n
end

local function sorted(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end

describe("a go block that does only channel operations", function()
  before_each(stage.open)
  after_each(stage.close)

  for _, kind in ipairs(sorted(CHANNELS)) do
    it("lets the others run: " .. kind, function()
      for _, name in ipairs(sorted(OPERATIONS)) do
        local operation, what = OPERATIONS[name], name .. ": %d operations"
        local loop = rn.go(loop_until_others_ran, operation, CHANNELS[kind]())
        for _ = 1, 1000 do rn.yield() end -- a loop that waits for ever needs no more
        local n = rn.alts({ loop }, { default = 0 })
        assert.is_true(n <= 6 * TURN, what:format(n))
        rn.cancel(loop)
        n = loop_until_others_ran(operation, CHANNELS[kind]())
        assert.is_true(n <= 6 * TURN, "outside any go block, " .. what:format(n))
      end
      stage.heard() -- for loops drop the error of a closed channel
    end)
  end

  it("lets timers fire", function()
    local ch, began = CHANNELS.closed(), os.clock()
    local function loop(operation)
      local timeout = rn.timeout(5)
      while not timeout:closed() do
        operation(ch)
        if os.clock() - began > 60 then error("the timer has not fired", 0) end
      end
      return "over"
    end
    assert.equal("over", rn.go(loop, ch.take):take())
    assert.equal("over", loop(ch.poll))
  end)

  it("is not delayed itself: it runs again after the others have had one turn", stage.sim(function()
    local ch, log = CHANNELS.closed(), {}
    local function looper(name)
      for _ = 1, 3 do
        for _ = 1, TURN + 1 do ch:take() end
        log[#log + 1] = name
      end
    end
    local a, b = rn.go(looper, "a"), rn.go(looper, "b")
    a:take()
    b:take()
    assert.equal("ababab", table.concat(log))
  end))

  it("loses nothing when it lets the others run, cancelled or not", stage.sim(function()
    for turns = 1, 5 do
      local ch, got = rn.chan(1000), 0
      for i = 1, 1000 do ch:put(i) end
      local loop = rn.go(function()
        for value in ch do
          assert(value == got + 1)
          got = value
        end
      end)
      for _ = 1, turns do rn.yield() end
      rn.cancel(loop, "enough")
      while not loop:closed() do rn.yield() end
      assert.equal(1000, got + #ch)
    end
  end))

  it("ends when it is cancelled, if its operations have no effect", stage.sim(function()
    for _, kind in ipairs { "closed", "a promise with a value", "an old timeout" } do
      for _, name in ipairs { "take", "put", "poll", "offer", "a for loop", "alts with a take" } do
        local ch = CHANNELS[kind]()
        if not (kind == "a promise with a value" and name == "alts with a take") then
          local loop = rn.go(function() while true do OPERATIONS[name](ch) end end)
          rn.yield()
          rn.cancel(loop, "enough")
          assert.same({ nil, "enough" }, { loop:take() }, kind .. ", " .. name)
        end
      end
    end
  end))

  it("gets an error for polls that nothing can help, wherever it is", function()
    local ch = rn.chan()
    local function polls() while true do ch:poll() end end
    raises("^poll: it has come to nothing 100000 times, and nothing will change that", polls)
    local _, err = rn.go(polls):take()
    assert.matches("poll: it has come to nothing 100000 times, and nothing will change that", err)
    local sleeper = rn.go(rn.sleep, 60000)
    local n = 0
    while n < 3 * MANY do -- the sleeper may help
      ch:poll()
      n = n + 1
    end
    rn.cancel(sleeper)
  end)

  it("gets an error for polls where it cannot let the others run", function()
    local ch = rn.chan()
    local function polls() while true do ch:poll() end end
    local _, err = rn.go(function() coroutine.wrap(polls)() end):take()
    assert.matches("poll: it has come to nothing 100000 times, and meanwhile no other go block could run", err)
    _, err = rn.go(function() table.sort({ 1, 2, 3 }, polls) end):take()
    assert.matches("meanwhile no other go block could run", err)
  end)

  it("lets the others run in random programs", stage.sim(function()
    for round = 1, 40 do
      math.randomseed(round)
      local kinds, names = sorted(CHANNELS), sorted(OPERATIONS)
      local is_over, since, most, programs, blocks, what = false, 0, 0, {}, {}, {}
      local count = math.random(4)
      for i = 1, count do
        programs[i] = {}
        for k = 1, math.random(5) do
          local kind, name = kinds[math.random(#kinds)], names[math.random(#names)]
          programs[i][k] = { OPERATIONS[name], CHANNELS[kind]() } -- before any of them runs: some need time
          what[#what + 1] = ("%d: %s, %s"):format(i, name, kind)
        end
      end
      for i, steps in ipairs(programs) do
        blocks[i] = rn.go(function()
          while not is_over and most < MANY do
            for _, step in ipairs(steps) do step[1](step[2]) end
            since = since + #steps
            most = math.max(most, since)
          end
        end)
      end
      for _ = 1, 5 do
        since = 0
        rn.yield()
      end
      is_over = true
      assert.is_true(most <= count * TURN * 3, ("%d operations of\n%s"):format(most, table.concat(what, "\n")))
      for _, block in ipairs(blocks) do rn.cancel(block) end
    end
  end))

  it("is no choice of sim.explore when it lets the others run", function()
    local ch = CHANNELS.closed()
    local explored = sim.explore(function()
      local loop = rn.go(function() for _ = 1, 50 * TURN do ch:take() end end)
      loop:take()
    end, { seconds = 60 })
    assert.is_true(explored.all)
    assert.equal(1, explored.schedules)
    explored = sim.explore(function()
      local other = rn.go(rn.yield)
      for _ = 1, 50 * TURN do ch:take() end
      other:take()
    end, { seconds = 60 })
    assert.is_true(explored.all)
    assert.is_true(explored.schedules <= 8)
  end)
end)
