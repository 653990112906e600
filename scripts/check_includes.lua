-- lua check_includes.lua [DIRECTORY]: whether the #include lines of csrc/ (or DIRECTORY) keep to the architecture.
--
-- 1. An include never runs upward in the order of the folders below.
-- 2. The files of a folder include each other without a circle. A header and its source count as one file, X.h and X.c.

local ORDER = {
  "base", "shared", "core", "lifetimes", "errors", "channels", "sharing", "blocks", "sim", "tracing", "port", "capi",
  "lua", "library", "kit", "nats", "http", "httpd", "monitor", "host", "site",
}

-- Files that include each other count as one file: the parts of a shared channel, whose values may be shared channels.
local SAME = {
  ["shared/after"] = "shared/chan", ["shared/alt"] = "shared/chan", ["shared/chan_state"] = "shared/chan",
  ["shared/value"] = "shared/chan",
}

-- The folder in which circles are allowed: the parts of the executable include each other.
local CIRCLES_ALLOWED = "host"

local root = arg[1] or "csrc"
local level, complaints, includes, names = {}, {}, {}, {}
for i, folder in ipairs(ORDER) do level[folder] = i end
local function complain(...) complaints[#complaints + 1] = string.format(...) end

-- ---- reading: includes[X][Y] is the place where X includes Y ----

local files = assert(io.popen("cd '" .. root .. "' && ls */*.c */*.h"))
for path in files:lines() do
  local folder, name = path:match "^(%w+)/", path:match "^(.+)%.[ch]$"
  name = SAME[name] or name
  if not level[folder] then complain("%s/%s: this folder is not in the order of the folders", root, folder) end
  if not includes[name] then
    includes[name] = {}
    names[#names + 1] = name
  end
  local n = 0
  for line in io.lines(root .. "/" .. path) do
    n = n + 1
    local target = line:match '^%s*#%s*include%s+"([^"]+)"'
    local to = target and target:match "^(%w+)/"
    local place = ("%s/%s:%d"):format(root, path, n)
    if target and not to then
      complain("%s: an include names the folder, as in \"core/%s\"", place, target)
    elseif target and level[folder] and (level[to] or 0) > level[folder] then
      complain("%s: %s is above %s, and must not be included there", place, target, folder)
    elseif target and to == folder then
      local other = target:match "^(.+)%.h$"
      other = SAME[other] or other
      if other and other ~= name then includes[name][other] = includes[name][other] or place end
    end
  end
end
files:close()
if #names == 0 then complain("%s: there are no sources", root) end

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
  for _, other in ipairs(sorted_keys(includes[name] or {})) do
    if place_on[other] then
      local circle = table.move(path, place_on[other], #path, 1, {})
      circle[#circle + 1] = other
      if not name:find("^" .. CIRCLES_ALLOWED .. "/") then
        complain("%s: a circle of includes: %s", includes[name][other], table.concat(circle, " -> "))
      end
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
