---Streams in time: batch, rate, debounce, throttle, sample.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local deadlock = require "runnel.internal.errors.deadlock"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local pacer = require "runnel.internal.pacer"
local raise = core.internal.raise
local moving = core.internal.moving

local chan, now, cancel = core.chan, core.now, core.cancel
local alts, is_cancelled, put_while_open = moving.alts, core.internal.is_cancelled, moving.put_while_open
local PRIORITY = { priority = true }

local NANOSECOND = 1e-6 -- in ms: the clock's unit. The difference of two equal times may be a little off 0, by rounding

---@class runnel.timed
local timed = {}

-- ---- timers ----

-- The state of the go blocks below:
--   out     the channel that it feeds
--   timer   its timer (guard.timer), or false

local function start_timer(state, ms)
  state.timer = guard.timer(ms)
  return state.timer
end

local function stop_timer(state)
  local timer = state.timer
  state.timer = false
  if timer then cancel(timer) end
end

local function give_up(state, reason)
  stop_timer(state)
  guard.close(state.out, reason)
end

-- Starts the go block of a function of this module and returns its channel.
local function start(what, f, ...)
  local out = chan()
  local state = { out, out = out, timer = false }
  guard.started(guard.go(give_up, state, f, state, ...), what)
  return out
end

-- ---- waiting ----

-- The operations for `choose`: what ends the wait, something to be replaced, and the source.
local function operations(out, ch)
  local never = chan()
  deadlock.private[never] = true
  return { out:done(), never, ch }, never
end

local function unless_failed(ok, value, i, err)
  if ok then return value, i, err end
  if is_cancelled(value) then error(value, 0) end
  return nil, 3, value
end

-- Waits for the first of the operations that is ready; returns a value and the number of the operation. An error that
-- the source raises is treated as the one with which it closed.
local function choose(ops)
  return unless_failed(pcall(alts, ops, PRIORITY))
end

-- ---- batch ----

local function collect(state, ch, n, ms)
  local out = state.out
  local take = ends.source(ch)
  local ops, never = operations(out, ch)
  while true do
    local value, _, err = take(ch, out)
    if value == nil then return ends.close(out, err, ch) end
    local list, size, i = { value }, 1, nil
    ops[2] = ms and size < n and start_timer(state, ms) or never
    while size < n do
      value, i, err = choose(ops)
      if i == 2 and ops[2] ~= state.timer then break end -- the list was taken
      if i == 2 then
        ops[2], state.timer = { out, list }, false -- it grows until it is taken
      elseif value == nil then
        break
      else
        size = size + 1
        list[size] = value
      end
    end
    stop_timer(state)
    if i ~= 2 and not put_while_open(out, list) or value == nil then return ends.close(out, err, ch) end
  end
end

---Makes lists of 1 to n values of a channel. A list is put when it has n values, or `ms` after its first value; until
---it is taken, it goes on growing up to n. While a full list waits, nothing is taken.
---@generic T
---@param ch runnel.Channel<T> the channel to take from
---@param n integer how many values a list may have, 1 or more
---@param ms? number how long a list may wait for its nth value; by default for ever
---@return runnel.Channel<T[]> lists closes when `ch` does, after the last list, with its error if there is one. Closing
---it ends the batch, and what was collected is dropped
function timed.batch(ch, n, ms)
  check.chan(ch, "batch: channel")
  check.integer(n, 1, "batch: n")
  if ms ~= nil then check.ms(ms, 0, "batch: ms") end
  return start("batch", collect, ch, n, ms)
end

-- ---- rate ----

local function pace(state, ch, n, ms)
  local out = state.out
  local take, ops, own_pace = ends.source(ch), { out:done(), false }, pacer.new(n, ms)
  while true do
    local value, _, err = take(ch, out)
    if value == nil then return ends.close(out, err, ch) end
    local left = own_pace:left()
    if left > 0 then
      ops[2] = start_timer(state, left)
      local _, i = alts(ops, PRIORITY)
      if i == 1 then return stop_timer(state) end
    end
    if not put_while_open(out, value) then return end
    own_pace:passed()
  end
end

