---Starts the library's own go blocks, and calls the user's functions from them.

local debug = debug
local core = require "runnel.core"
local internal = core.internal

local hide, xpcall, running, traceback = internal.trace.hide, xpcall, coroutine.running, debug.traceback
local is_cancelled, has_ended, is_closed = internal.is_cancelled, internal.has_ended, core.methods.closed
local is_deadlock = internal.is_deadlock

local guard = {}

---The text of an error that the library has raised in a pcall of the caller, without the program's line.
---@param err any
---@return string
function guard.text(err)
  local text, _, place = internal.error_text(err), pcall(internal.raise, "")
  return text:sub(1, #place) == place and text:sub(#place + 1) or text
end

-- ---- starting ----

---@alias runnel.GiveUp fun(fed: any, reason: any, block: runnel.Channel<any>, is_reported: boolean, trace: string?)

---Starts a go block of the library that feeds channels, or that must not die unnoticed. The go block may die from an
---error, by cancellation (`:cancel`), or because a user's function called coroutine.yield. Then `give_up(fed, reason,
---block, is_reported, traceback)` is called: it closes the channels that the go block feeds, so that their takers do
---not wait forever. `give_up` must not wait. `is_reported`: the reason will be reported as an error of the go block,
---unless `give_up` calls `internal.excuse`. If `give_up` raises because memory has run out, the core calls
---`guard.close` instead: `fed` is then a channel, or has the channels to close at 1, 2 and so on.
---@type fun(give_up: runnel.GiveUp, fed: any, f: function, ...: any): runnel.Channel<any>
guard.go = internal.go_feeding

---Names a go block, for rn.ps and messages, after the library function that the program called and the line of that
---call. Go blocks that it starts get the same name. Call it while that library function runs.
---@param block runnel.Channel<any>
---@param what string
---@return runnel.Channel<any> block
function guard.started(block, what)
  pcall(internal.started, block, what) -- if memory runs out, the go block just lacks that name
  return block
end

---The usual `give_up`: closes a channel, or the channels of a list, with the reason; also if memory runs out.
---@type fun(fed: runnel.Channel<any>|runnel.Channel<any>[]|false|nil, reason: any)
guard.close = internal.close_fed

---A `give_up` for a go block that feeds no channel.
function guard.nothing() end

-- ---- timers ----

local function wait(ms) core.sleep(ms) end

---Starts an exact timer that can be cancelled, so that an unused one does not keep the program running. Its go block is
---hidden, so that no program cancels it.
---@param ms number
---@return runnel.Channel<any> timer closes after that time
function guard.timer(ms) return hide(guard.go(guard.nothing, nil, wait, ms)) end

---A timer in a `<close>` variable, which ends it. A channel of rn.timeout would keep the program running until it is
---due.
---@class runnel.internal.Alarm
---@field over runnel.Channel<any> closes when the time is over
---@field private timer runnel.Channel<any>|false
local Alarm = { __close = function(self)
  if self.timer then core.cancel(self.timer) end
end }

---@param ms? number nil, or math.huge: never
---@return runnel.internal.Alarm
function guard.alarm(ms)
  local timer = ms and ms < math.huge and guard.timer(ms)
  return setmetatable({ over = timer or core.chan(), timer = timer }, Alarm)
end

-- ---- ending ----

local CLOSED = "the channel that this go block feeds was closed"

-- channel -> { go block -> what it feeds } for go blocks that end with the channel. Ended go blocks stay until they are
-- collected.
local ending_with = setmetatable({}, { __mode = "k" })

-- Whether a channel, or each of a list, is closed.
local function are_closed(fed)
  for _, ch in ipairs(core.is_chan(fed) and { fed } or fed) do
    if not is_closed(ch) then return false end
  end
  return true
end

-- Cancels go blocks, in the order in which they were started, so that a simulation can be replayed.
local function cancel_all(blocks)
  local list = {}
  for block, fed in pairs(blocks) do
    if not has_ended(block) and are_closed(fed) then list[#list + 1] = block end
  end
  table.sort(list, function(a, b) return a:stats().id < b:stats().id end)
  for _, block in ipairs(list) do core.cancel(block, CLOSED) end
end

local function blocks_of(ch)
  local blocks = ending_with[ch]
  if blocks then return blocks end
  blocks = setmetatable({}, { __mode = "k" })
  local before
  before = internal.on_close(ch, function()
    cancel_all(blocks)
    if before then before() end
  end)
  ending_with[ch] = blocks
  return blocks
end

-- The go block registers itself: if memory runs out here, it dies and so closes what it feeds.
local function run_while_open(fed, f, ...)
  local block = internal.self "a go block of the library"
  for _, ch in ipairs(core.is_chan(fed) and { fed } or fed) do blocks_of(ch)[block] = fed end
  if are_closed(fed) then return end
  return f(...)
end

---Like guard.go, for a go block that may wait elsewhere than on the channels that it feeds, such as in a user's
---function: it is cancelled once all of them are closed.
---@param chs runnel.Channel<any>|runnel.Channel<any>[]
---@param give_up runnel.GiveUp
---@param fed any
---@param f function
---@param ... any
---@return runnel.Channel<any> block
function guard.go_while_open(chs, give_up, fed, f, ...) return guard.go(give_up, fed, run_while_open, chs, f, ...) end

-- ---- calling ----

-- coroutine -> the last error for which the message handler ran there, and its traceback
local failures = setmetatable({}, { __mode = "k" })

---The message handler for xpcall. It returns the error as it is, since the function's `<close>` variables are closed
---with it.
---@param err any
---@return any err
function guard.keep_traceback(err)
  if type(err) == "table" and rawget(err, "has_no_traceback") then return err end -- it would never be shown
  local co = running()
  local failure = failures[co]
  if not (failure and failure.is_again and rawequal(failure.err, err)) then
    failures[co] = { err = err, trace = traceback(nil, 2) }
  end
  return err
end

-- An error for which Lua may not have run a message handler, as after a stack overflow: what it was, in place of Lua's
-- own message.
local function in_words(err) return err == "error in error handling" and "stack overflow" or err end

local keep_traceback = guard.keep_traceback

---What guard.try returns, by the results of xpcall(f, guard.keep_traceback, ...). For a go block whose stack must have
---no other function of the library below `f`: then it counts as one that the program has started.
---@param ok boolean
---@param err any
---@param ... any
---@return boolean ok
---@return any ... its results, or the error and, where there is one, its traceback
function guard.tried(ok, err, ...)
  if ok then return true, err, ... end
  -- The handler has not run for this error if Lua could not run it, or if a function that closed a variable has called
  -- another function of a user, which has failed, too: then there is no traceback.
  local co = running()
  local failure = failures[co]
  failures[co] = nil
  return false, in_words(err), failure and rawequal(failure.err, err) and failure.trace or nil
end

local tried = guard.tried

---Calls a user's function, which may park. Its `<close>` variables get the error as it was raised.
---@param f function
---@param ... any its arguments
---@return boolean ok
---@return any ... its results, or the error and, where there is one, its traceback
function guard.try(f, ...) return tried(xpcall(f, keep_traceback, ...)) end

---Raises an error that guard.try has returned again: it keeps its traceback.
---@param err any
---@param trace? string
function guard.raise(err, trace)
  failures[running()] = { err = err, trace = trace, is_again = true }
  error(err, 0)
end

---Raises an error again if it is the cancellation of this go block, which must then end.
---@param err any
function guard.raise_cancelled(err)
  if is_cancelled(err) then error(err, 0) end
end

local function reported(what, ok, err, ...)
  if ok then return true, err, ... end
  guard.raise_cancelled(err)
  internal.report(err, (...), what)
  return false, err
end

---Whether a go block that waited, and got this error, was cancelled and may wait again. Not if it is the function of a
---simulation and there is a deadlock: it would have the same deadlock again, for ever.
---@param err any
---@return boolean
function guard.may_wait_again(err) return is_cancelled(err) and not is_deadlock(err) end

local may_wait_again = guard.may_wait_again

---Calls a function that waits, and calls it again whenever the go block is cancelled while it waits. Other errors are
---dropped. For the end of `<close>` variables.
---@param f function
---@param ... any its arguments
function guard.insist(f, ...)
  repeat local ok, err = pcall(f, ...) until ok or not may_wait_again(err)
end

---The reason with which a go block that was cancelled is to end: the last one, since the core takes an earlier one for
---an error. It may have been cancelled again since it last waited.
---@param reason any why it was cancelled, as far as it knows
---@return any reason
function guard.last_reason(reason)
  if is_cancelled(reason) then return reason end
  local ok, again = pcall(core.yield)
  if not ok and is_cancelled(again) then return again end
  return reason
end

---Waits until a go block has ended, although the caller was cancelled, and also if it is cancelled again meanwhile. A
---deadlock ends the wait.
---@param block runnel.Channel<any> the result channel
---@param caller any the go block that waits; nil: none
---@param reason any why the caller was cancelled
---@return any reason the last one, which is to be raised
---@return any problem why it did not wait for the end: a deadlock or, outside any go block, Ctrl-C
function guard.join(block, caller, reason)
  local ok, again = pcall(internal.join, block)
  while caller and not ok and may_wait_again(again) do
    reason = again
    ok, again = pcall(internal.join, block)
  end
  if caller and reason ~= nil then reason = guard.last_reason(reason) end
  if ok then return reason end
  return reason, again
end

---Calls a function, which may park. Reports an error to the error handler (rn.on_error), with its traceback.
---@param what string what the handler calls the function, as in "the topic function of a pub"
---@param f function
---@param ... any its arguments
---@return boolean ok
---@return any ... its results, or the error
function guard.call(what, f, ...) return reported(what, tried(xpcall(f, keep_traceback, ...))) end

---The second half of guard.call, for a caller whose stack must stay small: the same with
---guard.called(what, xpcall(f, guard.keep_traceback, ...)).
---@param what string
---@param ... any the results of xpcall
---@return boolean ok
---@return any ...
function guard.called(what, ...) return reported(what, tried(...)) end

return guard
