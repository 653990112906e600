---Scopes: go blocks that end together.
---
---    local body = rn.scope(function(s)
---      s:go(watch, path)
---      local page = s:go(fetch, url)
---      return page:take()
---    end, { timeout = 1000 })
---
---No go block of a scope outlives it. The body is one of its go blocks, and the caller of `rn.scope` waits for all of
---them. Each go block has a guard, a `<close>` variable, which is closed however the go block ends. The guard of the
---last one wakes the caller.

local require = require
local core = require "runnel.core"
local check = require "runnel.internal.check"
local class = require "runnel.internal.class"
local guard = require "runnel.internal.guard"
local living = require "runnel.internal.living"
local more = require "runnel.internal.errors.more"
local sign = require "runnel.internal.sign"
local time_limit = require "runnel.internal.time_limit"
local timed_out = require "runnel.internal.timed_out"
local internal = core.internal
local raise = internal.raise

local now, sleep, max = core.now, internal.sleep_at_end, math.max

-- The error of the scope if a guard is closed without an error although its function has not returned. If another
-- error has ended the go block, that is reported.
local NO_ERROR = "a go block of the scope raised nil, or had its coroutine closed"

local UNCOUNTED = "not enough memory: a go block of the scope ended before its guard could be called"

---@class runnel.Scope
---@field members table<integer, runnel.Channel<any>|false> the go blocks that have not ended: their result
---channels, by number
---@field package started integer how many go blocks have been started
---@field package living integer how many of them have not ended
---@field package over boolean no more go blocks can be started
---@field package caller runnel.Channel<any>|nil the go block that waits for the scope; nil outside any
---@field package idle runnel.Channel<any>|false closes when all go blocks have ended; only if the caller waits for it
---@field package sleeps boolean the caller waits for the timeout as well, so it sleeps
---@field package timeout number|false
---@field package began number when the timeout began to count
---@field package cancelled boolean the scope has been cancelled
---@field package reason any the reason of that
---@field package raises boolean rn.scope will raise that reason
---@field package late runnel.TimedOut|false the error of the timeout, when the time is over, until it says what a
---cancelled go block has raised
---@field package results table|false what the body has returned
---@field package body_error any what the body has raised
---@field package others runnel.internal.Others|false errors of go blocks that came after the reason that it raises
---@field package timers { n: integer, [integer]: runnel.Timer }|false those of s:after, in the order in which they were
---made, as long as they are not collected
local Scope = {}
Scope.__sign = "s"
Scope.__name = "scope"

local bodies = setmetatable({}, { __mode = "k" })
living.scopes = bodies

---@class runnel.scopes
local scopes = {}

-- ---- ending ----

-- Cancels a go block. Tries twice, in case memory runs out; after that the scope just waits for the go block.
local function cancel(result, reason)
  if not pcall(core.cancel, result, reason) then pcall(core.cancel, result, reason) end
end

-- The scope is over, or was cancelled: its timers call nothing any more. They are stopped in the order in which they
-- were made, so that a simulation can be replayed.
local function stop_timers(s)
  local timers = s.timers
  for i = 1, timers and timers.n or 0 do
    if timers[i] then timers[i]:stop() end
  end
  s.timers = false
end

-- All go blocks have ended.
local function all_ended(s)
  s.over = true
  stop_timers(s)
  if s.sleeps then internal.wake(s.caller) end
  if s.idle then s.idle:close() end
end

-- Cancels all go blocks, in the order in which they were started, so that a simulation can be replayed.
local function cancel_all(s, reason)
  s.cancelled = true
  stop_timers(s)
  for number = 1, s.started do
    local result = s.members[number]
    if result then cancel(result, reason) end
  end
end

-- Makes the scope raise this reason, unless it will raise another one already.
local function fail(s, reason)
  if s.raises then return end
  s.raises, s.reason = true, reason
end

-- A go block has raised an error, of which the scope tells. If that is nil, the scope tells NO_ERROR.
local function go_block_failed(s, result, raised, err)
  if internal.is_cancellation(result, raised) then return end
  if not s.raises then
    fail(s, err)
    if not s.cancelled then cancel_all(s, err) end
  elseif s.late and s.reason == s.late then
    time_limit.raised(s.late, err)
    s.late = false
  else
    s.others = s.others or more.others "another go block of the scope"
    s.others:add(err)
  end
  internal.excuse(result, raised)
end

-- The guard of a go block.
---@class runnel.Guard
---@field scope runnel.Scope
---@field number integer the number of its go block
---@field ok boolean the go block's function has returned
local Guard = {}
Guard.__index = Guard

function Guard:returned(...)
  self.ok = true
  return ...
end

