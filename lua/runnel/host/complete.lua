---Completion of names at the prompt: globals, keywords, fields and methods. No code of the user's is run for it.

local SHOWN = 200

local KEYWORDS = {
  "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local", "nil", "not",
  "or", "repeat", "return", "then", "true", "until", "while",
}

-- The table behind a value where its fields are looked up when it has none of its own.
local function behind(value)
  local meta = debug.getmetatable(value)
  local index = type(meta) == "table" and rawget(meta, "__index")
  return type(index) == "table" and index or nil
end

-- Calls f(table) for each table in which a value's fields are looked up.
local function each_table(value, f)
  local t = type(value) == "table" and value or behind(value)
  for _ = 1, 10 do
    if not t then return end
    f(t)
    t = behind(t)
  end
end

local function field(value, name)
  local found
  each_table(value, function(t)
    if found == nil then found = rawget(t, name) end
  end)
  return found
end

-- The value that `a.b:c` names, without the last name.
local function resolve(names)
  local value = _G
  for name in names:gmatch "[%a_][%w_]*" do
    value = field(value, name)
    if value == nil then return nil end
  end
  return value
end

local function common_prefix(list)
  local prefix = list[1]
  for i = 2, #list do
    while list[i]:sub(1, #prefix) ~= prefix do prefix = prefix:sub(1, -2) end
  end
  return prefix
end

---What may follow the line up to the cursor.
---@param line string
---@return string insert what is to be inserted
---@return string[]? candidates where there are several and nothing can be inserted
return function(line)
  local command = line:match "^%s*:(%a*)$"
  local path, sep, start = line:match "([%a_][%w_.:]*)([.:])([%a_]?[%w_]*)$"
  if command then
    start = command
  elseif not path then
    path, sep, start = "", "", line:match "([%a_]?[%w_]*)$"
    if line:match "[.:]%s*[%w_]*$" then return "" end
  end
  local found, seen = {}, {}
  local function consider(name)
    if type(name) == "string" and name:sub(1, #start) == start and not seen[name] and name:find "^[%a_][%w_]*$" then
      seen[name] = true
      found[#found + 1] = name
    end
  end
  if command then
    for _, name in ipairs(require("runnel.host.commands").names()) do consider(name) end
  else
    local value = resolve(path)
    if value == nil then return "" end
    each_table(value, function(t)
      for name, v in next, t do
        if sep ~= ":" or type(v) == "function" then consider(name) end
      end
    end)
    if path == "" then
      for _, name in ipairs(KEYWORDS) do consider(name) end
    end
  end
  if #found == 0 then return "" end
  table.sort(found)
  local rest = common_prefix(found):sub(#start + 1)
  if #found == 1 or rest ~= "" then return rest end
  if #found > SHOWN then found = table.move(found, 1, SHOWN, 1, {}) end
  return "", found
end
