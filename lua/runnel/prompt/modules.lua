---The names of the modules that `require` finds.

---@class runnel.prompt.modules
local modules = {}

-- Whether a module is for programs: of runnel's own those that the manual describes are not deeper than this.
local function is_public(name)
  if not name:find "^runnel%." then return true end
  return name:find "^runnel%.%w+$" ~= nil and not name:find "^runnel%.all$" and not name:find "^runnel%.meta$"
    or name:find "^runnel%.driver%." ~= nil
end

local function exists(path)
  local file = io.open(path)
  return file ~= nil and file:close()
end

-- Calls add(name) for the modules in the directories of a path, as package.path, whose names begin with `start`.
local function in_path(path, start, files, add)
  local above = start:match "^.*%." or ""
  for template in path:gmatch "[^;]+" do
    local dir, suffix = template:match "^([^?]*)%?(.*)$"
    local place = dir and dir .. above:gsub("%.", "/")
    for _, file in ipairs(dir and files(place == "" and "." or place) or {}) do
      local name = file:match "^([%w_%-]+)/?$"
      if file:sub(-1) == "/" and name then
        if suffix:sub(1, 1) ~= "/" then add(above .. name .. ".")
        elseif exists(place .. name .. suffix) then add(above .. name) end
      elseif suffix:sub(1, 1) ~= "/" and #file > #suffix and file:sub(-#suffix) == suffix then
        name = file:sub(1, -#suffix - 1)
        if name:find "^[%w_%-]+$" then add(above .. name) end
      end
    end
  end
end

---Calls add(name) for each module whose name begins with `start`; a name that ends with a dot is a directory.
---@param start string
---@param files? fun(directory: string): string[]? the names in it, with a / after directories
---@param add fun(name: string)
function modules.each(start, files, add)
  local function consider(name)
    if type(name) == "string" and name:sub(1, #start) == start and is_public(name) then add(name) end
  end
  for name in next, package.loaded do consider(name) end
  for name in next, package.preload do consider(name) end
  if not files then return end
  in_path(package.path, start, files, consider)
  in_path(package.cpath, start, files, consider)
end

return modules
