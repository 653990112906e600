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
---limit), or for a shorter time; it returns false if no event can come any more. Without rn.host, the time is
---os.clock's, and rn.run waits in a loop.
---
---A host whose own threads are to be the go blocks (OpenResty) gives four others in place of schedule and after:
---    rn.host { now = f() -> ms, current = f() -> any, spawn = f(g, go), park = f(go, ms), wake = f(go) }
---current returns what stands for the thread that runs, the same each time. spawn begins a thread that calls g, and
---returns before g runs; go is nil for a callback. park(go, ms) returns when wake(go) has been called, even if that
---was before, or when ms have passed (nil: no limit); park(go, 0) lets the others run. The host may keep what it needs
---in the field go.host. Each thread that waits is a go block, also one that the host has begun. If the host ends a
---thread, it calls rn.killed(go).

local co_create, co_resume, co_yield = coroutine.create, coroutine.resume, coroutine.yield
local co_running, co_status, co_close, isyieldable = coroutine.running, coroutine.status,
  coroutine.close, coroutine.isyieldable
local error, getmetatable, pcall, rawequal, select, setmetatable, tostring, type = error, getmetatable, pcall, rawequal,
  select, setmetatable, tostring, type
local xpcall = xpcall
local floor, huge, max, random = math.floor, math.huge, math.max, math.random
local getinfo, traceback = debug.getinfo, debug.traceback
local unpack = table.unpack or unpack -- luacheck: ignore 113 143

local M = {}
local chan = {} -- the metatable of channels, and their methods
chan.__index = chan

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

-- A world has a run queue, timers, pending timeouts, and errors that nobody has taken yet. A simulation has its own,
-- with a virtual time and two functions that choose from 1 to n: choose_ready(n) the go block, choose(n) all else.
---@class runnel.lite.World
local function new_world() return { ready = { n = 0 }, timers = { n = 0 }, seq = 0, pending = {}, untaken = {} } end

local world = new_world()
local current -- the go block that runs
local threads -- the host, if its threads are the go blocks
local blocks = setmetatable({}, { __mode = "k" }) -- the go block of each thread; weak: the host may kill threads
local is_driving = false -- go blocks are being run
local inside -- the kind of function that runs and must not wait, as "a callback"
local on_error -- the program's handler

-- Calls a function of the program that must not wait. Returns whether it has not raised, and its result.
local function call(what, f, ...)
  local outer = inside
  inside = what
  local ok, result = pcall(f, ...)
  inside = outer
  return ok, result
end

-- The name of a channel in messages.
local function label(ch) return "chan: " .. (ch.given_name or "#" .. ch.id) end

-- Raises an error: an operation cannot wait in this place.
local ELSEWHERE = "inside a coroutine of your own within a go block: only the go block itself can park"
local BELOW_C = "across a C call (a metamethod, table.sort, string.gsub, or another C function that called back)"
local function cannot_wait(what, where)
  raise("%s would have to wait, which is impossible %s: %suse offer or poll, or put_async or take_async, or do it in a "
    .. "go block of its own (rn.go)", what, where,
    where == BELOW_C and "do it before that call, and let the function use what it has got; or " or "")
end

-- Raises an error: a queue is full.
local function no_room(ch, most, is_put)
  raise("%s: %d %s", label(ch), most, is_put
    and "puts wait, which is the limit; give the channel a buffer; if the puts come from a callback, a windowed one "
    .. "(sliding_buffer, dropping_buffer)"
    or "takes wait, which is the limit; give each taker a channel of its own (mult), or let fewer go blocks take")
end

-- Raises an error: a program puts on the result channel of a go block.
local function not_yours()
  raise("put: this is the result channel of a go block, and only the go block puts on it; make a channel for more "
    .. "values")
end

-- The error of a go block that has called coroutine.yield.
local YIELDED = "a go block called coroutine.yield, and nothing would resume it: use rn.yield to let others run, or "
  .. "call the code that yields in a coroutine of its own"

-- A queue is a list of nodes, which are linked by their fields prev and next.
local function append(queue, node)
  local last = queue.last
  node.queue, node.prev, node.next = queue, last, nil
  if last then last.next = node else queue.first = node end
  queue.last, queue.n = node, queue.n + 1
end
local function remove(node)
  local queue, before, after = node.queue, node.prev, node.next
  if before then before.next = after else queue.first = after end
  if after then after.prev = before else queue.last = before end
  queue.n, node.queue, node.prev, node.next = queue.n - 1, nil, nil, nil
end

-- The go block that runs.
local function running()
  if not threads then return current end
  local thread = threads.current()
  local go = thread ~= nil and blocks[thread]
  if thread ~= nil and not go then
    go = { vain = 0 }
    go.go, blocks[thread] = go, go
  end
  return go or nil
end

-- Asks the host to call rn.step soon, or when ms have passed.
local is_scheduled, armed
local function kick()
  if is_driving or is_scheduled or not host.schedule or world.time then return end
  is_scheduled = true
  host.schedule(function()
    is_scheduled = false
    M.step()
  end)
