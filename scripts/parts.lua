-- lua parts.lua PARTS FILE...: prints the FILEs, modules below lua/, that a library with these parts contains. A part
-- is a name as after "runnel.", such as flow or driver.luv: that module and those in its folder. rn is `runnel` itself,
-- and `runnel.all`. core is the part that is always there, written in C; all are all modules. What the parts require is
-- contained, too.
package.path = "lua/?.lua;" .. package.path
local scan = require "runnel.host.build_scan"

local files, order = {}, {} -- module -> its file
for i = 2, #arg do
  local name = arg[i]:match "^lua/(.*)%.%a+$":gsub("/", ".")
  files[name] = arg[i]
  order[#order + 1] = name
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

-- Where a file computes the name of a module that it requires, it has the name, or its beginning, in a string.
function contain(name)
  if contained[name] then return end
  contained[name] = true
  local file <close> = assert(io.open(files[name]))
  local found = scan.scan(file:read "a")
  for _, module in ipairs(found.modules) do
    if files[module.name] then contain(module.name) end
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
    or part == "rn" and contain_all "runnel.rn" and not contain "runnel" or contain_all("runnel." .. part)
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

for _, name in ipairs(order) do
  if contained[name] then print(files[name]) end
end
