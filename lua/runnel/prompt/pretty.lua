---Formats values for a prompt, indented and of limited size.

local lexer = require "runnel.prompt.lexer"
local short = require "runnel.internal.short"
local width = require "runnel.internal.width"

local LENGTH = 1000 -- bytes of a string
local VALUES = 200 -- values within one value
local ROWS = 20 -- entries of a table that has a line for each
local SHORT = 20 -- columns of an element of a list that is written on one line
local SORTED = 10000 -- keys

---@class runnel.prompt.Style
---@field depth integer the levels of nested tables that are written
---@field width integer columns of a line
---@field fixed? integer the width that the user has set, instead of the terminal's
---@field colours? boolean

---@class runnel.prompt.pretty
local pretty = {}

---@return runnel.prompt.Style
function pretty.style(columns, colours) return { depth = 4, width = columns, colours = colours } end

local COLOUR = { string = 32, number = 36, boolean = 35, ["nil"] = 35, object = 34, note = 90 }

-- The state of formatting: the style, how many more values may be written, and the tables that contain this value.
local function context(style) return { style = style, left = VALUES, path = {} } end

local function paint(c, kind, text)
  local colour = c.style.colours and COLOUR[kind]
  return colour and ("\27[%dm%s\27[0m"):format(colour, text) or text
end

local function quoted(s)
  if #s > LENGTH then return quoted(s:sub(1, utf8.offset(s, 0, LENGTH) - 1)) .. (" … (%d bytes)"):format(#s) end
  local text = ("%q"):format(s):gsub("\\\n", "\\n"):gsub("\r", "\\r"):gsub("\t", "\\t")
  if not utf8.len(text) then text = text:gsub("[\x80-\xff]", function(c) return ("\\x%02X"):format(c:byte()) end) end
  return (text:gsub("[\0-\31\127]", function(c) return ("\\x%02X"):format(c:byte()) end))
end

local RANK = { number = 1, string = 2, boolean = 3 }

-- Whether key a comes before key b: numbers, then strings, then booleans, then others.
local function before(a, b)
  local rank_a, rank_b = RANK[type(a)] or 4, RANK[type(b)] or 4
  if rank_a ~= rank_b then return rank_a < rank_b end
  if rank_a <= 2 then return a < b end
  return tostring(a) < tostring(b)
end

-- ---- objects of the library ----

-- Public fields.
local FIELDS = { ["runnel.uv.process"] = { "pid", "stdin", "stdout", "stderr", "exit" } }

-- The name of a library object's kind, such as "mult"; nil for other values.
local function kind_of(meta)
  local name = meta and rawget(meta, "__name")
  return type(name) == "string" and name:match "^runnel%..*$" or nil
end

