---retry: calls a function again when it raises.

local core = require "runnel.core"
local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local time_limit = require "runnel.internal.time_limit"

local sleep = core.sleep

---@class runnel.retry
local retry = {}

local NO_ERROR = "a try raised nil, called coroutine.yield, or had its coroutine closed"

---Calls a function until it succeeds, for `retry`, and for functions with its options.
---@param what string the function that the program called, for the error of the timeout
---@param tries integer
---@param first number ms before the second try
---@param timeout? number
---@param f function
---@param ... any its arguments
---@return any ... its results
function retry.call(what, tries, first, timeout, f, ...)
  local limit = time_limit.new(what .. ": a try had not ended", timeout)
  for tried = 1, tries do
    local results, err, dropped = limit:call(nil, f, ...)
    local got = results or dropped or {}
    if got[1] == nil and got[2] ~= nil then err = dropped and time_limit.raised(err, got[2]) or got[2] end
    if results and err == nil then return table.unpack(results, 1, results.n) end
    if tried == tries then error(err == nil and NO_ERROR or err, 0) end
    sleep(backoff.pause(first, tried))
  end
end

local OPTIONS = { tries = true, backoff = true, timeout = check.kinds.ms(0) }

---Calls a function until it succeeds, at most `tries` times, and returns its results; or raises its last error. It
---fails by raising an error, or by returning nil and one. The delay before the second try is `backoff` ms, then it
---doubles each time, up to a minute; a random part between half and all of it is used. Each try runs in a go block of
---its own. Cancelling the calling go block ends the running try, or the delay, and starts no other one.
---@generic R
---@param f fun(...: any): R|any, ...: any
---@param opts? { tries?: integer, backoff?: number, timeout?: number } `tries`: default 3. `backoff`: default 100.
---`timeout`: ms for a try; one that takes longer is cancelled, and has failed with an error for which rn.is_timeout is
---true, also if it returns something then
---@param ... any the arguments of `f`
---@return R|any result
---@return any ...
function retry.retry(f, opts, ...)
  check.callable(f, "retry: f")
  check.options(opts, OPTIONS, "retry")
  opts = opts or {}
  local tries, first = backoff.options(opts, "retry")
  core.internal.self "retry" -- raises where parking is impossible
  return retry.call("retry", tries, first, opts.timeout, f, ...)
end

return retry
