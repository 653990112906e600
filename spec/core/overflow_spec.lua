-- A stack overflow in what a program gives to the library. Since Lua 5.4.9 Lua itself often calls it "error in error
-- handling", so each place is tried twice.

local rn = require "runnel"
local process = require "spec.support.process"
local stage = require "spec.support.stage"

local TRIES <const> = 2

-- Large frames: the stack overflows after a few thousand calls.
local NAMES <const> = ("a, "):rep(199) .. "a"
local ENDLESS <const> = "local function endless() local " .. NAMES .. " return 1 + endless() end return endless"
local endless = load(ENDLESS)()

-- What is done with a function that overflows the stack, and returns the error.
local PLACES = {
  ["a go block"] = function() return select(2, rn.go(endless):take()) end,
  ["a callback"] = function()
    local reports = stage.reports(function() rn.chan(1):put_async(1, endless) end)
    return reports[1].err
  end,
  ["a job"] = function()
    local found
    local results = rn.pmap(1, endless, { 1 }, { ex_handler = function(err) found = err end })
    results:take()
    return found
  end,
  ["a thread"] = function()
    return select(2, rn.thread(function(text) return load(text)()() end, ENDLESS):take())
  end,
}

-- Handles of shared channels, and the go blocks that wait on them, become garbage when the stack has room for a
-- collection but, at one depth, not for its finalizers.
local DROPPED <const> = [==[
local rn = require "runnel"
warn "@on"
local MAKE <const> = {
  function(c) c:put(1) end,
  function(c) local done = c:done() rn.go(function() done:take() end) end,
  function(c) rn.go(function() c:take() end) end,
  function(c) local other = rn.shared_chan() rn.go(function() rn.alts { c, other, rn.chan() } end) end,
}
-- Large frames: the stack overflows after a few thousand calls.
local names = ("a, "):rep(199) .. "a"
local endless = load("local function endless() local " .. names .. " return 1 + endless() end return endless")()
for depth = 1, 130 do
  local kept = {}
  for i = 1, 2 do
    for _, use in ipairs(MAKE) do
      kept[#kept + 1] = rn.shared_chan(1)
      use(kept[#kept])
    end
  end
  rn.sleep(1)
  collectgarbage() -- the go blocks that nothing else can wake become weak roots
  collectgarbage "stop"
  kept = nil
  xpcall(endless, function()
    local function down(n)
      if n == depth then return collectgarbage() end
      return 1 + down(n + 1)
    end
    return down(1)
  end)
  collectgarbage "restart"
end
collectgarbage()
for _ = 1, 10 do rn.shared_chan(1):put(1) end
os.exit(0, true)
]==]

-- Whether Lua drops a finalizer for which there is no room on the stack, and warns. Since Lua 5.4.9 it calls it later.
local function drops(dir)
  dir:write("probe.lua", [[
    warn "@on"
    local names = ("a, "):rep(199) .. "a"
    local endless = load("local function endless() local " .. names .. " return 1 + endless() end return endless")()
    for depth = 1, 130 do
      collectgarbage()
      collectgarbage "stop"
      setmetatable({}, { __gc = tostring })
      xpcall(endless, function()
        local function down(n)
          if n == depth then return collectgarbage() end
          return 1 + down(n + 1)
        end
        return down(1)
      end)
      collectgarbage "restart"
    end
  ]])
  local result = process.run(dir.path, process.runnel .. " probe.lua")
  assert.equal(0, result.status, result.err)
  return result.err:find("error in __gc", 1, true) ~= nil
end

describe("a stack overflow", function()
  before_each(stage.open)
  after_each(stage.close)

  for place, overflow in pairs(PLACES) do
    it("in " .. place .. " is called one #heavy", function()
      for _ = 1, TRIES do
        assert.matches("stack overflow", overflow())
      end
    end)
  end

  it("that makes Lua drop the finalizers of shared channels leaves the state whole #heavy #long", function()
    local dir <close> = process.directory()
    dir:write("dropped.lua", DROPPED)
    local result = process.run(dir.path, process.runnel .. " dropped.lua")
    assert.are.equal(0, result.status, result.err)
    assert.equal(drops(dir), result.err:find("error in __gc", 1, true) ~= nil, result.err)
  end)
end)
