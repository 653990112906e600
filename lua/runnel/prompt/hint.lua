---"Did you mean": the name that is most like one that does not exist.

local names = require "runnel.prompt.value_names"

---@class runnel.prompt.hint
local hint = { nearest = require "runnel.internal.nearest" }

-- The names in a session that are like `path` in its last part, as a path.
local function like(session, path)
  local object, separator, name = path:match "^(.-)([.:]?)([%a_][%w_]*)$"
  if not name then return nil end
  local list = {}
  local function add(one)
    if type(one) == "string" and one ~= name then list[#list + 1] = one end
  end
  if object == "" then
    names.each_variable(session, add)
  else
    names.each_table(names.resolve(session, object), function(t)
      for one in next, t do add(one) end
    end)
  end
  local nearest = hint.nearest(name, list)
  return nearest and object .. separator .. nearest
end

local function question(path) return path and ("did you mean %s?"):format(path) end

---What is said about a chunk that is only a name and whose value is nil.
---@param session runnel.prompt.Session
---@param text string the chunk
---@return string?
function hint.of_chunk(session, text)
  local path = text:match "^%s*([%a_][%w_.]*)%s*$"
  if not path or session.locals.cells[path] then return nil end
  return question(like(session, path))
end

-- The path whose last part is a name, in the line of a chunk that a message begins with.
local function path_in_chunk(session, message, name)
  local number, line = message:match "^%[(%d+)%]:(%d+):"
  local chunk = session.chunks[tonumber(number)]
  if not chunk then return nil end
  local n = 0
  for text in (chunk.text .. "\n"):gmatch "(.-)\n" do
    n = n + 1
    if n == tonumber(line) then return (text:match("([%a_][%w_.]*[.:]" .. name .. ")%f[^%w_]")) end
  end
end

---What is said about an error that a name is nil.
---@param session runnel.prompt.Session
---@param message string of the error, perhaps with a traceback
---@return string?
function hint.of_error(session, message)
  local kind, name = message:match "^[^\n]-attempt to [^\n]* a nil value %((%a+) '([%a_][%w_]*)'%)"
  if kind == "global" then return question(like(session, name)) end
  if kind ~= "field" and kind ~= "method" then return nil end
  local path = path_in_chunk(session, message, name)
  return path and question(like(session, path))
end

return hint
