-- pmap and the pipelines against a model of them: random jobs that raise, park, start others, are cancelled, are late,
-- close twice and put afterwards, and consumers that leave half way. A failure names its seed.
local rn = require "runnel"
local long = require "spec.support.long"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local SEEDS = long.times(150, 3000)
local CLEANING = 5 -- ms that some jobs take when they are cancelled
local PARKING = 3 -- ms that some handlers take

-- Random integers from `low` to `high`, the same for the same seed.
local function generator(seed)
  local state = seed * 2654435761 % 2 ^ 32
  return function(low, high)
    state = (state * 1664525 + 1013904223) % 2 ^ 32
    return low + math.floor(state / 2 ^ 32 * (high - low + 1))
  end
end

local function shuffled_range(n, random)
  local list = {}
  for i = 1, n do list[i] = i end
  for i = n, 2, -1 do
    local j = random(1, i)
    list[i], list[j] = list[j], list[i]
  end
  return list
end

local function one_of(list, random) return list[random(1, #list)] end

-- The go blocks of the library's own that are left.
local function left()
  local names = {}
  for _, name in ipairs(stage.others()) do
    if name ~= "of a job" then names[#names + 1] = name end
  end
  return names
end

-- ---- pmap ----

local ENDS = { "value", "value", "nothing", "false", "raises", "spawns", "stubborn", "cleans", "killed" }
local HANDLERS = { false, "value", "nothing", "raises", "parks" }

-- A random case. All durations are different, and so are their sums, most likely: then no two events coincide.
local function random_case(seed)
  local random = generator(seed)
  local case = { ordered = random(1, 2) == 1, n = random(1, 6), jobs = {} }
  local count = random(0, 25)
  local ms = shuffled_range(100, random)
  local reliable = random(1, 3) == 1
  for i = 1, count do
    local ends = one_of(ENDS, random)
    if reliable and (ends == "raises" or ends == "killed") then ends = "value" end
    case.jobs[i] = { ms = ms[i] + random(1, 999999) / 1e6, ends = ends }
  end
  case.window = case.ordered and random(1, 2) == 1 and case.n + random(0, 5) or nil
  case.buffer = random(1, 3) == 1 and random(1, 4) or nil
  case.timeout = not reliable and random(1, 2) == 1 and random(20, 90) + 0.5 or nil
  case.handler = one_of(HANDLERS, random)
  case.from = one_of({ "list", "iterator", "channel" }, random)
  case.leaves = random(1, 3) == 1 and random(1, 300) + 0.25 or nil -- when the consumer closes the results
  case.pause = not case.leaves and random(1, 4) == 1 and random(1, 40) or nil -- ms it takes for each
  return case
end

-- What a job comes to: how long it takes, and its result or error (as text).
local function outcome(case, i)
  local job = case.jobs[i]
  local ms, result, err = job.ms, nil, nil
  if job.ends == "killed" and (not case.timeout or ms / 2 < case.timeout) then
    ms, err = ms / 2, "killed"
  elseif case.timeout and ms > case.timeout then
    ms = case.timeout
    err = "late"
    if job.ends == "cleans" then ms = ms + CLEANING end
  elseif job.ends == "raises" then
    err = "no " .. i
  elseif job.ends == "false" then
    result = false
  elseif job.ends ~= "nothing" then
    result = i
  end
  if err and case.handler then
    if case.handler == "raises" then
      err = "worse than " .. err
    else
      if case.handler == "parks" then ms = ms + PARKING end
      if case.handler ~= "nothing" then result = "instead of " .. err end
      err = nil
    end
  end
  return ms, result, err
end

-- When each job starts and ends, if nothing fails and the taker is not slow.
local function schedule(case, outcomes)
  local starts, ends = {}, {}
  local window = case.ordered and (case.window or 16 * case.n) or math.huge

  local function may_start(i, t)
    local running, delivered = 0, 0
    for j = 1, i - 1 do
      if ends[j] > t then running = running + 1 end
      if delivered == j - 1 and ends[j] <= t then delivered = j end
    end
    return running < case.n and i - 1 - delivered < window
  end

  for i = 1, #outcomes do
    local start = starts[i - 1] or 0
    if not may_start(i, start) then
      local later = math.huge
      for j = 1, i - 1 do
        if ends[j] > start and ends[j] < later and may_start(i, ends[j]) then later = ends[j] end
      end
      start = later
    end
    starts[i], ends[i] = start, start + outcomes[i].ms
  end
  return starts, ends
end

-- The model: the results in order with the times at which they can be put, the error, and until when jobs are started.
local function predict(case)
  local outcomes = {}
  for i = 1, #case.jobs do
    local ms, result, err = outcome(case, i)
    outcomes[i] = { ms = ms, result = result, err = err }
  end
  local starts, ends = schedule(case, outcomes)
  local stop = case.leaves or math.huge -- of the first event that stops the starting of jobs
  for i, o in ipairs(outcomes) do
    if o.err and starts[i] < stop and ends[i] < stop then stop = ends[i] end
  end

  local order, results, times, err = {}, {}, {}, nil
  for i = 1, #outcomes do
    if starts[i] < stop then order[#order + 1] = i end
  end
  if not case.ordered then table.sort(order, function(a, b) return ends[a] < ends[b] end) end
  local time = 0
  for _, i in ipairs(order) do
    time = math.max(time, ends[i])
    if case.leaves and time > case.leaves then break end
    if outcomes[i].err then
      err = outcomes[i].err
      break
    end
    if outcomes[i].result ~= nil then
      results[#results + 1] = outcomes[i].result
      times[#times + 1] = time
    end
  end
  local tied = {} -- the errors of jobs that end when that one does
  for i, o in ipairs(outcomes) do
    if o.err and math.abs(ends[i] - stop) < 0.01 then tied[o.err] = true end
  end
  return { results = results, times = times, err = err, tied = tied, starts = starts, stop = stop }
end

local function show_error(err)
  if err == nil then return nil end
  if rn.is_timeout(err) then return "late" end
  return tostring(err):match "^worse than pmap" and "worse than late" or tostring(err)
end

-- Runs a case; returns what it has come to.
local function perform(case)
  local run = { starts = {}, running = 0, peak = 0, results = {}, times = {} }

  local function wait(i, ms)
    local job = case.jobs[i]
    if job.ends == "killed" then
      local me
      for _, entry in ipairs(rn.ps()) do
        if entry.state == "running" then me = entry.result end
      end
      rn.go(function()
        rn.rename "of a job"
        rn.sleep(ms / 2)
        if run.running_jobs[i] then rn.cancel(me, "killed") end
      end)
      rn.sleep(ms)
    elseif job.ends == "spawns" then
      rn.go(function()
        rn.rename "of a job"
        rn.sleep(ms)
        return true
      end):take()
    elseif job.ends == "stubborn" then
      pcall(rn.sleep, ms)
    elseif job.ends == "cleans" then
      local ok, err = pcall(rn.sleep, ms)
      if not ok then
        pcall(rn.sleep, CLEANING)
        error(err, 0)
      end
    else
      rn.sleep(ms)
    end
  end

  run.running_jobs = {}
  local function f(i)
    assert(not run.starts[i], "a job has been started twice")
    run.starts[i] = sim.elapsed()
    run.running = run.running + 1
    run.peak = math.max(run.peak, run.running)
    run.running_jobs[i] = true
    local ending <close> = setmetatable({}, { __close = function() -- luacheck: ignore 211
      run.running = run.running - 1
      run.running_jobs[i] = nil
    end })
    local job = case.jobs[i]
    wait(i, job.ms)
    if job.ends == "raises" then error("no " .. i, 0) end
    if job.ends == "false" then return false end
    if job.ends ~= "nothing" then return i, "more than one" end
  end

  local function handler(err, i)
    assert(run.starts[i])
    local text = show_error(err)
    if case.handler == "raises" then error("worse than " .. text, 0) end
    if case.handler == "parks" then rn.sleep(PARKING) end
    if case.handler ~= "nothing" then return "instead of " .. text end
  end

  local list = {}
  for i = 1, #case.jobs do list[i] = i end
  local from, i = list, 0
  if case.from == "channel" then
    from = rn.to_chan(list)
  elseif case.from == "iterator" then
    from = function()
      i = i + 1
      return list[i]
    end
  end
  local pmap = case.ordered and rn.pmap or rn.pmap_unordered
  local results = pmap(case.n, f, from, {
    window = case.window, buffer = case.buffer, timeout = case.timeout, ex_handler = case.handler and handler or nil,
  })
  local leaving
  if case.leaves then
    leaving = rn.go(function()
      rn.rename "leaving"
      rn.sleep(case.leaves)
      if results:closed() then return end
      results:close()
      rn.sleep(0.01)
      local busy = run.running -- but for those that do something when they are cancelled
      for k in pairs(run.running_jobs) do
        if case.jobs[k].ends == "cleans" then busy = busy - 1 end
      end
      assert(busy == 0, "a job runs on although the results have been closed")
    end)
  end
  while true do
    local value, err = results:take()
    if value == nil then
      run.err = show_error(err)
      break
    end
    run.results[#run.results + 1] = value
    run.times[#run.times + 1] = sim.elapsed()
    if case.pause then rn.sleep(case.pause) end
  end
  run.closed = sim.elapsed()
  if not case.leaves then assert.equal(0, run.running) end
  if leaving then leaving:take() end
  rn.sleep(CLEANING + PARKING + 1)
  assert.equal(0, run.running)
  if case.from == "channel" then
    from:close()
    repeat until from:take() == nil -- its source ends
    rn.sleep(0.01)
  end
  assert.same({}, left())
  return run
end

-- Results that come at the same time, of jobs that were late, have no order: puts them in that in which they came.
local function align(came, results, times)
  for i = 1, #results do
    local j = i
    while times[j] and times[j] - times[i] < 0.01 and results[j] ~= came[i] do j = j + 1 end
    if times[j] and times[j] - times[i] < 0.01 then results[i], results[j] = results[j], results[i] end
  end
end

local function check_pmap(seed)
  local case = random_case(seed)
  local model, run = predict(case), perform(case)
  assert.is_true(run.peak <= case.n)
  if case.pause then -- then the schedule is another one
    assert.is_true(case.ordered or #run.results <= #case.jobs)
    if case.ordered then
      assert.same(model.err, run.err)
      assert.same(model.results, run.results)
    end
    return
  end
  if case.leaves and run.closed > case.leaves - 0.01 and model.stop > case.leaves - 2 * CLEANING then
    model.err = run.err -- it has left while cancelled jobs had yet to end
  end
  if not case.ordered and model.err then
    -- Jobs that are late at the same time may end in any order: one of their errors comes first.
    assert.is_true(model.tied[run.err], run.err)
    while model.times[#model.times] and model.times[#model.times] > model.stop - 0.01 do
      table.remove(model.times)
      table.remove(model.results)
    end
    run.results = table.move(run.results, 1, #model.results, 1, {})
  else
    assert.same(model.err, run.err)
  end
  if not case.ordered then align(run.results, model.results, model.times) end
  assert.same(model.results, run.results)
  for i, time in ipairs(model.times) do assert.near(time, run.times[i], 0.01) end
  for i, start in ipairs(model.starts) do
    if start < model.stop - 0.01 then
      assert.is_number(run.starts[i], "job " .. i .. " has not started")
      assert.near(start, run.starts[i], 0.01)
    elseif start > model.stop + 0.01 then
      assert.is_nil(run.starts[i])
    end
  end
end

-- ---- pipeline_async ----

local WAYS = { "parks", "parks", "at once", "starts", "raises", "raises later", "closes twice", "puts after" }

local function random_pipeline(seed)
  local random = generator(seed + 1000000)
  local case = { ordered = random(1, 2) == 1, n = random(1, 6), jobs = {} }
  for i = 1, random(0, 25) do
    case.jobs[i] = { ms = random(0, 40), way = one_of(WAYS, random), results = random(0, 3) }
  end
  case.window = case.ordered and random(1, 2) == 1 and case.n + random(0, 5) or nil
  case.handler = random(1, 2) == 1
  case.takes = random(1, 3) == 1 and random(0, 20) or math.huge -- after so many values `to` is closed
  case.pause = random(1, 4) == 1 and random(1, 20) or 0
  return case
end

-- The results of a job, and whether it raises.
local function results_of(case, i)
  local job, list = case.jobs[i], {}
  local raises = job.way == "raises" or job.way == "raises later"
  if job.way ~= "raises" then
    for k = 1, job.results do list[k] = i * 10 + k end
  end
  if raises and case.handler then list[#list + 1] = -i end
  return list, raises
end

local function check_pipeline(seed)
  local case = random_pipeline(seed)
  local started, running, peak, closing = {}, 0, 0, {}

  local function finish(i, result)
    -- It lasts until its channel closes.
    if not closing[i] then running = running - 1 end
    closing[i] = true
    result:close()
  end

  local function work(i, result)
    local job = case.jobs[i]
    if job.way ~= "at once" then rn.sleep(job.ms) end
    for k = 1, job.results do result:put(i * 10 + k) end
    if job.way == "raises later" then
      running = running - 1
      error("no " .. i, 0)
    end
    finish(i, result)
    if job.way == "closes twice" then finish(i, result) end
    if job.way == "puts after" then assert(result:put "too late" == false) end
  end

  local function af(i, result)
    assert(not started[i], "a job has been started twice")
    started[i] = true
    running = running + 1
    peak = math.max(peak, running)
    local way = case.jobs[i].way
    if way == "raises" then
      running = running - 1
      error("no " .. i, 0)
    elseif way == "starts" then
      rn.go(function()
        rn.rename "of a job"
        work(i, result)
      end)
    else
      work(i, result)
    end
  end

  local list = {}
  for i = 1, #case.jobs do list[i] = i end
  local from, to = rn.to_chan(list), rn.chan()
  local options = {
    window = case.window,
    ex_handler = case.handler and function(err) return -tonumber(err:match "^no (%d+)$") end or nil,
  }
  local pipeline = case.ordered and rn.pipeline_async or rn.pipeline_async_unordered
  pipeline(case.n, to, af, from, true, options)
  local taken, n = {}, 0
  while n < case.takes do
    local value = to:take()
    if value == nil then break end
    n = n + 1
    taken[n] = value
    if case.pause > 0 then rn.sleep(case.pause) end
  end
  local over = to:closed()
  to:close()
  rn.sleep(0.001) -- a value that has been taken already
  local so_far = #started
  rn.sleep(1000)
  assert.equal(so_far, #started)
  assert.equal(0, running)
  assert.is_true(peak <= case.n)
  repeat until from:take() == nil
  rn.sleep(0.01)
  assert.same({}, stage.others())

  local expected, told = {}, 0
  for i = 1, #case.jobs do
    local results, raises = results_of(case, i)
    table.move(results, 1, #results, #expected + 1, expected)
    if raises and started[i] and not case.handler then told = told + 1 end
  end
  assert.equal(told, #stage.heard())
  if over then assert.equal(#case.jobs, #started) end
  if case.ordered then
    assert.same(table.move(expected, 1, n, 1, {}), taken)
    if over then assert.equal(#expected, n) end
  else
    -- Each job's results in order; none twice, and all of them in the end.
    local last, seen = {}, {}
    for _, value in ipairs(taken) do
      assert.is_nil(seen[value])
      seen[value] = true
      local i = value < 0 and -value or value // 10
      assert.is_true(started[i] and (value < 0 or value > (last[i] or 0)))
      last[i] = value < 0 and math.huge or value
    end
    if over then
      assert.equal(#expected, n)
      for _, value in ipairs(expected) do assert.is_true(seen[value]) end
    end
  end
end

-- Runs a check for every seed, and names the one that fails.
local function each_seed(what, check)
  for seed = 1, SEEDS do
    local ok, err = pcall(sim.run, check, { seed = seed, shuffle = seed % 2 == 0 }, seed)
    if not ok then
      local text = type(err) == "table" and err.message or err
      error(("%s, seed %d: %s"):format(what, seed, tostring(text)), 0)
    end
  end
end

describe("random jobs", function()
  before_each(stage.open)
  after_each(stage.close)

  it("do what the model predicts: pmap #ci", function()
    rn.on_error(function() end) -- what cancelled jobs raise, and errors that came after another in the order
    each_seed("pmap", check_pmap)
  end)

  it("come to the same in any order of events: pipeline_async", function()
    each_seed("pipeline_async", check_pipeline)
  end)
end)
