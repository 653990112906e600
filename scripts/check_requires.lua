-- lua check_requires.lua [DIRECTORY]: whether the modules of lua/ (or DIRECTORY) keep to the floors below. A module
-- uses those of lower floors and of its own room; the rooms of one floor do not know each other. A look at
-- package.loaded counts, too. Writes a line for each use that goes elsewhere, and fails then.

-- From the lowest. Each string is a room: folders of lua/runnel and modules. A module belongs to the longest name that
-- fits.
local FLOORS = {
  { "csv json xf internal internal/errors", "lite" },
  { "workers", "search" },
  { "tracing profile threads rn all runnel" },
  { "driver uv tls" },
  { "flow", "queue", "sqlite", "http" },
  { "store", "nats", "otlp" },
  { "sim" },
  { "monitor", "core_async" },
  { "prompt host" },
}

local root = arg[1] or "lua"
local floor_of, room_of = {}, {}
for floor, rooms in ipairs(FLOORS) do
  for i, names in ipairs(rooms) do
    for name in names:gmatch "%S+" do floor_of[name], room_of[name] = floor, floor .. "." .. i end
  end
end

-- The name of a floor to which a module belongs: itself, or the nearest folder that has one.
local function place_of(module)
  local path = module == "runnel" and "runnel" or module:gsub("^runnel%.", ""):gsub("%.", "/")
  while path and not floor_of[path] do path = path:match "^(.+)/[^/]+$" end
  return path
end

-- Whether a module is written in Lua: those in C are below all floors.
local function is_lua(module)
  local file = io.open(root .. "/" .. module:gsub("%.", "/") .. ".lua")
  return file and file:close()
end

local complaints, checked = {}, 0

local function check(file, line, module, needed)
  local from, to = place_of(module), place_of(needed)
  local why
  if not from then why = "the file is on no floor"
  elseif not to then why = needed .. " is on no floor"
  elseif floor_of[to] > floor_of[from] then why = ("requires %s, of a higher floor"):format(needed)
  elseif floor_of[to] == floor_of[from] and room_of[to] ~= room_of[from] then
    why = ("requires %s, of another room on its floor"):format(needed)
  end
  checked = checked + 1
  if why then complaints[#complaints + 1] = ("%s:%d: %s"):format(file, line, why) end
end

local USES <const> = {
  'require%f[%W]%s*%(?%s*"([%w_.]+)"', 'need%s*%(%s*"([%w_.]+)"', 'loaded%["([%w_.]+)"%]',
}

local files = assert(io.popen("find '" .. root .. "' -name '*.lua' | LC_ALL=C sort"))
for file in files:lines() do
  local module = file:sub(#root + 2, -5):gsub("/", ".")
  local n = 0
  for line in io.lines(file) do
    n = n + 1
    if not line:find "^%s*%-%-" then
      for _, pattern in ipairs(USES) do
        for needed in line:gmatch(pattern) do
          if needed:find "^runnel" and is_lua(needed) then check(file, n, module, needed) end
        end
      end
    end
  end
end
files:close()
if checked == 0 then complaints[1] = root .. " has no module that requires another one" end
for _, complaint in ipairs(complaints) do io.stderr:write(complaint, "\n") end
os.exit(#complaints == 0)