function Guard:__close(err)
  local s, result = self.scope, self.scope.members[self.number]
  if not result then return end -- count_again has already counted it
  s.members[self.number] = nil
  s.living = s.living - 1
  local ok, failure = true, nil
  if not self.ok then
    local told = err
    if err == nil then told = NO_ERROR end
    self:failed(told)
    ok, failure = pcall(go_block_failed, s, result, err, told)
  end
  if s.living == 0 then all_ended(s) end
  if not ok then error(failure, 0) end
end

---@overload fun(self: runnel.Guard, err: any)
function Guard:failed() end -- luacheck: no unused

-- The guard of the body.
---@class runnel.BodyGuard: runnel.Guard
local BodyGuard = setmetatable({ __close = Guard.__close }, Guard)
BodyGuard.__index = BodyGuard

function BodyGuard:returned(...)
  self.ok = true
  self.scope.results = table.pack(...)
  return ...
end

function BodyGuard:failed(err) self.scope.body_error = err end

-- Counts the go blocks that ended without their guard being called, because there was no memory for the call.
local function count_again(s)
  for number = 1, s.started do
    local result = s.members[number]
    if result and internal.has_ended(result) then
      fail(s, UNCOUNTED)
      s.members[number] = nil
      s.living = s.living - 1
    end
  end
  if s.living == 0 then all_ended(s) end
end

-- ---- starting ----

local function start(s, of, f, ...)
  local number = s.started + 1
  local own = setmetatable({ scope = s, number = number, ok = false }, of)
  s.members[number] = false -- makes room, so that storing the result below cannot fail
  local result = core.go(internal.guarded, own, f, ...)
  s.members[number] = result
  s.started = number
  s.living = s.living + 1
  return result
end

-- Describes the unfinished go blocks, for the timeout's message. The body is member 1.
local function list_living(s)
  local others = s.living - (s.members[1] and 1 or 0)
  local go_blocks = others == 1 and "1 go block" or others .. " go blocks"
  if not s.members[1] then return go_blocks end
  return others == 0 and "its body" or "its body and " .. go_blocks
end

-- Waits until all go blocks have ended. When the time is up it cancels them, and goes on waiting.
local function wait(s)
  if s.over then return end
  if s.timeout then
    local left = s.timeout - (now() - s.began)
    if left > 0 or not s.cancelled then -- else the caller was cancelled just when the time was up
      s.sleeps = true
      sleep(max(0, left))
      time_limit.settle(sleep, s)
      s.sleeps = false
    end
    if s.over then return end
    s.late = time_limit.error(("scope: %s had not ended"):format(list_living(s)), s.timeout)
    s.timeout = false
    fail(s, s.late)
    cancel_all(s, s.late)
  end
  s.idle = s.idle or core.chan()
  if not s.over then internal.join(s.idle) end -- a finalizer may have ended them
end

---Starts a go block, which the scope waits for. If the scope has been cancelled the go block still begins, so that it
---can release its arguments, and is cancelled where it first waits.
---@generic R
---@param f fun(...: any): R|any, ...: any the function
---@param ... any its arguments
---@return runnel.Channel<R> result as rn.go returns it
function Scope:go(f, ...)
  sign.own(self, "s", "go")
  check.callable(f, "scope:go")
  if self.over then raise("scope:go: the scope has ended; start go blocks before its last one ends, or with rn.go") end
  local result = start(self, Guard, f, ...)
  if type(f) ~= "function" then pcall(internal.started, result, "s:go") end -- it may be one of the library: a pool
  if self.cancelled then cancel(result, self.reason) end
  return result
end

-- The time of a timer is over. It may have been restarted after the end of the scope.
local function call_in_scope(s, f, ...)
  if not (s.over or s.cancelled) then start(s, Guard, f, ...) end
end

---Calls a function after a time, as rn.after does, in a go block of the scope. The scope does not wait for the time to
---pass: at its end, or when it is cancelled, its timers are stopped.
---@param ms number
---@param f fun(...: any) the function
---@param ... any its arguments
---@return runnel.Timer timer
function Scope:after(ms, f, ...)
  sign.own(self, "s", "after")
  check.ms(ms, 0, "scope:after")
  check.callable(f, "scope:after")
  if self.over then raise("scope:after: the scope has ended; start timers before its last go block ends") end
  local timer = core.after(ms, call_in_scope, self, f, ...)
  if self.cancelled then
    timer:stop()
  else
    local timers = self.timers or setmetatable({ n = 0 }, { __mode = "v" })
    self.timers, timers.n = timers, timers.n + 1
    timers[timers.n] = timer
  end
  return timer
end

-- Ends a thread of the scope, and waits until it has ended.
local Thread = {}

function Thread:__close(reason)
  local result = self.result
  if result:closed() then return end
  core.cancel(result, reason)
  guard.insist(internal.join, result:done()) -- before Lua 5.4.3 it cannot wait here
end

