-- How late a ticker of 10 ms is while n of something wait and another go block makes garbage. A process of its own:
--
--     lua5.4 bench/scale/lateness.lua KIND N MODE PAUSE SECONDS
--
-- MODE is incremental or generational, PAUSE the collector's pause in percent. Prints `worst MS` and `collections N`
-- (per second). Runs at least SECONDS of CPU time and one collection, at most ten times as long. The first collection
-- begins at once, since a million go blocks would take seconds to make the garbage that starts it.

local rn = require "runnel"

local kind, n, mode, pause, seconds = arg[1], math.tointeger(arg[2]), arg[3], tonumber(arg[4]), tonumber(arg[5])

-- ---- what waits: each returns what keeps it alive ----

local kinds = {}

-- n things that wait on channels, a thousand on each.
local function on_channels(wait)
  local chans = {}
  for i = 1, n do
    if i % 1000 == 1 then chans[#chans + 1] = rn.chan() end
    wait(chans[#chans])
  end
  rn.yield()
  return chans
end

function kinds.blocks()
  local function f(ch) ch:take() end
  return on_channels(function(ch) rn.go(f, ch) end)
end

-- Go blocks parked ten calls deep, each of which has ten locals: their stacks are about four times as large.
function kinds.deep()
  local function f(ch, depth)
    local a, b, c, d, e, g, h, i = 1, 2, 3, 4, 5, 6, 7, 8
    if depth == 0 then ch:take() else f(ch, depth - 1) end
    return a + b + c + d + e + g + h + i
  end
  return on_channels(function(ch) rn.go(f, ch, 10) end)
end

function kinds.callbacks()
  return on_channels(function(ch)
    ch:take_async(function() return ch end)
  end)
end

-- Eight go blocks; the other jobs are values in a list.
function kinds.pmap()
  local jobs, never = {}, rn.chan()
  for i = 1, n do jobs[i] = { i } end
  return rn.pmap(8, function() never:take() end, jobs)
end

function kinds.coroutines()
  local keep, create, resume, yield = {}, coroutine.create, coroutine.resume, coroutine.yield
  local function f(value) yield(value) end
  for i = 1, n do
    keep[i] = create(f)
    resume(keep[i], i)
  end
  return keep
end

-- ---- measuring ----

local collections = 0
local sentinel = {}
function sentinel.__gc()
  collections = collections + 1
  setmetatable({}, sentinel)
end

local worst, stop_at, give_up_at = 0, nil, nil
local function is_over()
  local now = os.clock()
  return now > give_up_at or now > stop_at and collections >= 1
end

local function tick()
  local due = rn.now()
  repeat
    due = due + 10
    rn.sleep(math.max(0, due - rn.now()))
    local late = rn.now() - due
    worst = math.max(worst, late)
    due = due + 10 * (late // 10) -- ticks that were missed are skipped
  until is_over()
end

-- The load: jobs of a go block each, 1.4 KB of garbage.
local function load_with_blocks()
  local function f() return true end
  repeat
    for _ = 1, 100 do rn.go(f):take() end
  until is_over()
end

-- The same in bare coroutines, which have no ticker: it would be late by the longest time between two looks at the
-- clock.
local function load_with_coroutines()
  local create, resume = coroutine.create, coroutine.resume
  local function f() return true end
  local last = rn.now()
  repeat
    for _ = 1, 100 do resume(create(f)) end
    local now = rn.now()
    worst, last = math.max(worst, now - last), now
  until is_over()
end

collectgarbage(mode)
rn.run(function()
  local kept = kinds[kind]()
  if mode == "incremental" then
    collectgarbage("incremental", 100)
    collectgarbage() -- the next one follows at once
    collectgarbage("incremental", pause)
  end
  local start = rn.now()
  stop_at, give_up_at = os.clock() + seconds, os.clock() + 10 * seconds
  setmetatable({}, sentinel)
  if kind == "coroutines" then
    load_with_coroutines()
  else
    rn.go(load_with_blocks)
    tick()
  end
  io.write(("worst %.2f\ncollections %.2f\n"):format(worst, collections * 1000 / (rn.now() - start)))
  assert(kept) -- alive until here
  os.exit(0, false) -- without freeing all of it one by one
end)
