---The main function of an rn.thread, in its own Lua state: called with the job by rn.thread.

local package, require = package, require
local rn = require "runnel"
local core = require "runnel.core"
local bytecode = require "runnel.threads.bytecode"
local guard = require "runnel.internal.guard"
local living = require "runnel.internal.living"
local more = require "runnel.internal.errors.more"
local sendable = require "runnel.internal.sendable"
local thread_function = require "runnel.threads.thread_function"

---@class runnel.ThreadJob what runnel.thread sends to a thread
---@field main string this module, for csrc/lua/state/lua_thread.c, which requires it
---@field code? string the function, as string.dump returns it
---@field module? string or the name of the module that returns it
---@field args table the function's arguments, and `n`
---@field path string package.path
---@field cpath string package.cpath
---@field modules? runnel.Channel<table<string, string>> a promise of bytecode for package.preload
---@field driver? string the module of the driver
---@field seed integer for the scheduler's random choices
---@field name string of the thread, for messages
---@field control runnel.Channel<any> closed when the thread is to end: with a reason for which it is cancelled, or
---without one when the state that has started it ends
---@field result runnel.Channel<any> gets what the function returns
---@field reports runnel.Channel<table> gets the thread's unhandled errors
---@field trace? runnel.threads.trace_threads if threads are recorded
---@field in_scope? boolean the result channel gets what the function does as a message: { value }; { err, true,
---traceback } if it has raised, { err, false } if it has returned nil and an error. The scope handles the error

-- The outermost function of the go block that calls the thread's function. It does not belong to the library, so the go
-- block counts as one that the program has started: if it is cancelled, each later wait raises the reason.
local OF_PROGRAM <const> = assert(load("(...)()", "=thread"))

local RAISED_NIL <const> = "the function of a thread has raised nil"

---@param job runnel.ThreadJob
return function(job)
  local result, reports = job.result, job.reports
  core.internal.seed(job.seed)
  core.internal.thread_name = job.name
  bytecode.inherit(job.modules)
  if job.driver then rn.driver(require(job.driver)) end
  rn.on_error(function(err, traceback, where)
    if err == core.internal.INTERRUPTED then return end
    reports:put_async { err = sendable(err), traceback = traceback, where = ("%s in %s"):format(where, job.name) }
  end)
  local function fail(err, traceback)
    local trace = job.in_scope and more.in_thread(err, traceback)
    err = err == nil and RAISED_NIL or sendable(err) -- nil would say that there is no error
    if job.in_scope then return result:put { err, true, trace } end
    result:close(err)
    reports:put_async { err = err, traceback = traceback, where = job.name, is_result = true }
  end

  -- The function has returned these values.
  local function finish(value, problem)
    if value ~= nil then
      local is_sent, why = pcall(result.put, result, job.in_scope and { value } or value)
      local place = job.in_scope and "^.-put: value%[1%]" or "^.-put: value"
      if not is_sent then fail((why:gsub(place, "thread: result"))) end
    elseif problem ~= nil then
      if job.in_scope then result:put { sendable(problem), false } else result:close(sendable(problem)) end
    end
  end

  local recorder = job.trace and require "runnel.tracing.trace_recorder"
  if recorder then recorder.join(job.trace) end
  local has_returned = false
  local main = rn.go(OF_PROGRAM, function()
    rn.rename(job.name)
    local ok, value, problem = guard.try(function()
      return thread_function(job)(table.unpack(job.args, 1, job.args.n))
    end)
    if ok then finish(value, problem)
    elseif core.internal.is_cancelled(value) then result:close(sendable(value))
    else fail(value, problem) end
    has_returned = true
  end):name(job.name)
  -- Not control:done(): that would count as a pending event and hide a deadlock.
  local stopped = rn.chan()
  core.internal.on_close(job.control, function()
    core.internal.thread_stops = true
    core.internal.hears_cancel()
    local _, reason = job.control:poll()
    if reason == nil then stopped:close() else rn.cancel(main, reason) end
  end)
  local ok, err
  repeat
    ok, err = pcall(rn.alts, { main, stopped })
    local is_deadlock = not ok and type(err) == "string" and err:find("deadlock: ", 1, true)
  until not (is_deadlock and living.fail_stuck and living.fail_stuck(err))
  if not ok then
    fail(err)
    has_returned = true
  end
  if not has_returned then -- the error that has ended it got past xpcall: it was cancelled
    local _, reason = job.control:poll()
    if reason ~= nil then result:close(reason) end
  end
  -- Go blocks that the function has started or made ready before it returned get a turn: if one fails, the program gets
  -- the error, even if this thread has already heard that the program ends.
  pcall(core.yield)
  local start = package.loaded["runnel.threads.start"] -- if it has started threads itself
  if start then start.finish() end
  core.internal.report_unhandled()
  if recorder then recorder.leave() end
  reports:close()
  -- Last, because code that sees the thread's end must not find this in a list of waits.
  if has_returned then result:close() end
end
