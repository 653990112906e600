-- Random flows, in simulations (spec/support/flows.lua): each value is once in an output, an error or what was left;
-- the order holds; no go block remains.

local rn = require "runnel"
local flow = require "runnel.flow"
local flows = require "spec.support.flows"
local long = require "spec.support.long"
local search = require "spec.support.search"
local sim = require "runnel.sim"

local SEEDS = long.times(150, 3000)

-- Runs random flows, and returns how often what was done.
local function run_all(options)
  local totals = {}
  local handler = rn.on_error(function() end) -- of stages that hold
  for seed = 1, SEEDS do
    local ok, log = pcall(sim.run, flows.run, { seed = seed, shuffle = true }, seed, options)
    assert(ok, ("seed %d: %s"):format(seed, tostring(log)))
    assert(#log.problems == 0, ("seed %d: %s"):format(seed, table.concat(log.problems, "\n")))
    for what, n in pairs(log.counts) do totals[what] = (totals[what] or 0) + n end
  end
  rn.on_error(handler)
  return totals
end

describe("random flows", function()
  it("lose and repeat nothing, keep the order, and end #ci", function()
    local totals = run_all { edges = true }
    for _, what in ipairs { "pauses", "replacements", "injections", "holds", "cycles", "left", "changes of edges" } do
      assert.is_true(totals[what] > SEEDS / 20, what)
    end
  end)

  it("lose and repeat nothing while their go blocks are killed #ci", function()
    local totals = run_all { kills = true }
    assert.is_true(totals.kills > SEEDS / 10)
  end)
end)

describe("small flows, in every order,", function()
  local function explored(f)
    local handler = rn.on_error(function() end)
    local result = search.until_enough(function(result) return result.schedules > 50 end, f,
      { seconds = long.times(1, 20) })
    rn.on_error(handler)
    assert(result.all or result.schedules > 50, tostring(result))
  end

  local function check(got, left, n)
    local seen = {}
    for _, value in ipairs(got) do seen[value] = (seen[value] or 0) + 1 end
    for _, entry in ipairs(left) do seen[entry.value] = (seen[entry.value] or 0) + 1 end
    for i = 1, n do assert(seen[i] == 1, ("%d was seen %s times"):format(i, tostring(seen[i]))) end
  end

  it("keep each value while a worker is killed and the flow is stopped #ci", function()
    explored(function()
      local got = {}
      local f = flow("job", {
        a = { from = { 1, 2 } },
        b = { function(value) return value end, buffer = 0 },
        c = { function(value) got[#got + 1] = value end, buffer = 0 },
        bad = function(e) got[#got + 1] = e.value end,
        "a > b > c", "*.error > bad",
      }):start()
      if sim.choose(2) == 2 then
        rn.yield()
        for _, entry in ipairs(rn.ps()) do
          if entry.name:find "^job.b" then rn.cancel(entry.result, "killed") end
        end
      end
      check(got, f:stop(), 0)
      local left = f:stop()
      local seen = #got + #left
      assert(seen <= 2, "a value was seen twice")
    end)
  end)

  it("end a cycle, paused and resumed at any time", function()
    explored(function()
      local got = {}
      local f = flow("job", {
        a = { from = { 1 } },
        b = { step = function(value, put)
          got[#got + 1] = value
          if value < 3 then put(value + 1) end
        end, buffer = 1 },
        "a > b >> b",
      }):start()
      f:pause "b"
      rn.yield()
      f:resume "b"
      assert(f:wait())
      check(got, {}, 3)
    end)
  end)

  it("keep the order of two workers while values are injected #ci", function()
    explored(function()
      local got = {}
      local f = flow("job", {
        a = { from = { 1, 2 } },
        b = { function(value)
          if value == 1 then rn.yield() end
          return value
        end, n = 2, buffer = 1 },
        c = function(value) got[#got + 1] = value end,
        "a > b > c",
      }):start()
      rn.yield()
      pcall(f.inject, f, "b", 3)
      assert(f:wait())
      local at = {}
      for i, value in ipairs(got) do at[value] = i end
      assert(at[1] < at[2], "the order was lost")
    end)
  end)
end)
