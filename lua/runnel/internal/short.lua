---Values as short texts of one line, for pages and tables.

local short = {}

-- The longest text, in bytes, and how many entries of a table it shows.
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

local function cut(text, longest) return #text <= longest and text or text:sub(1, longest) .. "..." end

local function plain(v, longest)
  if type(v) == "string" then return cut(("%q"):format(v:sub(1, longest + 1)):gsub("\\\n", "\\n"), longest) end
  if type(v) == "number" or type(v) == "boolean" then return tostring(v) end
  return short.kind(v)
end

---The contents of a value, shortened.
---@param v any
---@param longest? integer bytes (200)
---@return string
function short.value(v, longest)
  longest = longest or LONGEST
  if type(v) ~= "table" then return plain(v, longest) end
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

return short
