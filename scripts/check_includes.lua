-- lua check_includes.lua [DIRECTORY [OBJECTS...]]: whether the files of csrc/ (or DIRECTORY) keep to the architecture.
--
-- 1. An include never runs upward in the order of the folders below, nor does a call.
-- 2. The files include and call each other without a circle. A header and its source count as one file, X.h and X.c.
-- 3. No module defines a name that the core defines, too: programs that link both, such as tests, could not be made.
--
-- A call is a symbol that one object file needs and another one defines: a function, or data such as a table of
-- functions. OBJECTS are directories of object files, FOLDER/X.o, whose symbols `nm` lists; without them only includes
-- count. A function that is called by a pointer is no call: that is how a file calls back one that includes it.

local ORDER = {
  "base", "csv", "json", "shared", "core", "lifetimes", "errors", "channels", "states", "blocks", "timers",
  "sim", "profile", "tracing", "port", "capi", "lua", "lua/internal", "lua/state", "librunnel", "kit", "nats", "tls",
  "websocket", "sqlite", "http/client", "http/server", "monitor", "host/bundle", "host/runtime", "host/prompt", "host",
  "site",
}

local FIRST_OF_MODULES = "kit" -- the folders before it are the core

-- Files that count as one: the parts of a shared channel, whose values may be shared channels; the parts of its
-- handles, whose values may be handles; and what a debug build asserts of a channel.
local SAME = {
  ["channels/chan_check"] = "channels/chan",
  ["shared/after"] = "shared/shared_chan", ["shared/shared_alt"] = "shared/shared_chan",
  ["shared/shared_chan_state"] = "shared/shared_chan",
  ["shared/value"] = "shared/shared_chan",
  ["states/shared_ops"] = "states/shared_handle", ["states/shared_inbox"] = "states/shared_handle",
  ["states/shared_pack"] = "states/shared_handle",
}

local root = arg[1] or "csrc"
local level, complaints, uses, names = {}, {}, {}, {}
for i, folder in ipairs(ORDER) do level[folder] = i end
local function complain(...) complaints[#complaints + 1] = string.format(...) end
local function unit(path) return SAME[path] or path end
local function folder_of(path) return path:match "^(.+)/[^/]+$" end

local function lines_of(command)
  local pipe = assert(io.popen(command))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = line end
  if not pipe:close() then complain("%s has failed", command) end
  return list
end

-- `from` includes or calls `to`; `how` says where or what.
local function use(from, to, how)
  if from ~= to then uses[from][to] = uses[from][to] or how end
end

-- ---- includes ----

for _, path in ipairs(lines_of("cd '" .. root .. "' && ls */*.[ch] && { ls */*/*.[ch] 2>/dev/null || true; }")) do
  local folder, name = folder_of(path), unit(path:match "^(.+)%.[ch]$")
  if not level[folder] then complain("%s/%s: this folder is not in the order of the folders", root, folder) end
  if not uses[name] then
    uses[name] = {}
    names[#names + 1] = name
  end
  local n = 0
  for line in io.lines(root .. "/" .. path) do
    n = n + 1
    local target = line:match '^%s*#%s*include%s+"([^"]+)"'
    local to = target and folder_of(target)
    local place = ("%s/%s:%d"):format(root, path, n)
    if target and not to then
      complain("%s: an include names the folder, as in \"core/%s\"", place, target)
    elseif target and level[folder] and (level[to] or 0) > level[folder] then
      complain("%s: %s is above %s, and must not be included there", place, target, folder)
    elseif target and target:match "%.h$" then
      use(name, unit(target:match "^(.+)%.h$"), place)
    end
  end
end
if #names == 0 then complain("%s: there are no sources", root) end

-- ---- calls ----

-- Complains of a name that both the core and a module define. `homes`: the files that define it, by their folders.
local function check_homes(symbol, homes)
  local of_core, of_module
  for folder, home in pairs(homes) do
    if level[folder] < level[FIRST_OF_MODULES] then of_core = home else of_module = home end
  end
  if of_core and of_module then complain("%s defines %s, as %s of the core does", of_module, symbol, of_core) end
end

-- Adds the calls between the object files of a directory. Object files whose source is gone do not count. Modules may
-- define the same name: each calls its own.
local function add_calls(objects)
  local defined, needed, count = {}, {}, 0
  local name
  for _, line in ipairs(lines_of("cd '" .. objects .. "' && find . -name '*.o' -exec nm -P -A {} +")) do
    local path, symbol, kind = line:match "^%./(%w[%w/]*/[%w_]+)%.o: (%S+) (%a)"
    local file = path and io.open(("%s/%s.c"):format(root, path))
    if file then
      file:close()
      name, count = unit(path), count + 1
      if kind == "U" then
        needed[#needed + 1] = { name, symbol }
      elseif kind:match "[ABCDRTVW]" then
        defined[symbol] = defined[symbol] or {}
        defined[symbol][folder_of(path)] = name
      end
    end
  end
  for symbol, homes in pairs(defined) do check_homes(symbol, homes) end
  if count == 0 then complain("%s: no symbols; are there object files, without link-time optimisation?", objects) end
  for _, call in ipairs(needed) do
    local from, symbol = call[1], call[2]
    local homes, folder = defined[symbol] or {}, folder_of(from)
    local to = homes[folder]
    for _, home in pairs(homes) do
      if not homes[folder] and level[folder_of(home)] < level[folder] then to = home end
    end
    if to then
      use(from, to, ("%s: it calls %s of %s"):format(from, symbol, to))
    elseif next(homes) then
      complain("%s: %s is defined above it, in %s, and must not be called there", from, symbol, select(2, next(homes)))
    end
  end
end
for i = 2, #arg do add_calls(arg[i]) end

-- ---- circles: depth first; `path` is the way from where the search began ----

local done, path, place_on = {}, {}, {}

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

local function visit(name)
  path[#path + 1] = name
  place_on[name] = #path
  for _, other in ipairs(sorted_keys(uses[name] or {})) do
    if place_on[other] then
      local circle = table.move(path, place_on[other], #path, 1, {})
      circle[#circle + 1] = other
      local ways = {}
      for i = 1, #circle - 1 do ways[i] = "\n  " .. uses[circle[i]][circle[i + 1]] end
      complain("a circle of files: %s%s", table.concat(circle, " -> "), table.concat(ways))
    elseif not done[other] then
      visit(other)
    end
  end
  place_on[name] = nil
  path[#path] = nil
  done[name] = true
end

table.sort(names)
for _, name in ipairs(names) do
  if not done[name] then visit(name) end
end

for _, complaint in ipairs(complaints) do io.stderr:write(complaint, "\n") end
os.exit(#complaints == 0)
