-- What a store has beside store:once (spec/sim/world_store_spec.lua), on the disks of simulated hosts: sinks, stages,
-- dead letters, buckets and remote stages. A host may crash between any two writes, and a part of what was not synced
-- may be on its disk then (fault torn).

local long = require "spec.support.long"
local process = require "spec.support.process"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"

describe("a store in a simulated world", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local sqlite = require "runnel.sqlite"
  local stores = require "runnel.store"

  -- The bytes of a store that has the streams a and b, and the bucket "bucket". Each run begins with it, since
  -- the tables are made by many writes.
  local prepared

  setup(function()
    local dir <close> = process.directory()
    local store = stores.open(dir.path .. "/work.db")
    for _, name in ipairs { "a", "b" } do assert(store:stream(name)) end
    assert(store:kv "bucket")
    store:close()
    prepared = dir:read "work.db"
  end)

  -- A run: a host calls f(store, seen), again after each crash. `seen` is what the world has been told.
  local function run_of(faults, f, opts, rate)
    return function()
      local world, seen = sim.world { faults = faults, probability = rate }, {}
      rn.on_error(function() end) -- of messages that are given up
      local host = world:host("host", function()
        local store <close> = stores.open("/var/work.db", opts)
        f(store, seen)
      end, { restart = 10 })
      host:put("/var/work.db", prepared)
      world:run()
      assert(seen.over, "it has not ended")
    end
  end

  -- Runs it many times, with a crash at a random place: each place has one with the probability `rate`. With go blocks
  -- or torn writes, there are too many schedules for a search of all.
  local function is_right(f, rate)
    local starts, n = 0, long.times(20, 120)
    local run = run_of({ crash = 1, torn = 1 }, function(...)
      starts = starts + 1
      f(...)
    end, nil, rate)
    sim.each_seed(n, run)
    assert.is_true(starts > n * 5 // 3, starts) -- nearly all have crashed
  end

  -- Waits, but not for ever, until f returns true.
  local function wait_for(f, what)
    local limit = rn.now() + 60000
    while not f() do
      if rn.now() > limit then error("missing: " .. what, 0) end
      rn.sleep(10)
    end
  end

  local function expect(wanted, found, what)
    if wanted ~= found then error(("%s: %s, not %s"):format(what, tostring(found), tostring(wanted)), 0) end
  end

  local function count(store, sql) return store.db:one("select count(*) as n from " .. sql).n end

  local CRASH <const> = { crash = 1 }

  -- Puts n messages, each with an id.
  local function put(n)
    return function(store, seen)
      local sink = assert(store:sink "a")
      for i, number in ipairs(seen) do
        local row = store.db:one("select value from runnel_message where stream = 'a' and seq = ?", number)
        if not row or row.value ~= tostring(i) then error("lost", 0) end
      end
      for i = 1, n do
        local ok, number = sink:put(i, { id = tostring(i) })
        assert(ok, number)
        expect(seen[i] or number, number, "the number of the message")
        seen[i] = number
      end
      expect(n, count(store, "runnel_message"), "messages")
      expect(n, assert(store:stream "a"):stats().messages, "counted messages")
      seen.over = true
    end
  end

  it("keeps each message that a sink has acknowledged, once, if the host crashes between any two writes #ci", function()
    search.all(run_of(CRASH, put(long.times(1, 2))))
    is_right(put(2), 0.05)
  end)

  it("loses messages if the disk is not synced: the search finds it", function()
    search.finds("lost", run_of(CRASH, put(2), { synchronous = "off" }))
  end)

  -- Counts to n in a bucket.
  local function write(n)
    return function(store, seen)
      local bucket = assert(store:kv "bucket")
      local value, revision = bucket:get "key"
      if (value or 0) < (seen.value or 0) or (revision or 0) < (seen.revision or 0) then error("lost", 0) end
      while (value or 0) < n do
        value = (value or 0) + 1
        revision = assert(bucket:update("key", value, revision or 0))
        seen.value, seen.revision = value, revision
      end
      expect(n, revision, "the last revision")
      expect(1, count(store, "runnel_value"), "values")
      seen.over = true
    end
  end

  it("keeps each value of a bucket, and its revision #ci", function()
    search.all(run_of(CRASH, write(long.times(1, 2))))
    is_right(write(2), 0.05)
    search.finds("lost", run_of(CRASH, write(2), { synchronous = "off" }))
  end)

  -- Moves a message through a stage. The second one is given up.
  local function work(store, seen)
    local sink = assert(store:sink "a")
    for i = 1, 2 do assert(sink:put(i, { id = tostring(i) })) end
    local stage = assert(store:stage("a", 1, function(v)
      if v == 2 then error("no", 0) end
      return 10 * v
    end, "b", { tries = 1 }))
    wait_for(function()
      return count(store, "runnel_message where stream = 'b'") + store:dead("b"):count() == 2
    end, "a result")
    wait_for(function() return count(store, "runnel_delivery") == 0 end, "an end")
    stage:drain()
    expect(1, count(store, "runnel_message where stream = 'b'"), "results")
    expect(1, count(store, "runnel_message where stream = 'b' and value = '10'"), "right results")
    expect(1, count(store, "runnel_dead where value = '2' and error = 'no'"), "letters")
    seen.over = true
  end

  it("has one result or one dead letter of each message of a stage, if the host crashes at any time", function()
    is_right(work, 0.02)
  end)

  it("has them, too, if two processes work and one of them is killed", function()
    if not pcall(require, "luv") then return pending "luv is not installed" end
    local uv = require "runnel.uv"
    for ms = 0, 60, long.times(15, 5) do
      sim.run(function()
        local world, calls = sim.world(), 0
        world:program("work", function()
          local store <close> = stores.open "/var/work.db"
          local stage = assert(store:stage("a", 2, function(v)
            calls = calls + 1
            rn.sleep(15)
            return v
          end, "b"))
          stage:wait()
        end)
        local host = world:host("host", function()
          local store <close> = stores.open "/var/work.db"
          local sink = assert(store:sink "a")
          for i = 1, 6 do assert(sink:put(i)) end
          local one, two = uv.spawn { "work" }, uv.spawn { "work" }
          rn.sleep(ms)
          one:kill "kill"
          local out, sum = assert(store:source "b"), 0
          for _ = 1, 6 do sum = sum + out:take().value end
          assert.equal(21, sum)
          out:close()
          two:kill "kill"
        end)
        host:put("/var/work.db", prepared)
        world:run()
        assert.is_true(calls >= 6 and calls <= 8, calls)
      end, { seed = ms })
    end
  end)

  -- Calls a function of a worker in the same process.
  local function call(store, seen)
    local worker = store:serve("double", 1, function(v) return 2 * v end)
    local remote = store:remote "double"
    local result = rn.go(remote, 21)
    local value, port = rn.alts { result, rn.timeout(60000) }
    if port ~= result then error("missing: an outcome", 0) end
    expect(42, value, "the result")
    remote:close()
    worker:drain()
    local again <close> = stores.open "/var/work.db"
    again:remote("double"):close() -- removes what those have left that have ended
    store:close()
    again:remote("double"):close()
    expect(0, count(again, "runnel_result"), "results")
    expect(0, count(again, "runnel_message"), "jobs")
    seen.over = true
  end

  it("has the result of a job of a remote stage, and nothing else stays in the file #heavy", function()
    is_right(call, 0.02)
  end)

  it("that another program holds for a minute stores all later: results, dead letters, and outcomes of jobs", function()
    local reports, put_error, kv_error = {}, nil, nil
    local host
    sim.run(function()
      local world, calls = sim.world(), 0
      rn.on_error(function(err, _, where) reports[#reports + 1] = where .. ": " .. tostring(err) end)
      local function slow(v)
        calls = calls + 1
        rn.sleep(100)
        if v == 2 then error("no", 0) end
        return v
      end
      host = world:host("host", function()
        local store <close> = stores.open("/var/work.db", { busy_timeout = 1000 })
        local holder <close> = sqlite.open "/var/work.db"
        local bucket, sink = assert(store:kv "bucket"), assert(store:sink "a")
        for v = 1, 2 do assert(sink:put(v)) end
        local stage = assert(store:stage("a", 2, slow, "b", { tries = 1 }))
        local worker, remote = store:serve("slow", 1, slow), store:remote "slow"
        local page, job = rn.go(store:once("page", slow), 3), rn.go(remote, 4)
        repeat rn.sleep(1) until calls == 4
        rn.go(function()
          holder:transaction(function(tx)
            tx:exec "create table other(a)"
            rn.sleep(60000)
          end)
        end)
        rn.sleep(50)
        put_error = select(2, sink:put(5))
        kv_error = select(2, bucket:put("key", 5))
        rn.sleep(50000)
        assert.same({ 0, 1 }, { stage:stats().done + worker:stats().done, worker:stats().running })
        assert.is_nil((page:poll()))
        assert.equal(3, page:take())
        assert.equal(4, job:take())
        repeat rn.sleep(10) until stage:stats().done + stage:stats().given_up == 2
        assert.is_true(rn.now() > 60000)
        assert.equal(4, calls)
        assert.same({ 1, 1 }, { count(store, "runnel_message where stream = 'b'"), store:dead("b"):count() })
        assert.equal(1, bucket:put("key", 5))
        remote:close()
        worker:drain()
        stage:drain()
      end)
      host:put("/var/work.db", prepared)
      world:run()
    end)
    assert.matches("another connection has held a lock for more than 1000 ms", put_error)
    assert.matches("another connection has held a lock for more than 1000 ms", kv_error)
    table.sort(reports)
    local held = "for now: exec: /var/work.db: another connection has held a lock for more than 1000 ms"
    for i, text in ipairs { "message 2 of a, given up .*: no$", "once page, which waits until it can store a result: ",
      "serve slow: results cannot be stored " .. held, "stage b: a dead letter cannot be stored " .. held,
      "stage b: its stream does not accept results " .. held } do assert.matches(text, reports[i]) end
    assert.equal(5, #reports)
  end)
end)