end
local function arm(deadline)
  if not host.after or armed and armed <= deadline then return end
  armed = deadline
  host.after(deadline - host.now(), function()
    if armed == deadline then armed = nil end
    M.step()
  end)
end

local look, call_back, end_block -- of the specification
local function wake_thread(go)
  if go.callback then return threads.spawn(function() call_back(go.callback, go.ch, go.value, go.err) end) end
  go.is_woken = true
  threads.wake(go)
end


-- A thread of the host waits for the deadlines of its own operation only; who waits last fires the timers.
local function park_thread(go, how, ...)
  go.is_woken = false
  how(go, ...)
  while not go.is_woken do
    local deadline = go.timer and go.timer.deadline or go.on and go.on.timer and go.on.timer.deadline or huge
    for i = 1, go.waiters and #go.waiters or 0 do
      local timer = go.waiters[i].ch.timer
      if timer and timer.deadline < deadline then deadline = timer.deadline end
    end
    threads.park(go, deadline < huge and max(0, deadline - host.now()) or nil)
    look()
  end
end

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
local function thread_ended(go, ok, value, err)
  if ok then return end_block(go, true, value, value == nil and err or nil) end
  end_block(go, false, nil, value.err, value.trace)
end
local function run_thread(go)
  local arguments = go.arguments or {}
  blocks[threads.current()], go.arguments = go, nil
  thread_ended(go, xpcall(function() return go.f(unpack(arguments, 1, go.n)) end, with_traceback))
end

local function check_can_sleep(what)
  if host.sleep or host.turn or world.time then return end
  raise("%s would have to wait, which is impossible outside a go block where the host has a loop of its own: do it in "
    .. "a go block (rn.go)", what)
end

-- Lets the host's loop handle events. Returns whether there is something to wait for.
local function is_ready() return world.ready.n > 0 end
local function take_turn(till)
  if not host.turn or world.time then return false end
  local untaken = world.untaken[1]
  if not till and untaken then till = untaken.deadline end
  return host.turn(till and max(0, till - M.now()), is_ready) ~= false or till ~= nil
end

-- The timers of a world are a binary heap.
local function is_before(a, b) return a.deadline < b.deadline or a.deadline == b.deadline and a.seq < b.seq end
local function add_timer(timer)
  local timers, i = world.timers, world.timers.n + 1
  world.seq, timers.n, timer.seq = world.seq + 1, i, world.seq
  while i > 1 and is_before(timer, timers[floor(i / 2)]) do
    timers[i], i = timers[floor(i / 2)], floor(i / 2)
  end
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

-- The pending timeouts of a world, by windows of 10 ms. A request for a deadline can share one of its own window, for
-- which the latest suffices, or the earliest of the next window.
local WINDOW = 10
local function find_timeout(deadline)
  local number = floor(deadline / WINDOW)
  local window, following = world.pending[number], world.pending[number + 1]
  if window and window.latest.deadline >= deadline then return window.latest.ch end
  return following and following.earliest.deadline - deadline < WINDOW and following.earliest.ch or nil
end
local function add_timeout(timer)
  local number = floor(timer.deadline / WINDOW)
  if not world.pending[number] then world.pending[number] = { earliest = timer } end
  world.pending[number].latest = timer
end
local function remove_timeout(timer)
  local number = floor(timer.deadline / WINDOW)
  local window = world.pending[number]
  if window.latest == timer then world.pending[number] = nil
  elseif window.earliest == timer then window.earliest = window.latest end
end

-- The name of a go block in messages: where its function is.
local function name_of(go)
  local info = getinfo(go.f, "S")
  return info.short_src .. (info.linedefined > 0 and ":" .. info.linedefined or "")
end

-- ==== the specification ====

local MOST, GRACE, VAIN, NESTED = 1024, 5000, 1000, 8

-- ## Waiting

-- A waiter belongs to a go block, a callback, or the main program: `waiter.go`. For a single operation it is the go
-- block itself. The queues of a channel, ch.puts and ch.takes, are made when something first waits in them.

-- * Waiting puts and waiting takes of a channel are served first come, first served, those of callbacks and alts
--   included. [core.async]
local function enqueue(ch, waiter, is_put, value)
  local name = is_put and "puts" or "takes"
  waiter.is_put, waiter.value = is_put, value
  if not ch[name] then ch[name] = { n = 0 } end
  append(ch[name], waiter)
end
local function first_put(ch) return ch.puts and ch.puts.first end
local function first_take(ch) return ch.takes and ch.takes.first end

-- * A go block that is woken runs after those that are ready already, and never before the one that wakes it waits or
--   ends. [runnel]
local function wake(go, value, port, err)
  go.value, go.port, go.err = value, port, err
  if threads then return wake_thread(go) end
  append(world.ready, go)
  kick()
end

