---Values, times and lists as short texts: for pages, tables and messages.

local debug = debug
local decimal = require "runnel.internal.decimal"

local short = {}

-- The longest text, in bytes, and how many entries of a table are shown.
local LONGEST <const>, ENTRIES <const> = 200, 8

-- A table with more entries is not counted to the end.
local COUNTED <const> = 1000

local function entries_of(t)
  local n, more = 0, false
  for _ in next, t do
    if n == COUNTED then
      more = true
      break
    end
    n = n + 1
  end
  return ("%d%s %s"):format(n, more and "+" or "", n == 1 and "entry" or "entries")
end

---The type and size of a value, without its contents.
---@param v any
---@return string
function short.kind(v)
  local kind = math.type(v) or type(v)
  if kind == "string" then return ("string (%d %s)"):format(#v, #v == 1 and "byte" or "bytes") end
  if kind == "table" then return ("table (%s)"):format(entries_of(v)) end
  return kind
end

---The beginning of a text, cut between characters.
---@param text string
---@param longest integer how many bytes it may have before "..."
---@return string
function short.cut(text, longest)
  return #text <= longest and text or text:sub(1, utf8.offset(text, 0, longest + 1) - 1) .. "..."
end

local cut = short.cut

local function latin1(c) return utf8.char(c:byte()) end

---A text as UTF-8. One that is not UTF-8 counts as Latin-1.
---@param text string
---@return string
function short.utf8(text) return utf8.len(text) and text or (text:gsub("[\128-\255]", latin1)) end

---The text from an object's own __tostring, or nil if it has none. An error there becomes part of the text.
---@param value table|userdata
---@return string?
function short.own(value)
  local meta = debug.getmetatable(value)
  if type(meta) ~= "table" or rawget(meta, "__tostring") == nil then return nil end
  local ok, text = pcall(tostring, value)
  return ok and text or "(error in __tostring)"
end

local function plain(v, longest)
  if type(v) == "string" then return cut(("%q"):format(v:sub(1, longest + 1)):gsub("\\\n", "\\n"), longest) end
  if type(v) == "number" or type(v) == "boolean" then return tostring(v) end
  local own = (type(v) == "table" or type(v) == "userdata") and short.own(v)
  return own and cut(own:gsub("%c+", " "), longest) or short.kind(v)
end

---The contents of a value, shortened to one line; for an object with its own __tostring the text from that.
---@param v any
---@param longest? integer bytes (200)
---@return string
function short.value(v, longest)
  longest = longest or LONGEST
  if type(v) ~= "table" or short.own(v) then return plain(v, longest) end
  local parts = {}
  for key, value in next, v do
    if #parts == ENTRIES then
      parts[ENTRIES + 1] = "..."
      break
    end
    local text = plain(value, longest)
    parts[#parts + 1] = math.type(key) == "integer" and text or plain(key, longest) .. " = " .. text
  end
  return cut("{ " .. table.concat(parts, ", ") .. " }", longest)
end

---A time, as "250 ms", "3.2 s", "5 min 3 s", "2 h 5 min", "3 d 4 h".
---@param ms number
---@return string
function short.duration(ms)
  ms = (math.max(ms, 0) + 0.5) // 1
  if ms < 1000 then return ("%d ms"):format(ms) end
  if ms < 59950 then return decimal.format("%.1f", ms / 1000) .. " s" end
  local s = (ms + 500) // 1000
  if s < 3600 then return ("%d min %d s"):format(s // 60, s % 60) end
  if s < 86400 then return ("%d h %d min"):format(s // 3600, s % 3600 // 60) end
  return ("%d d %d h"):format(s // 86400, s % 86400 // 3600)
end

local function with_more(texts, most, n, separator, last)
  local shown = math.min(#texts, most)
  local text = table.concat(texts, separator, 1, shown)
  n = n or #texts
  return n > shown and ("%s%sand %d more"):format(text, last, n - shown) or text
end

---The first texts of a list, as "a, b and 3 more".
---@param texts string[]
---@param most integer
---@param n? integer how many there are, if not all are in the list
---@return string
function short.list(texts, most, n) return with_more(texts, most, n, ", ", " ") end

---Like `list`, with each text in an indented line of its own and a newline before it.
---@param texts string[]
---@param most number
---@param n? integer
---@return string
function short.lines(texts, most, n)
  return #texts == 0 and "" or "\n  " .. with_more(texts, most, n, "\n  ", "\n  ")
end

return short
