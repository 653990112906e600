-- Workers of messages (lua/runnel/queue/worker.lua), on a keeper in memory, in simulations.
local memory = require "examples.lib.memory_keeper"
local memory_place = require "spec.support.queue.memory_place"
local messages = require "runnel.queue.messages"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local worker = require "runnel.queue.worker"

local LEASE <const> = 500

-- A worker on a keeper.
local function start(keeper, f, opts)
  opts = opts or {}
  return assert(worker.start {
    kind = "stage", n = opts.n or 1, keeper = keeper, is_paused = false, timeout = opts.timeout,
    task = messages.task {
      name = "s", f = f, has_results = keeper.to ~= nil, has_letters = true, ex_handler = opts.ex_handler,
      limits = { starts = opts.starts or 5, tries = opts.tries or 1, retry = 100 },
    },
  })
end

-- Runs f(queue, results) in a simulation; returns what was reported.
local function within(f)
  return stage.reports(function() sim.run(f, nil, memory.queue "queue", memory.queue "results") end)
end

-- The dead letters, and how many there are.
local function letters_of(queue)
  local list = {}
  for _, letter in pairs(queue.letters) do list[#list + 1] = letter end
  return list, #list
end

-- Has `count` messages worked on whose results are stored after these failures: { error, whether it may pass }, after
-- `ms` each.
local function work(failures, ms, count)
  local calls, counters = 0, nil
  local reports = within(function(queue, results)
    local keeper, i = queue:keeper(results), 0
    local done = keeper.done
    function keeper.done(...)
      i = i + 1
      rn.sleep(ms or 0)
      local failure = failures[(i - 1) % (#failures + 1) + 1]
      if failure then return nil, failure[1], failure[2] end
      return done(...)
    end
    local w = start(keeper, function(v)
      calls = calls + 1
      return v
    end)
    for v = 1, count or 1 do queue:append(v) end
    rn.sleep(60000)
    counters = w:stats()
    w:stop()
    assert.same({ waiting = 0, running = 0 }, queue:count())
  end)
  return calls, counters, reports
end

describe("a stage whose results cannot be stored", function()
  local FULL, WRONG = { "full", true }, { "not stored", false }

  it("waits while the stream or the disk is full, or the server away: that is no failed try", function()
    local calls, counters, reports = work { FULL, FULL, FULL }
    assert.same({ 1, 1, 0, 0 }, { calls, counters.done, counters.failed, #reports })
  end)

  it("is reported after 5 s, once, and again the next time", function()
    local full = {}
    for i = 1, 60 do full[i] = FULL end -- 12 s
    for _, case in ipairs { { full, 0 }, { { FULL, FULL }, 5000 } } do
      local _, counters, reports = work(case[1], case[2])
      assert.equal(1, counters.done)
      assert.equal(1, #reports)
      assert.equal("stage s: its stream does not accept results for now: full", reports[1].err)
      assert.equal("stage s", reports[1].where)
    end
    local _, _, reports = work(full, 0, 2)
    assert.equal(2, #reports)
  end)

  it("says at once that the starts of a message that was delivered before cannot be stored", function()
    local calls = 0
    local reports = within(function(queue)
      queue:append "v"
      queue.entries[1].deliveries = 1
      local keeper = queue:keeper()
      function keeper.set_starts() return false, "the disk is full" end
      local w = start(keeper, function() calls = calls + 1 end)
      rn.sleep(10000)
      assert.equal(0, calls)
      keeper.set_starts = nil
      rn.sleep(2000)
      assert.equal(1, calls)
      w:stop()
    end)
    assert.equal(1, #reports)
    assert.equal("stage s: the server does not store the starts of messages for now: the disk is full", reports[1].err)
  end)

  it("fails if they never can be", function()
    local calls, counters, reports = work { WRONG, WRONG, WRONG }
    assert.same({ 1, 0, 1, 1, 1 }, { calls, counters.done, counters.failed, counters.given_up, #reports })
    assert.matches("not stored", tostring(reports[1].err))
  end)
end)

describe("a worker of messages", function()
  it("stores each result once, at whatever moment its process ends", function()
    local reports = within(function(queue, results)
      for v = 1, 40 do queue:append(v) end
      local kills, over = 0, false
      local function launch()
        local keeper = memory_place.keeper(queue, results)
        local w = start(keeper, function(v)
          rn.sleep(30)
          return v
        end, { n = 4, starts = 1000 })
        rn.go(function()
          rn.sleep(37 + kills * 3 % 50)
          if over then return w:stop() end
          memory_place.lose(keeper, LEASE)
          w:stop()
          kills = kills + 1
          rn.sleep(10)
          launch()
        end)
      end
      launch()
      rn.sleep(60000)
      over = true
      local list = memory_place.values(results)
      table.sort(list)
      assert.equal(40, #list)
      for i = 1, 40 do assert.equal(i, list[i]) end
      assert.is_true(kills > 10)
      assert.same({ waiting = 0, running = 0 }, queue:count())
    end)
    assert.equal(0, #reports)
  end)

  it("gives up a message that ends its process at each start, alone at the end, and no other one", function()
    local starts, beside = 0, {}
    local reports = within(function(queue, results)
      for v = 1, 30 do queue:append(v == 7 and "poison" or v) end
      local over, launch = false, nil
      function launch()
        local keeper, running, w = memory_place.keeper(queue, results), 0, nil
        w = start(keeper, function(v)
          running = running + 1
          local function leave() running = running - 1 end
          local leaving <close> = setmetatable({}, { __close = leave }) -- luacheck: ignore 211
          if v == "poison" then
            starts = starts + 1
            beside[starts] = running - 1
            memory_place.lose(keeper, LEASE)
            rn.go(function()
              w:stop()
              if not over then launch() end
            end)
          end
          rn.sleep(100)
          return v
        end, { n = 6, starts = 4 })
      end
      launch()
      rn.sleep(60000)
      over = true
      assert.equal(29, results.last)
      local letters, n = letters_of(queue)
      assert.equal(1, n)
      local letter = letters[1]
      assert.same({ 4, 0, 7, "poison" }, { letter.starts, letter.raises, letter.position, letter.data })
      assert.equal("stage s: the message was given up: its process ended at each of 4 starts", letter.error)
    end)
    assert.equal(4, starts)
    assert.same({ 0, 0 }, { beside[3], beside[4] })
    assert.equal(1, #reports)
  end)

  it("tries a message again later, and counts the tries", function()
    local times = {}
    within(function(queue, results)
      queue:append "v"
      local entry = queue.entries[1]
      local w = start(queue:keeper(results), function(v)
        times[#times + 1] = rn.now()
        if #times < 3 then error "no" end
        return v
      end, { tries = 3 })
      rn.sleep(5000)
      assert.same({ "v" }, memory_place.values(results))
      assert.same({ 1, 2, 0 }, { w:stats().done, w:stats().failed, w:stats().given_up })
      assert.is_nil(entry.count)
    end)
    assert.equal(3, #times)
    assert.is_true(times[2] - times[1] >= 50 and times[3] - times[2] >= 100)
  end)

  it("gives back messages that have not started when it drains, and counts no start", function()
    within(function(queue)
      local w = start(queue:keeper(), function() rn.sleep(1000) end, { n = 1 })
      w:pause(true)
      w.is_paused = false -- it takes a message, and does not start it
      local pump = w.pump
      function w.pump() end
      queue:append "v"
      rn.sleep(10)
      assert.equal(1, w:stats().waiting)
      w.pump = pump
      assert.is_true(w:drain())
      local calls = 0
      start(queue:keeper(), function() calls = calls + 1 end, { starts = 1 })
      rn.sleep(100)
      assert.equal(1, calls)
      assert.equal(0, (select(2, letters_of(queue))))
    end)
  end)
end)

describe("a call whose time is over", function()
  it("keeps its message and its place among the n until it has closed its variables", function()
    if not stage.is_5_4_3 then return pending "variables cannot wait before Lua 5.4.3" end
    local began, asked = {}, {}
    local reports = within(function(store)
      local keeper, start_time = store:keeper(), sim.elapsed()
      function keeper:limit() asked[#asked + 1] = "limit " .. sim.elapsed() - start_time end
      function keeper:extend() asked[#asked + 1] = "extend " .. sim.elapsed() - start_time end
      local w = start(keeper, function(v)
        began[#began + 1] = ("%s %s"):format(v, sim.elapsed() - start_time)
        if v == "next" then return end
        local _ <close> = setmetatable({}, { __close = function() rn.sleep(120) end })
        rn.sleep(1e6)
      end, { timeout = 50 })
      store:append "slow"
      store:append "next"
      rn.sleep(1000)
      w:stop()
    end)
    assert.same({ "slow 0", "next 170" }, began)
    assert.same({ "limit 0", "extend 50", "limit 50", "extend 100", "limit 100", "extend 150", "limit 150" },
      table.move(asked, 1, 7, 1, {}))
    assert.equal(1, #reports)
    assert.equal("stage s: a call had not ended after 50 ms", tostring(reports[1].err))
  end)
end)
