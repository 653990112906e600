---Calls of code of the user's by go blocks of the library's own, which must go on when that code fails.

local core = require "runnel.core"

local guard = {}

local function with_traceback(err) return { err = err, trace = debug.traceback(nil, 2) } end

local function tried(ok, first, ...)
  if ok then return true, first, ... end
  -- Out of stack, Lua gives up the handler too and leaves a message of its own.
  if type(first) ~= "table" then return false, first end
  return false, first.err, first.trace
end

---Calls a function, which may park.
---@param f function
---@param ... any its arguments
---@return boolean ok
---@return any ... its results; or the error, and the traceback, for core.report
function guard.try(f, ...) return tried(xpcall(f, with_traceback, ...)) end

local function reported(what, ok, first, ...)
  if ok then return true, first, ... end
  core.report(first, (...), what)
  return false, first
end

---Calls a function, which may park. An error goes to the error handler (rn.on_error), with its traceback.
---@param what string what is called, for the handler: "the topic function of a pub"
---@param f function
---@param ... any its arguments
---@return boolean ok
---@return any ... its results, or the error
function guard.call(what, f, ...) return reported(what, guard.try(f, ...)) end

return guard
