---Collects what a program needs: the modules it requires, C modules with their shared libraries, and files.

local builder = require "runnel.host.builder"
local elf = require "runnel.host.build_elf"
local scan = require "runnel.host.build_scan"

local parts = {}

-- Modules that parts of runnel load when they are first used: the part; the words with which a program uses it, or
-- false if every program that requires the part does; and the modules.
local LOADED_LATE = {
  { "runnel.http", { "close_idle", "compress", "cookies", "fake", "get", "request", "stream" }, "runnel.http.curl" },
  { "runnel.otlp", false, "runnel.http.curl" },
  { "runnel.http", { "serve" }, "runnel.http.core" },
  { "runnel.http", { "websocket" }, "runnel.websocket.core", "runnel.tls.core", "luv" },
  { "runnel.http", { "tls" }, "runnel.tls.core" },
  { "runnel.uv", { "tls" }, "runnel.tls.core" },
  { "runnel.tls", false, "runnel.tls.core" },
  { "runnel.uv", false, "luv" },
  { "runnel.prompt", false, "luv" },
  { "runnel.nats", false, "runnel.nats.core" },
  { "runnel.sqlite", false, "runnel.sqlite.core" },
  { "runnel.store", false, "runnel.sqlite.core" },
  { "runnel.monitor", false, "runnel.monitor.core" },
  { "runnel.driver.luv", false, "luv" },
  { "runnel.driver.cqueues", false, "cqueues" },
  { "runnel.driver.copas", false, "copas" },
  { "runnel.driver.luasocket", false, "socket" },
}

-- What every state has.
local STANDARD = { _G = true, coroutine = true, debug = true, io = true, math = true, os = true, package = true,
  string = true, table = true, utf8 = true }

-- Shared libraries that belong to the C library.
local C_LIBRARY = { "^ld%-", "^libanl%.", "^libc%.", "^libdl%.", "^libm%.", "^libmvec%.", "^libpthread%.",
  "^libresolv%.", "^librt%.", "^libutil%." }

local function is_c_library(name)
  for _, pattern in ipairs(C_LIBRARY) do
    if name:find(pattern) then return true end
  end
  return false
end

-- The bytes of a file. Raises if it cannot be read.
local function read(path)
  local kind, missing = builder.kind(path)
  if kind == "folder" then error(path .. " is a folder", 0) end
  local file <close>, why = io.open(path, "rb")
  if not kind or not file then error(missing or why, 0) end
  return file:read "a"
end

-- The Lua code of a file as load takes it: without the mark of UTF-8, and with a first line `#...` made a comment, or,
-- before bytecode, left out.
local function code(path)
  local text = read(path):gsub("^\xEF\xBB\xBF", "")
  text = text:match "^#[^\n]*\n(\27.*)" or text:gsub("^#", "--#", 1)
  local ok, wrong = load(text, "@" .. path)
  if not ok then error(wrong, 0) end
  return text
end

---Collects the parts of a program.
---@class runnel.host.Collector
---@field parts runnel.host.Part[]
---@field notes string[] what is not inside, for the user
---@field package path string where modules are searched for
---@field package cpath string
---@field package seen table<string, true> names of modules
---@field package excluded table<string, true>
---@field package used table<string, true> parts of runnel
---@field package words table<string, true> names of fields, and strings
---@field package files table<string, true> paths
---@field package objects table<string, runnel.host.Part> C modules by the paths of their files
---@field package is_static boolean whether the executable is static
local Collector = {}
Collector.__index = Collector

