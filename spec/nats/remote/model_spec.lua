-- Remote stages in simulated worlds: the protocol of submitter and workers over a server that loses and delays messages
-- and crashes, over connections that fail, while workers are killed, jobs kill theirs, and the program gives up jobs:
-- each after a timeout, some by cancelling, or all by closing the channel of results. A failure names its case, made as
-- small as possible. At the end the same finds faults that are planted in the protocol.
local rn = require "runnel"
local copy = require "spec.support.copy"
local living = require "runnel.internal.living"
local long = require "spec.support.long"
local nats_world = require "spec.support.queue.nats_world"
local program = require "spec.support.model.program"

local SEEDS = tonumber(os.getenv "SEEDS") or long.times(12, 1000)
local STARTS = 5

-- Random numbers, the same for the same seed.
local function generator(seed)
  local state = (seed * 2654435761 + 12345) % 2 ^ 32
  local function random()
    state = (state * 1664525 + 1013904223) % 2 ^ 32
    return state / 2 ^ 32
  end
  for _ = 1, 5 do random() end
  return random, function(low, high) return low + math.floor(random() * (high - low + 1)) end
end

local KINDS = { "value", "value", "value", "nothing", "raises", "long", "poison" }

local function random_case(seed)
  local random, integer = generator(seed)
  local case = { seed = seed, n = integer(1, 8), is_async = random() < 0.3, jobs = {}, workers = {}, events = {} }
  case.poisonous = random() < 0.4
  for i = 1, integer(1, 20) do
    local kind = KINDS[integer(1, case.poisonous and #KINDS or #KINDS - 1)]
    case.jobs[i] = { kind = kind, ms = kind == "long" and integer(500, 9000) or integer(0, 60) }
  end
  for i = 1, integer(1, 3) do case.workers[i] = { n = integer(1, 5) } end
  local is_rough = random() < 0.7
  case.lost = is_rough and random() < 0.5 and random() * 0.03 or 0
  case.delay = random() < 0.5 and random() * 100 or 1
  case.faults = {}
  for _, name in ipairs { "reset", "delay", "silent", "leader" } do
    if is_rough and random() < 0.2 then case.faults[name] = integer(1, 2) end
  end
  case.sync_interval = random() < 0.3 and 60000 or 0
  for i = 1, is_rough and integer(0, 3) or 0 do
    local kind = ({ "kill", "crash", "cut", "cut worker", "drain" })[integer(1, 5)]
    case.events[i] = { kind = kind, at = integer(0, 3000), ms = integer(1, 2000), worker = integer(1, 3) }
  end
  -- How the program ends jobs before their results come.
  case.gives_up = ({ "none", "none", "close", "timeout", "cancel" })[integer(1, case.is_async and 3 or 5)]
  case.gives_up_at = integer(5, 3000)
  for _, job in ipairs(case.jobs) do job.cancelled_at = random() < 0.5 and integer(5, 3000) or nil end
  return case
end

local GIVEN_UP, LATE, CANCELLED = "gave up", "late", "cancelled"

-- How long after a job was given up it may still run where no message is lost or overtakes others, and no worker ends.
local STOPS_WITHIN <const> = 300

-- What a job comes to.
local function result_of(case, i)
  local job = case.jobs[i]
  if job.kind == "raises" then return "error " .. i end
  if job.kind == "poison" then return GIVEN_UP end
  if job.kind == "nothing" then return nil end
  return i
end

-- What the program gets, if the jobs of the set `given_up` were given up, to which their timeouts belong.
local function expected_of(case, given_up)
  local list = {}
  for i = 1, #case.jobs do
    local result = result_of(case, i)
    if given_up[i] then result = case.gives_up == "timeout" and LATE .. i or nil end
    if result ~= nil then
      list[#list + 1] = result
      if case.is_async and result == i then list[#list + 1] = -i end
    end
  end
  return list
end

-- What a pipeline returns whose jobs are single calls, of which some are cancelled at their times.
local function call_each(case, remote, gave_up)
  local outcomes, results = {}, rn.chan(#case.jobs)
  for i, job in ipairs(case.jobs) do
    local block = rn.go(remote, i)
    outcomes[i] = rn.go(function()
      local value, err = block:take()
      if err == nil or err == CANCELLED then return value end
      return err:find "was given up" and GIVEN_UP or err
    end)
    if job.cancelled_at then
      rn.go(function()
        rn.sleep(job.cancelled_at)
        if block:closed() then return end
        gave_up(i)
        rn.cancel(block, CANCELLED)
      end)
    end
  end
  rn.go(function()
    for _, outcome in ipairs(outcomes) do
      local value = outcome:take()
      if value ~= nil then results:put(value) end
    end
    results:close()
  end)
  return results
end

-- Runs a case at a place (spec/support/queue/nats_world.lua); raises what is wrong.
local function perform(place, case)
  local random = generator(case.seed + 7)
  local starts, peaks, over, losses = {}, {}, false, 0
  local given_up, gave_up_at, ran_until = {}, {}, {} -- by job
  local function gave_up(i) given_up[i], gave_up_at[i] = true, rn.now() end
  local is_calm = case.lost == 0 and not next(case.faults) and #case.events == 0 and not case.poisonous
    and case.delay < 50

  local hosts, workers, ended = {}, {}, rn.chan(100)
  local function kill(number)
    ended:put(number)
    hosts[number]:kill()
  end
  rn.go(function()
    for number in ended do
      rn.go(function()
        rn.sleep(200)
        if not over then hosts[number]:restart() end
      end)
    end
  end)

  local function start_worker(number)
    local running = 0
    local function work(i)
      starts[i] = (starts[i] or 0) + 1
      running = running + 1
      peaks[number] = math.max(peaks[number] or 0, running)
      local function leave()
        running, ran_until[i] = running - 1, rn.now()
      end
      local leaving <close> = setmetatable({}, { __close = leave }) -- luacheck: ignore 211
      local job = case.jobs[i]
      if job.kind == "poison" then kill(number) end
      rn.sleep(job.ms)
      if job.kind == "raises" then error("error " .. i, 0) end
      if job.kind ~= "nothing" then return i end
    end
    local function work_async(i, out)
      local closing <close> = out -- luacheck: ignore 211
      local result = work(i)
      if result then
        out:put(result)
        out:put(-result)
      end
    end
    local _
    _, hosts[number] = place:on_host("worker" .. number, function(conn)
      running = 0
      local worker = nats_world.insist(function()
        local ok, found = pcall(conn.serve, conn, "job", case.workers[number].n, case.is_async and work_async or work)
        return ok and found
      end)
      workers[number] = { worker = worker, conn = conn }
    end)
  end
  for number = 1, #case.workers do start_worker(number) end

  local remote, conn = place:remote { starts = STARTS + (case.lost > 0 and 4 or 0) }
  function place.intercept()
    if random() < case.lost then return false end
    if case.delay > 1 and random() < 0.2 then return random() * case.delay end
  end
  local function cut(name, which, ms)
    place:reset(which)
    place.world:partition(name, "nats")
    rn.sleep(ms)
    place.world:heal(name, "nats")
  end
  for _, event in ipairs(case.events) do
    rn.go(function()
      rn.sleep(event.at)
      if over then return end
      local number = (event.worker - 1) % #case.workers + 1
      if event.kind == "kill" then
        kill(number)
      elseif event.kind == "drain" then
        workers[number].worker:drain()
        kill(number)
      elseif event.kind == "crash" then
        losses = losses + 1
        place.server:crash()
        rn.sleep(event.ms)
        place.server:restart()
      elseif event.kind == "cut" then
        losses = losses + 1
        cut("program", conn, event.ms)
      else
        cut("worker" .. number, workers[number].conn, event.ms)
      end
    end)
  end

  local list, taken = {}, {}
  for i = 1, #case.jobs do list[i] = i end
  local function ex_handler(err, i)
    if tostring(err):find "was given up" then return GIVEN_UP end
    if not rn.is_timeout(err) then return err end
    gave_up(i)
    return LATE .. i
  end
  local results
  if case.is_async then
    results = rn.pipeline_async(case.n, rn.chan(), remote, rn.to_chan(list), true, { ex_handler = ex_handler })
  elseif case.gives_up == "cancel" then
    results = call_each(case, remote, gave_up)
  else
    results = rn.pmap(case.n, remote, list, {
      ex_handler = ex_handler, timeout = case.gives_up == "timeout" and case.gives_up_at or nil,
    })
  end
  local was_closed = false
  if case.gives_up == "close" then
    rn.go(function()
      rn.sleep(case.gives_up_at)
      was_closed = not results:closed()
      results:close()
    end)
  end
  local deadline = rn.timeout(600000)
  while true do
    local value, port = rn.alts({ results, deadline }, { priority = true })
    if port == deadline then error(("lost: only %d results came"):format(#taken), 0) end
    if value == nil then break end
    taken[#taken + 1] = value
  end
  -- What is left in the stream is noticed, and removed, by workers.
  rn.sleep(90000)
  over = true
  ended:close()
  local expected = expected_of(case, given_up)
  if was_closed then -- what came is the beginning
    for i = #taken + 1, #expected do expected[i] = nil end
  end
  assert.same(expected, taken)
  assert.equal(0, remote:stats().waiting)
  assert.equal(0, place:count(), "jobs are left in the stream")
  for number, peak in pairs(peaks) do assert.is_true(peak <= case.workers[number].n, "too many jobs in a worker") end
  local is_counted = case.lost == 0 and not next(case.faults) and case.sync_interval == 0
  for i, job in ipairs(case.jobs) do
    if job.kind ~= "poison" and not given_up[i] and not was_closed then assert.is_true((starts[i] or 0) >= 1) end
    if job.kind == "poison" and is_counted then
      -- The first start is not counted: one more for each message of the job that the server has lost since,
      -- or a worker has removed while the submitter was away.
      assert.is_true((starts[i] or 0) <= STARTS + losses, "a job has ended too many workers")
    end
    if is_calm then
      -- With delays a message may overtake another one of its connection: a job that was sent again comes after the
      -- acknowledgement that its submitter sent later, and is a new job for the stream.
      local is_ordered = case.delay <= 1
      assert.is_true((starts[i] or 0) <= (is_ordered and 1 or 2), "a job was started more than once")
      local after = is_ordered and given_up[i] and ran_until[i] and ran_until[i] - gave_up_at[i] or 0
      assert.is_true(after <= STOPS_WITHIN, "a job ran on although it was given up")
    end
  end
  for _, one in ipairs(workers) do
    assert.equal(0, one.worker:stats().running)
    assert.equal(0, #one.conn.core.beats.list, "a job is kept alive that has ended")
    one.worker:stop()
  end
  remote:close()
end

-- Runs a case in a simulated world; returns whether it went well, and what was wrong.
local function try(case)
  local reports = {}
  local before = rn.on_error(function(err, trace)
    if not tostring(err):find "for now" then reports[#reports + 1] = tostring(err) .. "\n" .. tostring(trace) end
  end)
  local ok, err = pcall(nats_world.program, function(place) perform(place, copy(case)) end,
    { sync_interval = case.sync_interval }, { seed = case.seed, shuffle = case.seed % 2 == 0 }, case.faults)
  rn.on_error(before)
  if ok and #reports > 0 then ok, err = false, "reported: " .. reports[1] end
  return ok, type(err) == "table" and err.message or err
end

-- Makes a failing case smaller: without some of its jobs, workers and events, and with fewer faults.
local function shrink(case)
  local err
  local function smaller(change)
    local changed = copy(case)
    change(changed)
    local ok, why = try(changed)
    if not ok then case, err = changed, why end
    return not ok
  end
  repeat
    local progress = false
    for _, what in ipairs { "jobs", "events", "workers" } do
      for i = #case[what], 1, -1 do
        local may_go = what == "events" or #case[what] > 1
        if may_go and smaller(function(c) table.remove(c[what], i) end) then progress = true end
      end
    end
    for name in pairs(copy(case.faults)) do
      if smaller(function(c) c.faults[name] = nil end) then progress = true end
    end
    for _, what in ipairs { "lost", "sync_interval" } do
      if case[what] > 0 and smaller(function(c) c[what] = 0 end) then progress = true end
    end
    if case.delay > 1 and smaller(function(c) c.delay = 1 end) then progress = true end
    if case.gives_up ~= "none" and smaller(function(c) c.gives_up = "none" end) then progress = true end
  until not progress
  return case, err
end

-- Runs random cases, those from `begin` on first; returns the first seed that fails.
local function first_failure(seeds, begin)
  for i = 0, seeds - 1 do
    local seed = (i + (begin or 1) - 1) % seeds + 1
    local case = random_case(seed)
    if not try(case) then return seed, case end
  end
end

-- Calls f while a part of the source of a module is changed.
local function with_changed(name, from, to, f)
  local path = assert(package.searchpath("runnel." .. name, package.path))
  local file <close> = assert(io.open(path))
  local source = file:read "a"
  local first, last = source:find(from, 1, true)
  assert(first, "not in the source: " .. from)
  local text = source:sub(1, first - 1) .. to .. source:sub(last + 1)
  local before, known = {}, {}
  local function restore()
    for full_name in pairs(package.loaded) do
      if full_name:find "^runnel%.nats" or full_name:find "^runnel%.queue" then package.loaded[full_name] = nil end
    end
    for full_name, module in pairs(before) do package.loaded[full_name] = module end
    package.preload["runnel." .. name] = nil
    for key, list in pairs(known) do living[key] = list end
  end
  for full_name, module in pairs(package.loaded) do before[full_name] = module end
  for key, list in pairs(living) do known[key] = list end
  local restoring <close> = setmetatable({}, { __close = restore }) -- luacheck: ignore 211
  for full_name in pairs(before) do
    local is_part = full_name:find "^runnel%.nats" or full_name:find "^runnel%.queue"
    if is_part and full_name ~= "runnel.nats.core" then package.loaded[full_name] = nil end
  end
  package.preload["runnel." .. name] = assert(load(text, "=runnel." .. name))
  return f()
end

describe("a remote stage #heavy", function()
  if nats_world.missing then return pending(nats_world.missing) end

  it("gives each job's results, in order and once, whatever happens on the way", function()
    local seed, case = first_failure(SEEDS)
    if not seed then return end
    local small, err = shrink(case)
    local _, why = try(small)
    error(("seed %d: %s\n%s"):format(seed, tostring(err or why), program.text(small)), 0)
  end)

  -- Each fault is found by some case: today by the seed at the end, if that is not among the first. `long`: the case
  -- takes more than half a second, since its jobs kill workers again and again.
  local FAULTS = {
    { "a job is not sent again", "nats.internal.upkeep", "self:send(job, true)", "" },
    { "a job that the stream does not deliver any more is left there", "nats.internal.upkeep",
      "job.is_replaced = self.stream:is_stuck(self:subject(job))", "job.is_replaced = false", 280 },
    { "a job is left there while the server redelivers ones that the stream has lost", "nats.internal.job_stream",
      " or has_lost_numbers(self, answer)", "", 6566 },
    { "a worker does not say that a job goes on", "nats.internal.reader",
      "self:extend(message)\n  end\n  self.take", "end self.take", 23 },
    { "a job is acknowledged before its result", "nats.internal.reader", "self:extend(message)\n  end\n  self.take",
      'self.conn.core:publish(ack, "+ACK") end self.take', 23 },
    { "jobs run beside one that must run alone", "queue.call", "worker.running:wait(1)", "", 8, long = true },
    { "starts are not counted", "queue.call", "count.starts = count.starts + 1", "", 31, long = true },
    { "a job that was delivered before starts without its count", "queue.call",
      'if self.message.again ~= "first" and', "if false and", 31, long = true },
    { "a request for jobs that was lost is not repeated", "nats.internal.reader",
      "if event or is_late and is_silent(self)",
      "if event", 70, long = true },
    { "too many jobs run", "queue.worker", "and self.running.count < self.n do", "do", 1543 },
    { "a job that was given up runs on", "nats.remote", "local function cancel() self.conn.core:publish(",
      "local function cancel() tostring(", 30 },
    { "a job that was given up is not forgotten", "nats.remote", "function Job:__close() self.remote:drop(self) end",
      "function Job:__close() end", 30 },
    { "a second result counts", "nats.remote", "self.jobs[job.key] = nil\n", "" },
  }
  for _, fault in ipairs(FAULTS) do
    local what, name, from, to, begin = table.unpack(fault)
    -- This is about Lua code, so sanitizers find nothing in it.
    it(("would not: %s #slow #heavy%s"):format(what, fault.long and " #long" or ""), function()
      assert.is_number(with_changed(name, from, to, function() return first_failure(10000, begin) end))
    end)
  end
end)
