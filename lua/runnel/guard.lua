---What the library's own go blocks have in common: how they are started, and how they call code of the user's.

local core = require "runnel.core"
local internal = core.internal

local xpcall, is_cancelled = xpcall, internal.moving.is_cancelled
local close = core.methods.close

local guard = {}

-- ---- starting ----

---@alias runnel.GiveUp fun(fed: any, reason: any, block: runnel.Channel<any>, is_reported: boolean)

---Starts a go block of the library; all of them are started here. It may die of an error, because somebody cancels it
---(`:kill`), or because code of the user's that it calls uses coroutine.yield. Takers of the channels that it feeds
---would then wait for ever, so `give_up(fed, reason, block, is_reported)` is called, which must not wait.
---`is_reported`: the reason will be reported as an error of the go block, unless `give_up` calls `excuse`.
---@type fun(give_up: runnel.GiveUp, fed: any, f: function, ...: any): runnel.Channel<any>
guard.go = internal.moving.go

---Names a go block, in rn.ps and in messages, after the library function that the program called and the line of that
---call. Go blocks that it starts get the same name. Call it while that function of the library runs.
---@param block runnel.Channel<any>
---@param what string
---@return runnel.Channel<any> block
function guard.started(block, what)
  pcall(internal.started, block, what) -- if memory runs out, the go block is started without that name
  return block
end

---The usual `give_up`: closes a channel with the reason; without the reason if memory runs out.
---@param ch runnel.Channel<any>|false|nil false or nil: does nothing
---@param reason any
function guard.close(ch, reason)
  if ch and not pcall(close, ch, reason) then close(ch) end
end

---A `give_up` for a go block that feeds no channel.
function guard.nothing() end

-- ---- calling ----

local function with_traceback(err) return { err = err, trace = debug.traceback(nil, 2) } end

-- Returns the error and the traceback. A go block that was cancelled must end, so its cancellation is raised again.
local function caught(first)
  local err, trace = first, nil
  -- When the stack overflows, Lua does not run the message handler, and the error is Lua's own message.
  if type(first) == "table" then err, trace = first.err, first.trace end
  if is_cancelled(err) then error(err, 0) end
  return err, trace
end

local function tried(ok, first, ...)
  if ok then return true, first, ... end
  return false, caught(first)
end

---Calls a function, which may park.
---@param f function
---@param ... any its arguments
---@return boolean ok
---@return any ... its results; or the error, and the traceback, for internal.report
function guard.try(f, ...) return tried(xpcall(f, with_traceback, ...)) end

local function reported(what, ok, first, ...)
  if ok then return true, first, ... end
  local err, trace = caught(first)
  internal.report(err, trace, what)
  return false, err
end

---Calls a function, which may park. An error goes to the error handler (rn.on_error), with its traceback.
---@param what string what is called, for the handler: "the topic function of a pub"
---@param f function
---@param ... any its arguments
---@return boolean ok
---@return any ... its results, or the error
function guard.call(what, f, ...) return reported(what, xpcall(f, with_traceback, ...)) end

return guard
