---The names of the machine and of the process, for stores. In a simulation they are the same in each run.

local current = require "runnel.internal.world"
local internal = require("runnel.core").internal
local need = require "runnel.internal.need"

local lib = need("runnel.sqlite.core", "libsqlite3 and its headers, on Debian libsqlite3-dev")

---@return string host
---@return integer pid
return function()
  if not internal.is_simulation() then return lib.process() end
  local here = current.world and current.world:here()
  return here and here.name or "simulation", here and here.born or 0
end
