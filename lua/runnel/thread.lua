---rn.thread calls a function in an OS thread with a Lua state of its own; rn.threads makes a pool of such threads.

local core = require "runnel.core"
local internal = core.internal

local check = require "runnel.internal.check"

---@class runnel.thread
local thread = {}

-- Reports that wait to be taken by the state that has started the thread.
local REPORTS = 1024

local LONGEST_NAME = 200 -- bytes, of a channel's name

-- What can be sent of a function, or of the name of a module; and its name. Raises at the line of the program that has
-- called `caller`.
local function describe(f, caller)
  local function fail(message, ...) error(caller .. ": " .. message:format(...), 4) end
  if type(f) == "string" then return { module = f }, f end
  if type(f) ~= "function" then
    fail("a function or the name of a module expected, got %s", f == nil and "nothing" or "a " .. type(f))
  end
  local info = debug.getinfo(f, "uS")
  if info.what == "C" then fail "a function written in C cannot be sent; give the name of a module that returns one" end
  for i = 1, info.nups do
    local name = debug.getupvalue(f, i)
    if name ~= "_ENV" then
      fail("the function uses '%s', a local variable from outside it, which another state does not have: require it "
        .. "inside, or pass it as an argument", name == "(no name)" and "?" or name)
    end
  end
  return { code = string.dump(f) }, ("%s:%d"):format(info.short_src, info.linedefined)
end

-- The name of the module that is the driver, or nil.
local function driver_module()
  local driver = core.driver(nil)
  core.driver(driver)
  if driver == nil then return nil end
  for name, module in pairs(package.loaded) do
    if rawequal(module, driver) then return name end
  end
end

-- Passes the thread's errors on to on_error: those that nobody takes. `take` is internal.listen for a thread of a pool,
-- which may wait for jobs for ever. Whoever cancels this go block ends the thread.
local function receive(take, reports, result, control)
  local _ <close> = control
  while true do
    local report, err = take(reports)
    if report == nil then
      if err ~= nil then internal.unhandled(err, nil, result:name(), result) end
      return
    end
    if report.is_result then internal.unhandled(report.err, report.traceback, report.where, result)
    else internal.report(report.err, report.traceback, report.where) end
  end
end

-- Starts a thread for what `describe` returned; `caller` is what the program has called.
local function start(job, where, caller, ...)
  job.name = (caller .. " " .. where):sub(1, LONGEST_NAME)
  job.path, job.cpath, job.args = package.path, package.cpath, table.pack(...)
  if internal.is_simulation() then
    error(caller .. ": a simulation, whose time is virtual, cannot start threads", 3)
  end
  job.driver, job.seed = driver_module(), internal.seed()
  local control, result, reports = core.shared_chan(), core.shared_chan(1), core.shared_chan(REPORTS)
  result:name(job.name)
  job.control, job.result, job.reports = control, result, reports
  local status, why = internal.start_thread(job, control, result, reports)
  if not status then error(caller .. ": " .. why:gsub("^value%.args%[(%d+)%]", "argument %1"), 3) end
  local block = core.go(receive, caller == "threads" and internal.listen or reports.take, reports, result, control)
  internal.stands_for(internal.started(block, caller), status, job.name)
  return result
end

---Calls a function in an OS thread of its own, in a Lua state with its own go blocks. Source: core.async's thread.
---
---    local sum = rn.thread(function(n)
---      local sum = 0
---      for i = 1, n do sum = sum + i end
---      return sum
---    end, 1e8)
---    print(sum:take())
---
---The function is copied into that state, and so are its arguments and its result: as values that are put on a shared
---channel. It sees global variables, but those of its own state, and may use no local variable from outside it: it
---requires what it needs. package.path, package.cpath and the driver are as here when it starts.
---
---The thread ends when the function returns, as a program does: its other go blocks are dropped. An error of the
---function closes the result; it is reported here, if nobody takes it, as of a go block. So is an error that nobody has
---taken of another go block of the thread.
---@param f string|fun(...: any): any the function, or the name of a module that returns it
---@param ... any its arguments
---@return runnel.Channel<any> result a shared channel that gets the function's first result, and closes
function thread.thread(f, ...)
  local job, where = describe(f, "thread")
  local result = start(job, where, "thread", ...)
  return result
end

-- ---- pools ----

---The options of rn.threads.
---@class runnel.ThreadsOptions
---@field n? integer jobs that each thread does at a time; default 1. More are of use when jobs wait

---A pool of threads that call one function.
---@class runnel.Pool
---@operator call(any): any
---@field private jobs runnel.Channel<table>
---@field private results runnel.Channel<any>[] of the threads
local Pool = {}
Pool.__index = Pool

-- Passes the results of an asynchronous job on; `result` closes as `out` does, and the other way round.
local function deliver(out, result)
  local from <close> = out
  while true do
    local value, err = from:take()
    if value == nil then return result:close(err) end
    if not result:put(value) then return end
  end
end

---Calls the function in one of the threads, and returns its first result or raises its error. With `result`, the
---channel of a job of rn.pipeline_async, the function gets a channel in its place, and this returns at once.
---@param value any
---@param result? runnel.Channel<any>
---@return any
function Pool:__call(value, result)
  local out = core.shared_chan(1)
  local ok, open = pcall(self.jobs.put, self.jobs, { value = value, out = out, is_async = result ~= nil })
  if not ok then
    local path = type(open) == "string" and open:match "put: value%.(value.*)"
    if path then error("threads: " .. path, 2) end
    error(open, 0)
  end
  if not open then error("threads: the pool is closed", 2) end
  if result ~= nil then
    core.go(deliver, out, result)
    return
  end
  local closing <close> = out -- if this go block is cancelled, so is the job
  local returned, err = closing:take()
  if err ~= nil then error(err, 0) end
  return returned
end

---Closes the pool: it takes no more jobs. Waits until those that it has are done and the threads have ended.
function Pool:close()
  self.jobs:close()
  for _, result in ipairs(self.results) do result:take() end
end

Pool.__close = Pool.close
Pool.__name = "pool of threads"

local OPTIONS = { n = true }

---Makes a pool of threads that call a function: wherever the library takes a function that is called for each value,
---the pool can be given in its place, and the calls run in the threads.
---
---    local resize = rn.threads(4, "resize")
---    for image in rn.pmap(8, resize, images) do ... end
---
---The function is sent as for rn.thread. A value goes to any thread that is free.
---@param k integer how many threads
---@param f string|function the function, or the name of a module that returns it
---@param opts? runnel.ThreadsOptions
---@return runnel.Pool pool
function thread.threads(k, f, opts)
  check.integer(k, 1, "threads: k")
  check.options(opts, OPTIONS, "threads")
  local n = opts and opts.n or 1
  check.integer(n, 1, "threads: n")
  local what, where = describe(f, "threads")
  local jobs, ready = core.shared_chan(), core.shared_chan(k)
  jobs:name(("jobs of threads " .. where):sub(1, LONGEST_NAME))
  local pool = setmetatable({ jobs = jobs, results = {} }, Pool)
  for i = 1, k do
    pool.results[i] = start({ module = "runnel.internal.pool_main" }, where, "threads", what, n, jobs, ready)
  end
  for _ = 1, k do
    local is_ready, err = ready:take()
    if is_ready ~= true then
      jobs:close()
      error("threads: " .. tostring(is_ready and is_ready[1] or err), 2)
    end
  end
  return pool
end

return thread
