---retry: calls a function again when it raises.

local core = require "runnel.core"
local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local decimal = require "runnel.internal.decimal"
local guard = require "runnel.internal.guard"
local timed_out = require "runnel.internal.timed_out"
local internal = core.internal

local alts, cancel, sleep = internal.moving.alts, core.cancel, core.sleep
local PRIORITY = { priority = true }

---@class runnel.retry
local retry = {}

local NO_ERROR = "a try raised nil, called coroutine.yield, or had its coroutine closed"

-- The guard of a try's go block (internal.guarded), which keeps its results.
local Try = {}
Try.__index = Try

function Try:returned(...)
  local result, err = ...
  if result == nil and err ~= nil then error(err, 0) end
  self.results = table.pack(...)
end

function Try.__close() end

-- Cleans up a try at any end of the go block that waits for it.
local Leftover = {}

function Leftover:__close()
  cancel(self.block)
  if self.timer then cancel(self.timer) end
end

-- Makes one try, in a go block of its own, since the time limit must be able to end it wherever it waits. Returns its
-- results; or nil and its error. `caller` is nil outside any go block.
local function try(caller, timeout, f, ...)
  local self, late = setmetatable({ results = false }, Try), nil
  local block = core.go(internal.guarded, self, f, ...)
  local timer = timeout and guard.timer(timeout) or nil
  local leftover <close> = setmetatable({ block = block, timer = timer }, Leftover) -- luacheck: ignore 211
  local ops = { block, timer }
  while true do
    local ok, value, i, err = pcall(alts, ops, PRIORITY)
    if not ok then
      -- The caller was cancelled, whatever the try does about it; or, outside any go block, there is a deadlock.
      cancel(block, value)
      repeat local has_ended = pcall(internal.join, block) until has_ended or not caller
      error(value, 0)
    elseif i == 2 then
      late = timed_out.new(("retry: a try had not ended after %s ms"):format(decimal.text(timeout)))
      cancel(block, late)
      ops = { block }
    elseif self.results then
      return self.results
    elseif late and err ~= late then
      late.message = ("%s; cancelled, it raised: %s"):format(late.message, tostring(err))
      return nil, late
    else
      return nil, err == nil and NO_ERROR or err
    end
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
---true
---@param ... any the arguments of `f`
---@return R|any result
---@return any ...
function retry.retry(f, opts, ...)
  check.callable(f, "retry: f")
  check.options(opts, OPTIONS, "retry")
  opts = opts or {}
  local timeout = opts.timeout
  local tries, first = backoff.options(opts, "retry")
  local caller = internal.self "retry" -- raises where parking is impossible
  for tried = 1, tries do
    local results, err = try(caller, timeout, f, ...)
    if results then return table.unpack(results, 1, results.n) end
    if tried == tries then error(err, 0) end
    sleep(backoff.pause(first, tried))
  end
end

return retry
