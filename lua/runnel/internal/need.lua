---Loads an optional library that a module of runnel needs.

local debug, package = debug, package
local core = require "runnel.core"

-- How the sources of the library's modules begin.
local LIBRARY = debug.getinfo(1, "S").source:gsub("internal/need%.lua$", "")

-- What to do about a C module of this library.
local BUILD = "install the package lua-runnel, LuaRocks' %s, or %srunnel again with make install"

-- Requires a library, unless it is luv and would crash.
local function load(library)
  if library == "luv" and not package.loaded.luv then
    local has_room, why = core.internal.descriptors.has_room()
    if not has_room then error(why .. ": luv needs up to 10 file descriptors", 0) end
  end
  return core.internal.require(library)
end

---@param library string the name to require
---@param packages? string which packages to install, for the error message; for a C module of this library, what it is
---built with, if anything
---@return any library
---If that fails, an error is raised at the program's line that has led here.
local function need(library, packages)
  local ok, found = pcall(load, library)
  if ok then return found end
  -- Between the module and the program's line are require and loaders, which are C functions, and modules of the
  -- library, such as runnel.http, which requires runnel.http.client when that is first used.
  local level = 3
  local info = debug.getinfo(level, "S")
  while info and (info.what == "C" or info.source:sub(1, #LIBRARY) == LIBRARY) do
    level = level + 1
    info = debug.getinfo(level, "S")
  end
  local part = library:match "^runnel%.(%w+)%." -- nats
  if part then
    local rock = library == "runnel.http.core" and "runnel" or "runnel-" .. part
    packages = BUILD:format(rock, packages and packages .. ", and then " or "")
  end
  local why = tostring(found)
  if why:find("^module '" .. library:gsub("%p", "%%%0") .. "' not found") then
    why = why:match "it is not in this program[^\n]*" or "it is not installed" -- csrc/host/bundle/carried.c
  end
  error(("the library %s is needed here (%s): %s"):format(library, packages, why), level)
end

return need
