---Ctrl-C while the main program waits for a flow: the first one drains it, the second one ends the program. The hosts
---raise "interrupted!" in the main program.

local core = require "runnel.core"
local living = require "runnel.internal.living"
local internal = core.internal

local signals = {}

-- At a prompt, Ctrl-C ends the wait and nothing else.
local function is_main() return not (internal.self "wait" or living.prompt) end

---Calls a function that waits.
---@param wait fun()
---@param drain fun() begins to drain; must not wait
function signals.wait(wait, drain)
  if not is_main() then return wait() end
  local ok, err = pcall(wait)
  if not ok and internal.is_interrupt(err) then
    drain()
    ok, err = pcall(wait)
  end
  if not ok then error(err, 0) end
end

return signals
