---Starts processes: by posix_spawn where the core can (lua/internal/spawn.c), because libuv's fork takes longer the
---larger the program's heap is; else by luv.

local os = os
local internal = require("runnel.core").internal
local current = require "runnel.internal.world"
local loop = require "runnel.uv.loop"

local uv, start = loop.uv, internal.spawn

-- The path of the file that a command is: looked for in the PATH of the environment that the process gets, a list of
-- NAME=VALUE or nil.
local function path_of(file, env)
  if file:find("/", 1, true) then return file end
  local path = os.getenv "PATH"
  for _, setting in ipairs(env or {}) do path = setting:match "^PATH=(.*)" or path end
  for folder in ((path or "/usr/bin:/bin") .. ":"):gmatch "([^:]*):" do
    local found = (folder == "" and "." or folder) .. "/" .. file
    if uv.fs_access(found, "X") then return found end
  end
  return file
end

-- luv's spawn. A script without a first line for an interpreter is run by the shell, as execvp does it; libuv does not
-- since 1.53.
local function by_luv(file, options, on_exit)
  local handle, pid, err = uv.spawn(file, options, on_exit)
  if handle or err ~= "ENOEXEC" then return handle, pid, err end
  local args = { path_of(file, options.env), table.unpack(options.args or {}) }
  return uv.spawn("/bin/sh", setmetatable({ args = args }, { __index = options }), on_exit)
end

local starting = {}

---The names of the options of uv.spawn, most of which uv.run has, too.
starting.OPTIONS = {
  stdin = true, stdout = true, stderr = true, cwd = true, env = true, grace = true, detached = true, max = true,
}

---As luv's spawn; stdio has only descriptors.
---@param file string
---@param options table
---@param on_exit fun(code: integer, signal: integer)
---@param searches boolean whether the environment in the options has a PATH of its own, which only luv looks into
---@return userdata? handle
---@return integer|string pid or the error
---@return string? err its name
function starting.program(file, options, on_exit, searches)
  if not start or searches or current.luv then return by_luv(file, options, on_exit) end
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

return starting