-- Gives what the function of a thread has done as if the go block had called it.
local function wait_for_thread(result)
  local _ <close> = setmetatable({ result = result }, Thread)
  local message, err = result:take()
  if not message then -- it has returned nothing, was cancelled, or could not begin
    if err ~= nil then error(err, 0) end
    return nil
  end
  result:take() -- until the thread has ended
  local value, has_raised, traceback = message[1], message[2], message[3]
  if has_raised == nil then return value end
  if not has_raised then return nil, value end
  more.keep(value, traceback)
  error(value, 0)
end

---Starts a thread, as rn.thread does, for which the scope waits. Cancelling the scope cancels the thread.
---@param f string|fun(...: any): any as for rn.thread
---@param ... any its arguments
---@return runnel.Channel<any> result as s:go returns it: gives the function's first result, or its error
function Scope:thread(f, ...)
  sign.own(self, "s", "thread")
  if self.over then raise("scope:thread: the scope has ended; start threads before its last go block ends") end
  local threads = require "runnel.threads.start"
  local job, where = threads.describe(f)
  if not job then raise("scope:thread: " .. where) end
  job.in_scope = true
  local result, why = threads.thread(job, where, "thread", ...)
  if not result then raise("scope:thread: " .. why) end
  return self:go(wait_for_thread, result)
end

---Calls a function that is finished before a cancel of the go block is raised: rn.shield.
---@param f fun(...: any): ... the function
---@param opts? { grace?: number } as for rn.shield
---@param ... any its arguments
---@return any ... what it returns
function Scope:shield(f, opts, ...)
  sign.own(self, "s", "shield")
  return require "runnel.rn.shield".shield(f, opts, ...)
end

---Cancels all go blocks of the scope, including the body, as rn.cancel does. `rn.scope` waits until they have ended. If
---the body returns nevertheless, it returns the body's results; otherwise it raises the reason.
---@param reason? any the error that the go blocks get; by default "cancelled"
---@return boolean alive false if they had all ended already
function Scope:cancel(reason)
  sign.own(self, "s", "cancel")
  if self.over then return false end
  if reason == nil then reason = "cancelled" end
  if not self.cancelled then self.reason = reason end
  cancel_all(self, reason)
  return true
end

-- The go block that waits for the scope has been killed. Its go blocks have no waiter any more, but they are cancelled.
function Scope:__close()
  self.over, self.sleeps = true, false
  if self.others then self.others:report "a scope" end -- those of which no error has told
  if self.living > 0 then cancel_all(self, "the go block that waited for the scope has ended") end
end

local OPTIONS = { timeout = check.kinds.ms(0) }

---Runs a function and the go blocks that it starts with `s:go`, and returns when all of them have ended. The first
---error cancels the others and is raised when they have ended. Cancelling the go block that calls this cancels all of
---them.
---@param f fun(s: runnel.Scope): ... the body, which runs in a go block of its own
---@param opts? { timeout?: number } `timeout`: after this many ms all go blocks are cancelled, and an error is raised
---for which rn.is_timeout is true
---@return any ... what the body returns
function scopes.scope(f, opts)
  check.callable(f, "scope")
  check.options(opts, OPTIONS, "scope")
  local timeout = opts and opts.timeout
  local caller = internal.self "scope"
  local s <close> = setmetatable({
    members = {}, started = 0, living = 0, over = false, caller = caller, idle = false, sleeps = false,
    timeout = timeout or false, began = timeout and now() or 0, cancelled = false, reason = nil, raises = false,
    results = false, body_error = nil, late = false, others = false, timers = false,
  }, Scope)
  bodies[s] = f
  start(s, BodyGuard, f, s)
  local failures, was_cancelled = 0, false -- whether the reason that it raises is why the caller was cancelled
  repeat
    local ok, err = pcall(wait, s)
    if not ok then
      s.sleeps = false
      -- The caller was cancelled; or, outside any go block and in a simulation's function, there is a deadlock, which
      -- cancelling the go blocks may end.
      local is_cancelled = caller and guard.may_wait_again(err)
      if was_cancelled and is_cancelled then s.reason = err end -- see guard.last_reason
      was_cancelled = was_cancelled or is_cancelled and not s.raises
      fail(s, err)
      cancel_all(s, err)
      count_again(s)
      if not is_cancelled then failures = failures + 1 end
      if failures > 1 then error(s.reason, 0) end
    end
  until ok
  if was_cancelled then s.reason = guard.last_reason(s.reason) end
  if s.raises then
    if s.others then s.others:go_with(s.reason) end
    error(s.reason, 0)
  end
  if s.results then return table.unpack(s.results, 1, s.results.n) end
  error(s.body_error, 0)
end

scopes.is_timeout = timed_out.is_timeout

class.finish(Scope)

return scopes
