-- Messages that are replaced and cancelled while they wait, on hosts that crash between any two writes.

local process = require "spec.support.process"
local raises = require "spec.support.raises"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"

describe("messages that wait in a store, in a simulated world,", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"

  local prepared -- the bytes of a store that has the tables, since they are made by many writes

  setup(function()
    local dir <close> = process.directory()
    local store = stores.open(dir.path .. "/work.db")
    assert(store:stream("jobs", { retention = "workqueue" }))
    assert(store:stage("jobs", 1, print, nil, { name = "s" })):stop()
    store.db:exec "create table effects(value)"
    store:close()
    prepared = dir:read "work.db"
  end)

  local function crashing(faults, rate, program)
    return function()
      local world, seen = sim.world { faults = faults, probability = rate }, {}
      local host = world:host("host", function()
        local store <close> = stores.open "/var/work.db"
        program(store, seen)
      end, { restart = 10 })
      host:put("/var/work.db", prepared)
      world:run()
      assert(seen.over, "it has not ended")
    end
  end

  local function values(store)
    local list = {}
    for i, row in ipairs(store.db:rows "select value from effects") do list[i] = row.value end
    return table.concat(list, " ")
  end

  -- What the stage does is noted in the file, in one transaction with the end of the message.
  local function stage(store)
    return assert(store:stage("jobs", 1, function(value, _, tx)
      tx:exec("insert into effects values (?)", value)
    end, nil, { name = "s", tx = true }))
  end

  -- Puts that replace each other, and a stage. The last value that was stored is done, once, and none before it.
  local function replacing(store, seen)
    local sink = assert(store:sink "jobs")
    for i = (seen.put or 0) + 1, 3 do
      assert(sink:put(i, { id = "a", delay = 1000, if_waiting = "replace" }))
      seen.put = i
      rn.sleep(100)
    end
    local running <close> = stage(store)
    repeat rn.sleep(500) until values(store) ~= ""
    rn.sleep(2000)
    if values(store) ~= "3" then error("effects: " .. values(store), 0) end
    running:drain()
    if store.db:one "select count(*) as n from runnel_message".n > 0 then error("a message is left", 0) end
    seen.over = true
  end

  -- A message is cancelled, or done: if cancel says so, it is never done.
  local function cancelling(store, seen)
    local stream = assert(store:stream("jobs", { retention = "workqueue" }))
    if not seen.put then
      assert(assert(store:sink "jobs"):put(1, { id = "a" }))
      seen.put = true
    end
    local running <close> = stage(store)
    rn.sleep(sim.choose(3))
    seen.cancelled = seen.cancelled or stream:cancel "a"
    rn.sleep(3000)
    local is_done = values(store) == "1"
    if not is_done and values(store) ~= "" then error("effects: " .. values(store), 0) end
    if seen.cancelled and is_done then error("it was cancelled, and done", 0) end
    if store.db:one "select count(*) as n from runnel_message".n > 0 then error("a message is left", 0) end
    running:drain()
    seen.over = true
  end

  it("are done with the last value only, if the host crashes between any two writes #ci", function()
    search.finds_nothing(crashing({ crash = 1 }, nil, replacing))
    sim.each_seed(30, crashing({ crash = 1 }, 0.03, replacing))
  end)

  it("over NATS are replaced and removed by their subjects, as the errors of the other ways say", function()
    local has_nats, nats = pcall(require, "runnel.nats")
    if not has_nats then return pending "libnats is not installed" end
    local done = {}
    sim.run(function()
      local world = sim.world()
      world:nats "queue"
      world:host("host", function()
        local conn <close> = assert(nats.connect "nats://queue")
        local stream = assert(conn:stream("jobs",
          { subjects = { "jobs.*" }, retention = "workqueue", max_per_subject = 1 }))
        local sink = assert(conn:sink "jobs")
        for i = 1, 2 do assert(sink:put("a" .. i, { subject = "jobs.17", delay = 5000 })) end
        assert(sink:put("b", { subject = "jobs.18", delay = 5000 }))
        assert.equal(1, stream:purge "jobs.18")
        raises("cancel: a nats%-server finds no message by the id", function() stream:cancel "17" end)
        raises("replace: a nats%-server finds no message by the id", function() stream:replace("17", "x") end)
        raises('put: unknown option "if_waiting"', function() sink:put("a", { id = "1", if_waiting = "drop" }) end)
        local running = assert(conn:stage("jobs", 1, function(v) done[#done + 1] = v end, nil, { name = "s" }))
        raises("pause: lasts: only a pause in a store has an end", function()
          assert(conn:queue "jobs/s"):pause { lasts = 100 }
        end)
        rn.sleep(10000)
        running:stop()
      end)
      world:run()
    end)
    assert.same({ "a2" }, done)
  end)

  it("are cancelled or done, and not both, if the host crashes between any two writes #ci", function()
    search.finds_nothing(crashing({ crash = 1 }, nil, cancelling))
    sim.each_seed(30, crashing({ crash = 1 }, 0.03, cancelling))
  end)
end)
