---runnel.lite: runnel's channels and go blocks in plain Lua, for Lua 5.1 to 5.5 and LuaJIT. It requires nothing.
---
---    local rn = require "runnel.lite"
---    rn.run(function()
---      local ch = rn.chan()
---      rn.go(function() ch:put "hello" end)
---      print(ch:take()) --> hello
---    end)
---
---The file has three parts: tools; the specification of runnel, in which each rule is a comment that begins with `*`
---and ends with its source; and the functions that programs call, which check their arguments. docs/semantics.md is
---made from the rules, and `make prove` checks that the C core and this file never differ.
---
---A program with a loop of its own gives the library three functions (rn.host), or calls rn.step in each turn:
---    rn.host { now = f() -> ms, schedule = f(g), after = f(ms, g) }
---schedule calls g soon; after calls g once, when ms have passed, and a later call of it may replace the earlier one.
---Both return at once. With `sleep = f(ms)`, which waits, operations may wait outside go blocks, too; or with
---`turn = f(ms, is_ready)`, in which the host's loop handles events until is_ready() is true or ms have passed (nil: no
---limit), or for a shorter time; it returns false if no event can come any more. Where neither can be called, can_wait,
---if there is one, returns false. Without rn.host, the time is os.clock's, and rn.run waits in a loop.
---
---A host whose own threads are to be the go blocks (OpenResty) gives four others in place of schedule and after:
---    rn.host { now = f() -> ms, current = f() -> any, spawn = f(g, go), park = f(go, ms), wake = f(go) }
---current returns what stands for the thread that runs, the same each time. spawn begins a thread that calls g, and
---returns before g runs; go is nil for a callback. park(go, ms) returns when wake(go) has been called, even if that
---was before, or when ms have passed (nil: no limit); park(go, 0) lets the others run. The host may keep what it needs
---in the field go.host. Each thread that waits is a go block, also one that the host has begun. If the host ends a
---thread, it calls rn.killed(go).

local co_create, co_resume, co_yield = coroutine.create, coroutine.resume, coroutine.yield
local co_running, co_status = coroutine.running, coroutine.status
local isyieldable = coroutine.isyieldable
local error, getmetatable, next, pcall, select = error, getmetatable, next, pcall, select
local setmetatable, tostring, type = setmetatable, tostring, type
local floor, huge, max, min, random = math.floor, math.huge, math.max, math.min, math.random
local getinfo, getlocal, traceback = debug.getinfo, debug.getlocal, debug.traceback
local unpack = table.unpack or unpack -- luacheck: ignore 113 143
local function pack(...) return { n = select("#", ...), ... } end

-- Closes the <close> variables of a coroutine that has died of an error. Returns that error, or the one that a variable
-- has raised in its place.
local co_close
do
local close = coroutine.close
function co_close(co, err)
  if not close then return err end
  local are_closed, other = close(co)
  if are_closed then return err end
  return other
end
end

local M = {}
local chan = {} -- the metatable of channels, their methods, and the first values of the fields of a result channel
chan.__index = chan
chan.kind, chan.capacity, chan.limit, chan.head, chan.count, chan.is_special = "none", 0, 0, 1, 0, true
chan.step, chan.puts, chan.f, chan.handed, chan.put_total, chan.take_total = false, false, false, 0, 0, 0

-- ==== tools ====

local THIS = getinfo(1, "S").source

-- Raises an error at the line of the program that has called the library.
local function raise(message, ...)
  local level = 2
  local info = getinfo(level, "S")
  while info and (info.source == THIS or info.source == "=(tail call)") do
    level = level + 1
    info = getinfo(level, "S")
  end
  error(message:format(...), level)
end

-- What the library needs of its host: the time in ms, and a function that waits for some ms.
local host = { now = function() return os.clock() * 1000 end }
local function wait_in_loop(ms)
  local till = host.now() + ms
  while host.now() < till do end
end
host.sleep = wait_in_loop

-- What waits is a waiter. It is in the queue of a channel by its fields prev, next and on, the queue; or among those
-- that are ready, by next. waiter[1] is the value that it puts, and, when it is woken, what its operation returns.
-- A go block is a waiter and its own result channel, so that it needs one table only. It has these fields, too:
--   f     its function; false once it has ended
--   co    its coroutine; false before it runs: waiter[1] is then what it will call; once it has ended, how many values
--         it has given
--   on    what it waits in: a queue, a timer, or the waiters of its alts; its cancellation while it does not wait; or
--         false
-- The main program, callbacks, and the operations of an alts have waiters of their own; the co of the last is nil.
local function new_waiter() return { false, co = false, on = false, next = false, prev = false } end

-- A world has a list of what is ready, timers, pending timeouts, and errors that nobody has taken yet. A simulation has
-- its own, with a virtual time and two functions that choose from 1 to n: choose_ready(n) the go block, choose(n) all
-- else. `living` has its go blocks; it keeps them only in a simulation that looks for leaks.
---@class runnel.lite.World
local function new_world()
  return { first = false, last = false, timers = { n = 0 }, waker = 1, seq = 0, pending = {}, untaken = {},
    living = setmetatable({}, { __mode = "k" }) }
end

local world = new_world()
local current = false -- the go block that runs
local threads -- the host, if its threads are the go blocks
local blocks = setmetatable({}, { __mode = "k" }) -- the go block of each thread; weak: the host may kill threads
local is_driving = false -- go blocks are being run
local inside, inside_co -- the kind of function that runs and must not wait, as "a callback", and its coroutine
local on_error -- the program's handler
local story -- of a simulation, while it is told

-- Calls a function of the program that must not wait. Returns whether it has not raised, and its result.
local function call(what, f, ...)
  local outer, outer_co = inside, inside_co
  inside, inside_co = what, co_running()
  local ok, result = pcall(f, ...)
  inside, inside_co = outer, outer_co
  return ok, result
end
local function is_inside()
  if inside_co and co_status(inside_co) == "suspended" then inside, inside_co = nil, nil end -- it does not return
  return inside
end

-- The name of a channel in messages.
local function label(ch) return "chan: " .. (ch.given_name or "#" .. ch.id) end

-- Where an operation cannot wait, and what to do instead.
local PLACE = {
  elsewhere = { "inside a coroutine of your own within a go block: only the go block itself can park", "" },
  c = { "across a C call (a metamethod, table.sort, string.gsub, or another C function that called back)",
    "do it before that call, and let the function use what it has got; or " },
  pcall = { "in pcall in Lua 5.1",
    "call the function in a go block, and take its result and error: rn.go(f):take(); or " },
  iterator = { "in an iterator or a metamethod in Lua 5.1", "in place of for v in ch do, write local v = ch:take() "
    .. "while v ~= nil do ... v = ch:take() end; elsewhere do it before that call; or " },
}
local function impossible(what, place)
  return ("%s would have to wait, which is impossible %s: %suse offer or poll, or put_async or take_async, or do it in "
    .. "a go block of its own (rn.go)"):format(what, place[1], place[2])
end
local function cannot_wait(what, place) raise("%s", impossible(what, place)) end

-- Lua 5.1 and 5.2 do not tell whether a coroutine can yield. Below a C function one tries, in pcall: the scheduler
-- resumes at once what yields PROBE. (5.1 refuses that below pcall, too; and in an iterator or a metamethod, which the
-- stack does not show: there the yield raises `refusal`, which the scheduler replaces.) LuaJIT in OpenResty has no
-- isyieldable, either, and needs none.
local PROBE, must_try = {}, not isyieldable and not rawget(_G, "jit")
local refusal = must_try and select(3, co_resume(co_create(function() return pcall(co_yield) end)))
-- Returns the C function that is next below. A function whose first local variable has a name is none; debug.getlocal
-- makes no table, as debug.getinfo does. The first function of a go block's coroutine is `loop`.
local function find_c(level)
  while level < 100 do -- tail calls count in 5.1
    local name = getlocal(level, 1)
    if name == "body_of_a_go_block" then return nil end
    local info = (not name or name == "(*temporary)") and getinfo(level, "lf")
    if info and info.currentline < 0 and info.func then return info.func end -- no function: a tail call
    level = level + 1
  end
end

-- Errors of puts and takes of which too many wait, and of a go block that has called coroutine.yield.
local TOO_MANY = {
  [true] = "puts wait, which is the limit; give the channel a buffer; if the puts come from a callback, a windowed one "
    .. "(sliding_buffer, dropping_buffer)",
  [false] = "takes wait, which is the limit; give each taker a channel of its own (mult), or let fewer go blocks take",
}
local YIELDED = "a go block called coroutine.yield, and nothing would resume it: use rn.yield to let others run, or "
  .. "call the code that yields in a coroutine of its own"

local function append(queue, waiter)
  local last = queue.last
  waiter.on, waiter.prev = queue, last
  if last then last.next = waiter else queue.first = waiter end
  queue.last, queue.n = waiter, queue.n + 1
end
local function remove(waiter)
  local queue, before, after = waiter.on, waiter.prev, waiter.next
  if before then before.next, waiter.prev = after, false else queue.first = after end
  if after then after.prev, waiter.next = before, false else queue.last = before end
  queue.n, waiter.on = queue.n - 1, false
end

-- The go block that runs.
local function running()
  if not threads then return current end
  local thread = threads.current()
  if thread == nil then return nil end
  local go = blocks[thread]
  if not go then -- the host has begun it
    go = new_waiter()
    go.co, blocks[thread] = true, go
  end
  return go
end

-- Ask the host to call rn.step soon, or when the deadline has passed. It may do so while a function of the program
-- handles events: in a go block, where what runs the go blocks goes on; or in a callback, which has to end first.
local kick, arm, armed
do
local function step_if_possible()
  if is_driving then return end
  if is_inside() then return arm(host.now() + 1) end
  M.step()
end
function kick()
  if is_driving or host.is_scheduled or not host.schedule or world.time then return end
  host.is_scheduled = true
  host.schedule(function()
    host.is_scheduled = false
    step_if_possible()
  end)
end
function arm(deadline)
  if not host.after or armed and armed <= deadline then return end
  armed = deadline
  host.after(max(0, deadline - host.now()), function()
    if armed == deadline then armed = nil end
    step_if_possible()
  end)
end
end
-- Asks for it if there is anything to do, now or later.
local function go_on() if world.first or world.timers.n > 0 or world.untaken[1] then kick() end end

-- Runs go blocks: calls f(...). An error of the host, as an interrupt while it waits, is raised again.
local function drive(f, ...)
  local outer = is_driving
  is_driving = true
  local ok, result = pcall(f, ...)
  is_driving = outer
  if ok then return result end
  current = false
  go_on()
  error(result, 0)
end

-- What is ready is in a list. next_ready removes what runs next from it, or the one with the given number.
local function make_ready(go)
  local last = world.last
  world.last = go
  if last then
    last.next = go
  else
    world.first = go
    kick()
  end
end
local function next_ready(number)
  local before, go, n = false, world.first, 1
  if number or world.choose_ready then
    local node = go.next
    while node do n, node = n + 1, node.next end
    for _ = 2, number or n > 1 and world.choose_ready(n) or 1 do before, go = go, go.next end
  end
  local after = go.next
  if before then before.next = after else world.first = after end
  if after then go.next = false else world.last = before end
  return go
end

local look, call_back, end_block -- of the specification

-- A thread of the host waits for the deadlines of its own operation only, and fires the timers that are due.
local function deadline_of(on) return on.deadline or on.ch and on.ch.timer and on.ch.timer.deadline or huge end
local function park_thread(how, ...)
  local go = running()
  go.is_woken = false
  how(go, ...)
  while not go.is_woken do
    local deadline = deadline_of(go.on)
    for i = 1, go.on.is_alts and go.on.n or 0 do
      local other = deadline_of(go.on[i].on)
      if other < deadline then deadline = other end
    end
    threads.park(go, deadline < huge and max(0, deadline - host.now()) or nil)
    look()
  end
end

-- What a go block waits with: suspend(how, ...). The scheduler, or park_thread, calls how(go, ...).
local suspend = co_yield

-- A callback of a timeout: only this thread waits for it.
local function watch_timer(ch)
  threads.spawn(function()
    while ch.timer do
      threads.park(running(), max(0, ch.timer.deadline - host.now()))
      look()
    end
  end)
end

-- A go block in a thread of the host.
local function with_traceback(err) return { err = err, trace = traceback("", 2) } end
local function run_thread(go)
  local f = go[1]
  blocks[threads.current()], go[1], go.co = go, false, true
  local ok, value, err = xpcall(f, with_traceback)
  if ok then end_block(go, true, value, err) else end_block(go, false, nil, value.err, value.trace) end
end

local function check_can_sleep(what)
  if world.time or (host.sleep or host.turn) and not (host.can_wait and not host.can_wait()) then return end
  raise("%s would have to wait, which is impossible outside a go block where the host has a loop of its own: do it in "
    .. "a go block (rn.go)", what)
end

-- A coroutine runs one go block after another. It leaves the results of the last in `returned`. At most 1,000
-- idle ones are kept.
local DONE, idle, n_idle, returned, returned_err = {}, {}, 0, nil, nil
local function loop(body_of_a_go_block)
  while true do
    returned, returned_err = body_of_a_go_block()
    body_of_a_go_block = nil -- luacheck: ignore 311 (it must not be kept while the coroutine is idle)
    body_of_a_go_block = co_yield(DONE)
  end
end

