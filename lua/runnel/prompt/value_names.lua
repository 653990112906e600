---The names that a value has, found without running code of the program's, such as metamethods.

---@class runnel.prompt.value_names
local names = {}

-- The table that is the `__index` of a value's metatable, or nil.
local function behind(value)
  local meta = debug.getmetatable(value)
  local index = type(meta) == "table" and rawget(meta, "__index")
  return type(index) == "table" and index or nil
end

---Calls f(table) for each table in which a value's fields are looked up.
---@param value any
---@param f fun(t: table)
function names.each_table(value, f)
  local t = type(value) == "table" and value or behind(value)
  for _ = 1, 10 do
    if not t then return end
    f(t)
    t = behind(t)
  end
end

---A field of a value.
---@param value any
---@param name string
---@return any
function names.field(value, name)
  local found
  names.each_table(value, function(t)
    if found == nil then found = rawget(t, name) end
  end)
  return found
end

---The value of `a.b:c`.
---@param session runnel.prompt.Session
---@param path string
---@return any
function names.resolve(session, path)
  local value
  for name in path:gmatch "[%a_][%w_]*" do
    if value == nil then value = session:get(name) else value = names.field(value, name) end
    if value == nil then return nil end
  end
  return value
end

---Calls f(name) for each local of a session, and for each global.
---@param session runnel.prompt.Session
---@param f fun(name: any)
function names.each_variable(session, f)
  for name in pairs(session.locals.cells) do f(name) end
  names.each_table(session.env or _G, function(t)
    for name in next, t do f(name) end
  end)
  if session.env then
    for name in next, _G do f(name) end
  end
end

return names
