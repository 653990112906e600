---Ctrl-C and SIGTERM while the main program waits for a flow: the first one drains it, the second one ends the program.
---
---The hosts raise "interrupted!" in the main program for Ctrl-C. SIGTERM comes from the C part of runnel.nats, where
---that is installed.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local internal = core.internal

local signals = {}

-- At a prompt, Ctrl-C ends the wait and nothing else.
local function is_main() return not (internal.self "wait" or package.loaded["runnel.host.prompt"]) end

local Watch = {}

function Watch:__close()
  self.lib.off_term(self.watch)
  self.channel:close()
end

-- Drains when SIGTERM comes, until it is closed; nil if something else handles the signal.
local function watch_term(drain)
  local ok, lib = pcall(require, "runnel.nats.core")
  if not ok then return nil end
  local channel = core.chan(1)
  local watch = lib.on_term(channel)
  if not watch then return nil end
  internal.started(guard.go(guard.nothing, nil, function()
    if channel:take() then drain() end
  end), "SIGTERM")
  return setmetatable({ lib = lib, channel = channel, watch = watch }, Watch)
end

---Calls a function that waits.
---@param wait fun()
---@param drain fun() begins to drain; must not wait
function signals.wait(wait, drain)
  if not is_main() then return wait() end
  local watch <close> = watch_term(drain) -- luacheck: ignore 211
  local ok, err = pcall(wait)
  if ok then return end
  if type(err) ~= "string" or not err:find "interrupted!$" then error(err, 0) end
  drain()
  wait()
end

return signals
