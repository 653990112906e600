---How the prompt writes values: so that they can be read, and not without end.

local DEPTH, ENTRIES, LENGTH, WIDTH = 4, 100, 1000, 80

---@class runnel.host.pretty
local pretty = {}

local function quoted(s)
  if #s > LENGTH then return quoted(s:sub(1, LENGTH)) .. (" … (%d bytes)"):format(#s) end
  local text = ("%q"):format(s):gsub("\\\n", "\\n"):gsub("\r", "\\r"):gsub("\t", "\\t")
  if not utf8.len(text) then text = text:gsub("[\x80-\xff]", function(c) return ("\\x%02X"):format(c:byte()) end) end
  return (text:gsub("[\0-\31\127]", function(c) return ("\\x%02X"):format(c:byte()) end))
end

local KEYWORDS = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true until
while]]):gmatch "%a+" do KEYWORDS[word] = true end

local RANK = { number = 1, string = 2, boolean = 3 }

-- Keys in an order in which they are easily found.
local function before(a, b)
  local rank_a, rank_b = RANK[type(a)] or 4, RANK[type(b)] or 4
  if rank_a ~= rank_b then return rank_a < rank_b end
  if rank_a <= 2 then return a < b end
  return tostring(a) < tostring(b)
end

-- What a table's own __tostring says, or nil; one that fails is told of instead of raised.
local function own_text(value)
  local meta = debug.getmetatable(value)
  if type(meta) ~= "table" or rawget(meta, "__tostring") == nil then return nil end
  local ok, text = pcall(tostring, value)
  return ok and text or "(error in __tostring)"
end

local write

-- The entries of a table as texts; `left` counts down what may still be written.
local function entries(t, path, depth, left)
  local texts, n = {}, rawlen(t)
  for i = 1, n do
    if left.n <= 0 then break end
    texts[#texts + 1] = write(rawget(t, i), path, depth, left)
  end
  local keys = {}
  for key in next, t do
    if not (math.type(key) == "integer" and key >= 1 and key <= n) then keys[#keys + 1] = key end
  end
  table.sort(keys, before)
  for _, key in ipairs(keys) do
    if left.n <= 0 then break end
    local plain = type(key) == "string" and key:find "^[%a_][%w_]*$" and not KEYWORDS[key]
    local name = plain and key or "[" .. write(key, path, depth, left) .. "]"
    texts[#texts + 1] = name .. " = " .. write(rawget(t, key), path, depth, left)
  end
  local missing = n + #keys - #texts
  if missing > 0 then texts[#texts + 1] = ("… (%d more)"):format(missing) end
  return texts
end

local function write_table(t, path, depth, left)
  if path[t] then return "(cycle)" end
  if next(t) == nil then return "{}" end
  if depth >= DEPTH then return "{…}" end
  path[t] = true
  local texts = entries(t, path, depth + 1, left)
  path[t] = nil
  local line = "{ " .. table.concat(texts, ", ") .. " }"
  local indent = ("  "):rep(depth)
  if #line + #indent <= WIDTH and not line:find "\n" then return line end
  return "{\n" .. indent .. "  " .. table.concat(texts, ",\n  " .. indent) .. "\n" .. indent .. "}"
end

function write(value, path, depth, left)
  left.n = left.n - 1
  local kind = type(value)
  if kind == "string" then return quoted(value) end
  if kind == "table" then return own_text(value) or write_table(value, path, depth, left) end
  if kind == "userdata" then return own_text(value) or tostring(value) end
  return tostring(value)
end

---A value as text.
---@param value any
---@return string
function pretty.value(value) return write(value, {}, 0, { n = ENTRIES }) end

---Values as text, as print would separate them.
---@param ... any
---@return string
function pretty.values(...)
  local texts = {}
  for i = 1, select("#", ...) do texts[i] = pretty.value((select(i, ...))) end
  return table.concat(texts, "\t")
end

return pretty
