---What a prompt shows of a function: how it is called, where it is, and the first line of what is said about it.

local core = require "runnel.core"
local doc = require "runnel.prompt.doc"
local width = require "runnel.internal.width"

---@class runnel.prompt.describe
local describe = {}

-- The value of a name of the documentation: "rn.pmap", "xf.map", "ch:put", "string.format", "http.get".
local function documented(name)
  local object, separator, last = name:match "^(.-)([.:]?)([%a_][%w_]*)$"
  if separator == ":" then return object == "ch" and core.methods[last] or nil end
  if object == "" then return rawget(_G, last) end
  local loaded = package.loaded
  local of = object == "rn" and loaded.runnel or object == "xf" and loaded.runnel and loaded.runnel.xf
    or loaded["runnel." .. object] or loaded[object]
  return type(of) == "table" and rawget(of, last) or nil
end

-- The entry of the documentation about a function, and its name there.
local function entry_of(f)
  for _, name in ipairs(doc.names()) do
    if documented(name) == f then return doc.find(name)[1], name end
  end
end

---The name of a function of Lua's or the library's, as "rn.pmap" or "string.format"; nil for any other.
---@param f function
---@return string?
function describe.name_of(f)
  local _, name = entry_of(f)
  return name and not name:find ":" and name:gsub("^xf%.", "rn.xf.") or nil
end

---The lines of the chunk or file in which a function is defined.
---@param session runnel.prompt.Session
---@param source string as of debug.getinfo
---@return string[]? lines nil if it cannot be read
function describe.lines_of(session, source)
  local number, path = source:match "^=%[(%d+)%]$", source:match "^@(.*)$"
  local chunk = number and session.chunks[tonumber(number)]
  local text = chunk and chunk.text
  if path then
    local file = io.open(path)
    if not file then return nil end
    text = file:read "a"
    file:close()
  end
  if not text then return nil end
  local lines = {}
  for line in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  return lines
end

-- The first line of the comment above a function.
local function comment(session, info)
  local lines, first = describe.lines_of(session, info.source), nil
  for i = info.linedefined - 1, 1, -1 do
    local text = lines and lines[i] and lines[i]:match "^%s*%-%-%-?%s?(.*)$"
    if not text then break end
    if not text:find "^@" then first = text end
  end
  return first
end

---The names of a function's parameters.
---@param f function
---@return string[]
function describe.parameters(f)
  local list, info = {}, debug.getinfo(f, "u")
  for i = 1, info.nparams do list[i] = debug.getlocal(f, i) end
  if info.isvararg then list[#list + 1] = "..." end
  return list
end

---A function as text.
---@param session runnel.prompt.Session
---@param f function
---@param typed string the chunk whose value it is
---@param columns integer of the screen
---@return string
function describe.func(session, f, typed, columns)
  local entry, name = entry_of(f)
  if entry then
    local calls = {}
    for _, call in ipairs(entry.calls) do
      if doc.path_of(call) == name then calls[#calls + 1] = call end
    end
    local first = entry.text:match "^(.-%.)%s" or entry.text
    local more = first ~= entry.text and (" (%s? shows more)"):format(name) or ""
    return ("function: %s\n%s"):format(table.concat(calls, "  "), width.wrap(first .. more, columns, "    "))
  end
  local info = debug.getinfo(f, "S")
  if info.what == "C" then return tostring(f) end
  local path = typed:match "^%s*([%a_][%w_.:]*)%s*$" or ""
  local text = ("function: %s(%s)  %s:%d"):format(path, table.concat(describe.parameters(f), ", "), info.short_src,
    info.linedefined)
  local said = comment(session, info)
  return said and text .. "\n" .. width.wrap(said, columns, "    ") or text
end

return describe
