---Programs of simulated hosts that are files: with globals and modules of their own, so that hosts share no state.

local load, loadfile, package, require = load, loadfile, package, require
local current = require "runnel.internal.world"

local program = {}

-- Loads a file with an environment. A search parses it once.
local function load_file(path, environment, level)
  local parsed = current.seen and current.seen.parsed or {}
  if parsed[path] then return load(parsed[path], nil, "b", environment) end
  local chunk, err = loadfile(path, "bt", environment)
  if not chunk then error(err, level) end
  parsed[path] = string.dump(chunk)
  return chunk
end

-- The globals of one start of a program. Modules that are Lua files are loaded anew for it. All others are shared:
-- those of runnel, libraries in C, and what package.preload and other searchers have.
local function new_environment()
  local environment, loaded = setmetatable({}, { __index = _G }), {}
  environment._G = environment
  function environment.require(name)
    if loaded[name] ~= nil then return loaded[name] end
    local is_shared = name == "runnel" or name:find "^runnel%." or package.preload[name]
    local path = not is_shared and package.searchpath(name, package.path)
    if not path then return require(name) end
    local value = load_file(path, environment, 3)(name, path)
    loaded[name] = value == nil and true or value
    return loaded[name], path
  end
  return environment
end

---Loads the file of a program for one start of it.
---@param path string
---@param level integer of error, as if this function raised it
---@return fun() f runs it
function program.load(path, level)
  local f = load_file(path, new_environment(), level + 1)
  return f
end

return program
