---core.async's channels for Lua: go blocks, channels, alts, timeouts, pipelines.
---
---    local rn = require "runnel"
---    local ch = rn.chan()
---    rn.go(function() ch:put("hello") end)
---    print(ch:take()) --> hello
---
---Times are milliseconds. An operation that must wait parks its go block; outside any go block it runs the scheduler
---until it completes. The names are core.async's in Lua's spelling.
---
---Modules that few programs need are loaded when one of their names is first used. `require "runnel.all"` loads them at
---once, for a program that cannot read files later: because it changes its directory, or may run out of descriptors.

local package, require = package, require
local core = require "runnel.core"
local exit = require "runnel.internal.exit"
require "runnel.internal.errors.reports"
local raise = core.internal.raise

-- The last searcher of `require` finds nothing, but says "did you mean". The executable has one of its own.
if type(package.searchers) == "table" and not package.preload["runnel.host.inspect"] then
  table.insert(package.searchers, function(name)
    local is_there, said = pcall(require, "runnel.internal.misspelt")
    return is_there and said(name) or nil
  end)
end

---@class runnel.copies: runnel.latest, runnel.mult, runnel.pub

---@class runnel.flows: runnel.copies, runnel.mix, runnel.operations, runnel.pipe, runnel.pipeline

---@class runnel.starts: runnel.frontier, runnel.pmap, runnel.retry, runnel.scopes, runnel.thread

---@class runnel.lifetimes: runnel.shield, runnel.supervise

---@class runnel.calls: runnel.instruments, runnel.starts, runnel.lifetimes

---@class runnel: runnel.core, runnel.alt, runnel.calls, runnel.file, runnel.flows, runnel.reduce, runnel.timed
---@field trace fun(file: string|false, options?: { records?: integer }): runnel.Trace?
---@field graph fun(on?: boolean): runnel.graph.Graph?
---@field metrics fun(on?: boolean): runnel.Metrics?
---@field traceparent fun(value?: boolean|string, tracestate?: string): string?, string?
---@field is_timeout fun(err: any): boolean whether an error is that of a `timeout` of a scope or a pmap
---@field leaks fun(collect?: boolean): runnel.Leak[]
---@field profile fun(f: (fun(): any), options?: { to?: string }): runnel.Profile
---@field xf runnel.xf
---@field priority_buffer fun(n: integer, less?: fun(a: any, b: any): boolean): runnel.Policy
local runnel = {}

for _, name in ipairs {
  "chan", "shared_chan", "promise_chan", "buffer", "dropping_buffer", "sliding_buffer", "unblocking_buffer", "is_chan",
  "go", "cancel", "alts", "timeout", "after", "timers", "sleep", "yield", "now", "run", "step", "on_error", "driver",
  "ps", "rename", "reduced", "is_reduced", "each_line",
} do
  runnel[name] = core[name]
end

for _, name in ipairs { "alt", "reduce", "pipe", "pipeline" } do
  for key, value in pairs(require("runnel.rn." .. name)) do runnel[key] = value end
end

---Ends the program at once, from the main program or a go block. Go blocks that have not ended are dropped without
---closing their `<close>` variables. Then the Lua state closes, and finalizers run. On a host of a simulated world it
---ends the program of that host.
---@param code? integer|boolean the exit status; true means 0. The default is 0, or 1 if an untaken error was
---written to stderr
function runnel.exit(code)
  if code ~= nil and type(code) ~= "boolean" and not math.tointeger(code) then
    require("runnel.internal.sign").dot(code, "rn", "exit")
    raise(("exit: an integer or a boolean expected, got %s"):format(tostring(code)))
  end
  exit(code)
end

-- What the C program that runs this forbids (runnel_open_limited) raises an error.
local FORBIDDEN = { thread = "threads", threads = "threads", exit = "exit", file = "system", trace = "system",
  profile = "system" }
local without = core.internal.without
if without then
  for name, part in pairs(FORBIDDEN) do
    if without[part] then
      local message = ("rn.%s: the program that runs this script does not allow it"):format(name)
      runnel[name] = function() raise(message) end
    end
  end
end

-- The rest is loaded when it is first used, because most programs need little of it: all of it takes 5 ms and 530 KB,
-- the above 2 ms and 172 KB (bench/require.lua). HOMES has the module of each name, in runnel.rn if it has no dot; `xf`
-- is a module itself.
local HOMES = {
  broadcast = "operations", map = "operations", multiplex = "operations", split = "operations", take = "operations",
  mix = "mix", admix = "mix", solo_mode = "mix", toggle = "mix", unmix = "mix", unmix_all = "mix",
  mult = "mult", tap = "mult", untap = "mult", untap_all = "mult",
  pub = "pub", sub = "pub", unsub = "pub", unsub_all = "pub",
  pmap = "pmap", pmap_unordered = "pmap", frontier = "frontier", retry = "retry",
  supervise = "supervise", shield = "shield",
  file = "file_lines",
  batch = "timed", debounce = "timed", rate = "timed", sample = "timed", throttle = "timed",
  latest = "latest",
  is_timeout = "scope", priority_buffer = "priority_buffer", scope = "scope", xf = "runnel.xf",
  thread = "thread", threads = "thread", cores = "thread",
  trace = "runnel.tracing.trace_recorder", graph = "runnel.tracing.graph",
  counter = "runnel.internal.instruments", gauge = "runnel.internal.instruments",
  histogram = "runnel.internal.instruments",
  metrics = "metrics", traceparent = "traceparent", profile = "profile", leaks = "leaks",
}

local function load_late(_, name)
  local home = HOMES[name]
  if not home then return nil end
  local ok, module = pcall(require, home:find "%." and home or "runnel.rn." .. home)
  if not ok then
    raise(('rn.%s cannot be loaded now; require "runnel.all" at the beginning loads everything: %s')
      :format(name, tostring(module)))
  end
  runnel[name] = name == "xf" and module or module[name]
  return runnel[name]
end

-- For `pairs`, which visits every name.
local function load_all()
  for name in pairs(HOMES) do local _ = runnel[name] end
  return next, runnel, nil
end

return setmetatable(runnel, { __index = load_late, __pairs = load_all })
