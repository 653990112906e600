---Functions of Lua's libraries that would bring something of the real system into a simulated world: while the world
---runs, others are in their place.

local core = require "runnel.core"
local current = require "runnel.internal.sim.current"
local files = require "runnel.sim.files"

local internal = core.internal

-- The time at which each world begins, in s: 14 November 2023.
local BEGIN = 1700000000

local system = {}

-- Calls the simulated function on hosts, and the real one elsewhere.
local function on_hosts(simulated, real)
  return function(...)
    if internal.host() > 0 then return simulated(...) end
    return real(...)
  end
end

-- As Lua returns the failure of a function of luv. The number of an error is that of Linux.
local NUMBERS = { ENOENT = 2, EIO = 5, EEXIST = 17, ENOTDIR = 20, EISDIR = 21, EINVAL = 22, ENOTEMPTY = 39 }

local function as_lua(path, result, err, name)
  if result then return true end
  return nil, path .. ": " .. err:match "^%u+: ([^:]*)", NUMBERS[name] or 5
end

local names = 0

local function remove(path)
  local result, err, name = files.fs_unlink(path)
  if name == "EISDIR" then result, err, name = files.fs_rmdir(path) end
  return as_lua(path, result, err, name)
end

local function rename(from, to) return as_lua(from, files.fs_rename(from, to)) end

local function tmpname()
  names = names + 1
  return "/tmp/lua_" .. names
end

---Puts the simulated functions in place of os.time, os.clock, os.remove, os.rename and os.tmpname, and seeds
---math.random, until the simulation ends.
function system.replace()
  local real = { time = os.time, clock = os.clock, remove = os.remove, rename = os.rename, tmpname = os.tmpname }
  local a, b = math.random(0), math.random(0)
  math.randomseed(internal.seed())
  names = 0
  local began = core.now()
  function os.time(t) -- luacheck: ignore 122
    if t ~= nil then return real.time(t) end
    return math.tointeger(BEGIN + (core.now() - began) // 1000)
  end
  function os.clock() return (core.now() - began) / 1000 end -- luacheck: ignore 122
  os.remove, os.rename = on_hosts(remove, real.remove), on_hosts(rename, real.rename) -- luacheck: ignore 122
  os.tmpname = on_hosts(tmpname, real.tmpname) -- luacheck: ignore 122
  function current.restore()
    for name, f in pairs(real) do os[name] = f end -- luacheck: ignore 122
    math.randomseed(a, b)
  end
end

return system
