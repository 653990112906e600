-- A go block that is cancelled in a method of a store ends of that, at any moment, and leaves nothing behind.

local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"

describe("a go block that is cancelled", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"
  local dir, store

  before_each(function()
    dir = process.directory()
    store = stores.open(dir.path .. "/work.db", { synchronous = "off" })
    assert(store:stream "in")
    assert(store:stream "out")
  end)
  after_each(function()
    store:close()
    dir:remove()
  end)

  local function nothing() end

  local METHODS <const> = {
    source = function() return store:source("in", { name = "c" }) end,
    ["source without a name"] = function() return store:source "in" end,
    stage = function() return store:stage("in", 1, nothing, "out", { name = "x", rate = 100 }) end,
    serve = function() return store:serve("r", 1, nothing, { rate = 100 }) end,
    remote = function() return store:remote "r" end,
    sink = function() return store:sink "in" end,
    stream = function() return store:stream "other" end,
    kv = function() return store:kv "b" end,
    queues = function() return store:queues(1) end,
    queue = function() return store:queue "x" end,
    put = function() return assert(store:sink "in"):put(1) end,
    dead = function() return store:dead("x"):list() end,
    forget = function() return store:forget "f" end,
    once = function() return store:once("f", function(v) return v end)(1) end,
  }

  -- Ends what a method has made.
  local function finish(object)
    if type(object) ~= "table" and type(object) ~= "userdata" then return end
    local _ = pcall(function() object:stop() end) or pcall(function() object:close() end)
  end

  for name, method in pairs(METHODS) do
    it("in store:" .. name .. " ends with the reason, whatever it waits for", function()
      store:queues(1)
      local ended, finished = 0, false
      local pause = 0.01
      while not finished do
        local reason, returned = { why = "the test" }, nil
        local block = rn.go(function()
          returned = table.pack(method())
          return true
        end)
        rn.sleep(pause) -- each time a bit longer, so that it is cancelled in every state
        finished = returned ~= nil
        rn.cancel(block, reason)
        local _, err = block:take()
        if returned then
          assert.is_nil(err)
          if type(returned[2]) == "string" then assert.is_nil(returned[2]:find "table: 0x", returned[2]) end
          finish(returned[1])
        else
          assert.equal(reason, err)
          ended = ended + 1
        end
        pause = pause * 1.1 + 0.01
      end
      assert.is_true(ended > 0)
      -- It has left no worker that others would wait for.
      patience.wait_for(function() return store.db:one("select count(*) as n from runnel_worker").n == 0 end)
    end)
  end

  it("in store:close closes the file nevertheless, so that others get its messages", function()
    local other, answer = stores.open(dir.path .. "/work.db", { synchronous = "off" }), rn.chan()
    assert(assert(store:sink "in"):put "v")
    assert(other:source("in", { name = "c" })):take()
    other:in_background(answer.take, answer) -- an answer that is on its way to the file
    local block = rn.go(other.close, other)
    patience.wait_for(function() return other.settled ~= nil end)
    rn.cancel(block, "the test")
    assert.equal("the test", select(2, block:take()))
    other:close()
    assert.is_true(other.has_ended)
    local message = rn.alts { assert(store:source("in", { name = "c" })), rn.timeout(20000) }
    assert.equal("v", message and message.value)
    answer:close()
  end)
end)
