-- The tables in which the scheduler finds its go blocks. After a moment with many of them, a program has as much
-- memory, and is as fast, as before.
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local MANY, PER_CHANNEL = 20000, 500

-- Runs the collector until the tables have shrunk.
local function settle()
  for _ = 1, 4 do
    for _ = 1, 4 do collectgarbage() end
    rn.sleep(1)
  end
end

local function kilobytes()
  settle()
  return collectgarbage "count"
end

-- Starts go blocks that take from `channels` and return their number. Returns that and the result channel of each
-- `some`-th.
local function burst(channels, some)
  local rest = {}
  for i = 1, MANY do
    local ch = channels[(i - 1) // PER_CHANNEL + 1]
    local result = rn.go(function() return i, ch:take() end)
    if some and i % some == 0 then rest[#rest + 1] = { i, result } end
  end
  rn.yield()
  return rest
end

local function new_channels()
  local channels = {}
  for i = 1, MANY // PER_CHANNEL do channels[i] = rn.chan() end
  return channels
end

describe("after a moment with many go blocks", function()
  before_each(stage.open)
  after_each(stage.close)

  -- Checks that the program takes little more memory than before, once go blocks on these channels have ended.
  local function check_memory(start)
    rn.run(function()
      local before = kilobytes()
      local function begin_and_end()
        for _, ch in ipairs(start()) do ch:close() end
      end
      begin_and_end()
      -- Each table had at least 16 bytes for each go block.
      local more = kilobytes() - before
      assert.is_true(more < MANY * 16 / 1024 / 2, more .. " KB more")
    end)
  end

  it("the tables of go blocks take no memory any more", function()
    check_memory(function()
      local channels = new_channels()
      burst(channels)
      return channels
    end)
  end)

  it("the list of what they waited on takes no memory any more", function()
    check_memory(function()
      local channels = {}
      for i = 1, MANY do
        local ch = rn.chan()
        channels[i] = ch
        rn.go(function() ch:take() end)
      end
      rn.yield()
      return channels
    end)
  end)

  it("those that remain keep what they wait for", function()
    sim.run(function() -- so that the sleeper sleeps until all else is done
      local channels, kept = new_channels(), rn.chan()
      local results, finished = {}, 0
      for i = 1, MANY do
        local ch = i % 1000 == 0 and kept or channels[(i - 1) // PER_CHANNEL + 1]
        local result = rn.go(function()
          local v = ch:take()
          finished = finished + 1
          return v and v + i
        end)
        if ch == kept then results[#results + 1] = { i, result } end
      end
      local sleeper = rn.go(function()
        rn.sleep(1000)
        return "slept"
      end)
      rn.yield()
      for _, ch in ipairs(channels) do ch:close() end
      settle()
      assert.equal(MANY - #results, finished)
      assert.equal(#results + 2, #rn.ps()) -- and the sleeper, and the one that runs this
      for _, r in ipairs(results) do
        kept:put(7)
        assert.equal(r[1] + 7, r[2]:take())
      end
      assert.equal("slept", sleeper:take())
      assert.equal(1, #rn.ps())
    end)
  end)

  it("one that starts visits only a few of those that have parked at once", function()
    rn.run(function()
      for _ = 1, MANY do
        local ch = rn.chan()
        rn.go(function() ch:take() end)
      end
      rn.yield()
      collectgarbage "stop"
      local large = 0 -- a go block that is visited allocates a table for its channel
      for _ = 1, 200 do
        local before = collectgarbage "count"
        rn.go(rn.yield)
        if collectgarbage "count" - before > 5 then large = large + 1 end
      end
      collectgarbage "restart"
      assert.is_true(large <= 5, large .. " of 200") -- now and then a table of all go blocks has grown
    end)
  end)

  it("new ones start as before #ci", function()
    rn.run(function()
      for _ = 1, 2 do
        local channels = new_channels()
        burst(channels)
        for _, ch in ipairs(channels) do ch:close() end
        settle()
      end
      local channels = new_channels()
      local rest = burst(channels, 1000)
      assert.equal(MANY + 1, #rn.ps())
      for _, ch in ipairs(channels) do
        for i = 1, PER_CHANNEL do ch:put(i) end
      end
      for _, r in ipairs(rest) do assert.equal(r[1], r[2]:take()) end
    end)
  end)
end)

describe("the list of go blocks", function()
  before_each(stage.open)
  after_each(stage.close)

  local function ids()
    local list = {}
    for i, entry in ipairs(rn.ps()) do list[i] = entry.id end
    return list
  end

  it("is in the order in which they were started, whichever have ended or wait for long", stage.sim(function()
    local channels = {}
    for i = 1, 300 do
      local ch = rn.chan()
      channels[i] = ch
      rn.go(function() ch:take() end)
    end
    rn.yield()
    for _ = 1, 3 do collectgarbage() end -- they are held by their channels
    for i = 1, 300, 3 do channels[i]:close() end -- and these end
    for i = 2, 300, 3 do channels[i]:offer(1) end
    rn.yield()
    for i = 1, 100 do
      rn.go(function() rn.sleep(i) end)
    end
    rn.sleep(50.5)
    local list = ids()
    assert.equal(1 + 100 + 50, #list)
    for i = 2, #list do assert.is_true(list[i - 1] < list[i]) end
  end))

  it("has each one once, though finalizers start, wake and end others while it is made", stage.sim(function()
    local channels, ran = {}, 0
    local function start()
      local ch = rn.chan()
      channels[#channels + 1] = ch
      rn.go(function() ch:take() end)
    end
    for _ = 1, 200 do start() end
    rn.yield()
    local function finalizer()
      setmetatable({}, { __gc = function()
        ran = ran + 1
        start()
        local ch = table.remove(channels, math.random(#channels))
        ch:close()
        if ran % 2 == 0 then finalizer() end
      end })
    end
    local twice = 0
    collectgarbage "generational" -- runs finalizers often
    for i = 1, 2000 do
      if i > 100 and ran > 100 then break end
      for _ = 1, 5 do finalizer() end
      local seen = {}
      for _, id in ipairs(ids()) do
        if seen[id] then twice = twice + 1 end
        seen[id] = true
      end
      rn.yield()
    end
    collectgarbage "incremental"
    assert.equal(0, twice)
    assert.is_true(ran > 100)
    collectgarbage "stop" -- else a finalizer may wake one more
    rn.yield()
    local left = #rn.ps()
    collectgarbage "restart"
    assert.equal(201, left)
  end))
end)
