---Programs of simulated hosts that are files: with globals and modules of their own, so that hosts share no state.

local load, loadfile, package, require = load, loadfile, package, require
local current = require "runnel.internal.world"
local raise = require("runnel.core").internal.raise

local program = {}

-- Loads a file with an environment. A search parses it once.
local function load_file(path, environment)
  local parsed = current.seen and current.seen.parsed or {}
  if parsed[path] then return load(parsed[path], nil, "b", environment) end
  local chunk, err = loadfile(path, "bt", environment)
  if not chunk then raise(err) end
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
    local value = load_file(path, environment)(name, path)
    loaded[name] = value == nil and true or value
    return loaded[name], path
  end
  return environment
end

---Loads the file of a program for one start of it.
---@param path string
---@return fun() f runs it
function program.load(path)
  return load_file(path, new_environment())
end

return program
