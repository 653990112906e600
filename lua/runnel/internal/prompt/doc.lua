---What `:doc` finds: the tables of the documentation, Lua's own functions, and what the library has besides.

local width = require "runnel.internal.prompt.width"

---@class runnel.internal.prompt.doc
local doc = {}

---@class runnel.internal.prompt.Entry
---@field calls string[] how it is written
---@field names string[] the names that it is about
---@field text string

---@return runnel.internal.prompt.Entry[]
local contract

-- The tables of the documentation, which are in the executable.
local function documented()
  if not contract then
    local found, list = pcall(require, "runnel.host.contract")
    contract = found and list or {}
  end
  return contract
end

local reference

-- The lines of reference.lua.
local function referred()
  if reference then return reference end
  reference = {}
  local text_of_all = require("runnel.internal.prompt.reference"):gsub("\n    ", " ") -- lines that go on
  for line in text_of_all:gmatch "[^\n]+" do
    local call, text = line:match "^(.-) | (.*)$"
    reference[#reference + 1] = { calls = { call }, names = {}, text = text }
  end
  return reference
end

-- What stands before the name in a call, and the name: "rn.xf", "map"; "", "print".
local function parts(call)
  local path = call:match "^[%a_][%w_.:]*"
  if not path then return nil end
  local prefix, name = path:match "^(.-)[.:]?([%a_][%w_]*)$"
  return prefix, name
end

-- Whether a call is what was asked for, with or without what stands before its name.
local function is_call_of(call, prefix, name)
  local p, n = parts(call)
  return n == name and (not prefix or p == prefix)
end

-- The entries of a list that are about a name.
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

---The entries about a name: "take", "ch:take", "rn.xf.map", "string.format".
---@param query string
---@return runnel.internal.prompt.Entry[]
function doc.find(query)
  local prefix, name = query:gsub("^rn%.xf%.", "xf."):match "^([%a_][%w_.]*)[.:]([%a_][%w_]*)$"
  if not prefix then name = query:match "^[%a_][%w_]*$" end
  if not name then return {} end
  local found = about(documented(), prefix, name)
  -- A row of the tables about its own name says more than a line here.
  local calls = {}
  for _, entry in ipairs(found) do
    for _, call in ipairs(entry.calls) do calls[call:match "^[^(]*"] = true end
  end
  for _, entry in ipairs(about(referred(), prefix, name)) do
    if not calls[entry.calls[1]:match "^[^(]*"] then found[#found + 1] = entry end
  end
  if #found > 0 or not prefix then return found end
  return about(documented(), nil, name) -- a method of what another name stands for
end

---How the function of that path is called, or methods of that name are.
---@param path string as in "rn.alts" or "jobs:put"
---@return string[]
function doc.calls(path)
  path = path:gsub("^rn%.xf%.", "xf.")
  local separator, name = path:match "([.:]?)([%a_][%w_]*)$"
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
  return list
end

---All that `:doc` can be asked for.
---@return string[]
function doc.names()
  local list, seen = {}, {}
  for _, entries in ipairs { documented(), referred() } do
    for _, entry in ipairs(entries) do
      for _, call in ipairs(entry.calls) do
        local path = call:match "^[%a_][%w_.:]*"
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

---An entry as text, with breaks between words.
---@param entry runnel.internal.prompt.Entry
---@param columns integer
---@return string
function doc.text(entry, columns)
  local calls = table.concat(entry.calls, "  ")
  if width.of(calls) > columns then calls = table.concat(entry.calls, "\n") end
  return calls .. "\n" .. width.wrap(entry.text, columns, "    ")
end

return doc
