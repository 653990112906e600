-- store:schedule: what programs see of it. Months, crashes and clocks are in spec/sim/world_schedules_spec.lua.

local background = require "spec.support.background"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local rn = require "runnel"
local sim = require "runnel.sim"
local work_store = require "spec.support.work_store"

describe("schedules of a store", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"
  local dir, store, reported

  local work = work_store.new(function(...) store, dir, reported = ... end)
  before_each(work.open)
  after_each(work.close)

  local function nothing() end

  it("start a run of its own at each call of run_now, also in one ms, in several processes and in runs", function()
    local time = 1800000000123
    store.time = function() return time end
    local other <close> = stores.open(dir.path .. "/work.db")
    other.time = store.time
    local nightly = store:schedule("nightly", { every = 3600000 })
    local same, ids, times = assert(other:schedule "nightly"), {}, {}
    for i, schedule in ipairs { nightly, nightly, same, nightly, same } do
      ids[i] = assert(schedule:run_now()).id
    end
    local starter = store:runs("starter", function()
      local a, b = assert(nightly:run_now()), assert(nightly:run_now())
      return { a.id, b.id }
    end)
    table.move(assert(starter:start(1)):result(), 1, 2, 6, ids)
    local expected = {}
    for i = 1, 7 do expected[i] = ("2027-01-15T08:00:00.%03dZ"):format(122 + i) end
    assert.same(expected, ids)
    for i, row in ipairs(store.db:rows "select value from runnel_run where name = 'nightly' order by id") do
      times[i] = tonumber(row.value) - time -- what the function gets agrees with the id
    end
    assert.same({ 0, 1, 2, 3, 4, 5, 6 }, times)
    time = time - 3600000 -- somebody has set the clock
    assert.equal("2027-01-15T07:00:00.123Z", assert(nightly:run_now()).id)
  end)

  it("say what is wrong with arguments, at the program's line, and leave nothing behind", function()
    for pattern, f in pairs {
      ["schedule: name: letters, digits"] = function() store:schedule("a b", "@daily", nothing) end,
      ['schedule: "0 3 %* %*": five fields expected'] = function() store:schedule("a", "0 3 * *", nothing) end,
      ['schedule: "0 0 30 2 %*": no month has this day'] = function() store:schedule("a", "0 0 30 2 *", nothing) end,
      ["schedule: when%? five fields expected"] = function() store:schedule("a", nothing) end,
      ["schedule: when%? five fields expected, as"] = function() store:schedule("a", { zone = "UTC" }, nothing) end,
      ["schedule: five fields, or the option every, expected, got both"] = function()
        store:schedule("a", "@daily", { every = 1000 }, nothing)
      end,
      ["schedule: every: an integer of at least 1 expected, got 0"] = function()
        store:schedule("a", { every = 0 }, nothing)
      end,
      ["schedule: zone: it is for five fields"] = function()
        store:schedule("a", { every = 1000, zone = "UTC" }, nothing)
      end,
      ["schedule: zone: the name of a time zone expected, got a number"] = function()
        store:schedule("a", "@daily", { zone = 1 }, nothing)
      end,
      ['schedule: there is no time zone "Mars/Phobos" on this machine: .* package tzdata'] = function()
        store:schedule("a", "@daily", { zone = "Mars/Phobos" }, nothing)
      end,
      ['schedule: missed: "once", "all" or "none" expected, got "some"'] = function()
        store:schedule("a", "@daily", { missed = "some" }, nothing)
      end,
      ['schedule: unknown option "zon"'] = function() store:schedule("a", "@daily", { zon = "UTC" }, nothing) end,
      ["schedule: f: a function expected, got a number"] = function() store:schedule("a", "@daily", {}, 17) end,
      ["schedule: tries: "] = function() store:schedule("a", "@daily", { tries = 0 }, nothing) end,
      ['schedule: this program has the name "b" already'] = function()
        if not store.functions.b then store:once("b", nothing) end
        store:schedule("b", "@daily", nothing)
      end,
      ['pause: unknown option "until_ms"'] = function()
        store:schedule("c", "@daily"):pause { until_ms = 1 }
      end,
    } do
      raises(pattern, f)
    end
    assert.same({}, reported)
    local list = assert(store:schedules())
    assert.same({ "c" }, { list[1].name, list[2] })
  end)

  it("tell how they are, run now, and are removed for all processes", function()
    local times = {}
    local nightly = store:schedule("nightly", "0 3 * * *", function(run, time)
      times[#times + 1] = { run.key, time }
      return "done"
    end)
    local state = assert(nightly:state())
    assert.same({ "nightly", "0 3 * * *", "UTC", "once", false },
      { state.name, state.cron, state.zone, state.missed, state.paused })
    assert.equal(3 * 3600000, state.next % (24 * 3600000))
    assert.is_true(state.next > state.last)
    assert.same({ state }, store:schedules())
    local r = assert(nightly:run_now())
    assert.equal("done", (r:result()))
    assert.equal(r.id, times[1][1])
    assert.equal(r.id, os.date("!%Y-%m-%dT%H:%M:%S", times[1][2] // 1000) .. (".%03dZ"):format(times[1][2] % 1000))
    assert.same({ r.id }, { nightly.runs:list()[1].id })
    local other <close> = stores.open(dir.path .. "/work.db")
    local same = assert(other:schedule "nightly")
    assert.equal("done", same.runs:get(r.id):result())
    assert.is_true(same:remove())
    for _, method in ipairs { "state", "pause", "resume", "run_now", "remove" } do
      assert.same({ nil, 'there is no schedule "nightly"', n = 2 }, table.pack(nightly[method](nightly)))
    end
    assert.same({ nil, 'there is no schedule "nightly"', n = 2 }, table.pack(store:schedule "nightly"))
    assert.same({}, store:schedules())
  end)

  it("run now twice when a run and another process do so in the same ms", function()
    local time = 1800000000123
    store.time = function() return time end
    local other <close> = stores.open(dir.path .. "/work.db")
    other.time = store.time
    local nightly, ids = store:schedule("nightly", { every = 3600000 }), {}
    local same, attempt = assert(other:schedule "nightly"), store.attempt
    local parents = store:runs("parent", function()
      ids[#ids + 1] = assert(nightly:run_now()).id
      if #ids == 2 then return end
      error "not yet" -- continued, it finds the run that it has started
    end, { backoff = 1 })
    local function steal(of, kind, sql, ...)
      if sql:find "insert or ignore into runnel_run" and (...) == "nightly" then
        store.attempt = nil
        ids.stolen = assert(same:run_now()).id
      end
      return attempt(of, kind, sql, ...)
    end
    local r = assert(parents:start(1))
    store.attempt = steal
    r:result()
    assert.same({ "2027-01-15T08:00:00.124Z", "2027-01-15T08:00:00.124Z", stolen = "2027-01-15T08:00:00.123Z" }, ids)
    assert.equal(2, #assert(nightly.runs:list()))
  end)

  it("are run now by a run as a step, which has the same time when the run is continued", function()
    local nightly, tries, ids = store:schedule("nightly", "0 3 * * *", function(_, time) return time end), 0, {}
    local parents = store:runs("parent", function()
      local r = assert(nightly:run_now())
      tries, ids[#ids + 1] = tries + 1, r.id
      rn.sleep(2) -- the next time is another one
      if tries < 3 then error "not yet" end
      return r:result()
    end, { backoff = 1 })
    local r = assert(parents:start(1))
    patience.wait_for(function() return r:state().state == "done" or r:state().state == "blocked" end)
    assert.is_nil(r:state().error)
    local time = r:result()
    assert.same({ ids[1], ids[1], ids[1] }, ids)
    local list = assert(nightly.runs:list())
    assert.same({ ids[1], nil }, { list[1].id, list[2] })
    assert.same({ name = "parent", id = 1 }, list[1].parent)
    assert.equal(ids[1], os.date("!%Y-%m-%dT%H:%M:%S", time // 1000) .. (".%03dZ"):format(time % 1000))
    assert(nightly:remove())
    local gone = store:runs("gone", function() return select(2, nightly:run_now()) end)
    assert.equal('there is no schedule "nightly"', assert(gone:start(1)):result())
  end)

  it("have the options of runs, also drain_on_term = false: SIGTERM ends the program at once", function()
    dir:write("program.lua", [[
      local store = require("runnel.store").open(arg[1])
      local nightly = store:schedule("nightly", "0 3 * * *", { drain_on_term = arg[2] ~= "false" }, print)
      print "ready"
      io.stdout:flush()
      nightly.runs:wait()
      print "drained"
    ]])
    local set <close> = background.set()
    for option, drains in pairs { ["true"] = true, ["false"] = false } do
      local program = set:start { process.runnel, dir.path .. "/program.lua", dir.path .. "/work.db", option }
      assert(program:says "ready", program:output())
      program:signal "TERM"
      program:wait()
      assert.equal(drains, program:output():find "drained" ~= nil)
    end
  end)

  it("start runs every so many ms, in the process that has the function", function()
    local starts = rn.chan(10)
    local tick = store:schedule("tick", { every = 20 }, function(_, time) starts:put(time) end)
    local last = starts:take()
    for _ = 1, 3 do
      local time = starts:take()
      assert.equal(0, (time - last) % 20)
      assert.is_true(time > last)
      last = time
    end
    tick.runs:stop()
    starts:close()
  end)

  it("with other times count from then on, for all that have them", function()
    local starts = rn.chan(10)
    store:schedule("tick", "0 0 1 1 *", { missed = "all" })
    store.db:exec "update runnel_schedule set last = 0" -- it would start 56 times
    local other <close> = stores.open(dir.path .. "/work.db")
    other:schedule("tick", { every = 50, missed = "all" }) -- another release of the program
    store:schedule("tick", { every = 50, missed = "all" }, function(_, time) starts:put(time) end)
    local first = starts:take()
    assert.is_true(store:time() - first < 60000)
    assert.equal(50, starts:take() - first)
    starts:close()
  end)

  it("that another program has spoilt are reported, once, and go on when they are mended", function()
    local starts = rn.chan(10)
    store:schedule("tick", { every = 20 }, function(_, time) starts:put(time) end)
    starts:take()
    store.db:exec "update runnel_schedule set cron = 'x', every = null"
    store:ring()
    patience.wait_for(function() return #reported > 0 end)
    assert.matches('^schedule tick: no run starts for now: "x": five fields expected', reported[1])
    assert.matches("five fields expected", store:schedules()[1].problem)
    store.db:exec "update runnel_schedule set cron = null, every = 20, last = 0"
    store:ring()
    repeat local time = starts:take() until time > store:time() - 10000
    assert.equal(1, #reported)
    starts:close()
  end)

  local PROGRAM <const> = [[
local store = require("runnel.store").open(arg[1])
local note = store:once("note", function(time, tx)
  tx:exec("insert into starts values (?, ?)", time, arg[2])
end, { tx = true })
local tick = store:schedule("tick", { every = 20 }, function(run, time) note(time) end)
print "ready"
io.stdout:flush()
tick.runs:wait()
]]

  it("of two processes go on when one of them is killed, and start no run twice", function()
    dir:write("program.lua", PROGRAM)
    store.db:exec "create table starts(time, program)"
    local set <close> = background.set()
    local function start(name)
      local program = set:start { process.runnel, dir.path .. "/program.lua", dir.path .. "/work.db", name }
      assert(program:says "ready", program:output())
      return program
    end
    local function count() return store.db:one "select count(*) as n from starts".n end
    local first = start "a"
    patience.wait_for(function() return count() > 2 end)
    local second = start "b"
    first:signal "KILL"
    first:wait()
    local n = count()
    patience.wait_for(function() return count() > n + 10 end)
    second:signal "TERM"
    second:wait()
    assert.equal(count(), store.db:one "select count(distinct time) as n from starts".n)
    assert.same({ "a", "b" }, { store.db:one "select min(program) as a from starts".a,
      store.db:one "select max(program) as b from starts".b })
  end)

  it("let runs overlap, leave starts out, or let them wait, as the option says", function()
    for overlap, wanted in pairs {
      allow = "1000+0 2000+0 3000+0 4000+0 5000+0 6000+0 7000+0 8000+0",
      skip = "1000+0 4000+0 7000+0",
      queue = "1000+0 3000+500 6000+0", -- the last one of those that wait for the end of the one before
      ["queue all"] = "1000+0 2000+1500 3000+3000",
      ["queue none"] = "1000+0 3000+500 6000+0",
    } do
      sim.run(function()
        local memory <close> = require("runnel.store").open ":memory:"
        local began, starts = memory:time(), {}
        local schedule = memory:schedule("tick", {
          every = 1000, overlap = overlap:match "^%a+", missed = overlap:match " (%a+)",
        }, function(run, time)
          local at = time - began
          run:now()
          starts[#starts + 1] = ("%d+%d"):format(at, (memory:time() - began - at) // 100 * 100)
          run:sleep(2500)
        end)
        rn.sleep(8500)
        assert.equal(wanted, table.concat(starts, " "), overlap)
        assert.equal(overlap:match "^%a+", schedule:state().overlap)
        assert(schedule:run_now())
      end)
    end
  end)

  -- A second process continues the schedule, while the first one stands still between its look at what is due and the
  -- first start. Calls `work(run, time)` for each run of either. Returns when the first one has gone on and looked
  -- again.
  local function with_one_that_stands_still(opts, work_of)
    local goes_on, stands, looks = rn.chan(), rn.chan(), 0
    local function stand_still()
      stands:close()
      goes_on:take()
    end
    store:schedule("tick", opts, work_of(goes_on))
    local attempt, transaction = store.attempt, store.db.transaction
    function store:attempt(kind, sql, ...)
      if sql:find "^select %* from runnel_schedule where" then looks = looks + 1 end
      if sql:find "insert or ignore into runnel_run%(" then stand_still() end
      return attempt(self, kind, sql, ...)
    end
    function store.db:transaction(f)
      stand_still()
      return transaction(self, f)
    end
    stands:take()
    if opts.overlap then rn.sleep(opts.every) end -- so that the other process finds a later start
    local other = work.another()
    other:schedule("tick", opts, work_of(goes_on))
    goes_on:take()
    local before = looks
    patience.wait_for(function() return looks > before + 1 end)
    other:close()
  end

  it("do not overlap if the process that looks for others stands still before it starts one", function()
    for _, overlap in ipairs { "skip", "queue" } do
      local live = 0
      with_one_that_stands_still({ every = 100, overlap = overlap }, function(goes_on)
        return function(run)
          live = live + 1
          goes_on:close()
          run:sleep(3600000)
        end
      end)
      assert.equal(1, live, overlap)
      work.close()
      work.open()
    end
  end)

  it("do not start again when they are done and forgotten, if a process stands still before it starts one", function()
    local seen, again, count = {}, {}, 0
    with_one_that_stands_still({ every = 200, keep_done = 0 }, function(goes_on)
      return function(_, time)
        if seen[time] then again[#again + 1] = time end
        seen[time] = true
        count = count + 1
        if count == 3 then goes_on:close() end -- the first one is forgotten since the second one has started
      end
    end)
    assert.same({}, again)
  end)
end)
