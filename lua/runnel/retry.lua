---retry: calls a function again when it raises.

local core = require "runnel.core"
local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local scope = require "runnel.scope".scope
local timed_out = require "runnel.timed_out"
local internal = core.internal

local cancel, rename, sleep, pack, unpack = core.cancel, core.rename, core.sleep, table.pack, table.unpack

---@class runnel.retry
local retry = {}

-- One try. It runs in a scope: so its time limit, and the cancellation of the caller, end it wherever it waits, and
-- whatever error it makes of that. `name` is for rn.ps.
local function try(f, args, timeout, name)
  local late
  local result = pack(pcall(scope, function(s)
    rename(name)
    local watcher = timeout and s:go(function()
      rename(name .. " (timeout)")
      sleep(timeout)
      late = timed_out.new(("retry: a try had not ended after %s ms"):format(timeout))
      s:cancel(late)
    end)
    local results = pack(f(unpack(args, 1, args.n)))
    if watcher then cancel(watcher) end
    return unpack(results, 1, results.n)
  end))
  local err = result[2]
  if not result[1] and late and err ~= late and not internal.moving.is_cancelled(err) then
    late.message = ("%s; cancelled, it raised: %s"):format(late.message, tostring(err))
    result[2] = late
  end
  return result
end

-- Where a function was defined.
local function name_of(f)
  local info = type(f) == "function" and debug.getinfo(f, "S")
  return info and info.what ~= "C" and ("retry %s:%d"):format(info.short_src, info.linedefined) or "retry"
end

local OPTIONS = { tries = true, retry = true, timeout = true }

---Calls a function until it does not raise, at most `tries` times, and returns its results, or raises its last error.
---Before the second try it waits `retry` ms, then twice as long each time, up to a minute; of that a random part between
---the half and the whole. Each try runs in a go block of its own. Cancelling the go block that calls this ends the try
---that runs, or the wait, and no other one begins.
---@generic R
---@param f fun(...: any): R|any, ...: any
---@param opts? { tries?: integer, retry?: number, timeout?: number } `tries`: default 3. `retry`: default 100.
---`timeout`: ms for a try; one that takes longer is cancelled, and has failed with an error for which rn.is_timeout is
---true
---@param ... any the arguments of `f`
---@return R|any result
---@return any ...
function retry.retry(f, opts, ...)
  check.callable(f, "retry: f")
  check.options(opts, OPTIONS, "retry")
  opts = opts or {}
  local timeout = opts.timeout
  if timeout ~= nil then check.ms(timeout, 0, "retry: timeout") end
  local tries, first = backoff.options(opts, "retry")
  internal.self "retry" -- raises where parking is impossible
  local args, name = pack(...), name_of(f)
  for tried = 1, tries do
    local result = try(f, args, timeout, name)
    if result[1] then return unpack(result, 2, result.n) end
    local err = result[2]
    if tried == tries or internal.moving.is_cancelled(err) then error(err, 0) end
    sleep(backoff.pause(first, tried))
  end
end

return retry
