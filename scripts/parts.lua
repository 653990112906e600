-- lua parts.lua PARTS FILE...: prints those of the FILEs below lua/ that a library with these parts contains; the other
-- FILEs are the core's, in C. A part is a name as after "runnel.", such as flow or driver.luv: that module and those in
-- its folder. rn is `runnel` itself, and `runnel.all`. core is the part that is always there, written in C; all are all
-- modules. What the parts require is contained, too; and, with any module, what the core requires.
package.path = "lua/?.lua;" .. package.path
local scan = require "runnel.host.build_scan"

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

local files, order = {}, {} -- module -> its file
local required_by_core = {}
for i = 2, #arg do
  local module = arg[i]:match "^lua/(.*)%.%a+$"
  if module then
    local name = module:gsub("/", ".")
    files[name] = arg[i]
    order[#order + 1] = name
  else
    local source = read(arg[i])
    for name in source:gmatch "require '(runnel[%w_.]*)'" do table.insert(required_by_core, name) end
    for name in source:gmatch '"require"%);%s*lua_pushliteral%(L, "(runnel[%w_.]*)"' do
      table.insert(required_by_core, name)
    end
  end
end

local contained = {}
local contain

-- A module, and those in its folder.
local function contain_all(module)
  local found = false
  for _, name in ipairs(order) do
    if name == module or name:sub(1, #module + 1) == module .. "." then
      found = true
      contain(name)
    end
  end
  return found
end

-- Where a file computes the name of a module that it requires, it has the name, or its beginning, in a string. What a
-- thread requires is in the fields `main` and `module` of its job (runnel.threads.start).
function contain(name)
  if contained[name] then return end
  contained[name] = true
  local source = read(files[name])
  local found = scan.scan(source)
  for _, module in ipairs(found.modules) do
    if files[module.name] then contain(module.name) end
  end
  for field, module in source:gmatch '(%a+) = "(runnel[%w_.]+)"' do
    if (field == "main" or field == "module") and files[module] then contain(module) end
  end
  if not found.computed[1] then return end
  for word in pairs(found.words) do
    if files[word] then contain(word) end
    local folder = word:match "^(runnel%..*)%.$"
    if folder then contain_all(folder) end
  end
end

for part in arg[1]:gmatch "[^%s,]+" do
  local is_known = part == "core" or part == "all" and contain_all "runnel"
    or part == "rn" and contain_all "runnel.rn" and not contain "runnel.all" or contain_all("runnel." .. part)
  if not is_known then
    local rooms, list = {}, {}
    for _, name in ipairs(order) do
      local room = name:match "^runnel%.([%w_]+)$"
      if room and not rooms[room] and room ~= "meta" and room ~= "all" then list[#list + 1] = room end
      rooms[room or ""] = true
    end
    io.stderr:write(("PARTS: there is no part '%s'; known: core, rn, %s\n"):format(part, table.concat(list, ", ")))
    os.exit(1)
  end
end

if next(contained) then
  for _, name in ipairs(required_by_core) do contain(name) end
end

for _, name in ipairs(order) do
  if contained[name] then print(files[name]) end
end