---Passes on at most n values of a channel in any `ms`: between a value and the nth one after it pass at least `ms`.
---Nothing is dropped: the others wait. One value is taken ahead.
---@generic T
---@param ch runnel.Channel<T> the channel to take from
---@param n integer 1 or more
---@param ms number
---@return runnel.Channel<T> values closes when `ch` does, with its error if there is one. Closing it ends the wait
function timed.rate(ch, n, ms)
  check.chan(ch, "rate: channel")
  check.integer(n, 1, "rate: n")
  check.ms(ms, 0, "rate: ms")
  return start("rate", pace, ch, n, ms)
end

-- ---- the newest value, at a time ----

-- Passes on the newest value when it is due, and drops those before it. `due_of(at, waits, passed)` is called with the
-- time of a new value, whether an older one waits, and when the last one was taken; it returns when the value is due.
local function settle(state, ch, due_of)
  local out, last, due, passed = state.out, nil, nil, -math.huge
  local ops, never = operations(out, ch)
  while true do
    local value, i, err = choose(ops)
    if i == 1 then return stop_timer(state) end
    if i == 3 then
      if value == nil then
        stop_timer(state)
        if last ~= nil then put_while_open(out, last) end
        return ends.close(out, err, ch)
      end
      local at = now()
      due = due_of(at, last ~= nil, passed)
      last = value
      if due - at < NANOSECOND then
        stop_timer(state)
        ops[2] = { out, last }
      elseif not state.timer then
        ops[2] = start_timer(state, due - at)
      end
    elseif not state.timer then
      ops[2], last, passed = never, nil, now() -- the value was taken
    else
      local left = due - now()
      state.timer = false
      ops[2] = left >= NANOSECOND and start_timer(state, left) or { out, last }
    end
  end
end

local DEBOUNCE = { leading = check.kinds.boolean, longest = check.kinds.ms(0) }

---Passes on a value of a channel once `ms` have passed without a new one, and drops earlier ones. Takes from the
---channel at any time: a waiting value is replaced by a new one.
---@generic T
---@param ch runnel.Channel<T> the channel to take from
---@param ms number
---@param opts? { leading?: boolean, longest?: number } `leading`: a value that comes after a pause of `ms` is passed on
---at once, and those after it as without. `longest`: how many ms a value waits at most, however many come after it
---@return runnel.Channel<T> values closes when `ch` does, after its last value, which waits no longer then, with its
---error if there is one. Closing it ends the debounce
function timed.debounce(ch, ms, opts)
  check.chan(ch, "debounce: channel")
  check.ms(ms, 0, "debounce: ms")
  check.options(opts, DEBOUNCE, "debounce")
  local leading, longest = opts and opts.leading, opts and opts.longest or math.huge
  local quiet_at, first = -math.huge, nil -- when the channel is quiet; since when a value waits
  return start("debounce", settle, ch, function(at, waits)
    local is_quiet = at >= quiet_at
    quiet_at = at + ms
    if not waits then first = at end
    if leading and is_quiet and not waits then return at end
    return math.min(quiet_at, first + longest)
  end)
end

---Passes on a value of a channel at once, and then at most one in any `ms`, the newest; drops those between.
---@generic T
---@param ch runnel.Channel<T> the channel to take from
---@param ms number
---@return runnel.Channel<T> values closes when `ch` does, after its last value, which waits no longer then, with its
---error if there is one. Closing it ends the throttle
function timed.throttle(ch, ms)
  check.chan(ch, "throttle: channel")
  check.ms(ms, 0, "throttle: ms")
  return start("throttle", settle, ch, function(at, _, passed) return math.max(at, passed + ms) end)
end

---Passes on the newest value of a channel every `ms`, if there is a new one; drops those between.
---@generic T
---@param ch runnel.Channel<T> the channel to take from
---@param ms number more than 0
---@return runnel.Channel<T> values closes when `ch` does, after its last value, which waits no longer then, with its
---error if there is one. Closing it ends the sample
function timed.sample(ch, ms)
  check.chan(ch, "sample: channel")
  check.ms(ms, 0, "sample: ms")
  if ms == 0 then raise("sample: ms: more than 0 expected") end
  local began = now()
  return start("sample", settle, ch, function(at) return began + ((at - began) // ms + 1) * ms end)
end

return timed
