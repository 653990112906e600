-- What the specs use of Lua 5.4 and older Luas lack, for tests/lite/run.lua: functions of the standard libraries, and
-- words of the language, which it rewrites in the text of a spec. A test that needs what cannot be had, as a variable
-- with <close>, is noted.

local older = { is_needed = _VERSION < "Lua 5.4" }
local unpack, floor = table.unpack or unpack, math.floor -- luacheck: ignore 113 143

-- What the test that runs needs and this Lua does not have; nil if nothing.
older.lacking = nil

local function lacks(what)
  older.lacking = what
  error("this Lua has no " .. what, 0)
end

-- Lua 5.1 raises this where a go block waits in pcall, an iterator or a metamethod; others below a C function only.
local function note_refused(err)
  if type(err) == "string" and (err:find(" would have to wait, which is impossible ", 1, true)
    and err:find(" in Lua 5.1: ", 1, true)) then
    older.lacking = "wait in pcall, iterators and metamethods"
  end
end

---Gives this Lua the functions of Lua 5.4 that the specs use. Call it before runnel.lite is loaded.
function older.prepare()
  _G.warn = _G.warn or function() end -- luacheck: ignore 122 143
  if not older.is_needed then return end
  table.unpack = unpack -- luacheck: ignore 122
  table.pack = table.pack or function(...) return { n = select("#", ...), ... } end -- luacheck: ignore 122
  table.move = table.move or function(from, first, last, at, to) -- luacheck: ignore 122
    local copy = {}
    for i = first, last do copy[i] = from[i] end
    for i = first, last do (to or from)[at + i - first] = copy[i] end
    return to or from
  end
  math.tointeger = math.tointeger or function(x) return x == floor(x) and x or nil end -- luacheck: ignore 122
  math.maxinteger = math.maxinteger or 2 ^ 53 -- luacheck: ignore 122
  math.mininteger = math.mininteger or -2 ^ 53 -- luacheck: ignore 122
  math.type = math.type or function(x) -- luacheck: ignore 122
    return type(x) == "number" and (x == floor(x) and "integer" or "float") or nil
  end
  if _VERSION == "Lua 5.1" then
    local create, raise, load_function = coroutine.create, error, load
    function load(chunk, ...) -- luacheck: ignore 121
      return (type(chunk) == "string" and loadstring or load_function)(chunk, ...) -- luacheck: ignore 113
    end
    coroutine.create = function(f) -- luacheck: ignore 122
      return create(debug.getinfo(f, "S").what == "C" and function(...) return f(...) end or f)
    end
    function error(err, level) -- luacheck: ignore 121
      note_refused(err)
      raise(err, (level or 1) > 0 and (level or 1) + 1 or 0)
    end
  end
  _G.lacks = lacks -- luacheck: ignore 122
  local has_length = #setmetatable({}, { __len = function() return 1 end }) == 1
  function _G.length(list) -- luacheck: ignore 122
    local meta = not has_length and getmetatable(list)
    if type(meta) ~= "table" or not meta.__len then return #list end
    if type(list.stats) == "function" then return list:stats().values end -- a channel
    lacks "metamethod __len of tables"
  end
end

---What runnel.lite looks for itself. Call it after runnel.lite is loaded.
function older.prepare_tests()
  coroutine.close = coroutine.close or function() lacks "coroutine.close" end -- luacheck: ignore 122
end

local TAGS = { ci = true, heavy = true, long = true, slow = true } -- of specs (spec/support/long.lua)

---The text of a spec as this Lua can parse it, with the same lines.
---@param text string
---@return string
function older.translate(text)
  if not older.is_needed then return text end
  text = text:gsub("([^`])local ([%w_]+) <close>", '%1lacks "<close>" local %2'):gsub(" <const>", "")
  if _VERSION < "Lua 5.3" then
    text = text:gsub("([#%w_.]+[%(%)]*) // (%w+)", "math.floor(%1 / %2)"):gsub(" | 0%)", ")")
  end
  if _VERSION == "Lua 5.1" then
    text = text:gsub("#([%a_][%w_.]*)()", function(name, after)
      if TAGS[name] or text:find("^[%(%[:{]", after) then return nil end
      return "length(" .. name .. ")"
    end)
  end
  return text
end

return older