-- A library object: its kind, and its public fields or, if there are none, its methods.
local function write_object(c, meta, value, name, write, depth)
  local texts = {}
  for _, field in ipairs(FIELDS[name] or {}) do
    local v = rawget(value, field)
    if v ~= nil then texts[#texts + 1] = field .. " = " .. write(c, v, depth + 1) end
  end
  local kind = paint(c, "object", name:match "[^.]*$")
  if #texts > 0 then return ("%s { %s }"):format(kind, table.concat(texts, ", ")) end
  local index = rawget(meta, "__index")
  for method, f in next, type(index) == "table" and index or {} do
    if type(method) == "string" and type(f) == "function" and not method:find "^_" then texts[#texts + 1] = method end
  end
  table.sort(texts)
  return kind .. (#texts > 0 and " (" .. table.concat(texts, ", ") .. ")" or "")
end

-- ---- tables ----

local write

-- The keys of a table that do not belong to its list.
local function other_keys(t, n)
  local keys = {}
  for key in next, t do
    if not (math.type(key) == "integer" and key >= 1 and key <= n) then keys[#keys + 1] = key end
  end
  if #keys <= SORTED then table.sort(keys, before) end
  return keys
end

local function write_entry(c, t, key, depth)
  local plain = type(key) == "string" and key:find "^[A-Za-z_][A-Za-z0-9_]*$" and not lexer.KEYWORDS[key]
  local name = plain and key or "[" .. write(c, key, depth) .. "]"
  return name .. " = " .. write(c, rawget(t, key), depth)
end

local function note_more(c, n) return paint(c, "note", ("… %d more"):format(n)) end

-- A list of short values on one line, as many as fit; nil if a value is not short.
local function write_row(c, t, n, room, depth)
  local texts, used, left = {}, 4, c.left
  for i = 1, n do
    local value = rawget(t, i)
    if type(value) == "table" then return nil end
    c.left = math.max(c.left, 1) -- the width limits a row, not the number of values
    local text = write(c, value, depth)
    local columns = width.of(text)
    if columns > SHORT then return nil end
    local note = i < n and 7 + #tostring(n - i) or 0 -- "… 12 more"
    if used + columns + (i < n and 2 or 0) + note > room and i > 1 then
      texts[i] = note_more(c, n - i + 1)
      break
    end
    texts[i] = text
    used = used + columns + 2
  end
  c.left = left - 1
  return "{ " .. table.concat(texts, ", ") .. " }"
end

local function write_table(c, t, depth)
  if c.path[t] then return paint(c, "note", "(cycle)") end
  if next(t) == nil then return "{}" end
  if depth >= c.style.depth then return "{…}" end
  local indent = ("  "):rep(depth)
  local room = (c.style.fixed or c.style.width) - #indent
  local n = rawlen(t)
  local keys = other_keys(t, n)
  c.path[t] = true
  local row = n > 0 and #keys == 0 and write_row(c, t, n, room, depth + 1)
  if row then
    c.path[t] = nil
    return row
  end
  local texts, columns, has_lines, shown = {}, 4, false, 0
  for i = 1, n + #keys do
    if c.left <= 0 or i > ROWS and columns > room then break end
    texts[i] = i <= n and write(c, rawget(t, i), depth + 1) or write_entry(c, t, keys[i - n], depth + 1)
    columns = columns + width.of(texts[i]) + 2
    has_lines = has_lines or texts[i]:find("\n", 1, true) ~= nil
    shown = i
  end
  c.path[t] = nil
  if shown < n + #keys then texts[shown + 1] = note_more(c, n + #keys - shown) end
  local fits = columns - 2 <= room and not has_lines and shown == n + #keys
  if fits then return "{ " .. table.concat(texts, ", ") .. " }" end
  return "{\n" .. indent .. "  " .. table.concat(texts, ",\n  " .. indent) .. "\n" .. indent .. "}"
end

-- A function, with where it is defined.
local function write_function(f)
  local info = debug.getinfo(f, "S")
  return info.what == "C" and tostring(f) or ("function: %s:%d"):format(info.short_src, info.linedefined)
end

function write(c, value, depth)
  c.left = c.left - 1
  local kind = type(value)
  if kind == "string" then return paint(c, kind, quoted(value)) end
  if kind == "number" or kind == "boolean" or kind == "nil" then return paint(c, kind, tostring(value)) end
  if kind == "function" then return paint(c, "object", write_function(value)) end
  if kind ~= "table" and kind ~= "userdata" then return tostring(value) end
  local meta = debug.getmetatable(value)
  if type(meta) ~= "table" then meta = nil end
  local text = short.own(value)
  if text then return paint(c, "object", text) end
  if kind == "userdata" then return tostring(value) end
  local name = kind_of(meta)
  if name and meta then return write_object(c, meta, value, name, write, depth) end
  local own = meta and rawget(meta, "__name")
  return (type(own) == "string" and own .. " " or "") .. write_table(c, value, depth)
end

---A value as text.
---@param value any
---@param style runnel.prompt.Style
---@return string
function pretty.value(value, style) return write(context(style), value, 0) end

---Values as text, separated as by print.
---@param style runnel.prompt.Style
---@param ... any
---@return string
function pretty.values(style, ...)
  local texts = {}
  for i = 1, select("#", ...) do texts[i] = pretty.value((select(i, ...)), style) end
  return table.concat(texts, "\t")
end

return pretty
