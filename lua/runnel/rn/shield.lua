---shield: a call that is finished before its caller is cancelled.
---
---    rn.shield(function()
---      conn:write(first_half)
---      conn:write(second_half)
---    end)
---
---The function runs in a go block of its own. If the caller is cancelled, that go block is not: the caller waits for
---its end, and raises the reason then.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local more = require "runnel.internal.errors.more"
local time_limit = require "runnel.internal.time_limit"
local internal = core.internal

local xpcall, take = xpcall, internal.moving.take

---@class runnel.shield
local shield = {}

-- What a function has returned, or its error and the traceback, once it has ended. It is the guard of its go block
-- (internal.guarded).
---@class runnel.internal.Shielded
---@field ended table|nil packed results of guard.try
local Call = { __close = guard.nothing }
Call.__index = Call

function Call:returned(...) self.ended = table.pack(guard.tried(...)) end

-- Returns the results of a call that has ended, or raises its error.
local function result_of(call, err)
  local ended = call.ended
  if not ended then error(err, 0) end -- its coroutine was closed, or it has called coroutine.yield
  if ended[1] then return table.unpack(ended, 2, ended.n) end
  more.keep(ended[2], ended[3])
  error(ended[2], 0)
end

-- The go block of the caller may be killed where it waits: then the function is cancelled.
local Waiting = { __close = function(self)
  if self.timer then self.timer:stop() end
  core.cancel(self.block, "the go block that waited for the shield has ended")
end }

local OPTIONS = { grace = check.kinds.ms(0) }

---Calls a function, and returns its results. If the calling go block is cancelled meanwhile, the function goes on, and
---the reason is raised when it has ended; an error that the function raises then is reported. In a go block that was
---cancelled before, it raises the reason at once, but for `<close>` variables, in which it calls the function.
---@generic R
---@param f fun(...: any): R|any, ...: any
---@param opts? { grace?: number } `grace`: how many ms the function may go on when the caller was cancelled; then it is
---cancelled with an error for which rn.is_timeout is true. By default it may take any time
---@param ... any the arguments of `f`
---@return R|any result
---@return any ...
function shield.shield(f, opts, ...)
  check.callable(f, "shield: f")
  check.options(opts, OPTIONS, "shield")
  local caller = internal.self "shield"
  local call = setmetatable({ ended = nil }, Call)
  local block = core.go(internal.guarded, call, xpcall, f, guard.keep_traceback, ...)
  local waiting <close> = setmetatable({ block = block, timer = false }, Waiting)
  local ok, reason, err = pcall(take, block)
  if ok then return result_of(call, err) end
  -- The caller was cancelled; or, outside any go block and in a simulation's function, there is a deadlock.
  if not caller or internal.is_deadlock(reason) then core.cancel(block, reason) end
  local grace = opts and opts.grace
  local late = grace and time_limit.error("shield: the function had not ended", grace)
  if grace then waiting.timer = core.after(grace, core.cancel, block, late) end
  local last = guard.join(block, caller, reason)
  local ended = call.ended
  if ended and not ended[1] and ended[2] ~= late and ended[2] ~= reason then
    internal.report(ended[2], ended[3], "a shield")
  end
  error(last, 0)
end

return shield
