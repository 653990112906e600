---Scopes: go blocks that end together.
---
---    local body = rn.scope(function(s)
---      s:go(watch, path)
---      local page = s:go(fetch, url)
---      return page:take()
---    end, { timeout = 1000 })
---
---No go block outlives the scope that started it. The body is a go block of the scope, too, and whoever calls
---`rn.scope` waits for all of them. Each has a guard, which is closed however its go block ends; the last one ends the
---waiting.

local core = require "runnel.core"
local check = require "runnel.check"
local timed_out = require "runnel.timed_out"
local internal = core.internal

-- What the scope raises if the guard is closed without an error. The go block's own error, if any, is reported.
local NO_ERROR = "a go block of the scope has raised nil, or somebody has closed its coroutine"

local UNTOLD = "not enough memory: a go block has ended, and could not tell its scope"

---@class runnel.Scope
---@field package members table<integer, runnel.Channel<any>|false> number -> result channel of a go block that has not
---ended
---@field package started integer how many have been started
---@field package living integer how many of them have not ended
---@field package over boolean nothing more can be started
---@field package idle runnel.Channel<any> closes when all have ended, and the timer, too
---@field package timer runnel.Channel<any>|false the result channel of the go block that waits for the timeout
---@field package cancelled boolean
---@field package reason any why it was cancelled
---@field package raises boolean whether that is an error of the scope as a whole
---@field package results table|false what the body has returned
---@field package body_error any or raised
local Scope = {}
Scope.__index = Scope
Scope.__name = "scope"

---@class runnel.scopes
local scopes = {}

-- ---- ending ----

-- Cancels a go block; where twice there is no memory for that, it is waited for all the same.
local function cancel(result, reason)
  if not pcall(core.cancel, result, reason) then pcall(core.cancel, result, reason) end
end

-- All have ended.
local function all_ended(s)
  s.over = true
  if s.timer then cancel(s.timer) else s.idle:close() end
end

-- Cancels all go blocks, in order: a simulation must come out the same again.
local function cancel_all(s, reason)
  s.cancelled = true
  for number = 1, s.started do
    local result = s.members[number]
    if result then cancel(result, reason) end
  end
end

-- Makes the reason what the scope raises, unless it has one already.
local function fail(s, reason)
  if s.raises then return end
  s.raises, s.reason = true, reason
end

-- A go block has raised an error.
local function go_block_failed(s, result, err)
  if s.raises or internal.is_cancellation(result, err) then return end
  fail(s, err)
  if not s.cancelled then cancel_all(s, err) end
  if err ~= NO_ERROR then internal.excuse(result, err) end
end

-- The guard of a go block.
---@class runnel.Guard
---@field scope runnel.Scope
---@field number integer of its go block in the scope
---@field ok boolean the function has returned
local Guard = {}
Guard.__index = Guard

function Guard:returned(...)
  self.ok = true
  return ...
end

function Guard:__close(err)
  local s, result = self.scope, self.scope.members[self.number]
  if not result then return end -- counted already
  s.members[self.number] = nil
  s.living = s.living - 1
  local ok, failure = true, nil
  if not self.ok then
    if err == nil then err = NO_ERROR end
    self:failed(err)
    ok, failure = pcall(go_block_failed, s, result, err)
  end
  if s.living == 0 then all_ended(s) end
  if not ok then error(failure, 0) end
end

---@overload fun(self: runnel.Guard, err: any)
function Guard:failed() end -- luacheck: no unused

-- That of the body.
---@class runnel.BodyGuard: runnel.Guard
local BodyGuard = setmetatable({ __close = Guard.__close }, Guard)
BodyGuard.__index = BodyGuard

function BodyGuard:returned(...)
  self.ok = true
  self.scope.results = table.pack(...)
  return ...
end

function BodyGuard:failed(err) self.scope.body_error = err end

-- That of the timer, which is none of the scope's members.
local TimerGuard = {}
TimerGuard.__index = TimerGuard

function TimerGuard:returned() end -- luacheck: no unused

function TimerGuard:__close()
  local s = self.scope
  s.timer = false
  if s.living == 0 then s.idle:close() end
end

-- A go block that dies for want of memory may die before its guard can be called: looks for such.
local function count_again(s)
  for number = 1, s.started do
    local result = s.members[number]
    if result and internal.has_ended(result) then
      fail(s, UNTOLD)
      s.members[number] = nil
      s.living = s.living - 1
    end
  end
  if s.timer and internal.has_ended(s.timer) then s.timer = false end
  if s.living == 0 then all_ended(s) end
