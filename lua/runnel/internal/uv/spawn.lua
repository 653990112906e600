---Starts processes: by posix_spawn where the core can (csrc/lua/spawn.c), because libuv's fork takes longer the larger
---the program's heap is; else by luv.

local internal = require("runnel.core").internal
local current = require "runnel.internal.sim.current"
local loop = require "runnel.internal.uv.loop"

local uv, start = loop.uv, internal.spawn

-- As luv's spawn. Some releases of luv take the length of stdio, which in Lua 5.5 is 0 if it begins with nil; so a
-- descriptor of /dev/null stands for one that is not there.
local function by_luv(file, options, on_exit)
  local stdio, null = options.stdio, nil
  for i = 1, 3 do
    if not stdio[i] and not null then
      local fd, err, name = uv.fs_open("/dev/null", "r+", 0)
      if not fd then return nil, err, name end
      null = fd
    end
    stdio[i] = stdio[i] or null
  end
  local handle, pid, name = uv.spawn(file, options, on_exit)
  if null then uv.fs_close(null) end
  return handle, pid, name
end

---As luv's spawn; stdio has only descriptors, or nil for /dev/null.
---@param file string
---@param options table
---@param on_exit fun(code: integer, signal: integer)
---@param searches boolean whether the environment in the options has a PATH of its own, which only luv looks into
---@return userdata? handle
---@return integer|string pid or the error
---@return string? err its name
return function(file, options, on_exit, searches)
  if current.luv then return uv.spawn(file, options, on_exit) end
  if not start or searches then return by_luv(file, options, on_exit) end
  local child, pid, fd = start(file, options.args, options.env, options.cwd, options.stdio, options.detached)
  if not child and pid then return nil, pid end
  if not child then return by_luv(file, options, on_exit) end
  local handle, err = uv.new_poll(fd)
  if not handle then
    uv.kill(pid, "sigkill")
    child:ended()
    return nil, err
  end
  handle:start("r", function()
    if loop.over then return end
    handle:stop()
    local code, signal = child:ended()
    child:close()
    on_exit(code, signal)
  end)
  return handle, pid
end
