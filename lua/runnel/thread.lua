---rn.thread: calls a function in an OS thread with a Lua state of its own.

local core = require "runnel.core"
local internal = core.internal

---@class runnel.thread
local thread = {}

-- Reports that wait to be taken by the state that has started the thread.
local REPORTS = 1024

-- Raises at the line of the program that has called rn.thread, `level` functions up.
local function fail(level, message, ...) error("thread: " .. message:format(...), level + 1) end

-- The function as a string, for another state.
local function dump(f)
  local info = debug.getinfo(f, "uS")
  if info.what == "C" then fail(3, "a function written in C cannot be sent; give the name of a module that returns one") end
  for i = 1, info.nups do
    local name = debug.getupvalue(f, i)
    if name ~= "_ENV" then
      fail(3, "the function uses '%s', a local variable from outside it, which another state does not have: require it "
        .. "inside, or pass it as an argument", name == "(no name)" and "?" or name)
    end
  end
  return string.dump(f), ("%s:%d"):format(info.short_src, info.linedefined)
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

-- Passes the thread's errors on to on_error: those that nobody takes.
local function receive(reports, result)
  for report in reports do
    if report.is_result then internal.unhandled(report.err, report.traceback, report.where, result)
    else internal.report(report.err, report.traceback, report.where) end
  end
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
  local job = { path = package.path, cpath = package.cpath, args = table.pack(...) }
  if type(f) == "function" then
    local where
    job.code, where = dump(f)
    job.name = "thread " .. where
  elseif type(f) == "string" then
    job.module, job.name = f, "thread " .. f
  else
    fail(2, "a function or the name of a module expected, got %s", f == nil and "nothing" or type(f))
  end
  if internal.is_simulation() then fail(2, "a simulation, whose time is virtual, cannot start threads") end
  job.driver, job.seed = driver_module(), internal.seed()
  local control, result, reports = core.shared_chan(), core.shared_chan(1), core.shared_chan(REPORTS)
  result:name(job.name)
  job.control, job.result, job.reports = control, result, reports
  local ok, why = internal.start_thread(job, control, result)
  if not ok then fail(2, "%s", (why:gsub("^value%.args%[(%d+)%]", "argument %1"))) end
  internal.started(core.go(receive, reports, result), "thread")
  return result
end

return thread
