---rn.thread calls a function in an OS thread with a Lua state of its own; rn.threads makes a pool of such threads.

local core = require "runnel.core"
local internal = core.internal

local check = require "runnel.internal.check"
local pool = require "runnel.internal.pool"

---@class runnel.thread
local thread = {}

-- Reports that wait to be taken by the state that has started the thread.
local REPORTS = 1024

-- Cancelled calls of which a thread of a pool has not heard.
local CANCELS = 256

local LONGEST_NAME = 200 -- bytes, of a channel's name

-- What can be sent of a function, or of the name of a module; and its name. Or nil, and why it cannot be sent.
local function describe(f)
  if type(f) == "string" then return { module = f }, f end
  if type(f) ~= "function" then
    return nil, "a function or the name of a module expected, got " .. (f == nil and "nothing" or "a " .. type(f))
  end
  local info = debug.getinfo(f, "uS")
  if info.what == "C" then
    return nil, "a function written in C cannot be sent; give the name of a module that returns one"
  end
  for i = 1, info.nups do
    local name = debug.getupvalue(f, i)
    if name ~= "_ENV" then
      return nil, ("the function uses '%s', a local variable from outside it, which another state does not have: "
        .. "require it inside, or pass it as an argument"):format(name == "(no name)" and "?" or name)
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
  for report in take, reports do
    if report.is_result then internal.unhandled(report.err, report.traceback, report.where, result)
    else internal.report(report.err, report.traceback, report.where) end
  end
end

-- Starts a thread for what `describe` returned; `caller` is what the program has called. Returns its result channel, or
-- nil and why it cannot be started.
local function start(job, where, caller, ...)
  job.name = (caller .. " " .. where):sub(1, LONGEST_NAME)
  job.path, job.cpath, job.args = package.path, package.cpath, table.pack(...)
  if internal.is_simulation() then return nil, "a simulation, whose time is virtual, cannot start threads" end
  job.driver, job.seed = driver_module(), internal.seed()
  local control, result, reports = core.shared_chan(), core.shared_chan(1), core.shared_chan(REPORTS)
  result:name(job.name)
  job.control, job.result, job.reports = control, result, reports
  local status, why = internal.start_thread(job, control, result)
  if not status then return nil, (why:gsub("^value%.args%[(%d+)%]", "argument %1")) end
  local take = caller == "thread" and reports.take or internal.listen
  internal.stands_for(internal.started(core.go(receive, take, reports, result, control), caller), status, job.name)
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
  local job, where = describe(f)
  if not job then error("thread: " .. where, 2) end
  local result, why = start(job, where, "thread", ...)
  return result or error("thread: " .. why, 2)
end

-- ---- pools ----

---The options of rn.threads.
---@class runnel.ThreadsOptions
---@field n? integer jobs that each thread does at a time; default 1. More are of use when jobs wait

-- Makes a pool of k threads for what `describe` returned; or returns nil, and why that is impossible.
local function make_pool(k, what, where, caller, n)
  local made, ready = pool.new(), core.shared_chan(k)
  made.jobs:name(("jobs of threads " .. where):sub(1, LONGEST_NAME))
  made.answers:name(("answers of threads " .. where):sub(1, LONGEST_NAME))
  local function not_ready(why)
    made.jobs:close()
    return nil, internal.error_text(why)
  end
  for _ = 1, k do
    local cancels = core.shared_chan(CANCELS):name(("cancelled jobs of threads " .. where):sub(1, LONGEST_NAME))
    local result, why = start({ module = "runnel.internal.pool_main" }, where, caller, what, n, made.jobs, made.answers,
      cancels, ready)
    if not result then return not_ready(why) end
    pool.add(made, result, cancels, function(err) ready:close(err) end)
  end
  for _ = 1, k do
    local is_ready, err = ready:take()
    if is_ready ~= true then return not_ready(is_ready and is_ready[1] or err) end
  end
  return made
end

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
  local what, where = describe(f)
  if not what then error("threads: " .. where, 2) end
  local made, why = make_pool(k, what, where, "threads", n)
  return made or error("threads: " .. why, 2)
end

return thread
