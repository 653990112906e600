-- store:schedule on simulated hosts: months of virtual time, crashes between any two writes, clocks that are set.

local long = require "spec.support.long"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local zones = require "spec.support.zones"
local work_store = require "spec.support.work_store"

describe("schedules of a store in a simulated world #heavy", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"

  local HOUR <const>, DAY <const> = 3600000, 24 * 3600000
  local BEGIN <const> = 1700000000000 -- when a world begins: 14 November 2023, 22:13:20

  -- The bytes of a store that has the tables, since they are made by many writes.
  local prepared

  setup(function()
    prepared = work_store.bytes(function(store)
      store:runs "tick"
      store.db:exec "create table effects(what)"
    end)
  end)

  local function expect(wanted, found, what)
    if wanted ~= found then error(("%s: %s, not %s"):format(what, tostring(found), tostring(wanted)), 0) end
  end

  -- Runs f(host, world) in a world, in a go block of a host.
  local function in_world(f, opts)
    sim.run(function()
      local world, host = sim.world(opts), nil
      host = world:host("host", function() f(host, world) end)
      world:run()
    end)
  end

  local function text_of(time) return os.date("!%m-%d %H:%M", time // 1000) end

  -- Opens the store, and makes a schedule that notes its starts: as planned, and how late they were.
  local function noting(when, opts, list)
    local store = stores.open("work.db", { synchronous = "off" })
    local schedule = store:schedule("tick", when, opts, function(run, time)
      expect(os.date("!%Y-%m-%dT%H:%M:%S", time // 1000), run.key:sub(1, 19), "the id of a run")
      list[#list + 1] = text_of(time)
      list.late = math.max(list.late or 0, store:time() - store:ahead() - time)
    end)
    return store, schedule
  end

  it("start each night of half a year, also in those in which the clock is changed", function()
    if not zones.are_installed then return pending "tzdata is not installed" end
    in_world(function()
      local list, before = {}, long.times(125, 0) -- the short form begins later
      rn.sleep(before * DAY)
      local store <close> = noting("30 2 * * *", { zone = "Europe/Berlin" }, list) -- luacheck: ignore 211
      rn.sleep((180 - before) * DAY)
      expect(180 - before, #list, "starts")
      if before == 0 then expect("11-15 01:30", list[1], "the first start") end
      for at, text in pairs { [137] = "03-30 01:30", [138] = "03-31 01:30", [139] = "04-01 00:30" } do
        expect(text, list[at - before], "start " .. at)
      end
      if list.late > 10 then error(list.late .. " ms late", 0) end
    end)
  end)

  it("keep as many runs that are done as they should", function()
    in_world(function()
      local store <close>, schedule = noting("0 * * * *", { keep_done = 5 }, {}) -- luacheck: ignore 211
      rn.sleep(30 * HOUR + 30 * 60000)
      local list = schedule.runs:list()
      expect(6, #list, "runs") -- the last one was running when it looked
      expect("2023-11-16T04:00:00.000Z", list[6].id, "the last run")
    end)
  end)

  -- Starts at 23:00, 00:00, 01:00 and 02:00, whatever is lost meanwhile; what each does in the file is done once.
  local function four_starts(store, seen)
    local book = store:once("book", function(what, tx)
      tx:exec("insert into effects values (?)", what)
    end, { tx = true })
    local tick = store:schedule("tick", "0 * * * *", { missed = "all" }, function(_, time) book(text_of(time)) end)
    repeat
      rn.sleep(HOUR // 2)
      local list = {}
      for _, row in ipairs(store.db:rows "select what from effects") do list[#list + 1] = row.what end
      local found = table.concat(list, ", ")
      if ("11-14 23:00, 11-15 00:00, 11-15 01:00, 11-15 02:00"):sub(1, #found) ~= found then
        error("starts: " .. found, 0)
      end
    until #list >= 4
    expect(4, #tick.runs:list { state = "done" }, "runs")
    store:drain()
    seen.over = true
  end

  local function crashing(faults, rate, opts)
    return function()
      local world, seen = sim.world { faults = faults, probability = rate }, {}
      local host = world:host("host", function()
        local store <close> = stores.open("/var/work.db", opts)
        four_starts(store, seen)
      end, { restart = 10 })
      host:put("/var/work.db", prepared)
      world:run()
      assert(seen.over, "it has not ended")
    end
  end

  it("start each run once, if the host crashes between any two writes", function()
    search.finds_nothing(crashing { crash = 1 })
    sim.each_seed(10, crashing({ crash = 2, torn = 1 }, 0.02))
  end)

  it("lose a start if the disk is not synced: the search finds it", function()
    search.finds("starts: ", crashing({ crash = 1 }, nil, { synchronous = "off" }))
  end)

  for missed, wanted in pairs {
    once = "11-14 23:00, 11-15 04:00, 11-15 05:00, 11-15 06:00",
    all = "11-14 23:00, 11-15 00:00, 11-15 01:00, 11-15 02:00, 11-15 03:00, 11-15 04:00, 11-15 05:00, 11-15 06:00",
    none = "11-14 23:00, 11-15 05:00, 11-15 06:00",
  } do
    it(("have %s of the starts for which no process was there"):format(missed), function()
      in_world(function()
        local list = {}
        for hours = 1, 2 do
          local store = noting("0 * * * *", { missed = missed }, list)
          rn.sleep(hours * HOUR)
          store:drain()
          if hours == 1 then rn.sleep(5.5 * HOUR) end
        end
        expect(wanted, table.concat(list, ", "), "starts")
      end)
    end)
  end

  it("of many processes start each run once, also when these are killed", function()
    if not pcall(require, "luv") then return pending "luv is not installed" end
    local uv = require "runnel.uv"
    for seed = 1, long.times(2, 8) do
      sim.run(function()
        local world, list = sim.world(), {}
        world:program("work", function()
          local store = stores.open "work.db"
          local tick = store:schedule("tick", "*/10 * * * *", function(_, time)
            list[time] = (list[time] or 0) + 1
          end)
          tick.runs:wait()
        end)
        world:host("host", function()
          local children = {}
          for i = 1, 3 do children[i] = uv.spawn { "work" } end
          for _ = 1, 12 do
            rn.sleep(10 * 60000)
            local i = math.random(3)
            children[i]:kill "kill"
            children[i] = uv.spawn { "work" }
          end
          for _, one in ipairs(children) do one:kill "kill" end
        end)
        world:run()
        for i = 1, 12 do expect(1, list[1699999800000 + i * 600000], "starts at " .. i) end
      end, { seed = seed })
    end
  end)

  it("go by the clock of the machine, and start no time twice, if it is set back and forward", function()
    in_world(function(host)
      local list = {}
      local store <close> = noting("0 * * * *", {}, list) -- luacheck: ignore 211
      local function starts_in(ms, wanted)
        for i = #list, 1, -1 do list[i] = nil end
        rn.sleep(ms)
        expect(wanted, table.concat(list, ", "), "starts")
      end
      starts_in(2 * HOUR, "11-14 23:00, 11-15 00:00") -- it is 00:13
      host:move_clock(-2 * HOUR) -- 22:13
      starts_in(3 * HOUR, "11-15 01:00") -- 01:13
      host:move_clock(1 * HOUR - 20 * 60000) -- 01:53
      starts_in(HOUR // 4, "11-15 02:00") -- 02:08
      host:move_clock(5 * HOUR) -- 07:08
      starts_in(HOUR, "11-15 07:00, 11-15 08:00")
      host:move_clock(-300 * DAY)
      starts_in(HOUR, "01-19 09:00") -- 300 days before
      host:move_clock(400 * DAY)
      starts_in(HOUR // 2, "02-23 09:00")
    end)
  end)

  it("with every go by the clock of the store, whoever sets that of the machine", function()
    in_world(function(host)
      local times = {}
      local store <close> = stores.open "work.db"
      store:schedule("tick", { every = HOUR }, function() times[#times + 1] = rn.now() end)
      for _, hours in ipairs { 0, -7, 20, 0.5 } do
        host:move_clock(hours * HOUR)
        rn.sleep(2.6 * HOUR)
      end
      expect(10, #times, "starts")
      for i = 2, #times do
        if math.abs(times[i] - times[i - 1] - HOUR) > 10 then error("start " .. i, 0) end
      end
    end)
  end)

  it("start nothing in a pause, nor later what would have been in it", function()
    in_world(function()
      local list = {}
      local store <close>, tick = noting("0 * * * *", { missed = "all" }, list) -- luacheck: ignore 211
      assert(tick:pause())
      rn.sleep(3 * HOUR)
      assert(tick:state().paused)
      expect(nil, tick:state().next, "the next start")
      assert(tick:resume())
      rn.sleep(HOUR) -- 02:13
      assert(tick:pause { lasts = 3 * HOUR })
      expect(text_of(BEGIN + 7 * HOUR), text_of(tick:state().resumes), "the end")
      expect("11-15 06:00", text_of(tick:state().next), "the next start")
      rn.sleep(5 * HOUR)
      expect("11-15 02:00, 11-15 06:00, 11-15 07:00", table.concat(list, ", "), "starts")
      assert(not tick:state().paused)
    end)
  end)
end)