-- The timers of a world are a binary heap.
local function is_before(a, b) return a.deadline < b.deadline or a.deadline == b.deadline and a.seq < b.seq end
local function add_timer(timer)
  local timers, i = world.timers, world.timers.n + 1
  world.seq, timers.n, timer.seq = world.seq + 1, i, world.seq
  while i > 1 and is_before(timer, timers[floor(i / 2)]) do timers[i], i = timers[floor(i / 2)], floor(i / 2) end
  timers[i] = timer
  if i == 1 then kick() end
end
local function remove_first_timer()
  local timers, n, i = world.timers, world.timers.n, 1
  local last = timers[n]
  timers[n], timers.n = nil, n - 1
  while 2 * i < n do
    local child = 2 * i
    if child + 1 < n and is_before(timers[child + 1], timers[child]) then child = child + 1 end
    if not is_before(timers[child], last) then break end
    timers[i], i = timers[child], child
  end
  if n > 1 then timers[i] = last end
end
local function first_timer()
  local timer = world.timers[1]
  while timer and timer.withdrawn do
    remove_first_timer()
    timer = world.timers[1]
  end
  return timer
end
-- A timer that is withdrawn stays in the heap. After as many as half of it, it is made anew: a sorted list is a heap.
local function withdraw_timer(timer)
  local timers, kept = world.timers, {}
  timer.withdrawn, timers.n_withdrawn = true, (timers.n_withdrawn or 0) + 1
  if timers.n_withdrawn < 100 or timers.n_withdrawn < timers.n / 2 then return end
  for i = 1, timers.n do if not timers[i].withdrawn then kept[#kept + 1] = timers[i] end end
  table.sort(kept, is_before)
  kept.n, world.timers = #kept, kept
end

-- Whether a timer has an effect when it is due. A timeout on which nothing waits has none.
local function wakes(timer)
  local ch = timer.ch
  return not timer.withdrawn and (not ch or ch.takes and ch.takes.first or ch.puts and ch.puts.first)
end
-- The next timer, if any has an effect. Looks where it has found one before, and then from the end: the newest are
-- there, on which something waits most often.
local function next_timer()
  local timers, first, n = world.timers, first_timer(), world.waker
  if not first or wakes(first) or n <= timers.n and wakes(timers[n]) then return first end
  for i = timers.n, 2, -1 do
    if wakes(timers[i]) then
      world.waker = i
      return first
    end
  end
end

-- The pending timeouts of a world, by windows of 10 ms. A request for a deadline can share one of its own window, for
-- which the latest suffices, or the earliest of the next window.
local WINDOW = 10
local function find_timeout(deadline)
  local number = floor(deadline / WINDOW)
  local window, following = world.pending[number], world.pending[number + 1]
  if window and window.latest.deadline >= deadline then return window.latest.ch end
  return following and following.earliest.deadline - deadline < WINDOW and following.earliest.ch or nil
end
local function remove_timeout(timer)
  local number = floor(timer.deadline / WINDOW)
  local window = world.pending[number]
  if window.latest == timer then world.pending[number] = nil
  elseif window.earliest == timer then window.earliest = window.latest end
end

-- A go block that dies may close other channels with its error, by its <close> variables: its field `also` is the last
-- of them, and that one's field the one before. Keeps those of the error of which it has died. Returns whether that is
-- known already, because one of them was read meanwhile.
local function keep_closed(go, err)
  local ch, is_known = go, false
  while ch.also and rawequal(ch.also.reason, err) do
    ch = ch.also
    for i = 1, #world.untaken do
      local it = world.untaken[i]
      if it.ch == ch then it.ch = go end
    end
    is_known, ch.is_known = is_known or ch.is_known, true
  end
  ch.also = nil
  return is_known
end
-- Whether the error was taken from the channel, or from one of those.
local function is_heard(ch)
  while ch and not ch.is_heard do ch = ch.also end
  return ch
end

-- The name of a go block in messages: where its function is.
local function name_of(f)
  local info = getinfo(f, "S")
  return info.short_src .. (info.linedefined > 0 and ":" .. info.linedefined or "")
end

-- What an operation waits for, in messages.
local function operation(on)
  if not on.is_alts then return (on.is_put and "put on " or "take on ") .. label(on.ch) end
  local labels = {}
  for i = 1, on.n do labels[i] = label(on[i].on.ch) end
  return "alts on " .. table.concat(labels, ", ")
end

-- The line of the program where a go block waits.
local function line_of(co)
  local level, info = 0, getinfo(co, 0, "Sl")
  while info and (info.currentline < 0 or info.source == THIS) do
    level = level + 1
    info = getinfo(co, level, "Sl")
  end
  return info and info.short_src .. ":" .. info.currentline or "?"
end

-- What a go block does that does not run, in messages.
local function state_of(go)
  local on = go.on
  if on and (on.ch or on.is_alts) then return "waiting", operation(on) end
  return on and on.deadline and "sleeping" or "ready"
end

-- The go blocks of the program that are in a state, one a line; without one, all. And how many there are.
local function list_living(state)
  local living, lines = {}, {}
  for go in next, world.living do
    if (not state or state_of(go) == state) and getinfo(go.f, "S").source ~= THIS then living[#living + 1] = go end
  end
  table.sort(living, function(a, b) return a.id < b.id end)
  for i = 1, min(#living, 20) do
    local go = living[i]
    local its_state, its_operation = state_of(go)
    lines[i] = ("\n  #%d (%s): %s at %s"):format(go.id, name_of(go.f), its_operation or its_state,
      go.co and line_of(go.co) or name_of(go.f))
  end
  if #living > 20 then lines[#lines + 1] = ("\n  and %d more"):format(#living - 20) end
  return table.concat(lines), #living
end
local function deadlock(what)
  local lines = list_living "waiting"
  return ("deadlock: %s would wait for ever: no go block is ready, no timer is pending, and the driver expects no "
    .. "event%s"):format(what, lines ~= "" and "\nparked go blocks:" .. lines or "")
end

-- In a simulation, time jumps to the next deadline when no go block is ready. If one always is, as in a loop of polls,
-- time passes after many steps without a jump: a little at each further step, and more and more. A step is a turn of a
-- go block or a reading of the clock. (csrc/sim/busy.c does the same.)
local set_limits, pass_time, jump, begin_turn
do
local UNIT, FREE, FIRST, DOUBLINGS = 4000, 5, 0.001, 40 -- steps; units until time passes; ms of a step in the first one
-- `steps`: how many a search allows at one time, and ten times as many in all.
function set_limits(steps)
  world.most, world.steps_left, world.jumps = steps or 500 * UNIT, steps and 10 * steps or huge, huge
  world.unit, world.busy, world.busy_since = steps and steps / 50 or UNIT, 0, 0
end
function pass_time(till)
  if world.busy_since ~= world.time then world.busy_since, world.busy = world.time, 0 end
  world.busy = world.busy + 1
  local units = floor(world.busy / world.unit) - FREE
  if units < 0 then return end
  world.time = max(world.time, min(till, world.time + FIRST * 2 ^ min(units, DOUBLINGS)))
  world.busy_since = world.time
end
-- Jumps to a deadline. Returns false after too many jumps.
function jump(till)
  world.time, world.jumps = till, world.jumps - 1
  return world.jumps >= 0
end
-- A go block is about to run. Raises if go blocks go on for ever.
function begin_turn()
  local timer = first_timer()
  pass_time(timer and timer.deadline or world.time)
  world.steps_left = world.steps_left - 1
  local is_busy = world.busy > world.most
  if not is_busy and world.steps_left >= 0 then return end
  world.is_livelock = true
  local what = is_busy and "a go block was ready at each of " .. world.most .. " steps, so none waits for a time"
    or "it has not ended after " .. 10 * world.most .. " steps"
  error(what .. "\ngo blocks that go on for ever:" .. list_living(is_busy and "ready" or nil), 0)
end
end

-- ==== the specification ====

local MOST, GRACE, VAIN, NESTED, MOST_TURNS = 1024, 5000, 1000, 8, 16

-- ## Waiting

-- The queues of a channel, ch.puts and ch.takes, are made when something first waits in them.

-- * Waiting puts and waiting takes of a channel are served first come, first served, those of callbacks and alts
--   included. [core.async]
local function new_queue(ch, is_put)
  local queue = { ch = ch, first = false, last = false, n = 0, is_put = is_put }
  if is_put then ch.puts = queue else ch.takes = queue end
  return queue
end
local function enqueue_put(waiter, ch, value)
  waiter[1] = value
  append(ch.puts or new_queue(ch, true), waiter)
end
local function enqueue_take(waiter, ch, mark)
  waiter[1] = mark
  append(ch.takes or new_queue(ch, false), waiter)
end
local function first_put(ch) return ch.puts and ch.puts.first end
local function first_take(ch) return ch.takes and ch.takes.first end

-- * A go block that is woken runs after those that are ready already, and never before the one that wakes it waits or
--   ends. [runnel]
local function wake(go, value)
  go[1] = value
  if not threads then return make_ready(go) end
  if go.callback then return threads.spawn(function() call_back(go.callback, go.ch, value, go.err) end) end
  go.is_woken = true
  threads.wake(go)
end

-- * An alts that completes withdraws its other operations before anything else runs. [core.async; Go's select]
-- Returns the go block of the waiter.
local function commit(waiter, err)
  if waiter.co ~= nil then
    remove(waiter)
    if err ~= nil then waiter.err = err end
    return waiter
  end
  local go = waiter.go
  local ops = go.on
  ops.port, ops.ch, ops.err, go.on = waiter.port, waiter.on.ch, err, false
  for i = 1, ops.n do -- remove, without the calls
    local other = ops[i]
    local queue, before, after = other.on, other.prev, other.next
    if before then before.next, other.prev = after, false else queue.first = after end
    if after then after.prev, other.next = before, false else queue.last = before end
    queue.n, other[1] = queue.n - 1, nil
  end
  return go
end
local function complete(waiter, value, err) wake(commit(waiter, err), value) end

-- ## Buffers

-- * Without a buffer, and with a fixed one that is full, a put must wait. With another buffer it never waits.
--   [core.async]
local function is_full(ch) return ch.count >= ch.limit end

-- * Values leave a buffer in the order in which they came. A dropping buffer that is full drops the new value, a
--   sliding one the oldest; a promise channel keeps its first. [core.async]
-- * A transducer may make several values of one: they go over the limit of a fixed buffer. [core.async]
local function store(ch, value)
  local count = ch.count
  if count >= ch.capacity and ch.kind ~= "fixed" then
    if ch.kind ~= "sliding" then return end
    ch[ch.head], ch.head, count = nil, ch.head + 1, count - 1
  end
  ch[ch.head + count], ch.count = value, count + 1
end

-- * A promise channel gives its value to every take. [core.async]
local function fetch(ch)
  local head, count = ch.head, ch.count - 1
  local value = ch[head]
  ch.take_total = ch.take_total + 1
  if ch.kind == "promise" then return value end
  ch[head], ch.count = nil, count
  ch.head = count > 0 and head + 1 or 1
  return value
end

-- Waiting takes get what is in the buffer.
local function serve(ch)
  local take = first_take(ch)
  while take and ch.count > 0 do
    complete(take, fetch(ch))
    take = first_take(ch)
  end
end

-- ## Errors that nobody takes

-- * An error that is reported goes to the handler of on_error, with a traceback and where it happened; without a
--   handler to stderr. [runnel]
local function text_of(err)
  local ok, text = pcall(tostring, err)
  if ok then return text end
  return ("(error object whose text cannot be made: %s)"):format(type(text) == "string" and text or type(text))
end

local function report(err, trace, where)
  if on_error and call("an error handler", on_error, err, trace, where) then return end
  io.stderr:write("runnel: error in ", where, ": ", text_of(err), trace and "\n" .. trace or "", "\n")
end

-- * The error of a go block must be taken: by a take, a poll or an alts that gets it, or by cancelling the go block
--   when it has ended. Otherwise it is reported after 5 s, before a deadlock is raised, and at the end. [runnel]
-- * If the go block closes other channels with that error while it dies, it may be taken from these as well. [runnel]
-- * If the program has closed its result channel before, no take from that gives the error. [runnel]
-- * An error with which the program closes a channel must be taken only if a for loop has dropped it. [runnel]
local function keep_error(err, trace, where, ch)
  ch.is_known = true
  world.untaken[#world.untaken + 1] = { err = err, trace = trace, where = where, ch = ch, deadline = M.now() + GRACE }
end
local function report_untaken(now)
  local untaken = world.untaken
  for _ = 1, #untaken do -- no more: the handler may start go blocks that fail
    if not untaken[1] or untaken[1].deadline > now then return end
    local it = table.remove(untaken, 1)
    if not is_heard(it.ch) then
      local ch = it.ch
      while ch do
        ch.was_reported = true
        ch = ch.also
      end
      report(it.err, it.trace, it.where)
    end
  end
end

-- ## Closing

-- * A channel that is closed stays closed; closing it again does nothing, also with another error. [core.async]
-- * When a channel is closed, waiting puts stay and can still be taken. Waiting takes get what a transducer adds at
--   the end; then nil, and the error that was given to close. [core.async; the error: runnel]
-- * The done() channel closes when its channel closes, whatever that still holds. [runnel; Go's Context.Done]
local LOOP = {} -- the mark of a take that a for loop does
local finish, close_takes
local function close(ch, reason)
  if ch.is_closed or ch.closes_later then return end
  if reason ~= nil then ch.reason = reason end
  if ch.is_busy then -- its own transducer closes it: when that has returned
    ch.closes_later = true
    return
  end
  ch.is_closed = true
  if ch.step and not first_put(ch) then finish(ch) end
  return close_takes(ch, reason)
end
function close_takes(ch, reason)
  local takes = ch.takes
  local take = takes and takes.first
  while take do
    if reason ~= nil and take[1] ~= LOOP then ch.is_heard = true end
    complete(take, nil, reason)
    take = takes.first
  end
  if ch.done_chan then close(ch.done_chan) end
end

-- ## Transducers

-- * An error in a transducer goes to the channel's ex_handler, and what that returns, if not nil, is put. Without a
--   handler, or if it raises, the error is reported. The put returns true. [core.async]
local function handle(ch, err)
  local ok, value = false, err
  if ch.handler then
    ch.is_busy = true
    ok, value = call("an exception handler", ch.handler, err)
    ch.is_busy = nil
  end
  if not ok then report(value, nil, label(ch)) elseif value ~= nil then store(ch, value) end
end

-- Calls the reducing function with (ch, value), or with (ch) to complete. Returns whether it has not raised, and its
-- result.
local function reduce(ch, ...)
  ch.is_busy = true
  local ok, result = call("a transducer", ch.step, ch, ...)
  ch.is_busy = nil
  if ch.closes_later then
    ch.closes_later = nil
    close(ch, ch.reason)
  end
  if not ok then handle(ch, result) end
  return ok, result
end

-- * A value goes through the transducer when it enters the buffer: in its put, or, if that has waited, when there is
--   room. [core.async]
-- * A transducer that returns a reduced value closes the channel: waiting puts return true, and their values are
--   dropped. [core.async]
local function transduce(ch, value)
  local ok, result = reduce(ch, value)
  if not ok or result == ch then return end
  if not M.is_reduced(result) then
    return handle(ch, ("the transducer's step function returned a %s, not its accumulator: return rf(acc, v), or acc")
      :format(type(result)))
  end
  local put = first_put(ch)
  while put do
    ch.put_total = ch.put_total + 1
    complete(put, true)
    put = first_put(ch)
  end
  close(ch)
end

-- * When the channel is closed and no put waits, the transducer completes, and may add values. [core.async]
function finish(ch)
  if not ch.step or ch.is_finished then return end
  ch.is_finished = true
  reduce(ch)
  serve(ch)
end

-- A put that has waited enters the buffer.
local function admit(ch, put)
  local value, go, outer = put[1], commit(put), ch.is_admitting
  ch.put_total = ch.put_total + 1
  if ch.step then
    ch.is_admitting = true
    transduce(ch, value)
    ch.is_admitting = outer
  else
    store(ch, value)
  end
  wake(go, true)
end

-- * A transducer must not use its own channel. [core.async]
local function check_busy(ch)
  if ch.is_busy then raise("%s: a transducer or buffer policy must not use the channel that it runs for", label(ch)) end
end

-- ## Put and take

-- * A put on a closed channel returns false at once. [core.async]
-- * A put hands its value to the first waiting take. If none waits, the buffer gets the value, if it has room.
--   Otherwise the put waits. [core.async]
-- * The first value of a promise channel goes to all waiting takes. Later puts return true and change nothing.
--   [core.async]
-- * Only the go block puts on its result channel, while it lives. [runnel]
-- Returns whether the put completes at once, and then its result.
local function try_put(ch, value)
  if ch.is_closed then return true, false end
  local take = ch.takes
  take = take and take.first
  if ch.is_special then -- it has a transducer, is a promise channel, or a go block
    check_busy(ch)
    if ch.f then raise("put: this is the result channel of a go block, and only the go block puts on it; make a "
      .. "channel for more values") end
    if not take and (is_full(ch) or ch.is_admitting and first_put(ch)) then return false end
    if ch.step then transduce(ch, value) else store(ch, value) end
    serve(ch)
  elseif take then
    ch.handed = ch.handed + 1
    complete(take, value)
    return true, true
  elseif ch.count >= ch.limit then
    return false
  else
    store(ch, value)
  end
  ch.put_total = ch.put_total + 1
  return true, true
end

-- * A take gets the first value of the buffer, and waiting puts enter the room that it leaves. If no value is buffered
--   it gets that of the first waiting put. [core.async]
-- * Once a closed channel has no values, a take returns nil, and the error with which it was closed. [core.async; the
--   error: runnel]
-- Returns whether the take completes at once, and then its results. The take of a for loop drops the error.
local function try_take(ch, is_loop)
  if ch.f and not ch.is_closed then return false end -- a go block that lives
  local put = ch.puts
  put = put and put.first
  if ch.step then
    check_busy(ch)
    while put and ch.count == 0 do -- the transducer may drop all that waits
      admit(ch, put)
      put = first_put(ch)
    end
    -- The last waiting put may have been an alts that has withdrawn it.
    if ch.is_closed and ch.count == 0 and not put then finish(ch) end
  end
  if ch.count > 0 then
    local value = fetch(ch)
    if not put then return true, value end
    while put and not is_full(ch) do
      admit(ch, put)
      put = first_put(ch)
    end
    if ch.is_closed and not put then finish(ch) end
    return true, value
  elseif put then
    local value = put[1]
    ch.handed = ch.handed + 1
    complete(put, true)
    return true, value
  elseif ch.is_closed then
    local reason = ch.reason
    if reason ~= nil and not is_loop then ch.is_heard = true end
    return true, nil, reason
  end
  return false
end

-- ## Where an operation can wait

-- * At most 1024 puts and 1024 takes wait on a channel; any number on a timeout or a done() channel. One more raises
--   an error, and has not happened. [core.async]
local function check_room(ch, is_put)
  local queue = is_put and ch.puts or not is_put and ch.takes
  if queue and queue.n >= MOST and not ch.closes_itself then raise("%s: %d %s", label(ch), MOST, TOO_MANY[is_put]) end
end

-- * A go block that was cancelled gets the reason as an error: from the operation in which it waits, or else from its
--   next one that must wait; and again from each later one. If it goes on in spite of that 1000 times, it ends.
--   [runnel]
local DIES = {} -- what such a go block yields
local function raise_cancelled(go)
  local it = go.on
  if it.is_told then it.vain = it.vain + 1 end
  if it.vain >= VAIN and not threads then co_yield(DIES) end
  it.is_told = true
  if go == world.main then go.on = false end -- the function of rn.run gets it once
  error(it.reason, 0)
end

local function withdraw(go)
  local on = go.on
  if not on.deadline then return commit(on.is_alts and on[1] or go) end
  go.on = false
  withdraw_timer(on)
end

-- * Outside any go block an operation runs the go blocks until it completes. If nothing can complete it, that is a
--   deadlock: the operation is withdrawn, and raises an error. [runnel]
local run_while
local function wait_outside(what, how, ...)
  check_can_sleep(what)
  local main = new_waiter()
  how(main, ...)
  local ok, why = pcall(run_while, main, "on", true)
  if main.on then
    if ok then why = deadlock(operation(main.on)) end
    withdraw(main)
    if ok then raise("%s", why) else error(why, 0) end
  end
  local number, node = 1, world.first
  while node and node ~= main do number, node = number + 1, node.next end
  if node then next_ready(number) end
  return ok and main or error(why, 0)
end

-- * An operation that must wait raises an error where it cannot: in a callback, a transducer or a handler, in a
--   coroutine of the program's own within a go block, below a C function. Then nothing has happened. [runnel]
-- Returns the go block that runs.
local function check_can_wait(what, ch)
  if inside and is_inside() then cannot_wait(what, { "inside " .. inside, "" }) end
  local go = current
  if threads then go = running()
  elseif go and go.co ~= co_running() then cannot_wait(what, PLACE.elsewhere) end
  if go then
    local f = must_try and not threads and find_c(refusal and ch and 5 or 4) -- 5.1 counts wait_to_take's tail call
    if f and not pcall(co_yield, PROBE) or isyieldable and not isyieldable() then
      cannot_wait(what, refusal and (f == pcall or f == xpcall) and PLACE.pcall or PLACE.c)
    end
    if go.on then raise_cancelled(go) end
  end
  if ch then check_room(ch, what == "put") end
  return go
end

-- Waits until the operation completes; go[1] is its result then. The scheduler calls how(go, ...), which enqueues the
-- go block, when it has parked: so a yield that Lua refuses has changed nothing.
local EMPTY = {} -- the result of an operation that has none, or was withdrawn
local function check_withdrawn(go) if go[1] == EMPTY and not go.on.is_told then raise_cancelled(go) end end
local function park(what, how, a)
  local go = check_can_wait(what)
  if go then suspend(how, a) else go = wait_outside(what, how, a) end
  if go.on then check_withdrawn(go) end
end

-- ## Alts

-- * An alts does exactly one of its operations. If some can complete at once it is one of these, each with the same
--   probability; with the option priority the first of them. [core.async; Go's select]
local function choose(n) return (world.choose or random)(n) end
local function can_put(ch) return ch.is_closed or ch.f or first_take(ch) or ch.count < ch.limit end
local candidates, channel_of = {}, nil
-- Returns whether one completes, and its value, its number, and the error with which its channel was closed.
local function try_alts(ops, n_ops, priority)
  local passed
  while true do
    local n = 0
    for i = 1, n_ops do
      local op, can = ops[i]
      if getmetatable(op) == chan then
        local puts = op.puts
        can = op.count > 0 or op.is_closed or puts and puts.first
      else
        can = can_put(channel_of(op, i))
      end
      if can and not (priority and n > 0) and not (passed and passed[i]) then
        n = n + 1
        candidates[n] = i
      end
    end
    if n == 0 then return false end
    local i = candidates[n > 1 and choose(n) or 1]
    local op, done, value, err = ops[i]
    if getmetatable(op) == chan then done, value, err = try_take(op) else done, value = try_put(op[1], op[2]) end
    if done then return true, value, i, err end
    passed = passed or {}
    passed[i] = true -- a take: the transducer has dropped the values of all puts that waited
  end
end

-- * If none can complete at once, an alts with a default returns that and "default". Another one waits for all of
--   them, and does the one that another go block completes first. [core.async; Go's select]
-- * The operations of one alts never complete each other. [core.async; Go's select]
-- * Of operations of an alts that wait on the same channel, each is the first with the same probability; with priority
--   the first in the list. [runnel]
local function draw_first(ops, by_index)
  for i = 1, ops.n do
    local first, n = ops[i], 1
    local is_all_the_same = not first.on.is_put and not by_index -- takes that return the same port
    if first.on.last == first and not is_all_the_same then
      while first.prev and first.prev.go == first.go do first, n = first.prev, n + 1 end
      local drawn = first
      for _ = 2, n > 1 and choose(n) or 1 do drawn = drawn.next end
      first[1], first.port, drawn[1], drawn.port = drawn[1], drawn.port, first[1], first.port
    end
  end
end
local function park_alts(go, ops, by_index, priority)
  local waiters, share = go.alts, false
  if not waiters then
    waiters = { is_alts = true }
    go.alts = waiters
  end
  go.on, waiters.n = waiters, #ops
  for i = 1, #ops do
    local op, waiter = ops[i], waiters[i]
    if not waiter then
      waiter = { false, go = go, port = i, on = false, next = false, prev = false }
      waiters[i] = waiter
    end
    waiter.port = i
    local queue -- enqueue_put and enqueue_take, without the calls
    if getmetatable(op) == chan then queue = op.takes or new_queue(op, false)
    else queue, waiter[1] = op[1].puts or new_queue(op[1], true), op[2] end
    local last = queue.last
    waiter.on, waiter.prev = queue, last
    if not last then queue.first = waiter
    else
      last.next = waiter
      if last.go == go then share = true end
    end
    queue.last, queue.n = waiter, queue.n + 1
  end
  if share and not priority then draw_first(waiters, by_index) end
end

-- ## Time

local function wake_empty(go) wake(go, EMPTY) end

-- * sleep waits for the given time; timeout returns a channel that closes after it. Timeouts may share a channel: a
--   request for a deadline gets a pending timeout that is due then, or less than 10 ms later. [core.async]
local function sleep(go, deadline)
  go.on = { deadline = deadline, go = go }
  add_timer(go.on)
end
-- * Timers fire in the order of their deadlines, and those with the same deadline in the order in which they were set:
--   in a simulation before the next go block runs, otherwise after 16 more at most. [runnel]
function look()
  if world.time then begin_turn() end
  local now, timer = world.time or host.now(), first_timer()
  while timer and timer.deadline <= now do
    remove_first_timer()
    if timer.go then
      timer.go.on = false
      wake_empty(timer.go)
    else
      remove_timeout(timer)
      close(timer.ch)
      timer.ch.timer = nil
    end
    timer = first_timer()
  end
  if world.untaken[1] then report_untaken(now) end
end

-- ## Go blocks

-- * go starts a go block, which begins to run after its creator waits or ends, and returns its result channel. That
--   gives the first result of the function, if it is not nil, and closes. [core.async]
local ids = 0
local function spawn(f, ...)
  local body, named, arguments = f, f, select("#", ...) > 0 and pack(...)
  if arguments then function body() return f(unpack(arguments, 1, arguments.n)) end end
  while type(named) ~= "function" do named = getmetatable(named).__call end -- an object that can be called
  ids = ids + 1
  local go = setmetatable({ body, id = ids, f = named, co = false, on = false, next = false, prev = false,
    is_closed = false, takes = false }, chan)
  if threads then
    threads.spawn(function() run_thread(go) end, go)
  else
    world.living[go] = true
    make_ready(go)
  end
  return go
end

-- * If the function raises an error, or returns nil and an error, the result channel closes with it. [runnel;
--   core.async reports it]
-- * An error that a go block raises must be taken; but not the reason for which it was cancelled, and not an error
--   that ends it before it gets that reason. [runnel]
function end_block(go, ok, value, err, trace)
  local f, cancellation, take = go.f, go.on, first_take(go)
  go.f, go.co, go.on, go[1] = false, 0, false, false
  if ok and value ~= nil then
    err = nil -- an error counts only after nil
    if not go.is_closed then
      go.co = 1
      if take then complete(take, value) else go[1], go.count = value, 1 end
    end
  end
  if err ~= nil then go.is_known = true end
  -- From what the error may be taken first. If the program has closed go, what was taken from that is another one.
  local first = (ok or err == nil or not go.is_closed or rawequal(go.reason, err)) and go or { also = go.also }
  if first ~= go then go.is_heard = nil end
  if not go.is_closed then
    go.is_closed, go.reason = true, err
    close_takes(go, err)
  end
  local is_cancellation = not ok and cancellation and (not cancellation.is_told or rawequal(cancellation.reason, err))
  local heir = go.ended and go.ended(ok, value, err, is_cancellation, trace)
  if ok or go == world.main or is_cancellation then return end
  go.trace, go.where = trace, name_of(f)
  if keep_closed(first, err) or is_heard(heir or first) or first ~= go and go.is_heard then return end
  if err == nil then report(err, trace, go.where) else keep_error(err, trace, go.where, heir or first) end
end

-- * cancel withdraws the operation in which a go block waits, which has no effect then. If the operation has completed
--   already, the go block gets its results first. [runnel; Kotlin's Job.cancel]
-- * cancel returns whether the go block still lived. A second cancel, before the go block has got the first reason,
--   changes nothing. [runnel]
local function cancel(go, reason)
  if not go.f then
    go.is_heard = true
    return false
  end
  local on = go.on
  local waits = on and not on.vain
  if on and not waits and not on.is_told then return true end
  if waits then withdraw(go) end
  go.on = { reason = reason, vain = 0 }
  if waits then wake_empty(go) end
  return true
end

-- ## Callbacks

-- * A callback gets what its operation returns. It is called before take_async or put_async returns if the operation
--   completes at once, unless on_caller is false; else by the scheduler, in its turn. [core.async]
-- * A callback must not wait. Its error is reported at once. [runnel]
local nested = 0 -- callbacks that run within each other; one more than NESTED has to wait for its turn
function call_back(f, ch, value, err)
  local ok, problem
  if err ~= nil then ok, problem = call("a callback", f, value, err) else ok, problem = call("a callback", f, value) end
  if not ok then report(problem, nil, label(ch)) end
end
local function async(ch, is_put, value, f, on_caller)
  local done, result, err
  if is_put then done, result = try_put(ch, value) else done, result, err = try_take(ch) end
  if not done then check_room(ch, is_put) end
  if done and on_caller ~= false and nested < NESTED then
    nested = nested + 1
    call_back(f, ch, result, err)
    nested = nested - 1
    return result ~= false
  end
  local waiter = new_waiter()
  waiter.callback, waiter.ch, waiter.err = f, ch, err
  if done then wake(waiter, result)
  elseif is_put then enqueue_put(waiter, ch, value)
  else enqueue_take(waiter, ch) end
  if ch.timer and threads then watch_timer(ch) elseif ch.timer then kick() end -- the host waits for it from now on
  return not done or result ~= false
end

-- ## The scheduler

local tell -- for the story of a simulation

-- * Ready go blocks run one at a time, first come, first served, each until it waits or ends. [runnel]
-- * A go block that calls coroutine.yield ends with an error. [runnel]
local HOW = { [enqueue_put] = true, [enqueue_take] = true, [park_alts] = true, [sleep] = true, [wake_empty] = true }
local function run_next()
  local go = next_ready()
  local co, f = go.co, nil
  if not co then
    -- Neither a go block nor a callback: the main program. It goes on when the <close> variable has waited.
    if not go.f then return go.callback and call_back(go.callback, go.ch, go[1], go.err) end
    co, f = idle[n_idle], go[1]
    if co then idle[n_idle], n_idle = nil, n_idle - 1 end
    if not co or co_status(co) ~= "suspended" then co = co_create(loop) end -- other code may have resumed it
    go.co, go[1] = co, false
  end
  if go.on then go.on.vain = 0 end
  current = go
  local ok, how, a, b, c = co_resume(co, f)
  while how == PROBE do ok, how, a, b, c = co_resume(co) end
  current = false
  if HOW[how] then
    how(go, a, b, c)
    if story then tell(go, how) end
    return
  end
  world.living[go] = nil
  if story then tell(go, how) end
  if how == DONE then
    local value, err = returned, returned_err
    returned, returned_err = nil, nil
    if n_idle < 1000 then n_idle, idle[n_idle + 1] = n_idle + 1, co end
    return end_block(go, true, value, err)
  elseif ok then
    how = how == DIES and go.on.reason or YIELDED
  elseif refusal and how == refusal then
    how = line_of(co) .. ": " .. impossible("the go block", PLACE.iterator)
  end
  local trace = traceback(co)
  world.dying = go
  how = co_close(co, how)
  world.dying = nil
  end_block(go, false, nil, how, trace)
end

do
-- * When no go block is ready, the scheduler waits until the next timer is due; a simulation jumps there. [runnel]
-- * A timeout on which nothing waits is not waited for: when nothing else can come, nothing is left that could begin
--   to wait on it. [runnel]
local function is_ready() return not not world.first end
-- Returns false if nothing is timed, and nothing can come.
local function wait_for_turn(is_awaited)
  local timer, untaken, turn = next_timer(), world.untaken[1], not world.time and host.turn
  local till = timer and timer.deadline
  if untaken and (till and untaken.deadline < till or turn and not till) then till = untaken.deadline end
  if turn then return turn(till and max(0, till - M.now()), is_ready) ~= false or till ~= nil or is_ready()
  elseif till and world.time then return jump(till)
  elseif till then host.sleep(till - M.now())
  elseif untaken and is_awaited then report_untaken(huge) -- often the cause of a deadlock
  else return false end
  return true
end
local function take_turns(target, key, is_awaited)
  local turns, goes_on = 0, true
  while goes_on and target[key] do
    if turns == 0 or not world.first then
      look()
      turns = world.time and 1 or MOST_TURNS
    end
    if target[key] and world.first then
      turns = turns - 1
      run_next()
    elseif target[key] then
      goes_on, turns = wait_for_turn(is_awaited), 0
    end
  end
  return goes_on
end
-- Runs go blocks while target[key] is true. Returns false if nothing is ready and no timer is set.
function run_while(target, key, is_awaited)
  local goes_on = drive(take_turns, target, key, is_awaited)
  go_on() -- in the host's loop
  return goes_on
end
end

-- ==== what programs call ====

-- ---- arguments ----

local function got(value, what)
  if value == M then raise("rn.%s: call it with a dot: rn.%s(...)", what, what) end
  return value == nil and "nothing" or M.is_chan(value) and "a channel" or type(value)
end
local function check_chan(ch, what, usage)
  if getmetatable(ch) == chan then return end
  raise("%s: a channel expected, got %s; call it as %s", what, got(ch, what), usage)
end
local function is_callable(f)
  local meta = getmetatable(f)
  return type(f) == "function" or type(meta) == "table" and meta.__call ~= nil and meta ~= chan
end
local function check_callable(f, what)
  if not is_callable(f) then raise("%s: a function expected, got %s", what, got(f, what)) end
end
local function check_value(value, what)
  if value ~= nil then return end
  raise("%s: nil cannot be put on a channel, where it means that the channel is closed; put false, or a value of your "
    .. "own that stands for nothing", what)
end
local function check_ms(ms, what)
  if type(ms) ~= "number" then raise("%s: a number of milliseconds expected, got %s", what, got(ms, what)) end
  if ms < 0 or ms ~= ms then raise("%s: a time of 0 ms or more expected, got %s", what, tostring(ms)) end
  if ms ~= huge then return end
  raise("%s: a finite time expected, got infinity; to wait for ever, take from a channel that stays open", what)
end

-- ---- making channels ----

local function new_chan(kind, capacity)
  ids = ids + 1
  return setmetatable({ id = ids, kind = kind, capacity = capacity,
    limit = (kind == "none" or kind == "fixed") and capacity or huge, head = 1, count = 0, put_total = 0,
    take_total = 0, handed = 0, is_closed = false, is_special = kind == "promise", step = false, puts = false,
    takes = false, f = false }, chan)
end

local LARGEST = 2147483647

do
-- Gives a channel a transducer, unless it is nil.
local function transduced(ch, xf, ex_handler)
  if xf == nil then
    if ex_handler ~= nil then raise("chan: an exception handler without a transducer would never be called") end
    return ch
  end
  check_callable(xf, "chan: transducer")
  if ex_handler ~= nil then check_callable(ex_handler, "chan: exception handler") end
  if ch.kind == "none" then raise("chan: a transducer needs a buffer; give a size of 1 or more") end
  ch.handler, ch.is_special = ex_handler, true
  local step = xf(function(...)
    if select("#", ...) < 2 then return ch end
    local _, value = ...
    if value == nil then raise("a transducer produced nil, which a channel cannot hold") end
    if not ch.is_busy then raise("the reducing function of a channel works only within a put on it") end
    store(ch, value)
    return ch
  end)
  if not is_callable(step) then
    raise("chan: the transducer returned a %s instead of a reducing function", type(step))
  end
  ch.step = step
  return ch
end

local BUFFER = {}
function BUFFER.__tostring(buffer)
  if getmetatable(buffer) ~= BUFFER then raise("a buffer expected, got %s", type(buffer)) end
  return ("%s(%d)"):format(buffer.name, buffer.capacity)
end

local function maker_of_buffers(name, kind)
  return function(n)
    if type(n) ~= "number" or n < 1 or n > LARGEST or n ~= floor(n) then
      got(n, name)
      raise("%s: a size from 1 to %d expected, got %s", name, LARGEST, tostring(n))
    end
    return setmetatable({ name = name, kind = kind, capacity = n }, BUFFER)
  end
end

---@type fun(n: integer): runnel.Buffer
M.buffer = maker_of_buffers("buffer", "fixed")
---@type fun(n: integer): runnel.Buffer
M.dropping_buffer = maker_of_buffers("dropping_buffer", "dropping")
---@type fun(n: integer): runnel.Buffer
M.sliding_buffer = maker_of_buffers("sliding_buffer", "sliding")

---Whether a put never waits for that buffer.
---@return boolean
function M.unblocking_buffer(buffer) return getmetatable(buffer) == BUFFER and buffer.kind ~= "fixed" end

---Makes a channel with a buffer of n values, or with the given buffer, or none; with a transducer if there is one.
---@param n? integer|runnel.Buffer
---@param xf? runnel.Transducer
---@param ex_handler? fun(err: any): any
---@return runnel.Channel<any>
function M.chan(n, xf, ex_handler)
  local kind = type(n)
  if n == nil or n == 0 then return transduced(new_chan("none", 0), xf, ex_handler) end
  if kind == "number" then
    if n < 0 or n ~= floor(n) or n == huge then
      raise("chan: a buffer size is an integer of 0 or more, got %s", tostring(n))
    end
    if n > LARGEST then raise("chan: a buffer holds at most %d values", LARGEST) end
    return transduced(new_chan("fixed", n), xf, ex_handler)
  end
  if getmetatable(n) ~= BUFFER then raise("chan: a buffer size or a buffer expected, got %s", got(n, "chan")) end
  if n.is_used then raise("chan: this buffer belongs to another channel; make a new one for each channel") end
  local ch = transduced(new_chan(n.kind, n.capacity), xf, ex_handler)
  n.is_used = true
  return ch
end

---Makes a channel that gives its first value to every taker.
---@param xf? runnel.Transducer
---@param ex_handler? fun(err: any): any
---@return runnel.Channel<any>
function M.promise_chan(xf, ex_handler) return transduced(new_chan("promise", 1), xf, ex_handler) end

end

---Whether a value is a channel.
---@return boolean
function M.is_chan(value) return getmetatable(value) == chan end

local REDUCED = {}

---As the result of a transducer's step: ends the stream and closes the channel.
function M.reduced(value) return setmetatable({ value }, REDUCED) end

---Whether a value is a result of rn.reduced.
---@return boolean
function M.is_reduced(value) return getmetatable(value) == REDUCED end

-- ---- methods of channels ----

do
local function wait_to_put(ch, value)
  local go = check_can_wait("put", ch)
  if go then suspend(enqueue_put, ch, value) else go = wait_outside("put", enqueue_put, ch, value) end
  if go.on then check_withdrawn(go) end
  value, go[1] = go[1], false
  return value
end

---Puts a value; waits until it is taken or buffered. Returns true, or false when the channel is closed.
function chan:put(value)
  if getmetatable(self) ~= chan then check_chan(self, "put", "ch:put(v)") end
  if value == nil then check_value(value, "put") end
  local done, result = try_put(self, value)
  if done then return result end
  return wait_to_put(self, value)
end

-- Tail calls and few variables: the stack of a coroutine that waits need not grow.
local function ended_take(go)
  local value, err = go[1], go.err
  go[1] = false
  if err == nil then return value end
  go.err = nil
  return value, err
end
local function wait_to_take(ch, mark)
  local go = check_can_wait("take", ch)
  if go then suspend(enqueue_take, ch, mark) else go = wait_outside("take", enqueue_take, ch, mark) end
  if go.on then check_withdrawn(go) end
  if go[1] == nil then return ended_take(go) end
  mark, go[1] = go[1], false
  return mark
end

---Takes the next value; waits for one. Returns nil if the channel is closed and has no more, and the error with which
---it was closed.
function chan:take()
  if getmetatable(self) ~= chan then check_chan(self, "take", "ch:take()") end
  local done, value, err = try_take(self)
  if not done then return wait_to_take(self) end
  if err ~= nil then return value, err end
  return value
end

---A list of all values until the channel is closed; nil and the error if it was closed with one.
function chan:list()
  check_chan(self, "list", "ch:list()")
  local list = {}
  while true do
    local value, err = self:take()
    if err ~= nil then return nil, err end
    if value == nil then return list end
    list[#list + 1] = value
  end
end

---for v in ch do: takes until the channel is closed and has no more.
function chan:__call()
  local done, value, err = try_take(self, true)
  if not done then value, err = wait_to_take(self, LOOP) end
  if err ~= nil and not self.is_heard and not self.is_known then keep_error(err, traceback(), label(self), self) end
  return value
end

end

---What put returns, or nil if it would have to wait.
function chan:offer(value)
  check_chan(self, "offer", "ch:offer(v)")
  check_value(value, "offer")
  local done, result = try_put(self, value)
  if done then return result end
  return nil
end

---What take returns, or nil if it would have to wait.
function chan:poll()
  check_chan(self, "poll", "ch:poll()")
  local _, value, err = try_take(self)
  if err ~= nil then return value, err end
  return value
end

---Calls f(v) once there is a value.
---@param f fun(v: any, err: any)
---@param on_caller? boolean false: never before take_async returns
function chan:take_async(f, on_caller)
  check_chan(self, "take_async", "ch:take_async(f)")
  check_callable(f, "take_async")
  async(self, false, nil, f, on_caller)
end

local function nothing() end

---Calls f(ok) once the value has been put. Returns false if the channel is closed already, or true.
---@param value any
---@param f? fun(ok: boolean)
---@param on_caller? boolean false: never before put_async returns
---@return boolean
function chan:put_async(value, f, on_caller)
  check_chan(self, "put_async", "ch:put_async(v, f)")
  check_value(value, "put_async")
  if f ~= nil then check_callable(f, "put_async") end
  return async(self, true, value, f or nothing, on_caller)
end

---Closes the channel, optionally with an error.
function chan:close(err)
  check_chan(self, "close", "ch:close(err)")
  if self.timer then
    raise "close: a timeout closes by itself; other go blocks may share it, so a program cannot close it"
  elseif self.closes_itself and not self.is_closed then
    raise "close: a channel that done() returns closes when its channel closes; close that channel"
  end
  local go = err ~= nil and running()
  local is_reason = go and go.on and rawequal(err, go.on.reason)
  if self.is_closed then return end
  if is_reason then self.is_known = true -- a cancellation is intended
  elseif world.dying and err ~= nil and self.co == nil then self.also, world.dying.also = world.dying.also, self end
  close(self, err)
end
chan.__close = chan.close

---Whether the channel is closed; it may still hold values.
---@return boolean
function chan:closed()
  check_chan(self, "closed", "ch:closed()")
  return self.is_closed or self.closes_later or false
end

---A channel that closes when this one is closed.
function chan:done()
  check_chan(self, "done", "ch:done()")
  if self.closes_itself then return self end
  if not self.done_chan then
    self.done_chan = new_chan("none", 0)
    self.done_chan.closes_itself, self.done_chan.is_closed = true, self.is_closed
  end
  return self.done_chan
end

---Names the channel and returns it; without a name returns the name.
function chan:name(name)
  check_chan(self, "name", "ch:name(s)")
  if name == nil then return self.given_name end
  if type(name) ~= "string" then raise("name: a string expected, got %s", type(name)) end
  if #name > 200 then raise "name: at most 200 bytes" end
  self.given_name = name
  return self
end

---The state of the channel, as a table.
function chan:stats()
  check_chan(self, "stats", "ch:stats()")
  local kind, capacity = self.kind, self.capacity
  local put_total, take_total = self.put_total + self.handed, self.take_total + self.handed
  if self.co ~= nil then -- of a go block
    kind, capacity, put_total = "fixed", 1, self.f and 0 or self.co
    take_total = put_total - self.count
  end
  return { name = self.given_name, id = self.id, buffer = kind, capacity = capacity, values = self.count,
    puts_waiting = self.puts and self.puts.n or 0, takes_waiting = self.takes and self.takes.n or 0,
    put_total = put_total, take_total = take_total, closed = self:closed() }
end

function chan:__len() return self.count end

function chan:__tostring()
  local stats, parts = self:stats(), {}
  if stats.buffer ~= "none" then parts[1] = ("%d/%d"):format(stats.values, stats.capacity) end
  local function waiting(n, what)
    if n > 0 then parts[#parts + 1] = ("%d %s%s waiting"):format(n, what, n == 1 and "" or "s") end
  end
  waiting(stats.puts_waiting, "put")
  waiting(stats.takes_waiting, "take")
  if self.is_closed then parts[#parts + 1] = "closed" end
  return label(self) .. (parts[1] and " (" .. table.concat(parts, ", ") .. ")" or "")
end

-- ---- alts ----

-- The channel of operation i, which is not a take.
function channel_of(op, i)
  local why
  if op == nil then why = "is nil"
  elseif type(op) ~= "table" then why = "is not a channel"
  elseif getmetatable(op[1]) ~= chan then why = "does not begin with a channel"
  elseif op[2] == nil then why = "has no value to put, or nil, which cannot be put"
  else return op[1] end
  raise("alts: operation %d %s; write a channel to take from it, or {channel, value} to put", i, why)
end

local alts
local PRIORITY = { priority = true } -- of the library, which may wait where programs have no room
do
local OPTIONS = { default = true, nowait = true, priority = true }

local function check_alts(ops, opts)
  if type(ops) ~= "table" or getmetatable(ops) == chan then
    raise("alts: a list of operations expected, got %s%s", got(ops, "alts"),
      M.is_chan(ops) and "; put the channels into a list: rn.alts { ch, ... }" or "")
  elseif opts ~= nil and type(opts) ~= "table" then
    raise("alts: a table of options expected, got %s", got(opts, "alts"))
  end
  got(ops, "alts")
  for key in next, opts or {} do
    if not OPTIONS[key] then raise("alts: unknown option '%s'; known: default, nowait, priority", tostring(key)) end
  end
end

-- Checked only before it waits, as in the C core, where looking at all fields costs more than the rest.
local function check_fields(ops, what)
  local n = #ops
  for key in next, ops do
    if type(key) ~= "number" or key ~= floor(key) then
      raise("alts: the list of operations has a field '%s'; options go into a table of their own: "
        .. "rn.alts({ ... }, { priority = true, default = value })", tostring(key))
    elseif key < 1 or key > #ops then
      channel_of(nil, #ops + 1)
    end
  end
  if n == 0 then raise("%s: no operations: it would wait for ever", what) end
end

-- Returns the value, the channel, the error, and the number of the operation. `by_index`: the number matters.
function alts(ops, opts, by_index)
  local what = by_index and "alt" or "alts"
  if opts ~= nil or ops == M or type(ops) ~= "table" or getmetatable(ops) == chan then check_alts(ops, opts) end
  local priority, n = opts and opts.priority, #ops
  if n < 0 or n > 100000 then raise("%s: from 1 to 100000 operations expected, got %d", what, n) end
  local done, value, i, err = try_alts(ops, n, priority)
  if done then
    local op = ops[i]
    return value, getmetatable(op) == chan and op or op[1], err, i
  end
  local is_crowded
  for k = 1, n do
    local op = ops[k]
    local ch, queue
    if getmetatable(op) == chan then ch, queue = op, op.takes else ch, queue = op[1], op[1].puts end
    if ch.is_special then check_busy(ch) end
    if queue and queue.n >= MOST and opts ~= PRIORITY then is_crowded = true end
  end
  if opts and (opts.nowait or opts.default ~= nil) then return opts.default, "default" end
  if n == 0 or rawget(ops, n) == nil or next(ops, n) ~= nil then check_fields(ops, what) end
  local go = check_can_wait(what)
  for k = 1, is_crowded and n or 0 do
    if getmetatable(ops[k]) == chan then check_room(ops[k], false) else check_room(ops[k][1], true) end
  end
  if go then suspend(park_alts, ops, by_index, priority)
  else go = wait_outside(what, park_alts, ops, by_index, priority) end
  if go.on then check_withdrawn(go) end
  local it = go.alts
  value, go[1] = go[1], false
  return value, it.ch, it.err, it.port
end
end

---Does exactly one of several operations: a channel to take from, or {channel, value} to put.
---@param ops table
---@param opts? { priority?: boolean, default?: any, nowait?: boolean }
---@return any value
---@return runnel.Channel<any>|"default" port
---@return any err
function M.alts(ops, opts)
  local value, port, err = alts(ops, opts)
  if err ~= nil then return value, port, err end
  return value, port
end

-- ---- go blocks and time ----

---Starts a go block that calls f(...). Returns its result channel.
---@param f fun(...): ...
---@return runnel.Channel<any>
function M.go(f, ...)
  if not is_callable(f) then
    raise("go: a function expected, got %s; to call f(...) in a go block, write rn.go(f, ...)", got(f, "go"))
  end
  return spawn(f, ...)
end

---Cancels a go block. Returns whether there was something to cancel.
---@param result runnel.Channel<any>
---@param reason any
---@return boolean
function M.cancel(result, reason)
  check_chan(result, "cancel", "rn.cancel(result, reason), with the result channel of a go block")
  if result.co == nil then
    raise("cancel: %s is not the result channel of a go block or a thread; to end the operations on it, close it",
      label(result))
  end
  if reason == nil then reason = "cancelled" end
  return cancel(result, reason)
end

---The time in ms; in a simulation since it began.
---@return number
function M.now()
  if world.time then pass_time(huge) end
  return world.time or host.now()
end

---Waits for ms.
---@param ms number
function M.sleep(ms)
  check_ms(ms, "sleep")
  park("sleep", sleep, M.now() + ms)
end

---A channel that closes after ms.
---@param ms number
---@return runnel.Channel<any>
function M.timeout(ms)
  check_ms(ms, "timeout")
  local deadline = M.now() + ms
  if not world.time then deadline = -floor(-deadline) end -- or else no two requests would share a channel
  local ch = find_timeout(deadline)
  if not ch then
    local timer, number = { deadline = deadline }, floor(deadline / WINDOW)
    ch = new_chan("none", 0)
    ch.closes_itself, ch.timer, timer.ch = true, timer, ch
    local window = world.pending[number] or { earliest = timer }
    window.latest, world.pending[number] = timer, window
    add_timer(timer)
  end
  return ch
end

do
local function run_ready(n)
  look()
  for _ = 1, n do if world.first then run_next() end end
end
---Lets the other ready go blocks run; outside any go block, runs those that are ready now.
function M.yield()
  if threads and not is_inside() then
    threads.park(running(), 0)
    return look()
  elseif current or is_inside() then
    return park("yield", wake_empty)
  end
  local n, node = 0, world.first
  while node do n, node = n + 1, node.next end
  drive(run_ready, n)
  go_on()
end
end

---Sets the handler of errors, f(err, traceback, where), and returns the previous one.
---@param f? fun(err: any, traceback?: string, where: string)
function M.on_error(f)
  if f ~= nil then check_callable(f, "on_error") end
  local previous = on_error
  on_error = f
  return previous
end

local function check_outside(what)
  if is_inside() then raise("%s: cannot be called inside %s", what, inside) end
  if current then raise("%s: cannot be called inside a go block, where the scheduler is already running", what) end
end

-- Runs f as a go block until it has ended. Returns whether it has not raised, and a list of its results, or its error.
local function run_main(what, f, ...)
  local results
  local outer = world.main
  local go = spawn(f, ...)
  local body = go[1]
  go[1] = function()
    local body_of_a_go_block = body -- where find_c ends
    results = pack(body_of_a_go_block())
  end
  world.main = go
  while true do
    local ok, has_ended = pcall(run_while, go, "f", true)
    if ok and has_ended then break end
    local message = ok and deadlock(what)
    world.main = outer
    if not ok then error(has_ended, 0) end -- f goes on as another go block would
    -- A simulation raises the deadlock where its function waits; elsewhere it is the caller's.
    if not world.time or not go.on then return false, message end
    world.is_deadlock = true
    world.main = go
    cancel(go, message)
  end
  world.main = outer
  if results then return true, results end
  return false, go.reason
end

do
-- A clock that never goes back, from one that does when somebody sets it.
local function steady(now)
  local last, shift = -huge, 0
  return function()
    local time = now() + shift
    if time < last then time, shift = last, shift + last - time end
    last = time
    return time
  end
end

---Tells the library which loop it runs in: see the head of this file. Returns the library.
---@param given table
---@return table
function M.host(given)
  if type(given) ~= "table" then raise("host: a table of functions expected, got %s", got(given, "host")) end
  local needed = given.spawn and { "now", "current", "spawn", "park", "wake" } or { "now" }
  for i = 1, #needed do if not given[needed[i]] then raise("host: the function '%s' is missing", needed[i]) end end
  host = {
    now = steady(given.now), schedule = given.schedule, after = given.after, sleep = given.sleep, turn = given.turn,
    can_wait = given.can_wait,
  }
  threads, suspend = given.spawn and given or nil, given.spawn and park_thread or co_yield
  if not host.schedule and not threads then host.sleep = host.sleep or wait_in_loop end
  armed = nil
  go_on()
  return M
end
end

---For a host whose threads are the go blocks: it has ended the thread of this one. What that waits for is withdrawn, so
---that no value goes to it, and its result channel closes with an error.
---@param go table what spawn and park were given
function M.killed(go)
  if go.on and not go.on.vain then withdraw(go) end
  if not go.f then return end
  go.on = { vain = 0 } -- as if it had been cancelled: the error is not reported
  end_block(go, false, nil, "its thread was ended by the host")
end

do
local function run_for(ms)
  local till = M.now() + ms
  look()
  while world.first do
    run_next()
    if M.now() >= till then break end
    look()
  end
end
---For a program with a loop of its own: fires due timers and runs ready go blocks for at most ms, 1 by default.
---@param ms? number
---@return number? ms until the next deadline; 0 if more go blocks are ready; nil if nothing is left
function M.step(ms)
  if ms ~= nil then check_ms(ms, "step") end
  check_outside "step"
  if is_driving then return 0 end
  drive(run_for, ms or 1)
  if world.first then
    kick()
    return 0
  end
  local timer, untaken = next_timer(), world.untaken[1]
  local deadline = timer and timer.deadline or huge
  if untaken and untaken.deadline < deadline then deadline = untaken.deadline end
  if deadline == huge then
    if armed then arm(-huge) end -- in place of a later call, which would keep the host's loop alive
    return nil
  end
  arm(deadline)
  return max(0, deadline - M.now())
end
end

---Runs f as a go block until it has ended, and returns its results; without f until nothing is ready and no timer is
---set.
---@param f? fun(...): ...
function M.run(f, ...)
  if not threads then
    check_outside "run"
    check_can_sleep "run"
  end
  if f == nil then
    run_while({ true }, 1)
    return
  end
  check_callable(f, "run")
  if threads then return f(...) end
  local ok, results = run_main("run", f, ...)
  if not ok then error(results, 0) end
  return unpack(results, 1, results.n)
end

-- ==== what is built on channels ====

-- These go blocks do not wait in pcall or an iterator, because Lua 5.1 cannot. What one must do at its end is its hook:
-- go.ended(ok, value, err, is_cancellation), which returns the channel from which its error must be taken now.

local function article(value)
  return value == nil and "nothing" or M.is_chan(value) and "a channel" or value == M and "the module"
    or "a " .. type(value)
end
local function describe(value)
  if value == nil then return "nothing" end
  return type(value) == "string" and ("%q"):format(value) or tostring(value)
end
local function expect(is_right, what, expected, value_text)
  if not is_right then raise("%s: %s expected, got %s", what, expected, value_text) end
end
local CHECKS = {
  chan = function(value) return M.is_chan(value), "a channel" end,
  call = function(value) return is_callable(value), "a function" end,
  bool = function(value) return value == nil or type(value) == "boolean", "true or false" end,
  n = function(value, least)
    local is_right = type(value) == "number" and value == floor(value) and value >= least and value < huge
    return is_right, ("an integer of at least %d"):format(least)
  end,
}
-- Checks arguments. Each is described by its kind and its name, as in "chan:from"; "?" after the kind: it may be nil;
-- "*": an option.
local function check(what, names, ...)
  local i = 0
  for kind, optional, name in names:gmatch "(%a+)([?*]?):([^,]*)" do
    i = i + 1
    local value = select(i, ...)
    if optional == "" or value ~= nil then
      local is_right, expected = CHECKS[kind](value, 1)
      local is_short = kind == "n" and (type(value) == "number" or type(value) == "string")
      if optional == "?" then expected = expected .. " or nil" end
      expect(is_right, what .. (name ~= "" and ": " .. name or ""), expected,
        is_short and describe(value) or article(value))
    end
  end
end
local function expect_options(opts, what, ...)
  expect(opts == nil or type(opts) == "table", what, "a table of options", article(opts))
  for key in next, opts or {} do
    local is_known = false
    for i = 1, select("#", ...) do is_known = is_known or key == select(i, ...) end
    if not is_known then raise("%s: unknown option %q; known: %s", what, tostring(key), table.concat({ ... }, ", ")) end
  end
  return opts or {}
end
local function expect_object(value, class, name, what)
  if getmetatable(value) == class then return end
  raise("%s: a %s expected, got %s; call it as %s:%s(...)", what, name, article(value), name:sub(1, 1), what)
end
local function new_out(buffer, what)
  local ok, ch = pcall(M.chan, buffer)
  if not ok then raise("%s: %s", what, (tostring(ch):gsub("^.-chan: ", ""))) end
  return ch
end

-- The next value of a channel; nil and the error with which it was closed, or nil as soon as `out` or `halt` is closed.
local function next_value(from, out, halt)
  if out.is_closed or halt and halt.is_closed then return nil end
  local done, value, err = try_take(from)
  if done then return value, err end
  local _, i
  value, _, err, i = alts({ out:done(), halt or from, halt and from }, PRIORITY)
  if i == (halt and 3 or 2) then return value, err end
end

-- Puts a value. Returns false as soon as the channel is closed.
local function put_open(ch, value)
  local done, accepted = try_put(ch, value)
  if done then return accepted end
  local _, _, _, i = alts({ ch:done(), { ch, value } }, PRIORITY)
  return i == 2
end

-- The library has taken an error of a channel, and nobody can take it from the library.
local function keep_alone(err, from) keep_error(err, from.trace, from.where or label(from), {}) end

-- Closes `to`, if there is one, with an error that came from `from`: whoever takes it from `to` has taken it.
local function pass(to, err, from)
  if err ~= nil and not from.was_reported then
    if not to or to.is_closed then return keep_alone(err, from) end
    keep_error(err, from.trace, from.where or label(from), to)
  end
  if to then
    to.is_known = to.is_known or err ~= nil and from.was_reported
    close(to, err)
  end
end

-- Starts a go block of the library. If it raises an error, `out` closes with that.
local function start(out, f)
  spawn(f).ended = function(ok, _, err)
    if ok or not out then return nil end
    close(out, err)
    return out
  end
  return out
end

---Moves the values of one channel to another one, and closes that at the end unless close_to is false.
function M.pipe(from, to, close_to)
  check("pipe", "chan:from,chan:to,bool:close", from, to, close_to)
  start(close_to ~= false and to, function()
    local value, err = next_value(from, to)
    while value ~= nil and put_open(to, value) do value, err = next_value(from, to) end
    if value == nil and (err ~= nil or not to.is_closed) then pass(close_to ~= false and to, err, from) end
  end)
  return to
end

---A channel with the values of several.
function M.merge(chs, buffer)
  expect(type(chs) == "table" and not M.is_chan(chs), "merge: channels", "a list of channels", article(chs))
  for i = 1, #chs do
    if not M.is_chan(chs[i]) then raise("merge: channels: element %d is not a channel but %s", i, article(chs[i])) end
  end
  for key in next, getmetatable(chs) == nil and chs or {} do
    if chs[1] == nil and key ~= "n" then
      raise "merge: channels: a list expected, got a table with keys but no values 1, 2, ..."
    elseif type(key) == "number" and key > #chs then
      raise("merge: channels: element %d is nil, although the list goes on", #chs + 1)
    end
  end
  local out = new_out(buffer, "merge: buffer")
  local ops, reason, culprit = { out:done(), unpack(chs) }, nil, nil
  return start(out, function()
    while #ops > 1 do
      local value, ch, err, i = alts(ops)
      if i == 1 or value ~= nil and not put_open(out, value) then return end
      if err ~= nil and reason ~= nil then keep_alone(err, ch) end
      if err ~= nil and reason == nil then reason, culprit = err, ch end
      if value == nil then table.remove(ops, i) end
    end
    pass(out, reason, culprit)
  end)
end

do
-- A channel of what f returns: a value, or nil and an error of ch. Closing it ends the go block.
local function answer(ch, f)
  local out = M.chan(1)
  return start(out, function()
    local value, err = f(out)
    if value ~= nil then put_open(out, value) end
    pass(out, err, ch)
  end)
end
local function fold(f, acc, ch, out)
  local value, err = next_value(ch, out)
  while value ~= nil do
    acc = f(acc, value)
    if M.is_reduced(acc) then return acc[1] end
    value, err = next_value(ch, out)
  end
  if err ~= nil then return nil, err end
  return acc
end
---A channel of the accumulator at the end of ch.
function M.reduce(f, init, ch)
  check("reduce", "call:function,chan:channel", f, ch)
  return answer(ch, function(out) return fold(f, init, ch, out) end)
end
---The same, through a transducer.
function M.transduce(xf, f, init, ch)
  check("transduce", "call:transducer,call:function,chan:channel", xf, f, ch)
  return answer(ch, function(out)
    local step = xf(f)
    local acc, err = fold(step, init, ch, out)
    if err ~= nil then return nil, err end
    return (step(acc)) -- a second result would be an error
  end)
end
---A channel of the list, to which the values of ch are appended.
function M.into(list, ch)
  expect(type(list) == "table" and not M.is_chan(list), "into: list", "a table", article(list))
  check("into", "chan:channel", ch)
  local function add(acc, value)
    acc[#acc + 1] = value
    return acc
  end
  return answer(ch, function(out) return fold(add, list, ch, out) end)
end

end

-- An iterator over a list, or the iterator itself.
local function iterator(source, what)
  if is_callable(source) then return source end
  if M.is_chan(source) then return function() return source:take() end end
  expect(type(source) == "table", what, "a list or an iterator function", article(source))
  local i, n = 0, 1
  if getmetatable(source) == nil then
    while source[n] ~= nil do n = n + 1 end
    for key in next, source do
      if type(key) == "number" and key > n then
        raise("%s: a list or an iterator function expected, got a list with a hole: element %d is nil, although the "
          .. "list goes on; use false, or leave it out", what, n)
      end
    end
  end
  return function()
    i = i + 1
    return source[i]
  end
end
local function feeder(ch, next_one, close_ch)
  return function()
    local value = next_one()
    while value ~= nil and put_open(ch, value) do value = next_one() end
    if close_ch ~= false then close(ch) end
  end
end
---Puts the values of a list or an iterator on a channel, and closes it at the end unless close_ch is false.
function M.onto_chan(ch, source, close_ch)
  check("onto_chan", "chan:channel,bool:close", ch, close_ch)
  local go = spawn(feeder(ch, iterator(source, "onto_chan"), close_ch))
  function go.ended(ok, _, err)
    if not ok and close_ch ~= false then close(ch, err) end
  end
  return go
end
---A channel with the values of a list or an iterator.
function M.to_chan(source)
  local ch = M.chan()
  return start(ch, feeder(ch, iterator(source, "to_chan")))
end

---Does one of several operations, { operation, f }, and calls its function. Options: priority, default = f.
function M.alt(clauses)
  expect(type(clauses) == "table" and clauses ~= M, "alt", "a list of clauses",
    article(clauses) .. "; write rn.alt { { channel, function }, ... }")
  local ops, n = {}, #clauses
  for i = 1, n do
    local clause = clauses[i]
    if type(clause) ~= "table" or clause[1] == nil then
      raise("alt: clause %d %s; write {channel, function} or {{channel, value}, function}", i,
        type(clause) == "table" and "has no operation" or "is " .. article(clause))
    end
    check("alt", "call:clause " .. i, clause[2])
    ops[i] = clause[1]
  end
  for key in next, clauses do
    if type(key) == "number" and (key < 1 or key > n) then
      raise("alt: clause %d is nil, although the list goes on", n + 1)
    elseif type(key) ~= "number" and key ~= "priority" and key ~= "default" then
      raise("alt: unknown option %q; known: default, priority", tostring(key))
    end
  end
  local default, functions = clauses.default, {}
  check("alt", "call*:default", default)
  for i = 1, n do functions[i] = clauses[i][2] end -- the caller may change the list while this waits
  local value, port, err, i = alts(ops, { priority = clauses.priority, nowait = default ~= nil }, true)
  if not i then return default() end
  return functions[i](value, port, err)
end

-- ---- mult and pub ----

do -- (a function has at most 200 local variables)
local Mult, Pub = {}, {}
Mult.__index, Pub.__index = Mult, Pub

local function find(m, ch) for i, tap in ipairs(m.taps) do if tap.ch == ch then return tap, i end end end
local function forget(m, ch)
  local tap, i = find(m, ch)
  if not tap then return end
  table.remove(m.taps, i)
  m.changed:offer(true)
  if not m.taps[1] and m.on_empty then m.on_empty() end
end

-- Gives a value to all taps. Those that have no room get it in the order in which they have.
local function give(m, value)
  local late = {}
  for _, tap in ipairs { unpack(m.taps) } do
    local ok, done = pcall(try_put, tap.ch, value)
    if not ok then report(done, nil, label(tap.ch)) elseif not done then late[#late + 1] = tap end
  end
  while late[1] do
    local ops, kept = { m.changed }, {}
    for _, tap in ipairs(late) do
      if find(m, tap.ch) == tap then
        kept[#kept + 1] = tap
        ops[#ops + 1] = { tap.ch, value }
      end
    end
    if not kept[1] then return end
    local _, _, _, i = alts(ops)
    if i > 1 then table.remove(kept, i - 1) end
    late = kept
  end
end
local function new_mult(source)
  local m = setmetatable({ source = source, taps = {}, changed = M.chan(M.sliding_buffer(1)) }, Mult)
  spawn(function()
    local value, err = source:take()
    while value ~= nil do
      give(m, value)
      value, err = source:take()
    end
    local taps, is_passed = m.taps, m.is_passed
    m.ended, m.reason, m.taps, m.on_empty = true, err, {}, nil
    for _, tap in ipairs(taps) do
      if tap.closes and not is_passed then pass(tap.ch, err, source) elseif tap.closes then close(tap.ch, err) end
      is_passed = is_passed or tap.closes
    end
    if err ~= nil and not is_passed then keep_error(err, nil, label(source), m) end
  end)
  return m
end
---A mult gives each value of a channel to all channels that are tapped on it.
function M.mult(ch)
  check("mult", "chan:channel", ch)
  return new_mult(ch)
end
local function add_tap(m, ch, closes)
  if m.ended then
    if closes ~= false then
      m.is_heard = true
      close(ch, m.reason)
    end
  elseif find(m, ch) then find(m, ch).closes = closes ~= false
  elseif not ch:closed() then
    m.taps[#m.taps + 1] = { ch = ch, closes = closes ~= false }
    ch:done():take_async(function() forget(m, ch) end)
  end
  return ch
end
function M.tap(m, ch, close_ch)
  expect_object(m, Mult, "mult", "tap")
  check("tap", "chan:channel,bool:close", ch, close_ch)
  if ch == m.source then raise "tap: the mult would feed its own source; tap another channel" end
  return add_tap(m, ch, close_ch)
end
function M.untap(m, ch)
  expect_object(m, Mult, "mult", "untap")
  check("untap", "chan:channel", ch)
  forget(m, ch)
end
function M.untap_all(m)
  expect_object(m, Mult, "mult", "untap_all")
  while m.taps[1] do forget(m, m.taps[1].ch) end
end
Mult.tap, Mult.untap, Mult.untap_all = M.tap, M.untap, M.untap_all

---A pub gives each value of a channel to those that have subscribed to its topic.
function M.pub(ch, topic_of, buffer_of)
  check("pub", "chan:channel,call:topic function,call?:buffer function", ch, topic_of, buffer_of)
  local p = setmetatable({ source = ch, buffer_of = buffer_of, topics = {}, n = 0 }, Pub)
  spawn(function()
    local value, err = ch:take()
    while value ~= nil do
      local ok, topic = pcall(topic_of, value)
      if ok and topic == nil then
        ok, topic = false, "the topic function returned nil; return false for values without a topic"
      end
      if not ok then report(topic, nil, "the topic function of a pub") end
      local m = ok and p.topics[topic]
      if m then m.source:put(value) end
      value, err = ch:take()
    end
    local all = {}
    for _, m in next, p.topics do all[#all + 1] = m end
    table.sort(all, function(a, b) return a.number < b.number end)
    p.ended, p.reason, p.topics = true, err, {}
    local is_passed = false -- the error is passed on to one channel that it closes
    for _, m in ipairs(all) do
      local is_first = false
      for _, tap in ipairs(m.taps) do is_first = is_first or tap.closes and not is_passed end
      m.is_passed, is_passed = not is_first, is_passed or is_first
      if is_first then pass(m.source, err, ch) else close(m.source, err) end
    end
    if err ~= nil and not is_passed then keep_error(err, nil, label(ch), p) end
  end)
  return p
end
local function check_topic(topic, what)
  if topic == nil then raise("%s: a value other than nil expected", what) end
  if topic ~= topic then raise("%s: nan cannot be used, because it is not equal to itself", what) end
end
function M.sub(p, topic, ch, close_ch)
  expect_object(p, Pub, "pub", "sub")
  check_topic(topic, "sub: topic")
  check("sub", "chan:channel,bool:close", ch, close_ch)
  if ch == p.source then raise "sub: the pub would feed its own source; subscribe another channel" end
  local m = p.topics[topic]
  if not m and not p.ended then
    local source = not ch:closed() and new_out(p.buffer_of and p.buffer_of(topic), "sub: the buffer of the topic")
    if ch:closed() then return ch end -- perhaps by buffer_of
    m = new_mult(source)
    p.n, m.number = p.n + 1, p.n + 1
    p.topics[topic] = m
    function m.on_empty()
      if p.topics[topic] == m then p.topics[topic] = nil end
      close(m.source)
    end
  end
  return add_tap(m or p, ch, close_ch)
end
function M.unsub(p, topic, ch)
  expect_object(p, Pub, "pub", "unsub")
  check_topic(topic, "unsub: topic")
  check("unsub", "chan:channel", ch)
  if p.topics[topic] then M.untap(p.topics[topic], ch) end
end
function M.unsub_all(p, topic)
  expect_object(p, Pub, "pub", "unsub_all")
  for name, m in next, p.topics do if topic == nil or name == topic then M.untap_all(m) end end
end
Pub.sub, Pub.unsub, Pub.unsub_all = M.sub, M.unsub, M.unsub_all

end

-- ---- pipelines and pmap ----

do
-- Runs at most n jobs at a time. A job gives its results by a channel, and counts until they have been delivered; with
-- a wider window until it has closed that channel. `it` has
--   n, window, to, closes  whether `to` closes at the end
--   from, next             the channel, or a function that returns the next value
--   begin(value, result)   starts the go block of a job
--   ended(job, ok, value, err, is_cancellation, trace)  its hook
--   ends_with(err, trace)  called when a job has closed its channel with an error
local function run_jobs(it)
  local to, halt, queue = it.to, new_chan("none", 0), M.chan(LARGEST)
  queue.closes_itself = true -- any number of go blocks may wait for it
  local bell, busy, waiting, delivering, n = M.chan(M.sliding_buffer(1)), 0, 0, 0, 0
  it.jobs, it.halt, it.n_begun = {}, halt, 0
  local function ring() bell:offer(true) end
  local function leave()
    delivering = delivering - 1
    if delivering == 0 then pass(it.closes and to, it.reason, it.culprit or to) end
  end
  function it.follow(job, go) -- which does the job now
    job.go, it.jobs[job.number] = go, job
    function go.ended(...)
      it.jobs[job.number] = nil
      return it.ended(job, ...)
    end
  end
  local function deliver()
    local job = queue:take()
    while job do
      local value, err = job.result:take()
      while value ~= nil do
        if not (it.first_failed and job.number > it.first_failed) then put_open(to, value) end
        value, err = job.result:take()
      end
      if err ~= nil then it.ends_with(err, job.trace) end
      waiting = waiting - 1
      if it.window <= it.n then busy = busy - 1 end
      ring()
      job = queue:take()
    end
    leave()
  end
  local function begin(value)
    n, busy, waiting = n + 1, busy + 1, waiting + 1
    it.n_begun = n
    local job = { number = n, value = value, result = new_chan("fixed", 1) }
    it.follow(job, it.begin(value, job.result))
    if it.window > it.n then
      job.result:done():take_async(function()
        busy = busy - 1
        ring()
      end)
    end
    if delivering < (it.is_ordered and 2 or it.n + 1) then
      delivering = delivering + 1
      spawn(deliver)
    end
    queue:offer(job)
  end
  to:done():take_async(function() close(halt) end)
  delivering = 1
  local starter = spawn(function()
    while not to.is_closed and not halt.is_closed do
      if busy < it.n and waiting < it.window then
        local value, err
        if it.next then value = it.next() else value, err = next_value(it.from, to, halt) end
        if err ~= nil and it.reason == nil then it.reason, it.culprit = err, it.from end
        if value == nil or halt.is_closed or it.next and to.is_closed then break end
        begin(value)
      else
        alts({ halt, bell }, PRIORITY)
      end
    end
    close(queue)
    leave()
  end)
  function starter.ended(ok, _, err, is_cancellation)
    if ok then return nil end
    if not is_cancellation then it.reason, it.culprit = err, to end
    close(queue)
    leave()
    return to
  end
  to:done():take_async(function() -- closed by its reader: an iterator may wait
    if it.next then cancel(starter, "closed") end
  end)
  return to
end

local function check_window(what, window, n)
  expect(CHECKS.n(window, n), what .. ": window", ("an integer of at least %d"):format(n), describe(window))
end
local function pipeline(what, is_ordered, n, to, af, from, closes, window, ex_handler)
  check(what, "n:n,chan:to,call:af,chan:from,bool:close,call*:ex_handler", n, to, af, from, closes, ex_handler)
  local it = { n = n, window = window or n, to = to, from = from, closes = closes ~= false, is_ordered = is_ordered }
  check_window(what, it.window, n)
  local function ask(err, trace)
    local handler, value = ex_handler and spawn(ex_handler, err), nil
    if handler then value, err = handler:take() end
    if value == nil and err ~= nil then report(err, handler and handler.trace or trace, "a job of a pipeline") end
    return value
  end
  function it.begin(value, result) return spawn(af, value, result) end
  function it.ended(job, ok, _, err, _, trace)
    if ok then return nil end
    if err == nil then err = "a job of a pipeline has raised nil" end
    job.go.is_heard = true
    if rawequal(job.result.reason, err) then -- the error of the channel is told
      job.trace = trace
    elseif ex_handler and not job.result.is_closed then
      close(job.result, err)
    else
      if ex_handler then spawn(ask, err, trace) else ask(err, trace) end -- its value would come after the end
      close(job.result)
    end
  end
  function it.ends_with(err, trace)
    local value = ask(err, trace)
    if value ~= nil then put_open(to, value) end
  end
  return run_jobs(it)
end
---Calls af(value, result) with each value of a channel, n at a time; what it puts on result comes in order.
function M.pipeline_async(n, to, af, from, closes, opts)
  local o = expect_options(opts, "pipeline_async", "ex_handler", "window")
  return pipeline("pipeline_async", true, n, to, af, from, closes, o.window, o.ex_handler)
end
---The same, in the order in which it comes.
function M.pipeline_async_unordered(n, to, af, from, closes, opts)
  local o = expect_options(opts, "pipeline_async_unordered", "ex_handler")
  return pipeline("pipeline_async_unordered", false, n, to, af, from, closes, nil, o.ex_handler)
end
---Sends the values of a channel through a transducer, n at a time.
function M.pipeline(n, to, xf, from, closes, ex_handler)
  check("pipeline", "n:n,chan:to,call:transducer,chan:from,bool:close,call?:ex_handler", n, to, xf, from, closes,
    ex_handler)
  return pipeline("pipeline", true, n, to, function(value, result)
    local out = M.chan(1, xf, ex_handler)
    out:put(value)
    close(out)
    value = out:take()
    while value ~= nil and put_open(result, value) do value = out:take() end
    close(result)
  end, from, closes, nil, ex_handler)
end

local function pmap(what, is_ordered, n, f, from, opts)
  check(what, "n:n,call:f,call*:ex_handler", n, f, opts.ex_handler)
  if not is_callable(from) and (type(from) ~= "table" or from == M) then
    raise("%s: from: a channel, a list or an iterator function expected, got %s", what, article(from))
  end
  local window = opts.window or n < 1e6 and n * 16 or n -- more would be no integer
  check_window(what, window, n)
  local to = new_out(opts.buffer, what .. ": buffer")
  local has_window = is_ordered and n > 1 -- one job at a time needs none to stay in order
  local it = { n = n, window = has_window and window or n, to = to, closes = true, is_ordered = is_ordered,
    from = from, next = not M.is_chan(from) and iterator(from, what) or nil }
  local function cancel_later(number, reason)
    for i = number + 1, it.n_begun do
      local job = it.jobs[i]
      if job then
        job.is_cancelled = true
        if not job.go.co then job.go[1] = nothing end -- it has not begun, and shall not
        cancel(job.go, reason)
      end
    end
  end
  function it.begin(value) return spawn(f, value) end
  function it.ended(job, ok, value, err, is_cancellation)
    if ok and value ~= nil then try_put(job.result, value) end
    local has_failed = (not ok or err ~= nil and value == nil) and not job.is_cancelled
    if job.is_cancelled then job.go.is_heard = true end -- the error that has cancelled it speaks for it
    if not has_failed or to.is_closed then
      close(job.result)
      return nil
    end
    job.go.is_heard = true
    if opts.ex_handler and not is_cancellation and not job.is_handled then
      job.is_handled = true
      return it.follow(job, spawn(opts.ex_handler, err, job.value))
    end
    if not it.first_failed or job.number < it.first_failed then
      it.first_failed, it.reason, it.culprit = job.number, err, job.go
    end
    close(job.result)
    close(it.halt)
    cancel_later(job.number, err)
  end
  function it.ends_with() end
  to:done():take_async(function()
    cancel_later(0, ("the result channel of this %s was closed"):format(what))
  end)
  return run_jobs(it)
end
---Calls a function with each value of a channel, a list or an iterator, n at a time, and gives the results in order.
function M.pmap(n, f, from, opts)
  return pmap("pmap", true, n, f, from, expect_options(opts, "pmap", "buffer", "ex_handler", "window"))
end
---The same, in the order in which they come.
function M.pmap_unordered(n, f, from, opts)
  return pmap("pmap_unordered", false, n, f, from, expect_options(opts, "pmap_unordered", "buffer", "ex_handler"))
end

end

-- ---- scopes ----

do
local TimedOut = { code = "timeout", __tostring = function(err) return err.message end,
  __concat = function(a, b) return tostring(a) .. tostring(b) end }
for name, method in next, string do TimedOut[name] = function(err, ...) return method(tostring(err), ...) end end
TimedOut.__index = TimedOut
---Whether an error is that of a time limit.
function M.is_timeout(err) return getmetatable(err) == TimedOut end

local Scope = {}
Scope.__index = Scope

local function cancel_all(s, reason)
  s.is_cancelled = true
  for i = 1, s.n do if s.members[i] then cancel(s.members[i], reason) end end
end
local function fail(s, reason) if not s.raises then s.raises, s.reason = true, reason end end
local function add_member(s, f, ...)
  local go, number = spawn(f, ...), s.n + 1
  s.n, s.living, s.members[number] = number, s.living + 1, go
  function go.ended(ok, _, err, is_cancellation)
    s.members[number], s.living = nil, s.living - 1
    if number == 1 then s.body_error = err end
    if not ok and not is_cancellation then
      if err == nil then err = "a go block of the scope raised nil, or had its coroutine closed" end
      if s.raises and s.reason == s.late and err ~= s.late then
        s.late.message = ("%s; cancelled, it raised: %s"):format(s.late.message, text_of(err))
      elseif not s.raises then
        fail(s, err)
        if not s.is_cancelled then cancel_all(s, err) end
      end
      go.is_heard = true -- the error that the scope raises speaks for later ones
    end
    if s.living == 0 then close(s.idle) end
  end
  return go
end
---Starts a go block of the scope.
function Scope:go(f, ...)
  if getmetatable(self) ~= Scope then raise "s.go: call it with a colon: s:go(f, ...)" end
  check("scope:go", "call:", f)
  if self.idle.is_closed then
    raise "scope:go: the scope has ended; start go blocks before its last one ends, or with rn.go"
  end
  local go = add_member(self, f, ...)
  if self.is_cancelled then cancel(go, self.reason) end
  return go
end
---Cancels all go blocks of the scope.
function Scope:cancel(reason)
  if getmetatable(self) ~= Scope then raise "s.cancel: call it with a colon: s:cancel(reason)" end
  if self.idle.is_closed then return false end
  if reason == nil then reason = "cancelled" end
  if not self.is_cancelled then self.reason = reason end
  cancel_all(self, reason)
  return true
end

-- Waits for a channel to close. Returns the cancellation that ended the wait, or the error of a deadlock.
local function wait_for_end(go, ch)
  if not go then
    local ok, err = pcall(chan.take, ch)
    return not ok and { reason = err } or nil
  end
  suspend(enqueue_take, ch)
  local it = go.on
  if not it or go[1] ~= EMPTY or it.is_told then return nil end
  go.on = false
  return it
end

---Calls a function and returns when it, and the go blocks that it has started with s:go, have ended.
function M.scope(f, opts)
  check("scope", "call:", f)
  local timeout = expect_options(opts, "scope", "timeout").timeout
  if timeout ~= nil then
    expect(type(timeout) == "number" and timeout >= 0 and timeout < huge, "scope: timeout",
      "a number of milliseconds, at least 0,", describe(timeout))
  end
  local go, failures, timer, last = check_can_wait "scope", 0, nil, nil
  local was_cancelled -- the reason that it raises is why the caller was cancelled: the last reason
  local s = setmetatable({ members = {}, n = 0, living = 0, idle = new_chan("none", 0) }, Scope)
  local function expire()
    s.idle.timer = nil
    if s.idle.is_closed then return end
    local others = s.living - (s.members[1] and 1 or 0)
    local text = others == 1 and "1 go block" or others .. " go blocks"
    if s.members[1] then text = others == 0 and "its body" or "its body and " .. text end
    local message = ("scope: %s had not ended after %s ms"):format(text, tostring(timeout))
    s.late = setmetatable({ message = message }, TimedOut)
    fail(s, s.late)
    cancel_all(s, s.late)
  end
  add_member(s, function() s.results = pack(f(s)) end)
  if timeout then
    local late = new_waiter()
    late.callback, late.ch = expire, s.idle -- in its turn: what is ready runs first
    sleep(late, M.now() + timeout)
    timer = late.on
    s.idle.timer = timer -- a thread of the host waits for this deadline, too
  end
  while not s.idle.is_closed do
    local it = wait_for_end(go, s.idle)
    if it then
      last, failures = it, failures + (go and 0 or 1)
      if was_cancelled then s.reason = it.reason end
      was_cancelled = go and (was_cancelled or not s.raises)
      fail(s, it.reason)
      cancel_all(s, it.reason)
      if failures > 1 then error(s.reason, 0) end
    end
  end
  if timer and timer.go.on then withdraw(timer.go) end
  if was_cancelled and go.on and not go.on.is_told then -- cancelled again since all have ended
    last, s.reason = go.on, go.on.reason
  end
  if last and go then last.is_told, go.on = true, last end
  if s.raises then error(s.reason, 0) end
  if s.results then return unpack(s.results, 1, s.results.n) end
  error(s.body_error, 0)
end

end

-- ---- simulations ----

M.sim = {}
local last_elapsed, MOST_JUMPS = 0, 10000 -- from one deadline to the next when f has returned

-- The message of a leak, if a go block is left that the program has started; or nil.
local function leaked(goes_on)
  local lines, n = list_living(not goes_on and "waiting" or nil)
  local does = goes_on and { "goes on", "go on" } or { "waits", "wait" }
  if n > 0 then return ("%d go block%s %s for ever%s"):format(n, n > 1 and "s" or "", does[min(n, 2)], lines) end
end

-- Runs f in a world of its own, with virtual time. Returns whether it has not failed; its results, or the error; and
-- what kind of failure that is.
local function simulate(what, opts, choose_ready, choose_any, f, ...)
  check_outside(what)
  local outer, outer_threads, outer_suspend, seed = world, threads, suspend, random(2147483647)
  world, threads, suspend = new_world(), nil, co_yield
  world.time, world.choose_ready, world.choose = 0, choose_ready, choose_any
  local handler = on_error
  if opts.untaken_fail then -- unless f sets a handler of its own
    on_error = function(err) world.failure = world.failure or { err = err } end
  end
  set_limits(opts.steps)
  if opts.leaks then world.living = {} end -- or the collector would hide leaks
  math.randomseed(opts.seed or 1)
  local ok, is_ok, results = pcall(run_main, what, f, ...)
  local kind = world.is_livelock and "livelock" or world.is_deadlock and "deadlock" or "error"
  if ok and is_ok and opts.leaks then
    world.jumps = MOST_JUMPS
    local has_ended, why = pcall(run_while, { true }, 1)
    local leak = leaked(not has_ended or world.jumps < 0)
    if leak then is_ok, kind, results = false, "leak", leak
    elseif not has_ended then is_ok, kind, results = false, world.is_livelock and "livelock" or "error", why end
  elseif not ok then
    is_ok, results = false, is_ok
  end
  if ok and not world.failure then pcall(report_untaken, huge) end
  if world.failure and is_ok then is_ok, kind, results = false, "error", world.failure.err end
  if opts.untaken_fail then on_error = handler end
  last_elapsed = world.time
  world, threads, suspend, current, is_driving = outer, outer_threads, outer_suspend, false, false
  go_on()
  math.randomseed(seed)
  return is_ok, results, kind
end

---Runs f as a go block under virtual time: when all go blocks wait, time jumps to the next deadline.
---@param f fun(...): ...
---@param opts? { seed?: integer, shuffle?: boolean, leaks?: boolean }
function M.sim.run(f, opts, ...)
  check("sim.run", "call:", f)
  local o = expect_options(opts, "sim.run", "leaks", "seed", "shuffle")
  local state = (o.seed or 1) % 2147483647 + 1
  local function pick(n)
    state = state * 48271 % 2147483647
    return floor(state / 7) % n + 1
  end
  local ok, results, kind = simulate("sim.run", o, o.shuffle and pick, pick, f, ...)
  if not ok then error((kind == "leak" or kind == "livelock") and kind .. ": " .. results or results, 0) end
  return unpack(results, 1, results.n)
end

---Runs f(seed) with each of the seeds 1 to n, shuffled.
function M.sim.each_seed(n, f, opts)
  check("sim.each_seed", "n:number of seeds,call:", n, f)
  local o = expect_options(opts, "sim.each_seed", "leaks")
  for seed = 1, n do
    local ok, err = pcall(M.sim.run, f, { seed = seed, shuffle = true, leaks = o.leaks }, seed)
    if not ok then error(("with seed %d: %s"):format(seed, text_of(err)), 0) end
  end
end

---The virtual time of the running simulation in ms, or of the last one.
function M.sim.elapsed() return world.time or last_elapsed end

---A choice of the simulation, from 1 to n.
function M.sim.choose(n)
  check("sim.choose", "n:how many there are", n)
  if not world.choose then raise "sim.choose: there is nothing to choose outside a simulation" end
  return n > 1 and world.choose(n) or 1
end

-- The story of a run: where each go block waits at the end of its turn. Longer stories are runnel's.
local function place(text) return (text:match "[^/\\]*$") end
function tell(go, how)
  local name = go == world.main and "f" or go.name_in_story
  if not name then
    name = place(name_of(go.f))
    story[name] = (story[name] or 0) + 1
    name = name .. (story[name] > 1 and " #" .. story[name] or "")
    go.name_in_story = name
  end
  local on, text = go.on, how == DONE and "ends" or "ends with an error"
  if HOW[how] then
    text = how == sleep and "sleeps" or on and "waits: " .. operation(on) or "yields"
    text = ("%s (%s)"):format(text, place(line_of(go.co)))
  end
  if story.time ~= world.time then story[#story + 1] = ("  at %s ms:"):format(world.time) end
  story.time, story.turn = world.time, story.turn + 1
  story[#story + 1] = ("%3d   %-14s %s"):format(story.turn, name, text)
end
local TOLD = 40 -- lines of a story
local CAUSES = "; likely causes: state outside of f, the clock, or pairs of a table whose keys are objects"
local function with_story(run)
  story = { turn = 0, time = 0 }
  run()
  local lines = story
  story = nil
  local from = max(1, #lines - TOLD + 1)
  return (from > 1 and ("  ... %d lines, then:\n"):format(from - 1) or "") .. table.concat(lines, "\n", from)
end

---Runs f in every order: each choice of the next go block, of the operation that an alts does, and of sim.choose, in
---turn. An error, a deadlock or a leak raises, with a story.
---@param f fun()
---@param opts? { schedules?: integer, seconds?: number, steps?: integer, leaks?: boolean, schedule?: string }
---@return { schedules: integer, all: boolean }
function M.sim.explore(f, opts)
  check("sim.explore", "call:", f)
  local o = expect_options(opts, "sim.explore", "leaks", "raise", "schedule", "schedules", "seconds", "steps",
    "untaken")
  check("sim.explore", "n*:schedules,n*:steps,bool:leaks", o.schedules, o.steps, o.leaks)
  local is_schedule = type(o.schedule) == "string" and not o.schedule:find "[^%d ]"
  expect(o.schedule == nil or is_schedule, "sim.explore: schedule",
    'what a message of sim.explore ends with, as "1 2 1",', describe(o.schedule))
  expect(o.seconds == nil or type(o.seconds) == "number" and o.seconds >= 0, "sim.explore: seconds",
    "a number of at least 0", describe(o.seconds))
  local path, schedules, depth, difference = {}, 0, 0, nil
  local till = o.seconds and os.clock() + o.seconds or huge
  for number in (o.schedule or ""):gmatch "%d+" do path[#path + 1] = { chosen = tonumber(number) } end
  -- A choice, or the end of a run, differs from the last run, or does not fit the schedule.
  local function differ(n)
    difference = difference or { at = depth, n = n, before = path[depth].n or "what the schedule says" }
  end
  local function pick(n)
    depth = depth + 1
    local it = path[depth] or { chosen = 1, n = n }
    path[depth] = it
    if it.n and it.n ~= n or it.chosen > n then differ(n) end
    return it.chosen <= n and it.chosen or 1
  end
  -- The last half of the steps at one time is first come, first served: a loop that polls must not keep out the others.
  local function pick_ready(n) return world.busy > world.most / 2 and 1 or pick(n) end
  local how = { leaks = o.leaks ~= false, steps = o.steps or 10000, untaken_fail = o.untaken == nil }
  local function run()
    local n = #path
    depth = 0
    local ok, err, kind = simulate("sim.explore", how, pick_ready, pick, f)
    if depth < n then
      depth = depth + 1
      differ "nothing"
    end
    return ok, err, kind
  end
  repeat
    schedules = schedules + 1
    local ok, err, kind = run()
    if not ok then
      local choices, text = {}, kind .. ": " .. text_of(err):gsub("^deadlock: ", "")
      for i = 1, depth do choices[i] = path[i].chosen end
      local fails_again
      local lines = with_story(function() fails_again = not run() end)
      if not fails_again then
        raise("sim.explore: f is not the same in every run: schedule %d fails (%s), and then does not%s", schedules,
          text, CAUSES)
      end
      text = ("sim.explore: %s (schedule %d)\n%s\nTo replay: sim.explore(f, { schedule = %q%s%s })"):format(
        text, schedules, lines, table.concat(choices, " "), o.leaks == false and ", leaks = false" or "",
        o.steps and ", steps = " .. o.steps or "")
      if o.raise then o.raise(err, text) end -- runnel.lite.testing keeps what kind of failure it is
      error(text, 0)
    end
    if difference and o.schedule then
      raise("sim.explore: the schedule does not fit f, which has changed: at choice %d there was %s to choose",
        difference.at, difference.n)
    elseif difference then
      raise("sim.explore: f is not the same in every run: at choice %d there was %s to choose, before %s%s",
        difference.at, difference.n, difference.before, CAUSES)
    end
    if o.schedule then return { schedules = 1, all = false } end
    for i = #path, depth + 1, -1 do path[i] = nil end
    while path[1] and path[#path].chosen == path[#path].n do path[#path] = nil end
    if not path[1] then return { schedules = schedules, all = true } end
    path[#path].chosen = path[#path].chosen + 1
  until schedules == o.schedules or os.clock() > till
  return { schedules = schedules, all = false }
end

return M