function Collector:add(part)
  self.parts[#self.parts + 1] = part
  return part
end

-- Adds a note on what is not inside.
function Collector:note(text, ...) self.notes[#self.notes + 1] = text:format(...) end

-- Adds the shared object of a C module.
function Collector:add_object(name, path, data)
  if self.is_static then
    return self:note("the C module %s: this runnel is a static executable, which can load none", name)
  end
  local opens = "luaopen_" .. name:gsub("^[^-]*%-", ""):gsub("%.", "_")
  local first = self.objects[path] -- another module in the same file, which is loaded once
  local part = self:add { kind = "c_module", name = name, detail = opens, data = first and "" or data, path = path,
    needs = first and { first } }
  self.objects[path] = first or part
end

-- Whether a module is in the executable. Its loader of luv has the module's own loader, or nil, as its upvalue.
local function is_inside(name)
  local loader = package.preload[name]
  if name == "socket.core" then return false end -- a loader that leads to the module (csrc/lua/state/blocking.c)
  if name == "luv" and loader then return select(2, debug.getupvalue(loader, 1)) ~= nil end
  return loader ~= nil
end

-- Adds a module, and what it requires. Returns whether it was found.
function Collector:add_module(name)
  if self.seen[name] or STANDARD[name] or self.excluded[name] then return true end
  self.seen[name] = true
  if is_inside(name) then
    self.used[name] = true
    return true
  end
  local path = package.searchpath(name, self.path)
  if path then
    path = path:gsub("^%./", "")
    local text = code(path)
    self:add { kind = "module", name = name, detail = "@" .. path, data = text, path = path }
    self:add_required(path, text)
    return true
  end
  path = package.searchpath(name, self.cpath)
  if path then
    self:add_object(name, path, read(path))
    return true
  end
  local root = name:match "^([^.]+)%." -- one shared object may have several modules
  path = root and package.searchpath(root, self.cpath)
  local data = path and read(path)
  local found = data and data:find("luaopen_" .. name:gsub("%.", "_") .. "\0", 1, true) ~= nil
  if found then self:add_object(name, path, data) end
  return found
end

-- Adds what a Lua source requires.
function Collector:add_required(path, text)
  if text:sub(1, 1) == "\27" then -- bytecode
    return self:note("the modules that %s requires, which is bytecode", path)
  end
  local found = scan.scan(text)
  for word in pairs(found.words) do self.words[word] = true end
  for _, module in ipairs(found.modules) do
    if not self:add_module(module.name) and module.sure then
      self:note("the module %s, which %s:%d requires: it was not found", module.name, path, module.line)
    end
  end
  for _, line in ipairs(found.computed) do
    self:note("the module that %s:%d requires, whose name is computed (--include adds it)", path, line)
  end
end

-- Whether the program uses a part of runnel, or a module of it.
local function uses(used, part)
  for name in pairs(used) do
    if name == part or name:sub(1, #part + 1) == part .. "." then return true end
  end
  return false
end

local function has_any(words, list)
  for _, word in ipairs(list or {}) do
    if words[word] then return true end
  end
  return not list
end

-- Adds what the used parts of runnel load late.
function Collector:add_late()
  for _, late in ipairs(LOADED_LATE) do
    if uses(self.used, late[1]) and has_any(self.words, late[2]) then
      for i = 3, #late do
        if not self:add_module(late[i]) then
          self:note("the module %s, which %s may need: it is not installed here", late[i], late[1])
        end
      end
    end
  end
end

-- Patterns that together match all names in a folder but `.` and `..`.
local ALL = { "/*", "/.[!.]*", "/..?*" }

local function is_one_of(path, folders)
  for _, folder in ipairs(folders) do
    if builder.is_same(path, folder) then return true end
  end
  return false
end

-- Adds a file; of a folder, all files below it, those whose names begin with a dot included. What is below it and no
-- file, as the lock of an editor, is noted. `above` are the folders on the way down to it.
function Collector:add_path(path, above)
  if builder.kind(path) ~= "folder" then
    if self.files[path] then return end
    self.files[path] = true
    return self:add { kind = "file", name = path:gsub("^%./", ""), data = read(path), path = path }
  end
  if is_one_of(path, above) then return self:note("%s: the link leads to a folder that it is in", path) end
  above[#above + 1] = path
  local folder = path:gsub("/+$", ""):gsub("[%[%]*?\\]", "\\%0")
  for _, names in ipairs(ALL) do
    for _, one in ipairs(builder.glob(folder .. names)) do
      local kind = builder.kind(one)
      if kind == "file" or kind == "folder" then self:add_path(one, above)
      else self:note("%s: %s", one, kind and "it is neither a file nor a folder" or "the link leads nowhere") end
    end
  end
  above[#above] = nil
end

---Adds the files that a path or a pattern names; of a folder, all files below it. Raises if there are none.
---@param pattern string
function Collector:add_files(pattern)
  local paths = builder.kind(pattern) and { pattern } or builder.glob(pattern)
  if #paths == 0 then error("--file: there is no " .. pattern, 0) end
  for _, path in ipairs(paths) do self:add_path(path, {}) end
end

-- Templates of paths from the script, and from the script's folder, which LUA_PATH may lack. What a piece follows is
-- usually the script's folder: arg[0]:match "^(.*)/" .. "/?.lua".
local function paths_of(text, folder)
  local before, before_c = {}, {}
  for _, template in ipairs(text:sub(1, 1) ~= "\27" and scan.scan(text).templates or {}) do
    local one = template.text
    local list = one:find "%.so$" and before_c or before
    if template.is_piece then
      list[#list + 1] = folder .. one:gsub("^/+", "")
    else
      if not one:find "^/" then list[#list + 1] = folder .. one end
      list[#list + 1] = one
    end
  end
  local path = table.concat(before, ";") .. ";" .. package.path
  local cpath = table.concat(before_c, ";") .. ";" .. package.cpath
  return ("%s;%s?.lua;%s?/init.lua"):format(path, folder, folder):gsub("^;", ""),
    ("%s;%s?.so"):format(cpath, folder):gsub("^;", "")
end

---Collects the parts of a script. Raises if something cannot be read or compiled.
---@param script string the path
---@param include string[] further modules
---@param exclude string[] modules that are not added
---@param files string[] paths and patterns
---@param executable string the bytes of the executable
---@return runnel.host.Collector
function parts.collect(script, include, exclude, files, executable)
  local text = code(script)
  local path, cpath = paths_of(text, script:match "^(.*/)" or "")
  local self = setmetatable({ parts = {}, notes = {}, path = path, cpath = cpath, seen = {}, excluded = {}, used = {},
    words = {}, files = {}, objects = {}, is_static = elf.is_static(executable) }, Collector)
  for _, name in ipairs(exclude) do self.excluded[name] = true end
  self:add { kind = "script", name = script, detail = "@" .. script, data = text, path = script }
  self:add_required(script, text)
  for _, name in ipairs(include) do
    if not self:add_module(name) then
      error(("--include: the module %s was not found; set LUA_PATH or LUA_CPATH, as to run the script"):format(name), 0)
    end
  end
  self:add_late()
  for _, pattern in ipairs(files) do self:add_files(pattern) end
  return self
end

-- ---- shared libraries ----

-- The shared libraries that are loaded now: their paths by the names by which others need them.
local function loaded_libraries()
  local paths, seen = {}, {}
  for line in io.lines "/proc/self/maps" do
    local path = line:match "%s(/.*%.so[%d.]*)$"
    if path and not seen[path] then
      seen[path] = true
      local needs = elf.needs(read(path))
      if needs then paths[needs.soname or path:match "[^/]*$"] = path end
    end
  end
  return paths
end

---What a program needs on the machine where it runs.
---@class runnel.host.Needed
---@field c_library string[] names of the C library's files
---@field glibc? string the oldest version of glibc that suffices
---@field libraries table<string, string[]> by the name of a shared library: the C modules that need it, or "runnel"

---Finds which shared libraries the executable and the C modules need.
---@param executable string its bytes
---@param collected runnel.host.Collector
---@return runnel.host.Needed
function parts.needed(executable, collected)
  local needed, c_library, has = { c_library = {}, libraries = {} }, {}, {}
  for _, part in ipairs(collected.parts) do
    if part.kind == "library" then has[part.name] = true end
  end
  local function add(bytes, name)
    local needs = elf.needs(bytes) or { libraries = {} }
    needed.glibc = elf.newer(needed.glibc, needs.glibc)
    for _, library in ipairs(needs.libraries) do
      if is_c_library(library) then c_library[library] = true
      elseif not has[library] then
        local users = needed.libraries[library] or {}
        needed.libraries[library] = users
        users[#users + 1] = name
      end
    end
  end
  add(executable, "runnel")
  for _, part in ipairs(collected.parts) do
    if part.kind == "c_module" or part.kind == "library" then add(part.data, part.name) end
  end
  for library in pairs(c_library) do table.insert(needed.c_library, library) end
  table.sort(needed.c_library)
  return needed
end

---Adds the shared libraries that the C modules need, and those that these need, except for the C library. Raises if a C
---module cannot be loaded here.
---@param collected runnel.host.Collector
function parts.add_libraries(collected)
  local modules, added = {}, {}
  for _, part in ipairs(collected.parts) do
    if part.kind == "c_module" and part.data ~= "" then
      modules[#modules + 1] = part
      local ok, why = package.loadlib(part.path, "*") -- so that the system's loader finds its libraries
      if not ok then error(("--libraries: %s cannot be loaded: %s"):format(part.name, why), 0) end
    end
  end
  local paths = loaded_libraries()
  -- Adds the libraries that these bytes need to a list, each behind those that it needs itself.
  local function add(bytes, list, seen)
    for _, name in ipairs(elf.needs(bytes).libraries) do
      if not is_c_library(name) and not seen[name] then
        seen[name] = true
        if not paths[name] then error(("--libraries: %s was not found"):format(name), 0) end
        local library = added[name] or { kind = "library", name = name, data = read(paths[name]) }
        add(library.data, list, seen)
        if not added[name] then added[name] = collected:add(library) end
        list[#list + 1] = library
      end
    end
  end
  for _, module in ipairs(modules) do
    module.needs = {}
    add(module.data, module.needs, {})
  end
end

return parts
