-- After a moment with many go blocks, a program has as much memory, and is as fast, as before.
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local MANY, PER_CHANNEL = 20000, 500

-- Runs the loop until its tables have shrunk. A lap over the slots takes a few cycles of the collector, and the loop
-- shrinks tables when it waits.
local function settle()
  for _ = 1, 12 do
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

  it("their slots take no memory any more", function()
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

  it("new ones start as before", function()
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
