---Functions of Lua's libraries that would bring something of the real system into a simulated world: while the world
---runs, others are in their place.

local io, os = io, os
local core = require "runnel.core"
local current = require "runnel.internal.world"
local simulated = require "runnel.sim.io"

local internal = core.internal

-- The time at which each world begins, in s: 14 November 2023.
local BEGIN = 1700000000

local system = {}

-- Calls the simulated function on hosts, and the real one elsewhere.
local function on_hosts(on_host, real)
  return function(...)
    if internal.host() > 0 then return on_host(...) end
    return real(...)
  end
end

local function exit(code) current.world:here():exit(code) end

local function real_exit(real)
  return function(...)
    if current.handling then current.handling:exit(...) end
    return real(...)
  end
end

-- rn.on_error: the handler of a host's program may end that program.
local function handle_errors(real)
  return function(f)
    local host = current.world and current.world:here()
    if not host or type(f) ~= "function" then return real(f) end
    return real(function(...)
      local before, lives = current.handling, current.world ~= nil and host.alive
      current.handling = lives and host or nil
      local ok, err = pcall(f, ...)
      current.handling = before
      if not ok and (host.alive or not lives) then error(err, 0) end -- else it has ended the host
    end)
  end
end

-- io.type knows both kinds of files.
local function type_of(real)
  return function(value) return simulated.type(value) or real(value) end
end

-- And so does io.close.
local function close_of(real)
  return function(...)
    if simulated.type((...)) then return (...):close() end
    return real(...)
  end
end

-- Replaces functions of a library; returns a function that undoes it.
local function replace(library, functions)
  local before = {}
  for name, f in pairs(functions) do before[name], library[name] = library[name], f end
  return function()
    for name, f in pairs(before) do library[name] = f end
  end
end

---How many ms since 1970 it was when a world began.
system.BEGIN_MS = BEGIN * 1000

---Puts the simulated functions in place of some of os and io, and seeds math.random, until the simulation ends.
function system.replace()
  local a, b = math.random(0), math.random(0)
  math.randomseed(internal.seed())
  simulated.begin()
  local began, time, date = core.now(), os.time, os.date
  current.world.began = began
  local restore_os = replace(os, {
    time = function(t)
      if t ~= nil then return time(t) end
      local host = current.world and current.world:here()
      return math.tointeger(BEGIN + (core.now() - began + (host and host.skew or 0)) // 1000)
    end,
    date = function(format, t) return date(format, t or os.time()) end,
    clock = function() return (core.now() - began) / 1000 end,
    remove = on_hosts(simulated.remove, os.remove), rename = on_hosts(simulated.rename, os.rename),
    tmpname = on_hosts(simulated.tmpname, os.tmpname), exit = on_hosts(exit, real_exit(os.exit)),
  })
  local restore_io = replace(io, {
    open = on_hosts(simulated.open, io.open), lines = on_hosts(simulated.lines, io.lines), type = type_of(io.type),
    close = close_of(io.close),
  })
  local runnel = package.loaded.runnel
  local restore_errors = runnel and replace(runnel, { on_error = handle_errors(runnel.on_error) })
  function current.restore()
    if restore_errors then restore_errors() end
    restore_os()
    restore_io()
    math.randomseed(a, b)
  end
end

return system
