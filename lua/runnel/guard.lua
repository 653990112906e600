---Calls of code of the user's by go blocks of the library's own, which must go on when that code fails.

local core = require "runnel.core"

local guard = {}

local function with_traceback(err) return { err = err, trace = debug.traceback(nil, 2) } end

local function finish(what, ok, first, ...)
  if ok then return true, first, ... end
  local failure = first
  -- Out of stack, Lua gives up the handler too and leaves a message of its own.
  if type(failure) ~= "table" then failure = { err = failure } end
  core.report(failure.err, failure.trace, what)
  return false, failure.err
end

---Calls a function, which may park. An error goes to the error handler (rn.on_error), with its traceback.
---@param what string what is called, for the handler: "the topic function of a pub"
---@param f function
---@param ... any its arguments
---@return boolean ok
---@return any ... its results, or the error
function guard.call(what, f, ...) return finish(what, xpcall(f, with_traceback, ...)) end

return guard