end

-- ---- starting ----

local function start(s, class, f, ...)
  local number = s.started + 1
  local guard = setmetatable({ scope = s, number = number, ok = false }, class)
  s.members[number] = false -- so that nothing can fail once it has been started
  local result = core.go(internal.guarded, guard, f, ...)
  s.members[number] = result
  s.started = number
  s.living = s.living + 1
  return result
end

-- Describes what has not ended, for the timeout's message. The body is the first member.
local function list_living(s)
  local others = s.living - (s.members[1] and 1 or 0)
  local go_blocks = others == 1 and "1 go block" or others .. " go blocks"
  if not s.members[1] then return go_blocks end
  return others == 0 and "its body" or "its body and " .. go_blocks
end

local function time_out(s, ms)
  core.rename "timeout of a scope"
  core.sleep(ms)
  if s.over then return end
  local reason = timed_out.new(("scope: %s had not ended after %s ms"):format(list_living(s), ms))
  fail(s, reason)
  cancel_all(s, reason)
end

---Starts a go block, which the scope waits for. If the scope has been cancelled it begins nevertheless, so that it
---can take care of what it was given, and is cancelled where it waits for the first time.
---@generic R
---@param f fun(...: any): R|any, ...: any the function
---@param ... any its arguments
---@return runnel.Channel<R> result as of rn.go
function Scope:go(f, ...)
  check.object(self, Scope, "a scope", "scope:go")
  check.callable(f, "scope:go")
  if self.over then
    error("scope:go: the scope has ended; start go blocks before its last one ends, or with rn.go", 2)
  end
  local result = start(self, Guard, f, ...)
  if self.cancelled then cancel(result, self.reason) end
  return result
end

---Cancels all go blocks of the scope, the body among them, as rn.cancel does. `rn.scope` waits for them, and then
---returns what the body returns; or raises the reason, if that has kept the body from returning.
---@param reason? any the error that they get; by default "cancelled"
---@return boolean alive whether any of them was left
function Scope:cancel(reason)
  check.object(self, Scope, "a scope", "scope:cancel")
  if self.over then return false end
  if reason == nil then reason = "cancelled" end
  if not self.cancelled then self.reason = reason end
  cancel_all(self, reason)
  return true
end

-- Where the go block that waits for the scope is killed, nobody waits any more; but they end all the same.
function Scope:__close()
  self.over = true
  if self.timer then cancel(self.timer) end
  if self.living > 0 then cancel_all(self, "the go block that waited for the scope has ended") end
end

local function check_timeout(ms)
  if ms == nil then return end
  if type(ms) ~= "number" or ms ~= ms or ms < 0 or ms == math.huge then
    error(("scope: timeout: a finite number of milliseconds of 0 or more expected, got %s"):format(tostring(ms)), 3)
  end
end

---Runs a function whose go blocks end before it returns. The first error, of the function or of a go block started
---with `s:go`, cancels the rest and is raised when they have ended. Cancelling the go block that calls this cancels
---them all.
---@param f fun(s: runnel.Scope): ... the body, which runs as a go block of its own
---@param opts? { timeout?: number } after so many ms all are cancelled, and an error is raised for which
---rn.is_timeout is true
---@return any ... what the body returns
function scopes.scope(f, opts)
  check.callable(f, "scope")
  check.options(opts, { timeout = true }, "scope")
  local timeout = opts and opts.timeout
  check_timeout(timeout)
  local caller = internal.self "scope"
  local s <close> = setmetatable({
    members = {}, started = 0, living = 0, over = false, idle = core.chan(), timer = false, cancelled = false,
    reason = nil, raises = false, results = false, body_error = nil,
  }, Scope)
  if timeout then s.timer = core.go(internal.guarded, setmetatable({ scope = s }, TimerGuard), time_out, s, timeout) end
  start(s, BodyGuard, f, s)
  local failures = 0
  repeat
    local ok, err = pcall(internal.join, s.idle)
    if not ok then
      -- Cancelled; or something else, such as a deadlock outside any go block, which may pass when they are cancelled.
      fail(s, err)
      cancel_all(s, err)
      count_again(s)
      if not (caller and internal.is_cancellation(caller, err)) then failures = failures + 1 end
      if failures > 1 then error(s.reason, 0) end
    end
  until ok
  if s.raises then error(s.reason, 0) end
  if s.results then return table.unpack(s.results, 1, s.results.n) end
  error(s.body_error, 0)
end

return scopes
