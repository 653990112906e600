---The 68 blocking bugs of GoBench's kernels, real ones of CockroachDB, etcd, gRPC, Kubernetes, Docker and others:
---sim.explore finds each, and raises no alarm about the correct versions.

local sim = require "runnel.sim"

local goker = require "spec.support.goker"
local names, bugs = goker.names, goker.bugs

-- The longest program ends within a hundred steps; but some loop until another go block stops them.
local STEPS = 600

-- What sim.explore returns or raises, and how many schedules it has run until then.
local function explore(program, is_correct, options)
  local runs = 0
  options.steps = STEPS
  local ok, result = pcall(sim.explore, function()
    runs = runs + 1
    program(is_correct)
  end, options)
  return ok, result, runs
end

describe("the blocking kernels of GoBench", function()
  it("are 68", function() assert.equal(68, #names) end)

  for _, name in ipairs(names) do
    it(name .. " is found", function()
      local ok, message = explore(bugs[name], false, { seconds = 1000 })
      assert.is_false(ok)
      local kind, number = message:match "^sim.explore: (%l+): .*%(schedule (%d+)"
      assert.is_true(kind == "leak" or kind == "deadlock", message)
      assert.is_true(tonumber(number) <= 20000, number)
      assert.matches("waits for ever", message)
      local schedule = message:match 'schedule = "([^"]+)"'
      local replayed, again = explore(bugs[name], false, { schedule = schedule })
      assert.is_false(replayed)
      assert.matches("^sim.explore: " .. kind .. ": ", again)
    end)

    it(name .. " raises no alarm once corrected", function()
      local ok, result = explore(bugs[name], true, { seconds = 0.03 })
      if not ok then error(result, 0) end
      assert.is_true(result.schedules > 0)
    end)
  end
end)