-- * An alts that completes withdraws its other operations before anything else runs. [core.async; Go's select]
local function commit(waiter)
  local go = waiter.go
  local waiters = go.waiters
  if not waiters then remove(go) end
  for i = 1, waiters and #waiters or 0 do remove(waiters[i]) end
  go.waiters, go.parked = nil, nil
  return go
end
local function complete(waiter, value, err)
  local port = waiter.port
  wake(commit(waiter), value, port, err)
end

-- ## Buffers

-- * Without a buffer, and with a fixed one that is full, a put must wait. With another buffer it never waits.
--   [core.async]
local function is_full(ch) return ch.kind == "none" or ch.kind == "fixed" and ch.count >= ch.capacity end

-- * Values leave a buffer in the order in which they came. A dropping buffer that is full drops the new value, a
--   sliding one the oldest; a promise channel keeps its first. [core.async]
-- * A transducer may make several values of one: they go over the limit of a fixed buffer. [core.async]
local function store(ch, value)
  if ch.count >= ch.capacity and ch.kind ~= "fixed" then
    if ch.kind ~= "sliding" then return end
    ch[ch.head], ch.head, ch.count = nil, ch.head + 1, ch.count - 1
  end
  ch[ch.head + ch.count], ch.count = value, ch.count + 1
end

-- * A promise channel gives its value to every take. [core.async]
local function fetch(ch)
  local head = ch.head
  local value = ch[head]
  ch.take_total = ch.take_total + 1
  if ch.kind == "promise" then return value end
  ch[head], ch.count = nil, ch.count - 1
  ch.head = ch.count > 0 and head + 1 or 1
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
local function report(err, trace, where)
  if on_error and call("an error handler", on_error, err, trace, where) then return end
  io.stderr:write("runnel: error in ", where, ": ", tostring(err), trace and "\n" .. trace or "", "\n")
end

-- * The error of a go block must be taken: by a take, a poll or an alts that gets it, or by cancelling the go block
--   when it has ended. Otherwise it is reported after 5 s, before a deadlock is raised, and at the end. [runnel]
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
    if not it.ch.is_heard then report(it.err, it.trace, it.where) end
  end
end

-- ## Closing

-- * A channel that is closed stays closed; closing it again does nothing, also with another error. [core.async]
-- * When a channel is closed, waiting puts stay and can still be taken. Waiting takes get what a transducer adds at
--   the end; then nil, and the error that was given to close. [core.async; the error: runnel]
-- * The done() channel closes when its channel closes, whatever that still holds. [runnel; Go's Context.Done]
local finish
local function close(ch, reason)
  if ch.is_closed or ch.closes_later then return end
  ch.reason = reason
  ch.closes_later = ch.is_busy -- its own transducer closes it: when that has returned
  if ch.is_busy then return end
  ch.is_closed = true
  if not first_put(ch) then finish(ch) end
  local take = first_take(ch)
  while take do
    if reason ~= nil and not take.is_loop then ch.is_heard = true end
    complete(take, nil, reason)
    take = first_take(ch)
  end
  if ch.done_chan then close(ch.done_chan) end
end

-- ## Transducers

-- * An error in a transducer goes to the channel's ex_handler, and what that returns, if not nil, is put. Without a
--   handler, or if it raises, the error is reported. The put returns true. [core.async]
local function put_handled(ch, err)
  local value = ch.handler(err)
  if value ~= nil then store(ch, value) end
end
local function handle(ch, err)
  local ok = false
  if ch.handler then
    ch.is_busy = true
    ok, err = call("an exception handler", put_handled, ch, err)
    ch.is_busy = nil
  end
  if not ok then report(err, nil, label(ch)) end
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
  ch.put_total = ch.put_total + 1
  if not ch.step then
    store(ch, put.value)
    return complete(put, true)
  end
  local value, port, outer, go = put.value, put.port, ch.is_admitting, commit(put)
  ch.is_admitting = true
  transduce(ch, value)
  ch.is_admitting = outer
  wake(go, true, port)
end

-- * A transducer must not use its own channel. [core.async]
local function check_busy(ch)
  if ch.is_busy then
    raise("%s: a transducer or buffer policy must not use the channel that it runs for", label(ch))
  end
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
  check_busy(ch)
  if ch.is_live then not_yours() end
  local take = first_take(ch)
  if take and not ch.step and ch.kind ~= "promise" then
    ch.put_total, ch.take_total = ch.put_total + 1, ch.take_total + 1
    complete(take, value)
    return true, true
  end
  if not take and (is_full(ch) or ch.is_admitting and first_put(ch)) then return false end
  if ch.step then transduce(ch, value) else store(ch, value) end
  ch.put_total = ch.put_total + 1
  serve(ch)
  return true, true
end

-- * A take gets the first value of the buffer, and waiting puts enter the room that it leaves. If no value is buffered
--   it gets that of the first waiting put. [core.async]
-- * Once a closed channel has no values, a take returns nil, and the error with which it was closed. [core.async; the
--   error: runnel]
-- Returns whether the take completes at once, and then its results. The take of a for loop drops the error.
local function try_take(ch, is_loop)
  check_busy(ch)
  local put = first_put(ch)
  if ch.step then
    while put and ch.count == 0 do -- the transducer may drop all that waits
      admit(ch, put)
      put = first_put(ch)
    end
    -- The last waiting put may have been an alts that has withdrawn it.
    if ch.is_closed and ch.count == 0 and not put then finish(ch) end
  end
  if ch.count > 0 then
    local value = fetch(ch)
    put = first_put(ch)
    if not put then return true, value end
    while put and not is_full(ch) do
      admit(ch, put)
      put = first_put(ch)
    end
    if ch.is_closed and not put then finish(ch) end
    return true, value
  elseif put then
    local value = put.value
    ch.put_total, ch.take_total = ch.put_total + 1, ch.take_total + 1
    complete(put, true)
    return true, value
  elseif ch.is_closed then
    if ch.reason ~= nil and not is_loop then ch.is_heard = true end
    return true, nil, ch.reason
  end
  return false
end

-- ## Where an operation can wait

-- * At most 1024 puts and 1024 takes wait on a channel; any number on a timeout or a done() channel. One more raises
--   an error, and has not happened. [core.async]
local function check_room(ch, is_put)
  local queue = is_put and ch.puts or not is_put and ch.takes
  if queue and queue.n >= MOST and not ch.closes_itself then no_room(ch, MOST, is_put) end
end

-- * A go block that was cancelled gets the reason as an error: from the operation in which it waits, or else from its
--   next one that must wait; and again from each later one. If it goes on in spite of that 1000 times, it ends.
--   [runnel]
local DIES = {} -- what such a go block yields
local function raise_cancelled(go)
  if go.is_told then go.vain = go.vain + 1 end
  if go.vain >= VAIN and not threads then co_yield(DIES) end
  go.is_told = go ~= world.main -- the function of rn.run gets it once
  go.is_cancelled = go.is_told
  error(go.reason, 0)
end

-- * Outside any go block an operation runs the go blocks until it completes. If nothing can complete it, that is a
--   deadlock: the operation is withdrawn, and raises an error. [runnel]
local run_until
local function wait_outside(what, how, ...)
  check_can_sleep(what)
  local main = {}
  main.go = main
  how(main, ...)
  if not run_until(function() return main.queue == world.ready end, true) then
    commit(main.waiters and main.waiters[1] or main)
    raise("deadlock: %s would wait for ever", what)
  end
  remove(main)
  return main.value, main.port, main.err
end

-- * An operation that must wait raises an error where it cannot: in a callback, a transducer or a handler, in a
--   coroutine of the program's own within a go block, below a C function. Then nothing has happened. [runnel]
local function check_can_wait(what)
  if inside then cannot_wait(what, "inside " .. inside) end
  local go = running()
  if not go then return end
  if not threads and go.co ~= co_running() then cannot_wait(what, ELSEWHERE) end
  if isyieldable and not isyieldable() then cannot_wait(what, BELOW_C) end
  if go.is_cancelled then raise_cancelled(go) end
end

-- Waits until the operation completes, and returns its results. The scheduler calls how(go, ...), which enqueues the
-- go block, when it has parked: so a yield that Lua refuses has changed nothing.
local function park(what, how, ...)
  local go = running()
  if not go then return wait_outside(what, how, ...) end
  go.is_empty = nil
  if threads then park_thread(go, how, ...) else co_yield(how, ...) end
  if go.is_empty and go.is_cancelled and not go.is_told then raise_cancelled(go) end
  return go.value, go.port, go.err
end

local function park_on(go, ch, is_put, value, is_loop)
  go.parked, go.port, go.is_loop, go.on = true, nil, is_loop, ch
  enqueue(ch, go, is_put, value)
  if threads and go.callback and ch.timer then watch_timer(ch) end
end

-- ## Alts

-- * An alts does exactly one of its operations. If some can complete at once it is one of these, each with the same
--   probability; with the option priority the first of them. [core.async; Go's select]
local function choose(n) return (world.choose or random)(n) end
local function can(op)
  local ch = op.ch
  if ch.is_closed or op.is_put and ch.is_live then return true end
  if op.is_put then return first_take(ch) ~= nil or not is_full(ch) end
  return first_put(ch) ~= nil or ch.count > 0
end
-- Returns whether one completes, and its value, its port, and the error with which its channel was closed.
local function try_alts(ops, priority)
  while true do
    local ready = {}
    for i = 1, #ops do
      if not ops[i].is_passed and can(ops[i]) then ready[#ready + 1] = ops[i] end
      if priority and ready[1] then break end
    end
    if not ready[1] then return false end
    local op = ready[ready[2] and choose(#ready) or 1]
    local done, value, err
    if op.is_put then done, value = try_put(op.ch, op.value) else done, value, err = try_take(op.ch) end
    if done then return true, value, op.port, err end
    op.is_passed = true -- a take: the transducer has dropped the values of all puts that waited
  end
end

-- * If none can complete at once, an alts with a default returns that and "default". Another one waits for all of
--   them, and does the one that another go block completes first. [core.async; Go's select]
-- * The operations of one alts never complete each other. [core.async; Go's select]
-- * Of operations of an alts that wait on the same channel, each is the first with the same probability; with priority
--   the first in the list. [runnel]
local function park_alts(go, ops, priority)
  go.parked, go.waiters = true, ops
  for i = 1, #ops do
    ops[i].go = go
    enqueue(ops[i].ch, ops[i], ops[i].is_put, ops[i].value)
  end
  for i = 1, priority and 0 or #ops do
    local first, n = ops[i], 1
    local is_all_the_same = not first.is_put and first.port == first.ch -- takes that return the same port
    if first.queue.last == first and not is_all_the_same then
      while first.prev and first.prev.go == go do first, n = first.prev, n + 1 end
      local drawn = first
      for _ = 2, n > 1 and choose(n) or 1 do drawn = drawn.next end
      first.value, first.port, drawn.value, drawn.port = drawn.value, drawn.port, first.value, first.port
    end
  end
end

-- ## Time

local function wake_without_result(go)
  go.is_empty = true
  wake(go)
end

-- * sleep waits for the given time; timeout returns a channel that closes after it. Timeouts may share a channel: a
--   request for a deadline gets a pending timeout that is due then, or less than 10 ms later. [core.async]
local function sleep(go, deadline)
  go.timer = { deadline = deadline, go = go }
  add_timer(go.timer)
end
local function begin_timeout(ch, deadline)
  local timer = { deadline = deadline, ch = ch }
  ch.timer = timer
  ch.closes_itself, ch.is_pending = true, true
  add_timeout(timer)
  add_timer(timer)
end
-- * Timers fire in the order of their deadlines, and those with the same deadline in the order in which they were set:
--   in a simulation before the next go block runs, otherwise after 16 more at most. [runnel]
function look()
  local now = M.now()
  local timer = first_timer()
  while timer and timer.deadline <= now do
    remove_first_timer()
    if timer.go then
      timer.go.timer = nil
      wake_without_result(timer.go)
    else
      remove_timeout(timer)
      close(timer.ch)
      timer.ch.is_pending, timer.ch.timer = nil, nil
    end
    timer = first_timer()
  end
  if world.untaken[1] then report_untaken(now) end
end

-- ## Go blocks

-- * go starts a go block, which begins to run after its creator waits or ends, and returns its result channel. That
--   gives the first result of the function, if it is not nil, and closes. [core.async]
local function spawn(result, f, ...)
  local go = { result = result, f = f, co = not threads and co_create(f), vain = 0, n = select("#", ...) }
  go.go, result.go_block, result.is_live = go, go, true
  if go.n > 0 then go.arguments = { ... } end
  if threads then
    threads.spawn(function() run_thread(go) end, go)
  else
    append(world.ready, go)
    kick()
  end
  return go
end

-- * If the function raises an error, or returns nil and an error, the result channel closes with it. [runnel;
--   core.async reports it]
-- * An error that a go block raises must be taken; but not the reason for which it was cancelled, and not an error
--   that ends it before it gets that reason. [runnel]
function end_block(go, ok, value, err, trace)
  local result = go.result
  go.has_ended, result.is_live, result.kind, result.capacity = true, nil, "fixed", 1
  if ok and value ~= nil and not result.is_closed then try_put(result, value) end
  if not ok and go.is_cancelled and not go.is_told then go.was_cancelled, go.reason = true, err end
  if err ~= nil then result.is_known = true end
  close(result, err)
  if ok or go == world.main or go.was_cancelled and rawequal(go.reason, err) then return end
  if err == nil then report(err, trace, name_of(go)) else keep_error(err, trace, name_of(go), result) end
end

-- * cancel withdraws the operation in which a go block waits, which has no effect then. If the operation has completed
--   already, the go block gets its results first. [runnel; Kotlin's Job.cancel]
-- * cancel returns whether the go block still lived. A second cancel, before the go block has got the first reason,
--   changes nothing. [runnel]
local function cancel(go, reason)
  if go.has_ended then
    go.result.is_heard = true
    return false
  end
  if go.is_cancelled and not go.is_told then return true end
  go.is_cancelled, go.is_told, go.was_cancelled, go.reason = true, nil, true, reason
  if go.timer then
    go.timer.withdrawn, go.timer = true, nil
    wake_without_result(go)
  elseif go.parked then
    wake_without_result(commit(go.waiters and go.waiters[1] or go))
  end
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
  local go = { callback = f, ch = ch }
  go.go = go
  if done and on_caller ~= false and nested < NESTED then
    nested = nested + 1
    call_back(f, ch, result, err)
    nested = nested - 1
  elseif done then
    wake(go, result, nil, err)
  else
    park_on(go, ch, is_put, value)
  end
  return not done or result ~= false
end

-- ## The scheduler

-- * Ready go blocks run one at a time, first come, first served, each until it waits or ends. [runnel]
-- * A go block that calls coroutine.yield ends with an error. [runnel]
local HOW = { [park_on] = true, [park_alts] = true, [sleep] = true, [wake_without_result] = true }
local function run_next()
  local ready, go = world.ready, world.ready.first
  for _ = 2, world.choose_ready and ready.n > 1 and world.choose_ready(ready.n) or 1 do go = go.next end
  remove(go)
  if go.callback then return call_back(go.callback, go.ch, go.value, go.err) end
  local arguments = go.arguments
  local ok, how, a, b, c, d
  current, go.vain, go.arguments = go, 0, nil
  if arguments then ok, how, a, b, c, d = co_resume(go.co, unpack(arguments, 1, go.n))
  else ok, how, a, b, c, d = co_resume(go.co) end
  current = nil
  if co_status(go.co) == "dead" then
    if how ~= nil then a = nil end -- an error counts only after nil
    if ok then return end_block(go, true, how, a) end
  elseif HOW[how] then
    return how(go, a, b, c, d)
  else
    how = how == DIES and go.reason or YIELDED
  end
  local trace = traceback(go.co)
  if co_close then co_close(go.co) end -- closes the go block's <close> variables
  end_block(go, false, nil, how, trace)
end

-- * When no go block is ready, the scheduler waits until the next timer is due; a simulation jumps there. [runnel]
-- Runs go blocks until is_over() is true. Returns false if nothing is ready and no timer is set.
local function drive(is_over, is_awaited)
  while not is_over() do
    look()
    local timer, untaken = first_timer(), world.untaken[1]
    local till = timer and timer.deadline
    if is_over() then return true end
    if till and untaken and untaken.deadline < till then till = untaken.deadline end
    if world.ready.n > 0 then
      run_next()
    elseif not take_turn(till) then
      if till and world.time then world.time = till
      elseif till then host.sleep(till - M.now())
      elseif untaken and is_awaited then report_untaken(huge) -- often the cause of a deadlock
      else return false end
    end
  end
  return true
end
function run_until(is_over, is_awaited)
  local outer = is_driving
  is_driving = true
  local is_true = drive(is_over, is_awaited)
  is_driving = outer
  return is_true
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
local function check_callable(f, what)
  local meta = type(f) ~= "function" and getmetatable(f)
  if type(f) == "function" or type(meta) == "table" and meta.__call and meta ~= chan then return end
  raise("%s: a function expected, got %s", what, got(f, what))
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

local ids = 0

local function new_chan(kind, capacity)
  ids = ids + 1
  local ch = { id = ids, kind = kind, capacity = capacity, head = 1, count = 0, put_total = 0, take_total = 0 }
  return setmetatable(ch, chan)
end

-- Gives a channel a transducer, unless it is nil.
local function transduced(ch, xf, ex_handler)
  if xf == nil then
    if ex_handler ~= nil then raise("chan: an exception handler without a transducer would never be called") end
    return ch
  end
  check_callable(xf, "chan: transducer")
  if ex_handler ~= nil then check_callable(ex_handler, "chan: exception handler") end
  if ch.kind == "none" then raise("chan: a transducer needs a buffer; give a size of 1 or more") end
  ch.handler = ex_handler
  ch.step = xf(function(...)
    if select("#", ...) < 2 then return ch end
    local _, value = ...
    if value == nil then raise("a transducer produced nil, which a channel cannot hold") end
    if not ch.is_busy then raise("the reducing function of a channel works only within a put on it") end
    store(ch, value)
    return ch
  end)
  return ch
end

local LARGEST = 2147483647
local BUFFER = { __tostring = function(buffer) return ("%s(%d)"):format(buffer.name, buffer.capacity) end }

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
    if n < 0 or n ~= floor(n) then raise("chan: a buffer size is an integer of 0 or more, got %s", tostring(n)) end
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

---Puts a value; waits until it is taken or buffered. Returns true, or false when the channel is closed.
function chan:put(value)
  check_chan(self, "put", "ch:put(v)")
  check_value(value, "put")
  local done, result = try_put(self, value)
  if done then return result end
  check_can_wait "put"
  check_room(self, true)
  result = park("put", park_on, self, true, value)
  return result
end

local function take(ch, is_loop)
  check_chan(ch, "take", "ch:take()")
  local done, value, err = try_take(ch, is_loop)
  local _
  if done then return value, err end
  check_can_wait "take"
  check_room(ch, false)
  value, _, err = park("take", park_on, ch, false, nil, is_loop)
  return value, err
end

---Takes the next value; waits for one. Returns nil if the channel is closed and has no more, and the error with which
---it was closed.
function chan:take()
  local value, err = take(self)
  if err ~= nil then return value, err end
  return value
end

---A list of all values until the channel is closed; nil and the error if it was closed with one.
function chan:list()
  check_chan(self, "list", "ch:list()")
  local list = {}
  while true do
    local value, err = take(self)
    if err ~= nil then return nil, err end
    if value == nil then return list end
    list[#list + 1] = value
  end
end

---for v in ch do: takes until the channel is closed and has no more.
function chan:__call()
  local value, err = take(self, true)
  if err ~= nil and not self.is_heard and not self.is_known then keep_error(err, traceback(), label(self), self) end
  return value
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
  if self.is_pending then
    raise "close: a timeout closes by itself; other go blocks may share it, so a program cannot close it"
  elseif self.closes_itself and not self.is_closed then
    raise "close: a channel that done() returns closes when its channel closes; close that channel"
  end
  local go = err ~= nil and running()
  local is_reason = go and go.was_cancelled and rawequal(err, go.reason)
  if is_reason and not self.is_closed then self.is_known = true end -- a cancellation is intended
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
  if self.is_live then kind, capacity = "fixed", 1 end
  return { name = self.given_name, id = self.id, buffer = kind, capacity = capacity, values = self.count,
    puts_waiting = self.puts and self.puts.n or 0, takes_waiting = self.takes and self.takes.n or 0,
    put_total = self.put_total, take_total = self.take_total, closed = self:closed() }
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

-- Operation i of a list as a waiter.
local function read_operation(op, i)
  local why
  if getmetatable(op) == chan then return { ch = op, port = op, is_put = false } end
  if op == nil then why = "is nil"
  elseif type(op) ~= "table" then why = "is not a channel"
  elseif getmetatable(op[1]) ~= chan then why = "does not begin with a channel"
  elseif op[2] == nil then why = "has no value to put, or nil, which cannot be put"
  else return { ch = op[1], port = op[1], is_put = true, value = op[2] } end
  raise("alts: operation %d %s; write a channel to take from it, or {channel, value} to put", i, why)
end

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
local function check_fields(ops)
  for key in next, ops do
    if type(key) ~= "number" or key ~= floor(key) then
      raise("alts: the list of operations has a field '%s'; options go into a table of their own: "
        .. "rn.alts({ ... }, { priority = true, default = value })", tostring(key))
    elseif key < 1 or key > #ops then
      read_operation(nil, #ops + 1)
    end
  end
  if #ops == 0 then raise "alts: no operations: it would wait for ever" end
end

-- `by_index`: returns the number of the operation in place of its port.
local function alts(ops, opts, by_index)
  check_alts(ops, opts)
  local waiters = {}
  for i = 1, #ops do
    waiters[i] = read_operation(ops[i], i)
    if by_index then waiters[i].port = i end
  end
  local done, value, port, err = try_alts(waiters, opts and opts.priority)
  if done then return value, port, err end
  for i = 1, #waiters do check_busy(waiters[i].ch) end
  if opts and (opts.nowait or opts.default ~= nil) then return opts.default, "default" end
  check_fields(ops)
  check_can_wait "alts"
  for i = 1, #waiters do check_room(waiters[i].ch, waiters[i].is_put) end
  return park("alts", park_alts, waiters, opts and opts.priority)
end

---Does exactly one of several operations: a channel to take from, or {channel, value} to put.
---@param ops table
---@param opts? { priority?: boolean, default?: any, nowait?: boolean }
---@return any value, runnel.Channel<any> port, any err
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
  if type(f) ~= "function" then
    local meta = getmetatable(f)
    if M.is_chan(f) or type(meta) ~= "table" or not meta.__call then
      raise("go: a function expected, got %s; to call f(...) in a go block, write rn.go(f, ...)", got(f, "go"))
    end
    local callable = f
    f = function(...) return callable(...) end
  end
  local result = new_chan("none", 0)
  spawn(result, f, ...)
  return result
end

---Cancels a go block. Returns whether there was something to cancel.
---@param result runnel.Channel<any>
---@param reason any
---@return boolean
function M.cancel(result, reason)
  check_chan(result, "cancel", "rn.cancel(result, reason), with the result channel of a go block")
  if not result.go_block then
    raise("cancel: %s is not the result channel of a go block or a thread; to end the operations on it, close it",
      label(result))
  end
  if reason == nil then reason = "cancelled" end
  return cancel(result.go_block, reason)
end

---The time in ms; in a simulation since it began.
---@return number
function M.now() return world.time or host.now() end

---Waits for ms.
---@param ms number
function M.sleep(ms)
  check_ms(ms, "sleep")
  local deadline = M.now() + ms
  check_can_wait "sleep"
  park("sleep", sleep, deadline)
end

---A channel that closes after ms.
---@param ms number
---@return runnel.Channel<any>
function M.timeout(ms)
  check_ms(ms, "timeout")
  local deadline = M.now() + ms
  local ch = find_timeout(deadline)
  if not ch then
    ch = new_chan("none", 0)
    begin_timeout(ch, deadline)
  end
  return ch
end

---Lets the other ready go blocks run; outside any go block, runs those that are ready now.
function M.yield()
  if threads and not inside then
    threads.park(running(), 0)
    return look()
  elseif current or inside then
    check_can_wait "yield"
    park("yield", wake_without_result)
    return
  end
  local n = world.ready.n
  look()
  while n > 0 and world.ready.n > 0 do
    n = n - 1
    run_next()
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
  if inside then raise("%s: cannot be called inside %s", what, inside) end
  if current then raise("%s: cannot be called inside a go block, where the scheduler is already running", what) end
end

-- Runs f as a go block until it has ended. Returns whether it has not raised, and a list of its results, or its error.
local function run_main(what, f, ...)
  local results
  local outer, result = world.main, new_chan("none", 0)
  local go = spawn(result, function(...)
    local function keep(...) results = { n = select("#", ...), ... } end
    keep(f(...))
  end, ...)
  world.main = go
  local ended
  repeat
    ended = run_until(function() return go.has_ended end, true)
    -- A simulation raises the deadlock where its function waits; elsewhere it is the caller's.
    local message = ("deadlock: %s would wait for ever"):format(what)
    if not ended and world.time and go.parked then cancel(go, message) else break end
  until false
  world.main = outer
  if not ended then return false, ("deadlock: %s would wait for ever"):format(what) end
  if results then return true, results end
  return false, result.reason
end

---Tells the library which loop it runs in: see the head of this file.
function M.host(given)
  if type(given) ~= "table" then raise("host: a table of functions expected, got %s", got(given, "host")) end
  local needed = given.spawn and { "now", "current", "spawn", "park", "wake" } or { "now" }
  for i = 1, #needed do
    if not given[needed[i]] then raise("host: the function '%s' is missing", needed[i]) end
  end
  host = { now = given.now, schedule = given.schedule, after = given.after, sleep = given.sleep, turn = given.turn }
  threads = given.spawn and given or nil
  if not host.schedule and not threads then host.sleep = host.sleep or wait_in_loop end
  is_scheduled, armed = false, nil
  if world.ready.n > 0 or world.timers.n > 0 then kick() end
  return M
end

---For a host whose threads are the go blocks: it has ended the thread of this one. What that waits for is withdrawn, so
---that no value goes to it, and its result channel closes with an error.
function M.killed(go)
  if go.parked then commit(go.waiters and go.waiters[1] or go) end
  if go.timer then go.timer.withdrawn, go.timer = true, nil end
  if not go.result or go.has_ended then return end
  go.was_cancelled, go.reason = true, "its thread was ended by the host"
  end_block(go, false, nil, go.reason)
end

---For a program with a loop of its own: fires due timers and runs ready go blocks for at most ms, 1 by default.
---@param ms? number
---@return number? ms until the next deadline; 0 if more go blocks are ready; nil if nothing is left
function M.step(ms)
  if ms ~= nil then check_ms(ms, "step") end
  check_outside "step"
  if is_driving then return 0 end
  local till = M.now() + (ms or 1)
  is_driving = true
  look()
  while world.ready.n > 0 do
    run_next()
    if M.now() >= till then break end
    look()
  end
  is_driving = false
  if world.ready.n > 0 then
    kick()
    return 0
  end
  local timer, untaken = first_timer(), world.untaken[1]
  local deadline = timer and timer.deadline or huge
  if untaken and untaken.deadline < deadline then deadline = untaken.deadline end
  if deadline == huge then return nil end
  arm(deadline)
  return max(0, deadline - M.now())
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
    run_until(function() return false end)
    return
  end
  check_callable(f, "run")
  if threads then return f(...) end
  local ok, results = run_main("run", f, ...)
  if not ok then error(results, 0) end
  return unpack(results, 1, results.n)
end

-- ---- simulations ----

M.sim = {}

-- Runs f in a world of its own, with virtual time. Returns what run_main does, and how much time has passed.
local function simulate(what, f, choose_ready, choose_any)
  check_outside(what)
  local outer, outer_threads = world, threads
  world, threads = new_world(), nil
  world.time, world.choose_ready, world.choose = 0, choose_ready, choose_any
  local ok, results = run_main(what, f)
  report_untaken(huge)
  local elapsed = world.time
  world, threads = outer, outer_threads
  return ok, results, elapsed
end

---Runs f as a go block under virtual time: when all go blocks wait, time jumps to the next deadline.
---@param f fun(): ...
---@param opts? { seed?: integer, shuffle?: boolean }
function M.sim.run(f, opts)
  local state = (opts and opts.seed or 1) % 2147483647 + 1
  local function pick(n)
    state = state * 48271 % 2147483647
    return state % n + 1
  end
  local ok, results = simulate("sim.run", f, opts and opts.shuffle and pick, pick)
  if not ok then error(results, 0) end
  return unpack(results, 1, results.n)
end

---Runs f in every order: each choice of the next go block, and of the operation that an alts does, in turn.
---@param f fun()
---@param opts? { schedules?: integer } how many are run at most
---@return { schedules: integer, all: boolean }
function M.sim.explore(f, opts)
  local path, schedules, depth = {}, 0, 0
  local function pick(n)
    depth = depth + 1
    if not path[depth] then path[depth] = { chosen = 1, n = n } end
    return path[depth].chosen
  end
  repeat
    depth, schedules = 0, schedules + 1
    local ok, err = simulate("sim.explore", f, pick, pick)
    if not ok then error(("sim.explore: %s (schedule %d)"):format(tostring(err), schedules), 0) end
    while path[1] and path[#path].chosen == path[#path].n do path[#path] = nil end
    if not path[1] then return { schedules = schedules, all = true } end
    path[#path].chosen = path[#path].chosen + 1
  until schedules == (opts and opts.schedules)
  return { schedules = schedules, all = false }
end

return M
