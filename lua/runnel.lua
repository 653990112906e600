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
---Modules that few programs need are loaded when they are first used. A program that may not be able to read files by
---then can load all of them first: `for _ in pairs(rn) do end`.

local core = require "runnel.core"
core.internal.library()

---@class runnel.between: runnel.collect, runnel.mix, runnel.mult, runnel.pipe, runnel.pipeline, runnel.pmap, runnel.pub

---@class runnel: runnel.core, runnel.alt, runnel.between, runnel.plumbing, runnel.scopes
---@field is_timeout fun(err: any): boolean whether an error is that of a `timeout` of a scope or a pmap
---@field xf runnel.xf
---@field priority_buffer fun(n: integer, less?: fun(a: any, b: any): boolean): runnel.Policy
local runnel = {}

for _, name in ipairs {
  "chan", "promise_chan", "buffer", "dropping_buffer", "sliding_buffer", "unblocking_buffer", "is_chan",
  "go", "cancel", "alts", "timeout", "sleep", "yield", "now", "run", "step", "on_error", "driver", "ps", "rename",
  "reduced", "is_reduced",
} do
  runnel[name] = core[name]
end

for _, name in ipairs { "alt", "collect", "pipe", "pipeline" } do
  for key, value in pairs(require("runnel." .. name)) do runnel[key] = value end
end

---Ends the program, from anywhere, whatever go blocks still have to do; their variables are not closed, but the Lua
---state is, with its finalizers.
---@param code? integer|boolean the exit status; true is 0. The default is 0, or 1 if an error was written to stderr
---because nobody took it
function runnel.exit(code)
  if code ~= nil and type(code) ~= "boolean" and not math.tointeger(code) then
    error(("exit: an integer or a boolean expected, got %s"):format(tostring(code)), 2)
  end
  core.internal.report_unhandled()
  if code == nil then code = core.internal.is_well() end
  os.exit(code, true)
end

-- What is left is loaded when it is first used, since most programs need none of it: that is half of the time to start,
-- and half of the memory. In which module each name is; `xf` is a module itself.
local HOMES = {
  broadcast = "plumbing", map = "plumbing", multiplex = "plumbing", split = "plumbing", take = "plumbing",
  mix = "mix", admix = "mix", solo_mode = "mix", toggle = "mix", unmix = "mix", unmix_all = "mix",
  mult = "mult", tap = "mult", untap = "mult", untap_all = "mult",
  pub = "pub", sub = "pub", unsub = "pub", unsub_all = "pub",
  pmap = "pmap", pmap_unordered = "pmap",
  is_timeout = "timed_out", priority_buffer = "priority_buffer", scope = "scope", xf = "xf",
}

local function load_late(_, name)
  local home = HOMES[name]
  if not home then return nil end
  local module = require("runnel." .. home)
  runnel[name] = name == "xf" and module or module[name]
  return runnel[name]
end

-- Loads all, so that `pairs` sees it.
local function load_all()
  for name in pairs(HOMES) do local _ = runnel[name] end
  return next, runnel, nil
end

return setmetatable(runnel, { __index = load_late, __pairs = load_all })
