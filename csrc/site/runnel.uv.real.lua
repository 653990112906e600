---In place of lua/runnel/uv/real.lua: a web page has no luv. Here runnel.uv works on the hosts of simulated
---worlds only.

local files = require "runnel.sim.sim_files"
local signals = require "runnel.sim.signal"

-- The flags of files, and signals.
local function constant(_, name) return files.constants[name] or signals.number_of(name) end

local NOT_HERE = "a web page has no files, sockets and processes; here runnel.uv works on the hosts of a simulated "
  .. "world (sim.world)"

-- Stands for all functions of luv that only real.check, or a world, keeps from being called.
local function missing() error(NOT_HERE, 0) end

---@class runnel.uv.real
local real = {
  luv = setmetatable({ -- what modules of runnel.uv use when they are loaded
    constants = setmetatable({}, { __index = constant }),
    os_uname = function() return { sysname = "Linux" } end,
    new_idle = function() end,
  }, { __index = function() return missing end }),
}

---Raises an error: the function was not called on a host.
---@param what string
---@param level integer
function real.check(what, level) error(("%s: %s"):format(what, NOT_HERE), level) end

return real
