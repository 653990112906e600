---The entries of `:doc`: the tables of the manual, Lua's own functions, and functions of the library without a row
---there.

local width = require "runnel.internal.width"

---@class runnel.internal.prompt.doc
local doc = {}

---@class runnel.internal.prompt.Entry
---@field calls string[] the calls, as in "ch:put(v)"
---@field names string[] the names that the entry describes
---@field text string
---@field options? string[][] the options of the function: name and text of each

---@return runnel.internal.prompt.Entry[]
local tables

-- The rows of the manual's tables, which are built into the executable.
local function documented()
  if not tables then
    local found, list = pcall(require, "runnel.host.manual_tables")
    tables = found and list or {}
  end
  return tables
end

local reference

-- The lines of reference.lua.
local function referred()
  if reference then return reference end
  reference = {}
  local text_of_all = require("runnel.internal.prompt.reference"):gsub("\n    ", " ") -- joins continued lines
  for line in text_of_all:gmatch "[^\n]+" do
    local call, text = line:match "^(.-) | (.*)$"
    reference[#reference + 1] = { calls = { call }, names = {}, text = text }
  end
  return reference
end

---The path at the beginning of a call: "rn.xf.map" of "rn.xf.map(f)". Nil if there is none: some rows of the manual's
---tables begin with other text, such as the header `Connection: close`.
---@param call string
---@return string?
function doc.path_of(call)
  local path = call:match "^[%a_][%w_.:]*"
  return path and path:find "[%w_]$" and path or nil
end

-- The prefix and the name of a call: "rn.xf", "map"; "", "print".
local function parts(call)
  local path = doc.path_of(call)
  if not path then return nil end
  return path:match "^(.-)[.:]?([%a_][%w_]*)$"
end

-- Whether a call has that name, and that prefix if one is given.
local function is_call_of(call, prefix, name)
  local p, n = parts(call)
  return n == name and (not prefix or p == prefix)
end

-- The entries of a list that describe a name.
local function about(list, prefix, name)
  local found = {}
  for _, entry in ipairs(list) do
    local is = false
    for _, call in ipairs(entry.calls) do is = is or is_call_of(call, prefix, name) end
    if not prefix then
      for _, other in ipairs(entry.names) do is = is or other == name end
    end
    if is then found[#found + 1] = entry end
  end
  return found
end

---The entries for a name: "take", "ch:take", "rn.xf.map", "string.format".
---@param query string
---@return runnel.internal.prompt.Entry[]
function doc.find(query)
  local prefix, name = query:gsub("^rn%.xf%.", "xf."):match "^([%a_][%w_.]*)[.:]([%a_][%w_]*)$"
  if not prefix then name = query:match "^[%a_][%w_]*$" end
  if not name then return {} end
  local found = about(documented(), prefix, name)
  -- A row of the manual about the same call says more than a line of reference.lua.
  local calls = {}
  for _, entry in ipairs(found) do
    for _, call in ipairs(entry.calls) do calls[call:match "^[^(]*"] = true end
  end
  for _, entry in ipairs(about(referred(), prefix, name)) do
    if not calls[entry.calls[1]:match "^[^(]*"] then found[#found + 1] = entry end
  end
  if #found > 0 or not prefix then return found end
  return about(documented(), nil, name) -- a method, of an object with another name
end

---The calls of the function at that path, or of methods of that name: only of the object, if the documentation names it
---the same, as it does channels.
---@param path string as in "rn.alts", "ch:put" or "jobs:put"
---@return string[]
function doc.calls(path)
  path = path:gsub("^rn%.xf%.", "xf.")
  local object, separator, name = path:match "^(.-)([.:]?)([%a_][%w_]*)$"
  local list, seen = {}, {}
  local function add(entries)
    for _, entry in ipairs(entries) do
      for _, call in ipairs(entry.calls) do
        local is_method = call:find("^%a+:" .. name .. "%f[^%w_]") ~= nil
        local fits = is_method == (separator == ":") and is_call_of(call, nil, name) and (separator == ":"
          or is_call_of(call, path:match "^(.*)%." or "", name))
        if fits and not seen[call] then
          seen[call] = true
          list[#list + 1] = call
        end
      end
    end
  end
  add(documented())
  if #list == 0 then add(referred()) end
  local own = {}
  for _, call in ipairs(list) do
    if separator == ":" and is_call_of(call, object, name) then own[#own + 1] = call end
  end
  return #own > 0 and own or list
end

---All names that `:doc` knows.
---@return string[]
function doc.names()
  local list, seen = {}, {}
  for _, entries in ipairs { documented(), referred() } do
    for _, entry in ipairs(entries) do
      for _, call in ipairs(entry.calls) do
        local path = doc.path_of(call)
        if path and not seen[path] then
          seen[path] = true
          list[#list + 1] = path
        end
      end
    end
  end
  table.sort(list)
  return list
end

---Formats an entry as text, wrapped to the columns.
---@param entry runnel.internal.prompt.Entry
---@param columns integer
---@return string
function doc.text(entry, columns)
  local calls = table.concat(entry.calls, "  ")
  if width.of(calls) > columns then calls = table.concat(entry.calls, "\n") end
  local lines = { calls, width.wrap(entry.text, columns, "    ") }
  for _, option in ipairs(entry.options or {}) do
    lines[#lines + 1] = "  " .. option[1]
    lines[#lines + 1] = width.wrap(option[2], columns, "      ")
  end
  return table.concat(lines, "\n")
end

return doc
