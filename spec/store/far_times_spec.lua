-- Times so far away that the tables of a store have none, and numbers that are as large: they are stored as the last
-- one.

local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"

local LAST <const> = 1 << 53

describe("a time that is further away than the tables of a store have, is the last one that they have,", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"
  local store

  before_each(function() store = stores.open ":memory:" end)
  after_each(function() store:close() end)

  local function due_of(stream, seq)
    return store.db:one("select due from runnel_delivery where stream = ? and seq = ? and holder is null", stream, seq)
  end

  -- Waits until a message waits in the file, and returns its time.
  local function due_in_file(stream, seq)
    local row
    patience.wait_for(function()
      row = due_of(stream, seq)
      return row
    end)
    return row.due
  end

  for _, far in ipairs { 1e18, 1e300, math.maxinteger, 2 ^ 53 } do
    local function also(text) return ("%s: %s"):format(text, far) end

    it(also "of sleeps, waits and second tries in runs", function()
      local begun = rn.chan(4)
      local step = store:once("step", function() error "not yet" end, { tries = 2, backoff = 2.0 * far })
      local runs = store:runs("order", function(run, what)
        begun:put(what)
        if what == "sleep" then run:sleep(far)
        elseif what == "wait" then return run:wait("signal", { timeout = far })
        else step(1) end
      end, { tries = 1 })
      for _, what in ipairs { "sleep", "wait", "try" } do
        local run = assert(runs:start(what, what))
        patience.wait_for(function()
          local state = run:state()
          assert.not_equal("failed", state.state, state.error)
          return state.due == LAST
        end)
      end
      assert(runs:get("wait"):signal("signal", 5))
      assert.equal(5, runs:get("wait"):result())
    end)

    it(also "of results of once", function()
      local calls = 0
      local get = store:once("f", function()
        calls = calls + 1
        return calls
      end, { max_age = far, timeout = far, tries = 2, backoff = far })
      assert.equal(1, get "a")
      assert.equal(LAST, store.db:one("select expires from runnel_once").expires)
      store.memories.f:clear()
      assert.equal(1, get "a")
    end)

    it(also "of messages, and settings of streams, consumers and buckets", function()
      local settings = { max_age = far, duplicates = far }
      for _ = 1, 2 do assert(store:stream("in", settings)) end
      assert(assert(store:stream "in"):change(settings))
      local sink = assert(store:sink "in")
      assert(sink:put(1, { delay = far }))
      assert(sink:put(2, { at = far }))
      assert(sink:put(3, { delay = far, priority = 3 }))
      assert(sink:put(4))
      local source = assert(store:source("in", { name = "n", ack_wait = far }))
      local message = source:take()
      assert.equal(4, message.value)
      assert.is_true(message:nak(far))
      for seq = 1, 4 do assert(LAST - due_in_file("in", seq) < 1000) end -- `at` is by the clock of the machine
      source:close()
      source = assert(store:source("in", { name = "n", ack_wait = far }))
      source:close()
      local queue = assert(store:queue "in/n")
      assert(queue:pause(1, { lasts = far }))
      assert.equal(LAST, queue.resumes)
      assert(queue:resume(1))
      assert(queue:change { ack_wait = far })
      for _ = 1, 2 do assert(store:kv("bucket", { max_age = far })) end
      assert(assert(store:kv "bucket"):put("key", 1))
      assert.equal(1, (assert(store:kv "bucket"):get "key"))
    end)

    it(also "of what a stage hands back, with its limit and its rate", function()
      assert(store:stream "in")
      local stage = assert(store:stage("in", 1, function() stores.hand_back(nil, { after = far }) end, nil,
        { name = "s", timeout = far, rate = { 9, far } }))
      assert(assert(store:sink "in"):put(1))
      assert.equal(LAST, due_in_file("in", 1))
      stage:stop()
    end)

    it(also "of schedules", function()
      local every = math.tointeger(far)
      local schedule = store:schedule("poll", { every = every or 1000 })
      assert(schedule:state().next > store:time())
      assert(schedule:pause { lasts = far })
      assert.is_true(schedule:state().paused)
      assert(schedule:resume())
      assert.is_false(schedule:state().paused)
    end)
  end

  it("as are other settings that are larger than the tables can have", function()
    local many = math.maxinteger
    for _ = 1, 2 do
      assert(store:stream("in", { max_messages = many, max_bytes = many, max_message = many }))
      assert(store:kv("bucket", { max_value = many }))
      local source = assert(store:source("in", { name = "n", max_running = many }))
      source:close()
    end
    assert(assert(store:sink "in"):put(1))
  end)

  it("and does not end the process that has a limit of it", function()
    local dir <close> = process.directory()
    dir:write("main.lua", [[
local rn = require "runnel"
local store = require("runnel.store").open ":memory:"
store:stream "in"
store:stage("in", 1, function() print "called" rn.sleep(300) store:close() end, nil, { name = "s", timeout = 1e300 })
store:sink("in"):put(1)
rn.run()]])
    local ran = process.run(dir.path, (os.getenv "LUA" or "lua5.4") .. " main.lua")
    assert.same({ "called\n", "", 0 }, { ran.out, ran.err, ran.status })
  end)
end)
