---Times as cron has them: five fields, which are minute, hour, day of the month, month, and day of the week.
---
---    */15 8-18 * * mon-fri     @daily
---
---A time that a zone's clock shows twice, or leaves out, is what RFC 5545 says: the first of the two, and as long after
---the last time before the gap as if there were none. So each time of such a schedule is once on each day. A schedule
---for every hour goes by the hours that pass in place of that.

local days = require "runnel.internal.days"

local cron = {}

---@class runnel.store.Cron
---@field private minutes integer[] of a day, in order
---@field private days table<integer, true>
---@field private months table<integer, true>
---@field private weekdays table<integer, true> 0 to 6, from Sunday on
---@field private is_either boolean one of the two days is enough
---@field private every_hour boolean
local Cron = {}
Cron.__index = Cron

local NAMES <const> = {
  ["@hourly"] = "0 * * * *", ["@daily"] = "0 0 * * *", ["@midnight"] = "0 0 * * *", ["@weekly"] = "0 0 * * 0",
  ["@monthly"] = "0 0 1 * *", ["@yearly"] = "0 0 1 1 *", ["@annually"] = "0 0 1 1 *",
}

-- Numbers by names.
local function numbers(first, text)
  local list, n = {}, first
  for name in text:gmatch "%a+" do
    list[name], n = n, n + 1
  end
  return list
end

local FIELDS <const> = {
  { name = "minute", least = 0, most = 59 },
  { name = "hour", least = 0, most = 23 },
  { name = "day of the month", least = 1, most = 31 },
  { name = "month", least = 1, most = 12, names = numbers(1, "jan feb mar apr may jun jul aug sep oct nov dec") },
  { name = "day of the week", least = 0, most = 7, names = numbers(0, "sun mon tue wed thu fri sat") },
}

-- A step that leads out of each field: a longer one may be no integer.
local PAST <const> = 60

-- How many days it looks ahead: 29 February may be a Sunday only after 40 years.
local AHEAD <const> = 366 * 41

local DAY <const> = 86400

-- ---- reading ----

-- A number of a field. Raises what is wrong with it.
local function number(field, text)
  local n = field.names and field.names[text] or text:find "^%d+$" and math.tointeger(tonumber(text))
  if n and n >= field.least and n <= field.most then return n end
  error(("%d to %d%s expected, got %q"):format(field.least, field.most,
    field.names and ", or a name of three letters," or "", text), 0)
end

-- Adds what a part of a field stands for to a set: "*", a number or a range, and "/" with a step.
local function add(field, set, part)
  local range, slash, step = part:match "^([^/]*)(/?)(.*)$"
  local from, dash, to = range:match "^([^-]*)(%-?)(.*)$"
  if range == "*" then
    from, to = field.least, field.most
  else
    from = number(field, from)
    if slash == "/" and dash == "" then
      error(("a step needs a range, as %d-%d/%s, or *"):format(from, field.most, step), 0)
    end
    to = dash == "-" and number(field, to) or from
    if to == 0 and from > 0 and field.most == 7 then to = 7 end -- up to Sunday
  end
  local by = slash == "/" and (step:find "^%d+$" and tonumber(step) or 0) or 1
  if by < 1 then error(("a step is a number from 1 on, got %q"):format(step), 0) end
  if from > to then error(("%s ends before it begins"):format(range), 0) end
  for n = from, to, math.min(by, PAST) do set[n] = true end
end

-- The set of numbers of a field.
local function read_field(field, text)
  local set = {}
  for part in (text .. ","):gmatch "([^,]*)," do add(field, set, part) end
  if set[7] and field.most == 7 then set[0] = true end
  return set
end

local function read(text)
  text = NAMES[text:lower()] or text:lower()
  if text:find "^%s*@" then error(("%q is none of @hourly, @daily, @weekly, @monthly and @yearly"):format(text), 0) end
  local sets, texts = {}, {}
  for one in text:gmatch "%S+" do texts[#texts + 1] = one end
  if #texts ~= #FIELDS then
    error(("five fields expected, minute, hour, day of the month, month and day of the week, got %d"):format(#texts), 0)
  end
  for i, field in ipairs(FIELDS) do
    local ok, set = pcall(read_field, field, texts[i])
    if not ok then error(("%s: %s"):format(field.name, set), 0) end
    sets[i] = set
  end
  local self = setmetatable({ minutes = {}, days = sets[3], months = sets[4], weekdays = sets[5] }, Cron)
  self.is_either = not (texts[3]:find "^%*" or texts[5]:find "^%*")
  self.every_hour = true
  for hour = 0, 23 do
    self.every_hour = self.every_hour and sets[2][hour] == true
    for minute = 0, sets[2][hour] and 59 or -1 do
      if sets[1][minute] then table.insert(self.minutes, hour * 60 + minute) end
    end
  end
  if not self:shown(0) then error("no month has this day", 0) end
  return self
end

---Reads the five fields.
---@param text string
---@return runnel.store.Cron? cron, string? problem
function cron.read(text)
  local ok, self = pcall(read, text)
  if not ok then return nil, self end
  return self
end

-- ---- the next time ----

local function has_day(self, day)
  local _, month, of_month = days.from(day)
  if not self.months[month] then return false end
  local is_day, is_weekday = self.days[of_month], self.weekdays[(day + 4) % 7] -- 1 January 1970 was a Thursday
  if self.is_either then return is_day or is_weekday end
  return is_day and is_weekday
end

---The first time from `at` on at which it starts, both in s of a clock without summer time since 1970; nil if there is
---none.
---@param at integer
---@return integer?
function Cron:shown(at)
  local minute = (at % DAY + 59) // 60
  for day = at // DAY, at // DAY + AHEAD do
    if has_day(self, day) then
      for _, one in ipairs(self.minutes) do
        if one >= minute then return day * DAY + one * 60 end
      end
    end
    minute = 0
  end
  return nil
end

---The first start after a time, both in s since 1970; nil if there is none.
---@param after integer
---@param zone runnel.store.Zone
---@return integer?
function Cron:next(after, zone)
  local at = after
  while true do
    local from, to, offset, before = zone:span(at)
    local since = math.max(after + 1, from)
    local is_gap, is_twice = offset > before and from > math.mininteger, offset < before and from > math.mininteger
    local begin = since + offset
    if is_twice and not self.every_hour then begin = math.max(begin, from + before) end -- what was shown before
    local found = self:shown(begin)
    found = found and found - offset
    if is_gap and not self.every_hour then
      local left_out = self:shown(since + before)
      if left_out and left_out < from + offset then found = math.min(found or math.maxinteger, left_out - before) end
    end
    if found and found < to then return found end
    if to == math.maxinteger then return nil end
    at = to
  end
end

---The last start after one time, and up to another one; nil if there is none.
---@param after integer
---@param up_to integer
---@param zone runnel.store.Zone
---@return integer?
function Cron:last(after, up_to, zone)
  local window, last = 3600, nil
  repeat
    local at = self:next(math.max(after, up_to - window), zone)
    while at and at <= up_to do
      last, at = at, self:next(at, zone)
    end
    window = window * 2
  until last or up_to - window / 2 <= after
  return last
end

return cron
