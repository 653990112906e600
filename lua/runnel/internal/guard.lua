---Starts the library's own go blocks, and calls the user's functions from them.

local core = require "runnel.core"
local internal = core.internal

internal.library "internal/guard.lua" -- also in a program that requires one of the modules only, such as runnel.uv

local xpcall, is_cancelled = xpcall, internal.is_cancelled

local guard = {}

-- ---- starting ----

---@alias runnel.GiveUp fun(fed: any, reason: any, block: runnel.Channel<any>, is_reported: boolean, trace: string?)

---Starts a go block of the library that feeds channels, or that must not die unnoticed. It may die from an error,
---because it was cancelled (`:kill`), or because a user's function called coroutine.yield. Then `give_up(fed, reason,
---block, is_reported, traceback)` is called, which closes the channels that the go block feeds, so that their takers do
---not wait forever. `give_up` must not wait. `is_reported`: the reason will be reported as an error of the go block,
---unless `give_up` calls `internal.excuse`. If it raises, since memory has run out, the core calls `guard.close`
---instead: `fed` is a channel, or has the channels to close then at 1, 2 and so on.
---@type fun(give_up: runnel.GiveUp, fed: any, f: function, ...: any): runnel.Channel<any>
guard.go = internal.go_feeding

---Names a go block, for rn.ps and messages, after the library function that the program called and the line of that
---call. Go blocks that it starts get the same name. To be called while that library function runs.
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

-- ---- calling ----

local function with_traceback(err) return { err = err, trace = debug.traceback(nil, 2) } end

-- Returns the error and its traceback. If the error is the cancellation of this go block, raises it again: the go block
-- must end.
local function caught(first)
  local err, trace = first, nil
  -- After a stack overflow Lua does not run the message handler; the error is then Lua's own message.
  if type(first) == "table" then err, trace = first.err, first.trace end
  if is_cancelled(err) then error(err, 0) end
  return err, trace
end

---The message handler for errors of the user's functions; `guard.caught` takes apart what it returns.
guard.handler = with_traceback

---The error and the traceback of what `guard.handler` has returned, or of Lua's own message.
guard.caught = caught

local function reported(what, ok, first, ...)
  if ok then return true, first, ... end
  local err, trace = caught(first)
  internal.report(err, trace, what)
  return false, err
end

---Calls a function, which may park. Reports an error to the error handler (rn.on_error), with its traceback.
---@param what string what the handler calls the function, as in "the topic function of a pub"
---@param f function
---@param ... any its arguments
---@return boolean ok
---@return any ... its results, or the error
function guard.call(what, f, ...) return reported(what, xpcall(f, with_traceback, ...)) end

return guard
