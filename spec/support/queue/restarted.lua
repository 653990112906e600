---Programs with a connection to a server that are started again whenever they end, for specs.

local rn = require "runnel"

local LUA = os.getenv "LUA" or "lua5.4"

local restarted = {}

---Starts a program with the connection `conn`, and again whenever it ends. `output()` is the output of all runs;
---`stop()` ends that.
---@param server table
---@param text string
---@return { output: (fun(): string), stop: fun() }
function restarted.start(server, text)
  local path = server.set:write("kept.lua", [[
    local rn, nats = require "runnel", require "runnel.nats"
    local conn = assert(nats.connect(arg[1], { reconnect_wait = 20 }))
    local function say(...) print(...) io.stdout:flush() end
  ]] .. text)
  local kept = { outputs = {} }
  local function start()
    kept.program = server.set:start { LUA, path, server.url }
  end
  start()
  kept.block = rn.go(function()
    while not kept.is_over do
      if kept.program:status() then
        local output = kept.program:output()
        start()
        kept.outputs[#kept.outputs + 1] = output
      end
      rn.sleep(20)
    end
  end)
  function kept.output() return table.concat(kept.outputs) .. kept.program:output() end
  function kept.stop()
    kept.is_over = true
    kept.block:take()
    kept.program:signal "KILL"
  end
  return kept
end

return restarted
