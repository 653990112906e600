---What the library's own go blocks have in common: how they are started, and how they call code of the user's.

local core = require "runnel.core"

local xpcall, is_cancelled = xpcall, core.moving.is_cancelled
local close = core.methods.close

local guard = {}

-- ---- starting ----

---@alias runnel.GiveUp fun(fed: any, reason: any, block: runnel.Channel<any>, is_reported: boolean)

---Starts a go block of the library's own: every one is started here. It may die of more than an error: somebody
---cancels it (`:kill`), or code of the user's that it calls leaves it by coroutine.yield. Then who takes from what it
---was to feed would wait for ever; so `give_up(fed, reason, block, is_reported)` is called, in which nothing can wait.
---`is_reported`: the error handler (rn.on_error) is about to hear the reason, unless `core.excuse` keeps it from that.
---@type fun(give_up: runnel.GiveUp, fed: any, f: function, ...: any): runnel.Channel<any>
guard.go = core.moving.go

---Says for what of the program's a go block was started, and where: it is called so in rn.ps and in messages. Those
---that it starts itself are called by the same name. To be called by what the program has called, perhaps by way of
---other functions of the library.
---@param block runnel.Channel<any>
---@param what string
---@return runnel.Channel<any> block
function guard.started(block, what)
  pcall(core.started, block, what) -- without memory it has no such name; but it has been started
  return block
end

---The usual `give_up`: closes a channel with the reason, or without one where there is no memory for that.
---@param ch runnel.Channel<any>|false|nil nothing happens without one
---@param reason any
function guard.close(ch, reason)
  if ch and not pcall(close, ch, reason) then close(ch) end
end

---A `give_up` for what feeds nothing.
function guard.nothing() end

-- ---- calling ----

local function with_traceback(err) return { err = err, trace = debug.traceback(nil, 2) } end

-- The error and the traceback. A go block that has been cancelled must end: what it was cancelled with is raised.
local function caught(first)
  local err, trace = first, nil
  -- Out of stack, Lua gives up the handler too and leaves a message of its own.
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
---@return any ... its results; or the error, and the traceback, for core.report
function guard.try(f, ...) return tried(xpcall(f, with_traceback, ...)) end

local function reported(what, ok, first, ...)
  if ok then return true, first, ... end
  local err, trace = caught(first)
  core.report(err, trace, what)
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
