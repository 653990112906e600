---Simulations of random flows. A flow is made at random, and runs while a driver pauses, resumes, replaces, injects,
---taps, connects, disconnects, changes the numbers of workers, and kills go blocks, at random times. A log records what
---each stage gets and puts; the end of the run checks it:
---
---1. Each put of a stage, also by go blocks of its calls, has reached each stage behind it once, or was left for it.
---   A killed put has reached all of them or none. With `keeps`, the puts of a failed try have reached none, and
---   neither have puts after the end of the call.
---2. A value that a stage has got was done once, or is once in an error, or was left once.
---3. A stage that keeps the order puts in the order of its values.
---4. After `replace` only the new function is called; a paused stage takes nothing.
---5. No go block remains.
---
---Each value is a string, the path that it has gone: "s1.4>a>b/2" is the second value that stage b has put for
---"s1.4>a". So equal values are a fault.

local rn = require "runnel"
local flow = require "runnel.flow"

local flows = {}

local random = math.random

local function chance(percent) return random(100) <= percent end

local function pick(list) return list[random(#list)] end

-- A number that depends on a text only.
local function hash(text)
  local h = 7
  for i = 1, #text do h = (h * 31 + text:byte(i)) % 1000003 end
  return h
end

local function wait_at_random()
  if chance(30) then rn.sleep(random(5)) elseif chance(30) then rn.yield() end
end

-- ---- what is written down ----

-- Makes the log of a flow. By stage:
--   begun     the values, in the order of their first calls
--   tried     how often the function was called, by value
--   returned  how many of these calls have returned
--   failures  how many errors were recorded, by value
---@return flows.Log
local function new_log()
  return { stages = {}, puts = {}, problems = {}, records = {}, taps = {}, injected = 0, kills = 0, counts = {} }
end

local function problem(log, ...) log.problems[#log.problems + 1] = (...):format(select(2, ...)) end

local function add(map, key) map[key] = (map[key] or 0) + 1 end

local function count(log, what) add(log.counts, what) end

-- ---- what stages do ----

-- How many stages a value has gone through. In a cycle the values become fewer, until none continues.
local function age(value) return select(2, value:gsub(">", "")) end

local OLD, OLDEST = 4, 9

-- The fate of a value in a stage; the same each time, except for the try and the version of the function.
local function fate(stage, value)
  local h = hash(stage.name .. value)
  if stage.fails and h % 9 == 0 then return "fail once" end
  if stage.fails and h % 9 == 1 then return "fail" end
  if stage.is_late and h % 9 == 2 then return "late" end
  if h % 9 == 3 or age(value) > OLDEST then return "nothing" end
  return "pass"
end

-- Records that a stage begins a value, and returns the number of this try.
local function begin(log, stage, value, version)
  local entry = log.stages[stage.name]
  if not entry.tried[value] then
    entry.begun[#entry.begun + 1] = value
    if stage.is_paused then problem(log, "%s has taken %s, but is paused", stage.name, value) end
  end
  add(entry.tried, value)
  if version ~= stage.version then
    problem(log, "%s: version %d was called for %s, not %d", stage.name, version, value, stage.version)
  end
  return entry.tried[value]
end

-- Whether the call fails by itself. A function that was replaced once no longer fails, if there is no edge for errors.
local function must_fail(stage, value, try, version)
  local what = fate(stage, value)
  if what == "fail once" then return try == 1 end
  return what == "fail" and not (version > 1 and not stage.has_error_edge)
end

local function note_put(log, stage, value, output, from, try)
  local entry = { stage = stage, value = value, output = output, from = from, try = try, done = false }
  log.puts[#log.puts + 1] = entry
  return entry
end

-- A go block puts that its call does not wait for. If the call has ended before, the put raises, and has not put. If it
-- ends meanwhile, the value has no certain place in the order.
local function put_late(log, stage, value, put, try)
  local result = ("%s>%s/lt%d"):format(value, stage.name, try)
  local entry = note_put(log, stage, result, "out", value, try)
  entry.is_late = true
  rn.go(function()
    wait_at_random()
    local ok, err = pcall(put, result)
    entry.done, entry.was_refused = ok, not ok
    if ok then return count(log, "puts by go blocks") end
    count(log, "late puts")
    if not err:find "the value was not put: flow: a call of .- has ended" then problem(log, "late put: %s", err) end
  end)
end

-- The function of a stage, as a function or as a step.
local function behaviour(log, stage, version)
  local function go_on(value, try)
    if fate(stage, value) == "late" and try == 1 then rn.sleep(1000) end
    if must_fail(stage, value, try, version) then error("bad " .. value, 0) end
  end

  if not stage.is_step then
    return function(value)
      local try = begin(log, stage, value, version)
      wait_at_random()
      go_on(value, try)
      add(log.stages[stage.name].returned, value)
      if fate(stage, value) == "nothing" then return nil end
      local result = value .. ">" .. stage.name
      note_put(log, stage, result, "out", value, try).done = true
      return result
    end
  end
  return function(value, put)
    local try = begin(log, stage, value, version)
    wait_at_random()
    local n = fate(stage, value) == "nothing" and 0 or hash(value) % (age(value) > OLD and 2 or 3)
    local function put_one(i)
      local output = stage.outs and hash(value .. i) % 2 == 0 and stage.outs[1] or nil
      local result = ("%s>%s/%dt%d"):format(value, stage.name, i, try)
      local entry = note_put(log, stage, result, output or "out", value, try)
      put(result, output)
      entry.done = true
      wait_at_random()
    end
    if stage.has_helpers then
      rn.scope(function(scope)
        for i = 1, n do scope:go(put_one, i) end
        wait_at_random()
      end)
    else
      for i = 1, n do put_one(i) end
    end
    if stage.has_late_puts and chance(40) then put_late(log, stage, value, put, try) end
    go_on(value, try)
    add(log.stages[stage.name].returned, value)
    if n == 0 or age(value) > OLD and n == 1 then return nil end
    local output = stage.outs and chance(30) and stage.outs[1] or nil
    local result = ("%s>%s/rt%d"):format(value, stage.name, try)
    note_put(log, stage, result, output or "out", value, try).done = true
    return result, output
  end
end

-- ---- random graphs ----

local function make_stage(name, plan)
  local stage = {
    name = name, version = 1, is_step = chance(50), n = chance(50) and 1 or random(2, 4), ordered = chance(70),
    fails = chance(40), is_paused = false, edges = {}, states = 0,
  }
  if chance(25) then
    stage.tries = random(2, 3)
    stage.retry = random(0, 3)
  end
  if chance(15) then stage.timeout, stage.is_late = 60, true end
  stage.keeps = (stage.tries or 1) > 1 or stage.timeout ~= nil
  stage.has_state = chance(30)
  if stage.is_step and chance(40) then stage.outs = { "odd" } end
  stage.has_helpers = stage.is_step and chance(40)
  stage.has_late_puts = stage.has_helpers and chance(30)
  stage.buffer = pick { 0, 1, 2, 16 }
  plan[#plan + 1] = stage
  return stage
end

local function options_of(log, stage)
  local options = {
    n = stage.n, ordered = stage.ordered, tries = stage.tries, backoff = stage.retry, timeout = stage.timeout,
    outs = stage.outs, buffer = stage.buffer, input = stage.input,
  }
  options[stage.is_step and "step" or 1] = behaviour(log, stage, 1)
  if stage.has_state then
    function options.init()
      if chance(20) then rn.sleep(random(3)) end
      stage.states = stage.states + 1
      return {}
    end
    function options.close() stage.states = stage.states - 1 end
  end
  return options
end

-- A source of some kind; returns its description for flow, and the driver of an input channel.
local function make_source(log, stage)
  local n = random(0, 12)
  local function value(i) return ("%s.%d"):format(stage.name, i) end
  local function sent(i) note_put(log, stage, value(i), "out", nil, 1).done = true end
  local kind = random(4)
  if kind == 1 then
    local list = {}
    for i = 1, n do list[i] = value(i) end
    stage.list = list
    return { from = list }
  elseif kind == 2 then
    local i = 0
    return { from = function()
      if chance(30) then rn.sleep(random(8)) end
      if i == n then return nil end
      i = i + 1
      sent(i)
      return value(i)
    end }
  elseif kind == 3 then
    local i = 0
    return { source = function(put) -- called again, it goes on
      while i < n do
        if chance(40) then rn.sleep(random(6)) end
        i = i + 1
        local entry = note_put(log, stage, value(i), "out", nil, 1)
        put(value(i))
        entry.done = true
      end
    end }
  end
  local ch = rn.chan(pick { 0, 3 })
  stage.channel = ch
  stage.feed = function()
    for i = 1, n do
      if chance(40) then rn.sleep(random(4)) end
      if not ch:put(value(i)) then return end
    end
    ch:close()
  end
  return ch
end

local function connect(spec, from, output, to, grows)
  local text = ("%s%s %s %s"):format(from.name, output == "out" and "" or "." .. output, grows and ">>" or ">", to.name)
  spec[#spec + 1] = text
  from.edges[#from.edges + 1] = { output = output, to = to, text = text }
end

local function has_edge(stage, output, to)
  for _, edge in ipairs(stage.edges) do
    if edge.output == output and edge.to == to then return true end
  end
end

-- Stages that lead to later ones, each after a source or an earlier stage.
local function make_middle(log, spec, plan, sources)
  local middle = {}
  for i = 1, random(1, 5) do
    local stage = make_stage("m" .. i, plan)
    middle[i] = stage
    local from = pick(i == 1 and sources or chance(50) and sources or { table.unpack(middle, 1, i - 1) })
    connect(spec, from, from.outs and chance(40) and "odd" or "out", stage, chance(15))
    stage.input = chance(15)
  end
  for _, source in ipairs(sources) do
    if not source.edges[1] then connect(spec, source, "out", pick(middle), false) end
  end
  for i, stage in ipairs(middle) do
    for j = i + 1, #middle do -- copies
      if chance(20) and not has_edge(stage, "out", middle[j]) then
        connect(spec, stage, "out", middle[j], chance(15))
      end
    end
    local back = middle[random(i)]
    if chance(15) and not log.counts.cycles and not has_edge(stage, "out", back) then -- one cycle
      connect(spec, stage, "out", back, true)
      count(log, "cycles")
    end
  end
  return middle
end

-- A last stage; it gets no failing values.
local function last_stage(name, plan)
  local stage = make_stage(name, plan)
  stage.is_last, stage.is_step, stage.fails, stage.keeps, stage.is_late, stage.n = true, false, false, false, false, 1
  stage.tries, stage.timeout, stage.outs, stage.has_state = nil, nil, nil, false
  return stage
end

-- The stage for the errors of some stages.
local function make_bad(log, spec, plan, middle)
  local failing = {}
  for _, stage in ipairs(middle) do
    if chance(50) then failing[#failing + 1] = stage end
  end
  if not failing[1] then return end
  local bad = last_stage("bad", plan)
  for _, stage in ipairs(failing) do
    stage.has_error_edge = true
    connect(spec, stage, "error", bad, chance(20))
  end
  spec.bad = { function(record)
    if not log.records[record] then add(log.stages[record.stage].failures, record.value or "") end
    log.records[record] = true -- it comes again if this go block is killed
    if chance(20) then rn.sleep(1) end
  end, buffer = bad.buffer }
end

-- A stage that makes lists, and one behind it that takes them.
local function make_batch(log, spec, plan, middle)
  local batch, lists = last_stage("batch", plan), last_stage("lists", plan)
  connect(spec, pick(middle), "out", batch, false)
  spec.batch = flow.batch(random(4), chance(50) and random(10) or nil)
  spec.lists = function(list)
    if not log.records[list] then
      for _, value in ipairs(list) do add(log.stages.batch.tried, value) end
    end
    log.records[list] = true
    wait_at_random()
  end
  connect(spec, batch, "out", lists, false)
end

---Makes a random graph.
---@return table spec what flow() gets
---@return table[] plan the stages
local function make_graph(log)
  local spec, plan, sources = {}, {}, {}
  for i = 1, random(1, 2) do
    local source = last_stage("s" .. i, plan)
    source.is_last, source.is_source = false, true
    spec[source.name] = make_source(log, source)
    sources[i] = source
  end
  local middle = make_middle(log, spec, plan, sources)
  make_bad(log, spec, plan, middle)
  if chance(40) then
    local out = last_stage("out", plan)
    out.channel = rn.chan(pick { 0, 2 })
    spec.out = out.channel
    connect(spec, pick(middle), "out", out, false)
  end
  if chance(30) then make_batch(log, spec, plan, middle) end
  for _, stage in ipairs(middle) do
    stage.is_middle = true
    spec[stage.name] = options_of(log, stage)
  end
  for _, stage in ipairs(plan) do log.stages[stage.name] = { begun = {}, tried = {}, returned = {}, failures = {} } end
  return spec, plan
end

-- ---- the driver ----

local function stages_of(plan, test)
  local list = {}
  for _, stage in ipairs(plan) do
    if test(stage) then list[#list + 1] = stage end
  end
  return list
end

local function by_name(plan, name)
  for _, stage in ipairs(plan) do
    if stage.name == name then return stage end
  end
end

local function is_middle(stage) return stage.is_middle end

local function pause(log, f, stage)
  count(log, "pauses")
  f:pause(stage.name)
  rn.sleep(0.01) -- what was taken before begins
  stage.is_paused = true
end

local function resume(f, stage)
  stage.is_paused = false
  f:resume(stage.name)
end

local function replace(log, f, stage)
  count(log, "replacements")
  stage.version = stage.version + 1
  f:replace(stage.name, behaviour(log, stage, stage.version))
end

local function kill_one(log, name)
  local list = {}
  for _, entry in ipairs(rn.ps()) do
    if entry.name:find("^" .. name .. "%.") then list[#list + 1] = entry.result end
  end
  if not list[1] then return end
  log.kills = log.kills + 1
  count(log, "kills")
  rn.cancel(pick(list), "killed")
end

local function inject(log, f, stage)
  for _ = 1, random(3) do
    log.injected = log.injected + 1
    local value = "i" .. log.injected
    if pcall(f.inject, f, stage.name, value) then count(log, "injections") end
    if stage.edges[1] and stage.edges[1].output == "out" and pcall(f.inject, f, stage.name .. ".out", "b" .. value) then
      note_put(log, stage, "b" .. value, "out", nil, 1).done = true
      count(log, "injections")
    end
  end
end

-- Resumes holding stages with another function.
local function repair(log, f, plan)
  for _, row in ipairs(f:stats()) do
    local stage = row.state == "held" and by_name(plan, row.stage)
    if stage then
      count(log, "holds")
      if stage.is_middle then replace(log, f, stage) end
      resume(f, stage)
    end
  end
end

local function change_edge(log, f, stage)
  local edge = stage.edges[1] and pick(stage.edges)
  if not edge or edge.output == "error" then return end
  edge.changed = true
  if not pcall(f.disconnect, f, edge.text) then return end
  count(log, "changes of edges")
  wait_at_random()
  pcall(f.connect, f, edge.text) -- its stages may have ended
end

local acts = {
  function(log, f, _, plan) pause(log, f, pick(plan)) end,
  function(_, f, _, plan) resume(f, pick(plan)) end,
  function(log, f, stage) replace(log, f, stage) end,
  function(log, f, stage) inject(log, f, stage) end,
  function(_, f, stage)
    local n = random(4)
    if pcall(f.workers, f, stage.name, n) then stage.n_max = math.max(stage.n_max, n) end
  end,
  function(log, f, stage)
    local tap = f:tap(stage.name, 3)
    log.taps[#log.taps + 1] = tap
    if chance(50) then tap:close() end
  end,
  function(_, f) assert(#tostring(f) > 0) end,
  function(log, f, _, _, options) if options.kills then kill_one(log, f.name) end end,
  function(log, f, stage, _, options) if options.edges then change_edge(log, f, stage) end end,
}

-- Performs a random action.
local function act(log, f, plan, options) pick(acts)(log, f, pick(stages_of(plan, is_middle)), plan, options) end

-- ---- the checks ----

-- Adds the left values to those that reached their stages.
local function add_left(log, plan, came, entry)
  local name, value = entry.stage, entry.value
  local stage = by_name(plan, name)
  if name == "lists" then
    if not log.records[value] then
      for _, one in ipairs(value) do add(came.batch, one) end
    end
  elseif stage.is_source then -- it was paused, with a value in hand
    for _, put in ipairs(log.puts) do
      if put.value == value then put.done = false end
    end
  elseif name == "bad" then
    if not entry.begun then add(log.stages[value.stage].failures, value.value or "") end
  elseif not (entry.begun and log.stages[name].tried[value]) then
    add(came[name], value)
  end
end

-- How often each value has reached a stage: the stage has begun it, or it was left for the stage.
local function arrivals(log, plan, left)
  local came = {}
  for _, stage in ipairs(plan) do
    came[stage.name] = {}
    for value, n in pairs(log.stages[stage.name].tried) do
      came[stage.name][value] = stage.is_middle and 1 or n
    end
  end
  for _, entry in ipairs(left) do add_left(log, plan, came, entry) end
  return came
end

-- Whether the values of a put must arrive: where puts are kept until the step returns, only the last try counts.
local function counts(log, entry)
  local stage = entry.stage
  if not stage.keeps or not entry.from then return true end
  local begun = log.stages[stage.name]
  return (begun.returned[entry.from] or 0) > 0 and begun.tried[entry.from] == entry.try
end

local function check_puts(log, came)
  for _, entry in ipairs(log.puts) do
    local n, targets = 0, {}
    for _, edge in ipairs(entry.stage.edges) do
      if edge.output == entry.output and not edge.changed then
        targets[#targets + 1] = edge.to.name
        n = n + (came[edge.to.name][entry.value] or 0)
      end
    end
    local want = counts(log, entry) and not entry.was_refused and #targets or 0
    local is_open = not entry.done -- the put was killed, or the flow was stopped, in it
    if n ~= want and not (is_open and n == 0) then
      problem(log, "%s, put by %s on %s (%s): %d times with %s instead of %d", entry.value, entry.stage.name,
        entry.output, entry.done and "done" or "not done", n, table.concat(targets, ", "), want)
    end
  end
end

local function check_fates(log, plan, came, left)
  for _, stage in ipairs(plan) do
    local entry = log.stages[stage.name]
    local begun_left = {}
    for _, one in ipairs(left) do
      if one.stage == stage.name then add(begun_left, one.value) end
    end
    if is_middle(stage) then
      for value, n in pairs(came[stage.name]) do
        if n ~= 1 then problem(log, "%s came %d times to %s", value, n, stage.name) end
        local returned, failed = entry.returned[value] or 0, entry.failures[value] or 0
        local fates = returned + failed + (begun_left[value] or 0)
        if fates ~= 1 then
          problem(log, "%s in %s: done %d, error %d, left %d times", value, stage.name, returned, failed,
            begun_left[value] or 0)
        end
      end
    end
    if stage.has_state and stage.states ~= 0 then
      problem(log, "%s: %d states were not stopped", stage.name, stage.states)
    end
  end
end

-- The positions of values in the order of the first calls.
local function places(list)
  local at = {}
  for i, value in ipairs(list) do at[value] = i end
  return at
end

-- The values on an edge from one stage arrive in the order in which that stage has begun their sources.
local function check_order(log, plan)
  for _, stage in ipairs(plan) do
    local from = places(log.stages[stage.name].begun)
    for _, edge in ipairs(stage.edges) do
      local to = edge.to
      local in_order = stage.ordered or stage.n_max == 1 or stage.is_source
      local takes_in_order = is_middle(to) and (to.ordered or to.n_max == 1)
      local copied = log.kills > 0 and #stage.edges > 1
      if in_order and takes_in_order and not edge.changed and not copied then
        local origin = {}
        for i, entry in ipairs(log.puts) do
          local is_injected = entry.value:find "^b"
          local is_of_edge = entry.stage == stage and entry.output == edge.output
          if is_of_edge and not (is_injected or entry.is_late) and counts(log, entry) then
            origin[entry.value] = stage.is_source and i or from[entry.from]
          end
        end
        local last, last_value = 0, nil
        for _, value in ipairs(log.stages[to.name].begun) do
          local at = origin[value]
          if at and at < last then
            problem(log, "%s > %s: %s came after %s", stage.name, to.name, value, last_value)
          end
          if at then last, last_value = at, value end
        end
      end
    end
  end
end

local function check_go_blocks(log, before)
  for _, entry in ipairs(rn.ps()) do
    if not before[entry.id] and entry.state ~= "running" then
      problem(log, "a go block remains: %s, %s", entry.name, entry.operation or entry.state)
    end
  end
end

-- ---- a run ----

-- Takes from the output, if there is one, and puts on the input channels.
local function start_neighbours(log, plan)
  local reader
  for _, stage in ipairs(plan) do
    if stage.feed then rn.go(stage.feed) end
    if stage.name == "out" then
      reader = rn.go(function()
        for value in stage.channel do
          local entry = log.stages.out
          entry.begun[#entry.begun + 1] = value
          add(entry.tried, value)
          wait_at_random()
        end
      end)
    end
  end
  return reader
end

-- Lets the flow end by itself, or drains it, while holding stages are repaired. Returns the left values.
local function let_end(log, f, plan, drains)
  for _, stage in ipairs(plan) do resume(f, stage) end
  local has_input = #stages_of(plan, function(stage) return stage.input end) > 0
  if drains or has_input then rn.go(function() f:drain() end) end
  for _ = 1, 2000 do
    repair(log, f, plan)
    rn.alts { f:done(), rn.timeout(20) }
    if f:done():closed() then return f:stop() end
  end
  problem(log, "the flow does not end:\n%s", tostring(f))
  return f:stop()
end

-- Ends the flow in one of four ways.
local function finish(log, f, plan)
  local way = random(4)
  if way <= 2 then return let_end(log, f, plan, way == 2) end
  if way == 3 then
    local done, _, left = f:drain(random(0, 30))
    local all = f:stop()
    if done ~= (#all == 0) or not done and left ~= all then
      problem(log, "drain: %s, but %s", tostring(done), tostring(all))
    end
    return all
  end
  return f:stop()
end

---The result of a run: `problems`, a list of texts, and counters.
---@class flows.Log
---@field problems string[]
---@field refused boolean|nil the graph was no flow
---@field counts table<string, integer>

---Runs a random flow, in a simulation.
---@param seed integer
---@param options? { kills?: boolean, edges?: boolean } kills go blocks; disconnects and connects
---@return flows.Log log
function flows.run(seed, options)
  math.randomseed(seed)
  local before = {}
  for _, entry in ipairs(rn.ps()) do before[entry.id] = true end
  local log = new_log()
  local spec, plan = make_graph(log)
  for _, stage in ipairs(plan) do
    stage.n_max = stage.n
    for _, value in ipairs(stage.list or {}) do note_put(log, stage, value, "out", nil, 1) end
  end
  local f = flow("t", spec)
  local reader = start_neighbours(log, plan)
  f:start()
  for _ = 1, random(0, 25) do
    rn.sleep(random(0, 6))
    act(log, f, plan, options or {})
    if chance(30) then repair(log, f, plan) end
  end
  local left = finish(log, f, plan)
  for _, stage in ipairs(plan) do
    if stage.feed then -- untaken values still belong to the program
      stage.channel:close()
      while stage.channel:poll() ~= nil do end
    end
  end
  if reader then reader:take() end
  for _, tap in ipairs(log.taps) do
    if not tap:closed() then problem(log, "a tap is open") end
  end
  rn.sleep(2000)
  local came = arrivals(log, plan, left)
  check_puts(log, came)
  check_fates(log, plan, came, left)
  check_order(log, plan)
  check_go_blocks(log, before)
  log.counts.left = #left
  return log
end

return flows
