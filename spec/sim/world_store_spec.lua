-- runnel.sqlite and runnel.store on the disks of simulated hosts: a host may crash between any two writes.

local long = require "spec.support.long"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"

describe("in a simulated world", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local sqlite = require "runnel.sqlite"
  local stores = require "runnel.store"

  -- Runs f(host, world) on a host, and returns what it returns.
  local function on_host(f, opts)
    return sim.run(function()
      local world, result, host = sim.world(opts), nil, nil
      host = world:host("host", function() result = table.pack(f(host, world)) end)
      world:run()
      return table.unpack(result, 1, result.n)
    end, { leaks = true })
  end

  local function fails(pattern, f, ...)
    local ok, err = pcall(f, ...)
    assert.is_false(ok)
    assert.matches(pattern, err)
  end

  describe("a database", function()
    it("is on the disk of its host, with a write-ahead log, and is there after a restart", function()
      sim.run(function()
        local world, seen = sim.world(), {}
        local function program()
          local db = sqlite.open "/var/work.db"
          local mode = db:one("pragma journal_mode").journal_mode
          seen[#seen + 1] = mode
          db:exec "create table if not exists t(a)"
          db:exec("insert into t values (?)", ("x"):rep(100000))
          local n = db:one("select count(*) as n from t").n
          seen[#seen + 1] = n
        end
        local host = world:host("host", program)
        local other = world:host("other", program)
        rn.sleep(10)
        host:restart()
        world:run()
        assert.same({ "wal", "wal", 1, 1, "wal", 2 }, seen)
        assert.equal("SQLite format 3\0", host:get("/var/work.db"):sub(1, 16))
        assert.is_true(#host:get "/var/work.db-wal" > 100000)
        assert.is_true(#other:get "/var/work.db-wal" < #host:get "/var/work.db-wal")
      end)
    end)

    it("has the time of the simulation, and memory instead of a file", function()
      on_host(function(host)
        local db <close> = sqlite.open ":memory:"
        rn.sleep(1500)
        assert.equal("2023-11-14 22:13:21", db:one("select current_timestamp as now").now)
        db:exec "create table t(a)"
        db:exec("with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000) "
          .. "insert into t select hex(zeroblob(200)) || i from n")
        assert.equal(3000, #db:rows "select a from t order by a desc")
        assert.is_nil(host:get ":memory:")
      end)
    end)

    it("waits for the lock of another connection, in virtual time, and gives up after busy_timeout", function()
      on_host(function()
        local one <close> = sqlite.open "work.db"
        local two <close> = sqlite.open("work.db", { busy_timeout = 1000 })
        one:exec "create table t(a)"
        local function hold(ms)
          local begun = rn.chan(1)
          local block = rn.go(function()
            one:transaction(function(tx)
              tx:exec "insert into t values (1)"
              begun:put(true)
              rn.sleep(ms)
            end)
          end)
          begun:take()
          return block
        end
        local block = hold(500)
        assert.equal(0, two:one("select count(*) as n from t").n) -- readers do not wait
        two:exec "insert into t values (2)"
        assert.is_true(sim.elapsed() >= 500 and sim.elapsed() < 700)
        assert.is_nil((block:take()))
        hold(5000)
        fails("another connection has held a lock for more than 1000 ms", two.exec, two, "insert into t values (3)")
        assert.is_true(sim.elapsed() < 2000)
        fails("more than 1000 ms", two.transaction, two, function() end)
        rn.sleep(5000)
        two:transaction(function(tx) tx:exec "insert into t values (4)" end)
        assert.equal(4, one:one("select count(*) as n from t").n)
      end)
    end)

    it("without a write-ahead log: readers and writers exclude each other", function()
      on_host(function()
        local opts = { wal = false, busy_timeout = 0 }
        local one <close> = sqlite.open("work.db", opts)
        local two <close> = sqlite.open("work.db", opts)
        one:exec "create table t(a)"
        one:transaction(function(tx)
          tx:exec "insert into t values (1)"
          assert.equal(0, two:one("select count(*) as n from t").n)
          fails("another connection has held a lock", two.exec, two, "insert into t values (3)")
        end)
        assert.equal(1, two:one("select count(*) as n from t").n)
      end)
    end)

    it("is rolled back when a go block of its host is cancelled in a transaction", function()
      on_host(function()
        local db <close> = sqlite.open "work.db"
        db:exec "create table t(a)"
        local block = rn.go(function()
          db:transaction(function(tx)
            tx:exec "insert into t values (1)"
            rn.sleep(1e9)
          end)
        end)
        rn.sleep(10)
        rn.cancel(block, "enough")
        db:exec "insert into t values (2)"
        assert.same({ { a = 2 } }, db:rows "select a from t")
        for row in db:query "select a from t" do assert.equal(2, row.a) end
      end)
    end)

    it("tells the errors of the disk", function()
      local seen = {}
      sim.each_seed(200, function()
        local world = sim.world { faults = { eio = 1, enospc = 1, emfile = 1, short = 1 }, probability = 0.1 }
        world:host("host", function()
          local ok, err = pcall(function()
            local db <close> = sqlite.open "work.db"
            db:exec "create table t(a)"
            db:exec("insert into t values (?)", ("x"):rep(10000))
            assert.equal(10000, #db:one("select a from t").a)
          end)
          seen[ok and "ok" or err:match "work.db: ([%a/ ]+)"] = true
        end)
        world:run()
      end)
      assert.is_true(seen.ok and seen["disk I/O error"] and seen["database or disk is full"]
        and seen["unable to open database file"])
    end)

    it("is for go blocks of its host only", function()
      sim.run(function()
        local world, db = sim.world(), nil
        fails("open: this go block belongs to no host of the simulated world", sqlite.open, "work.db")
        world:host("host", function() db = sqlite.open "work.db" end)
        rn.sleep(1)
        world:host("other", function()
          fails("the database was opened on the simulated host host, and only that can use it", db.rows, db, "select 1")
        end)
        world:run()
      end)
    end)

    it("of a run that is over, or of a host that has crashed, keeps no descriptor", function()
      local luv = pcall(require, "luv") and require "luv"
      if not luv or not io.open "/proc/self/fd" then return pending "descriptors cannot be counted here" end
      local function count()
        local n, list = 0, assert(luv.fs_scandir "/proc/self/fd")
        while luv.fs_scandir_next(list) do n = n + 1 end
        return n
      end
      local before = count()
      collectgarbage "stop"
      for _ = 1, 20 do
        sim.run(function()
          local world = sim.world()
          local host = world:host("host", function() sqlite.open("work.db"):exec "create table if not exists t(a)" end)
          rn.sleep(1)
          host:restart()
          world:run()
          host:crash()
        end)
      end
      collectgarbage "restart"
      assert.is_true(count() <= before)
    end)

    local function transactions(faults, opts, most)
      return function()
        local world, done = sim.world { faults = faults }, 0
        world:host("host", function()
          local db <close> = sqlite.open("/var/work.db", opts)
          if db:one("pragma integrity_check").integrity_check ~= "ok" then error("damaged", 0) end
          db:exec "create table if not exists t(a); create table if not exists u(a)"
          local t = db:one("select count(*) as n from t").n
          if t ~= db:one("select count(*) as n from u").n then error("a half", 0) end
          if t < done then error("lost", 0) end
          for i = t + 1, most or 2 do
            db:transaction(function(tx)
              tx:exec("insert into t values (?)", ("x"):rep(3000))
              tx:exec("insert into u values (?)", ("x"):rep(3000))
            end)
            done = i
          end
        end, { restart = 10 })
        world:run()
      end
    end

    it("loses no transaction, and does none by half, if the host crashes between any two writes #ci", function()
      search.all(transactions({ crash = 1 }, nil, long.times(1, 2)))
      search.all(transactions({ crash = 1 }, { wal = false }, 1))
    end)

    it("nor if a crash leaves a part of what was written", function()
      search.all_if_long(transactions({ crash = 1, torn = 1 }, nil, 1))
    end)

    it("loses transactions if it is not synced: the search finds it #ci", function()
      local story = search.finds("lost", transactions({ crash = 1 }, { synchronous = "off" }, 1))
      assert.matches("host: open /var/work.db\n", story)
      assert.matches("host: commit\n", story)
      search.finds("lost", transactions { crash = 1, unsynced = 1 })
      search.finds("lost", transactions({ crash = 1 }, { wal = false, synchronous = "full" })) -- see the manual
    end)

    it("gives the same story for a schedule, whatever the collector does", function()
      local test = transactions({ crash = 1 }, { synchronous = "off" }, 1)
      local story = search.finds("lost", test)
      collectgarbage "generational"
      local again = search.finds("lost", test)
      collectgarbage "incremental"
      assert.equal(story, again)
    end)
  end)

  describe("store:once", function()
    -- A function that a host calls with two keys, and again after each restart. What it does is an effect, and the
    -- result is which effect it was.
    local function test(faults, opts, early, keys)
      return function()
        local world = sim.world { faults = faults }
        local effects, results = {}, {}
        world:host("host", function()
          local store = stores.open("/var/work.db", opts)
          local function f(key)
            effects[key] = (effects[key] or 0) + 1
            return effects[key]
          end
          local charge = store:once("charge", f)
          for key = 1, keys or 2 do
            if early then -- told before it is stored
              local stored = store.db:one("select 1 from runnel_once where key = ?", key)
              if results[key] and effects[key] and not stored then error("told, and lost", 0) end
              results[key] = "told"
              charge(key)
            else
              local n = charge(key)
              if results[key] and results[key] ~= n then error("another result", 0) end
              results[key] = n
              if n > effects[key] then error("a result of nothing", 0) end
            end
          end
          store:close()
        end, { restart = 10 })
        world:run()
      end
    end

    it("has one result for each key, if the host crashes between any two writes #ci", function()
      search.all(test { crash = 1 })
      search.all_if_long(test({ crash = 1, torn = 1 }, nil, false, 1))
    end)

    it("is found out if the result is told before it is stored", function()
      search.finds("told, and lost", test({ crash = 1 }, nil, true))
    end)

    it("has another result later if the disk is not synced", function()
      search.finds("another result", test({ crash = 1 }, { synchronous = "off" }))
    end)

    it("does what it does in the transaction of its result exactly once #ci", function()
      search.all(function()
        local world = sim.world { faults = { crash = 1 } }
        world:host("host", function()
          local store <close> = stores.open "work.db"
          store.db:exec "create table if not exists effects(key)"
          local pay = store:once("pay", function(key, tx)
            tx:exec("insert into effects values (?)", key)
            return "paid"
          end, { tx = true })
          assert(pay(7) == "paid" and pay(7) == "paid")
          local n = store.db:one("select count(*) as n from effects").n
          if n ~= 1 then error("paid " .. n .. " times", 0) end
        end, { restart = 10 })
        world:run()
      end)
    end)

    it("lets one process of a machine call the function, and the other one when that is killed", function()
      if not pcall(require, "luv") then return pending "luv is not installed" end
      local uv = require "runnel.uv"
      for ms = 0, 40, 4 do
        sim.run(function()
          local world, calls, results = sim.world(), 0, {}
          local function get(args)
            local store = stores.open "work.db"
            results[#results + 1] = store:once("slow", function()
              calls = calls + 1
              rn.sleep(20)
              return calls
            end)(args[1])
          end
          world:program("get", get)
          world:host("host", function()
            local first = uv.spawn { "get", "key" }
            rn.sleep(5)
            rn.go(uv.run, { "get", "key" })
            if ms > 5 then rn.sleep(ms - 5) end
            first:kill "kill"
          end)
          world:run()
          assert.is_true(#results >= 1 and calls <= 2)
          for _, n in ipairs(results) do assert.equal(results[1], n) end
        end, { seed = ms })
      end
    end)
  end)

  describe("a stage of a store", function()
    it("loses no message and stores each result once, if the host crashes at any time", function()
      local sums = {}
      search.finds_nothing(function()
        local world, has_come = sim.world { faults = { crash = 1 } }, false
        world:host("host", function()
          local store = stores.open "work.db"
          assert(store:stream "jobs")
          assert(store:stream "results")
          local results = assert(store:source("results", { name = "client" }))
          local jobs = assert(store:sink "jobs")
          local stage = assert(store:stage("jobs", 1, function(v) return 2 * v end, "results"))
          assert(jobs:put(5, { id = "only" }))
          if not has_come then -- else its acknowledgement may be in the file
            local result = results:take()
            has_come = true
            result:ack()
            assert.equal(10, result.value)
          end
          stage:drain()
          local counts = store.db:one "select sum(messages) as waiting, sum(last) as made from runnel_stream"
          sums[#sums + 1] = counts.made
          store:close()
        end, { restart = 10 })
        world:run()
      end)
      assert.is_true(#sums > 0)
      for _, sum in ipairs(sums) do assert.equal(2, sum) end
    end)
  end)
end)
