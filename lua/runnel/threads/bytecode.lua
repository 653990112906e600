---Bytecode of the library's modules, for the threads that a state starts: compiling the modules would take most of a
---thread's starting time. A state compiles them when it starts its second thread; a thread passes the bytecode on to
---the threads that it starts. All modules are one value on a shared promise channel, so they are packed once.

local debug, loadfile, package = debug, loadfile, package
local core = require "runnel.core"

local bytecode = {}

-- The modules that `require "runnel.all"` loads, and those that run in a thread. Each thread compiles those missing
-- here.
local MODULES = {
  "runnel", "runnel.all", "runnel.json", "runnel.xf",
  "runnel.rn.alt", "runnel.rn.file_lines", "runnel.rn.frontier", "runnel.internal.instruments", "runnel.rn.latest",
  "runnel.rn.leaks",
  "runnel.rn.metrics",
  "runnel.rn.mix", "runnel.rn.mult", "runnel.rn.operations", "runnel.rn.pipe", "runnel.rn.pipeline", "runnel.rn.pmap",
  "runnel.rn.priority_buffer", "runnel.rn.profile", "runnel.rn.pub", "runnel.rn.reduce", "runnel.rn.retry",
  "runnel.rn.scope", "runnel.rn.shield", "runnel.rn.supervise",
  "runnel.rn.thread", "runnel.rn.timed", "runnel.rn.traceparent",
  "runnel.internal.backoff", "runnel.internal.check", "runnel.internal.class", "runnel.internal.decimal",
  "runnel.internal.ends",
  "runnel.internal.entries", "runnel.internal.exit",
  "runnel.internal.guard", "runnel.workers.pipeline_jobs", "runnel.internal.living", "runnel.internal.metrics_text",
  "runnel.internal.ordered", "runnel.internal.world",
  "runnel.internal.pacer", "runnel.internal.remove", "runnel.internal.sendable",
  "runnel.internal.short", "runnel.internal.sign", "runnel.internal.time_limit",
  "runnel.internal.timed_out", "runnel.internal.trace_context",
  "runnel.internal.transduce",
  "runnel.internal.errors.deadlock", "runnel.internal.errors.more", "runnel.internal.errors.reports",
  "runnel.profile.first", "runnel.profile.namers", "runnel.profile.profile_recorder",
  "runnel.profile.tree", "runnel.internal.width",
  "runnel.threads.bytecode", "runnel.threads.module_job",
  "runnel.threads.pool", "runnel.threads.pool_main", "runnel.threads.start",
  "runnel.threads.thread_function", "runnel.threads.thread_main",
  "runnel.threads.trace_threads",
  "runnel.tracing.graph", "runnel.tracing.graph_forms", "runnel.tracing.in_parts",
  "runnel.tracing.trace_recorder",
  "runnel.tracing.trace_events", "runnel.tracing.trace_parts",
  "runnel.workers.workers", "runnel.workers.at_once", "runnel.workers.early",
  "runnel.workers.failure", "runnel.workers.gathering", "runnel.workers.in_turn", "runnel.workers.calls",
  "runnel.workers.lanes", "runnel.workers.taking",
}

local threads = 0 -- how many this state has started
local promise -- the channel, once there is one
local for_path -- the package.path for which it was made, or nil if it was inherited
local files -- the file of each module, or false where it is inside the program

-- The library's folder, in case package.path has changed and no longer finds it.
local FOLDER = debug.getinfo(1, "S").source:match "^@(.*)runnel/threads/bytecode%.lua$"

-- The module's file, false where it is inside the program, or nil where there is none.
local function find(name)
  if package.preload[name] then return false end
  local file = package.searchpath(name, package.path)
  return file or FOLDER and package.searchpath(name, FOLDER .. "?.lua") or nil
end

local function compile(name, file)
  local code
  if file then
    code = loadfile(file, "t")
  else
    local loader = package.preload[name]
    code = debug.getinfo(loader, "S").what == "C" and loader() -- see csrc/librunnel/modules.c
  end
  return type(code) == "function" and string.dump(code) or nil
end

local function make()
  local codes = {}
  files = {}
  for _, name in ipairs(MODULES) do
    local file = find(name)
    files[name] = file
    if file ~= nil then codes[name] = compile(name, file) end
  end
  promise, for_path = core.shared_chan "promise", package.path
  promise:put(codes)
end

-- Whether package.path leads to the files that were compiled.
local function is_valid()
  if not for_path or for_path == package.path then return true end
  for _, name in ipairs(MODULES) do
    if find(name) ~= files[name] then return false end
  end
  for_path = package.path
  return true
end

---Called before a thread starts.
---@return runnel.Channel<table<string, string>>? modules a promise of the bytecode by name; nil for the first thread
function bytecode.modules()
  threads = threads + 1
  if not promise and threads > 1 or promise and not is_valid() then make() end
  return promise
end

---Passes the bytecode from which this thread loads its modules (csrc/lua/state/lua_thread.c) on to those it starts.
---@param modules? runnel.Channel<table<string, string>>
function bytecode.inherit(modules) promise = modules end

return bytecode
