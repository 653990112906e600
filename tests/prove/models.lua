---pipeline_async, ordered or not, pmap and pmap_unordered as single operations: small programs of them, in many orders,
---against what their models allow.
---
---A program is { what, n, jobs = { kind of job, ... }, handler, fails, takes }: n jobs at a time over the values 1, 2
---and so on; whether there is an ex_handler; whether the source closes with an error; after how many takes the results
---are closed.

local core = require "runnel.core"
local rn = require "runnel"
local sim = require "runnel.sim"
local explorer = core.internal.explore

local DEPTH_FIRST, RANDOM, SCHEDULES, STEPS = 0, 1, 200, 10000

-- ---- the models ----

-- All others fail.
local RESULTS = { one = { 0 }, none = {}, two = { 0, 0.5 }, late = { 0 }, slow = { 0 }, long = { 0 } }

-- The results of job i, and whether it fails.
local function results_of(program, i)
  local kind, list = program.jobs[i], {}
  for k, offset in ipairs(RESULTS[kind] or {}) do list[k] = i + offset end
  local fails = not RESULTS[kind]
  if kind == "half" and not program.is_pmap then list[1] = i end -- it fails after its result
  if fails and program.handler then list[#list + 1] = -i end
  return list, fails
end

-- Ordered: the results in the order of the values. A job of a pipeline that fails is skipped; one of a pmap ends it.
-- Returns the results, the error with which they close, and how many errors are reported.
local function in_order(program)
  local all, reported = {}, 0
  for i = 1, #program.jobs do
    local list, fails = results_of(program, i)
    table.move(list, 1, #list, #all + 1, all)
    if fails and not program.handler then
      if program.is_pmap then return all, "job " .. i, 0 end
      reported = reported + 1
    end
  end
  return all, program.fails and "the source" or nil, reported
end

-- Whether what has been taken fits an ordered program: a beginning of the results, or all of them.
local function fits_order(program, run)
  local all, err, reported = in_order(program)
  for k, value in ipairs(run.taken) do
    if value ~= all[k] then return ("result %d is %s, not %s"):format(k, value, all[k]) end
  end
  if run.is_cut then return end
  if #run.taken ~= #all then return ("there are %d results, not %d"):format(#run.taken, #all) end
  if run.err ~= err then return ("it closes with %s, not %s"):format(run.err, err) end
  if run.reported ~= reported then return ("%d errors are reported, not %d"):format(run.reported, reported) end
end

-- Unordered: each result once, those of a job in their order; all of them, unless a job has ended a pmap.
local function fits_any_order(program, run)
  local _, err, reported = in_order(program)
  local can_end_early = program.is_pmap and err and err:find "job" ~= nil
  local left, last, n = {}, {}, 0
  for i = 1, #program.jobs do
    for _, value in ipairs((results_of(program, i))) do left[value], n = i, n + 1 end
  end
  for _, value in ipairs(run.taken) do
    local job = left[value]
    if not job then return ("%s comes twice, or from nowhere"):format(value) end
    if value > 0 and last[job] and last[job] > value then return ("%s comes after %s"):format(value, last[job]) end
    left[value], last[job], n = nil, value, n - 1
  end
  if run.is_cut then return end
  if can_end_early then
    local failed = tonumber((run.err or ""):match "^job (%d+)$")
    if not failed or RESULTS[program.jobs[failed]] then return "it closes with " .. tostring(run.err) end
    return
  end
  if n > 0 then return n .. " results are lost" end
  if run.err ~= err then return ("it closes with %s, not %s"):format(run.err, err) end
  if run.reported ~= reported then return ("%d errors are reported, not %d"):format(run.reported, reported) end
end

-- What is wrong with a run, or nil.
local function wrong(program, run)
  if run.peak > program.n then return run.peak .. " jobs ran at a time" end
  local is_busy = not run.is_cut and #program.jobs > 0
  for _, kind in ipairs(program.jobs) do is_busy = is_busy and (kind == "slow" or kind == "long") end
  if is_busy and run.peak < math.min(program.n, #program.jobs) then return ("only %d jobs ran"):format(run.peak) end
  return (program.is_unordered and fits_any_order or fits_order)(program, run)
end

-- ---- running a program ----

-- Does a job; `put` puts a result.
local function work(kind, i, put)
  if kind == "late" or kind == "fails late" then rn.yield() end
  if kind == "slow" or kind == "long" then rn.sleep(1) end
  if kind == "long" then -- it waits again and again
    for _ = 1, 3 do rn.yield() end
    rn.sleep(1)
  end
  if kind == "half" then put(i) end
  if not RESULTS[kind] then error("job " .. i, 0) end
  for _, offset in ipairs(RESULTS[kind]) do put(i + offset) end
end

local function perform(program)
  local run = { taken = {}, reported = 0, peak = 0 }
  local running = 0
  rn.on_error(function() run.reported = run.reported + 1 end)
  local function job(i, put)
    running = running + 1
    run.peak = math.max(run.peak, running)
    local ok, err = pcall(work, program.jobs[i], i, put)
    running = running - 1
    if not ok then error(err, 0) end
  end
  local from = rn.chan()
  local results
  rn.go(function()
    for i = 1, #program.jobs do
      if not from:put(i) then return end
    end
    from:close(program.fails and "the source" or nil)
  end)
  local options = { ex_handler = program.handler and function(err) return -tonumber(err:match "%d+") end or nil }
  if program.is_pmap then
    local function f(i)
      local result
      job(i, function(value) result = value end)
      return result
    end
    results = rn[program.what](program.n, f, from, options)
  else
    results = rn.chan()
    rn[program.what](program.n, results, function(i, out)
      job(i, function(value) out:put(value) end)
      out:close()
    end, from, true, options)
  end
  while #run.taken ~= program.takes do
    local value, err = results:take()
    if value == nil then
      run.err, run.is_over = err, true
      break
    end
    run.taken[#run.taken + 1] = value
  end
  run.is_cut = not run.is_over
  results:close()
  rn.sleep(10000)
  from:close()
  repeat until from:take() == nil -- the source ends
  return run
end

local models = {}

local WHAT = { "pipeline_async", "pipeline_async_unordered", "pmap", "pmap_unordered" }
local KINDS = { "one", "none", "two", "late", "slow", "slow", "long", "long", "fails", "fails late", "half" }

local function random_program(random)
  local what = WHAT[random(#WHAT)]
  local program = { what = what, is_pmap = what:find "pmap" ~= nil, is_unordered = what:find "unordered" ~= nil,
    n = random(3), jobs = {}, handler = random(3) == 1, fails = random(4) == 1,
    takes = random(4) == 1 and random(3) - 1 or nil }
  for i = 1, random(5) - 1 do program.jobs[i] = KINDS[random(#KINDS)] end
  if program.is_pmap then
    for i, kind in ipairs(program.jobs) do program.jobs[i] = kind == "two" and "one" or kind end
  end
  return program
end

local function text(program)
  return ("rn.%s with n = %d, %s, jobs: %s%s%s"):format(program.what, program.n,
    program.handler and "with a handler" or "without a handler", table.concat(program.jobs, ", "),
    program.fails and "; the source closes with an error" or "",
    program.takes and ("; closed after %d takes"):format(program.takes) or "")
end

---Runs random programs, each in a fixed number of schedules.
---@param random fun(n: integer): integer
---@param n integer
function models.check(random, n)
  for _ = 1, n do
    local program = random_program(random)
    local function main()
      local problem = wrong(program, perform(program))
      if problem then error(problem, 0) end
    end
    local e, more = explorer.new(STEPS, false), true
    for i = 1, SCHEDULES do
      local ok, _, err
      if i % 2 == 1 and more then
        ok, _, err = explorer.run(e, main, true, "path", DEPTH_FIRST)
        more = explorer.backtrack(e)
      else
        ok, _, err = explorer.run(e, main, true, nil, RANDOM, i)
      end
      if not ok then
        print(("a model finds a fault of %s:\n%s\n"):format(text(program), tostring(err)))
        print(select(2, pcall(sim.explore, main, { seconds = 10 }))) -- the story
        os.exit(false, true)
      end
    end
  end
  rn.on_error(nil)
end

return models
