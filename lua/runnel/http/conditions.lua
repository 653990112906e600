---Conditional requests and ranges (RFC 9110, sections 13 and 14), and the dates in their headers. Pure.

local os = os
local days = require "runnel.internal.days"
local token = require "runnel.http.token"

local conditions = {}

-- ---- dates ----

local DAYS = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" }
local MONTHS = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" }

local number_of_month = {}
for i, name in ipairs(MONTHS) do number_of_month[name] = i end

---A time as in headers. Independent of the program's locale.
---@param seconds integer since 1970
---@return string
function conditions.date(seconds)
  local t = os.date("!*t", seconds) --[[@as osdate]]
  local form = "%s, %02d %s %04d %02d:%02d:%02d GMT"
  return form:format(DAYS[t.wday], t.day, MONTHS[t.month], t.year, t.hour, t.min, t.sec)
end

-- The year that two digits mean: at most 50 years ahead.
local function full_year(digits)
  local now = os.date("!*t").year
  local year = now - now % 100 + tonumber(digits)
  return year > now + 50 and year - 100 or year
end

---Reads a date in one of HTTP's three formats.
---@param text string
---@return integer? seconds since 1970; nil if it is not a date
function conditions.time(text)
  local day, month, year, clock = text:match "^%a+, (%d%d) (%a%a%a) (%d%d%d%d) ([%d:]+) GMT$"
  if not day then
    day, month, year, clock = text:match "^%a+, (%d%d)%-(%a%a%a)%-(%d%d) ([%d:]+) GMT$"
    year = day and full_year(year)
  end
  if not day then month, day, clock, year = text:match "^%a+ (%a%a%a) ([ %d]%d) ([%d:]+) (%d%d%d%d)$" end
  if not day then return nil end
  local hour, minute, second = clock:match "^(%d%d):(%d%d):(%d%d)$"
  local number = number_of_month[month]
  if not hour or not number then return nil end
  local passed = days.to(math.tointeger(tonumber(year)), number, math.tointeger(tonumber(day)))
  return passed * 86400 + tonumber(hour) * 3600 + tonumber(minute) * 60 + tonumber(second)
end

-- ---- conditions ----

---Whether a list of entity tags contains one.
---@param list string
---@param tag string a strong one, in quotes
---@param is_weak boolean weak tags count, too
---@return boolean
function conditions.has_tag(list, tag, is_weak)
  if list:match "^%s*%*%s*$" then return true end
  for weak, one in list:gmatch '(W?/?)("[^"]*")' do
    if one == tag and (is_weak or weak == "") then return true end
  end
  return false
end

local function is_later(modified, date)
  local seconds = conditions.time(date)
  return seconds ~= nil and modified > seconds
end

local function is_not_later(modified, date)
  local seconds = conditions.time(date)
  return seconds ~= nil and modified <= seconds
end

---Checks the conditions of a GET or HEAD.
---@param headers table<string, string> of the request
---@param tag string the strong entity tag of the file, in quotes
---@param modified integer when it was modified, in s since 1970
---@return integer? status 304 or 412; nil: answer as usual
function conditions.judge(headers, tag, modified)
  local if_match, if_none = headers["if-match"], headers["if-none-match"]
  if if_match then
    if not conditions.has_tag(if_match, tag, false) then return 412 end
  elseif is_later(modified, headers["if-unmodified-since"] or "") then
    return 412
  end
  if if_none then return conditions.has_tag(if_none, tag, true) and 304 or nil end
  return is_not_later(modified, headers["if-modified-since"] or "") and 304 or nil
end

-- ---- encodings ----

---How much a client likes each content encoding, from 0 to 1.
---@param accepted? string the header Accept-Encoding
---@return table<string, number> weights by name in lower case; "*": of those that are not named
function conditions.encodings(accepted)
  local weights = {}
  for element in (accepted or ""):lower():gmatch "[^,]+" do
    local name, rest = element:match "^%s*([^%s;]+)(.*)$"
    if name then
      rest = token.trim(rest)
      local weight = rest == "" and "1" or rest:match "^;%s*q%s*=%s*([01]%.?%d?%d?%d?)$"
      weights[name] = math.min(tonumber(weight) or 0, 1) -- one that is malformed is not accepted
    end
  end
  return weights
end

-- ---- ranges ----

-- Whether the header If-Range allows for a range.
local function is_same(condition, tag, modified)
  if not condition or condition == tag then return true end
  return conditions.time(condition) == modified
end

local function number(digits) return math.tointeger(tonumber(digits)) or math.maxinteger end

---The range that a GET asks for. Several ranges are ignored, which HTTP allows.
---@param headers table<string, string> of the request
---@param tag string
---@param modified integer
---@param size integer bytes of the file
---@return integer|false|nil first the first byte, from 0 on; nil: the whole file; false: the range is outside (status
---416)
---@return integer? last
function conditions.range(headers, tag, modified, size)
  local first, last = (headers.range or ""):match "^%s*[bB][yY][tT][eE][sS]=%s*(%d*)%-(%d*)%s*$"
  if not first or first == "" and last == "" or size == 0 or not is_same(headers["if-range"], tag, modified) then
    return nil
  end
  if first == "" then
    local count = number(last)
    if count == 0 then return false end
    return math.max(size - count, 0), size - 1
  end
  first, last = number(first), last ~= "" and number(last) or size - 1
  if first >= size then return false end
  if last < first then return nil end
  return first, math.min(last, size - 1)
end

return conditions
