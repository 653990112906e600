---Starts threads, for rn.thread and for pools.

local debug, package = debug, package
local bytecode = require "runnel.threads.bytecode"
local core = require "runnel.core"
local everything = require "runnel.internal.living"
local sendable = require "runnel.internal.sendable"
local internal = core.internal

local start = {}

-- How often a cancelled thread is looked at, in ms.
local GLANCE <const> = 100

-- How many reports may wait until the starting state takes them.
local REPORTS = 1024

local LONGEST_NAME = 200 -- bytes of a channel's name

---Describes a function, or the module of a name, so that it can be sent to another state: returns the description and a
---name for messages; or nil, and the reason why it cannot be sent.
---@param f any
---@return { code?: string, module?: string, in_scope?: boolean }?
---@return string
function start.describe(f)
  if type(f) == "string" then
    if f:find("\0", 1, true) then return nil, "the name of the module has a zero byte" end
    return { module = f }, f
  end
  if type(f) ~= "function" then
    return nil, ("a function or the name of a module expected, got %s; pass the function itself and its "
      .. "arguments: f, ..., not f(...)"):format(f == nil and "nothing" or "a " .. type(f))
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

-- The name of the driver's module, or nil.
local function driver_module()
  local driver = internal.current_driver()
  if driver == nil then return nil end
  for name, module in pairs(package.loaded) do
    if rawequal(module, driver) then return name end
  end
end

---Receives the unhandled errors of a thread. Cancelling its go block cancels the thread; a new go block then receives
---the errors until the thread has ended.
---@class runnel.internal.Receiver
---@field block? runnel.Channel<any> its go block
---@field watcher? runnel.Channel<any> the go block of watch, once the thread is cancelled
---@field is_over boolean the thread has ended
---@field take function takes a report: internal.listen for a thread of a pool, which may wait for jobs for ever
---@field origin any names its go block
---@field status userdata of the thread
---@field name string of the thread
---@field number integer in the order in which the threads were started
---@field reports runnel.Channel<table>
---@field result runnel.Channel<any> what the thread's function returns
---@field control runnel.Channel<any> closed when the thread is to end
local Receiver = {}
Receiver.__index = Receiver

local receivers, started = {}, 0 -- the receivers of running threads; how many receivers were started

-- Reports an error, or the error with which `reports` was closed.
function Receiver:hear(report, err)
  if report == nil then
    if err ~= nil then internal.unhandled(err, nil, self.result:name(), self.result) end
  elseif report.is_result then
    internal.unhandled(report.err, report.traceback, report.where, self.result)
  else
    internal.report(report.err, report.traceback, report.where)
  end
end

-- Ends a cancelled thread that goes on computing.
local function watch(self)
  core.rename "cancelled thread"
  while true do
    core.sleep(GLANCE)
    internal.interrupt_thread(self.status)
  end
end

-- Called when the receiver's go block ends: because the thread has ended, or with the reason for which it is cancelled.
function Receiver:__close(reason)
  if reason == nil then
    self.control:close()
  else
    internal.interrupt_thread(self.status) -- first, so that it knows whether the thread has looked since
    self.control:close(sendable(reason))
  end
  if self.is_over or reason == nil then
    receivers[self] = nil
    if self.watcher then core.cancel(self.watcher) end
  else
    self.watcher = self.watcher or core.go(watch, self)
    self:begin()
  end
end

-- The state is closed.
function Receiver:__gc()
  if receivers[self] then start.finish() end
end

-- The go block of a receiver.
local function receive(receiver)
  local self <close> = receiver
  repeat
    local report, err = self.take(self.reports)
    self:hear(report, err)
  until report == nil
  self.is_over = true
end

function Receiver:begin()
  self.block = core.go(receive, self)
  internal.stands_for(internal.started(self.block, self.origin), self.status, self.name, self.result)
end

---At the end of the program: ends its threads and reports their unhandled errors. May run inside a go block, where no
---other go block can run, and while the state closes.
function start.finish()
  local list = {}
  for receiver in pairs(receivers) do list[#list + 1] = receiver end
  if #list == 0 then return end
  table.sort(list, function(a, b) return a.number < b.number end)
  internal.stop_threads()
  for _, self in ipairs(list) do
    receivers[self] = nil
    local is_waiting = internal.withdraw_take(self.block, self.reports)
    if not is_waiting then self:hear(internal.arrived(self.block)) end
    repeat
      local report, err = self.reports:poll()
      self:hear(report, err)
    until report == nil
  end
end

---How many threads run that this state has started.
---@return integer
function start.count()
  local n = 0
  for _ in pairs(receivers) do n = n + 1 end
  return n
end

---A name for a channel, of limited length.
---@param name string
---@return string
function start.name(name) return name:sub(1, LONGEST_NAME) end

---Starts a thread.
---@param job table what start.describe has returned
---@param where string and its name
---@param caller string the function that the program has called
---@param ... any arguments for the thread's function
---@return runnel.Channel<any>? result
---@return any block the go block that stands for the thread; or the reason why it cannot start
function start.thread(job, where, caller, ...)
  job.main = "runnel.threads.thread_main"
  job.name = start.name(caller .. " " .. where)
  job.path, job.cpath, job.args = package.path, package.cpath, table.pack(...)
  if internal.is_simulation() then return nil, "a simulation, whose time is virtual, cannot start threads" end
  job.driver, job.seed, job.modules = driver_module(), internal.seed(), bytecode.modules()
  local recorder = package.loaded["runnel.tracing.trace_recorder"]
  job.trace = recorder and recorder.for_thread()
  local control, result, reports = core.shared_chan(), core.shared_chan(1), core.shared_chan(REPORTS)
  result:name(job.name)
  reports:name(start.name("reports of " .. job.name))
  job.control, job.result, job.reports = control, result, reports
  local status, why = internal.start_thread(job, control, result, reports)
  if not status then return nil, (why:gsub("^value%.args%[(%d+)%]", "argument %1")) end
  if job.trace then job.trace.started:offer(true) end
  started = started + 1
  local receiver = setmetatable({
    number = started, reports = reports, result = result, control = control, is_over = false, status = status,
    name = job.name, origin = internal.origin(caller), take = caller == "thread" and reports.take or internal.listen,
  }, Receiver)
  receivers[receiver] = true
  receiver:begin()
  return result, receiver.block
end

everything.threads, everything.end_threads = start.count, start.finish

return start
