---Time zones, from the files of the system (tzdata). A file is read as RFC 8536 says: its times of 64 bits, and the
---rule in its footer for those after them.
---
---All times are in s since 1970. Between two changes of its offset, a zone has a span: what `zone:span` returns.

local days = require "runnel.internal.days"

local getenv, open = os.getenv, io.open -- those of this machine, also in a simulated world

local zone = {}

-- Where systems have their zones.
local FOLDERS <const> = { "/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo" }

local DAY <const>, HOUR <const> = 86400, 3600

---@class runnel.store.Zone
---@field name string
---@field private times integer[] when the offset changes, in order
---@field private offsets integer[] the offset from that time on
---@field private first integer the offset before them
---@field private rule? runnel.store.ZoneRule of summer time, after those of the file
---@field private year integer the rule's changes are in the lists up to the end of this year
local Zone = {}
Zone.__index = Zone

---@class runnel.store.ZoneRule
---@field standard integer offset
---@field summer integer offset
---@field begins fun(year: integer): integer when summer time begins, in s of the year's clock since 1970
---@field ends fun(year: integer): integer

-- ---- the rule in the footer: a value of the variable TZ, as POSIX has it ----

-- Takes "[+-]h[:mm[:ss]]" from a text. Returns the seconds and the rest; nil if there is none.
local function take_time(text)
  local sign, hours, rest = text:match "^([+-]?)(%d+)(.*)$"
  if not hours then return nil, text end
  local seconds = tonumber(hours) * HOUR
  for _, unit in ipairs { 60, 1 } do
    local part, left = rest:match "^:(%d%d)(.*)$"
    if not part then break end
    seconds, rest = seconds + tonumber(part) * unit, left
  end
  return sign == "-" and -seconds or seconds, rest
end

-- Takes the name of a zone, and its offset: what is to be added to its time to get UTC.
local function take_offset(text)
  local rest = text:match "^<[%w+-]+>(.*)$" or text:match "^%a%a%a+(.*)$"
  if not rest then return nil, text end
  local seconds, left = take_time(rest)
  return seconds and -seconds or false, left
end

-- The day of a date in a year, as days since 1970.
local DATES <const> = {
  -- The week day of a week of a month; the fifth is the last.
  ["^M(%d+)%.(%d)%.(%d)$"] = function(year, month, week, day)
    local first = days.to(year, month, 1)
    local found = first + (day - (first + 4)) % 7 + 7 * (week - 1) -- 1 January 1970 was a Thursday
    local next_month = month == 12 and days.to(year + 1, 1, 1) or days.to(year, month + 1, 1)
    return found < next_month and found or found - 7
  end,
  -- A day of the year, without 29 February.
  ["^J(%d+)$"] = function(year, day)
    local is_leap = days.to(year, 3, 1) - days.to(year, 2, 1) == 29
    return days.to(year, 1, 1) + day - ((is_leap and day >= 60) and 0 or 1)
  end,
  -- The same with it, from 0 on.
  ["^(%d+)$"] = function(year, day) return days.to(year, 1, 1) + day end,
}

-- A function for "date[/time]".
local function date_of(text)
  local date, time = text:match "^([^/]+)/?(.*)$"
  local seconds, rest = 2 * HOUR, ""
  if time and time ~= "" then seconds, rest = take_time(time) end
  for pattern, day_of in pairs(DATES) do
    local a, b, c = (date or ""):match(pattern)
    if a and seconds and rest == "" then
      a, b, c = tonumber(a), tonumber(b), tonumber(c)
      return function(year) return day_of(year, a, b, c) * DAY + seconds end
    end
  end
  return nil
end

-- The offset of a footer, or its rule; nil if it is damaged.
local function read_footer(text)
  local standard, rest = take_offset(text)
  if not standard then return nil end
  if rest == "" then return standard end
  local summer, dates = take_offset(rest)
  if summer == nil then return nil end
  local begins, ends = dates:match "^,([^,]+),([^,]+)$"
  local rule = {
    standard = standard, summer = summer or standard + HOUR, begins = date_of(begins or ""), ends = date_of(ends or ""),
  }
  return rule.begins and rule.ends and rule
end

-- ---- the file ----

-- The header: magic, version and 15 bytes; then how many marks for UTC, marks for standard time, leap seconds, times,
-- kinds of time, and letters of their names follow.
local HEADER <const> = ">c4" .. ("x"):rep(16) .. "I4I4I4I4I4I4"

-- Where the part that begins at `at` has its lists, and where it ends. The part has times of `width` bytes.
local function part_at(data, at, width)
  local magic, utc, standard, leaps, times, kinds, letters, lists = HEADER:unpack(data, at)
  if magic ~= "TZif" then error "no TZif" end
  local kinds_at = lists + times * (width + 1)
  local over = kinds_at + kinds * 6 + letters + leaps * (width + 4) + standard + utc
  return over, times, kinds, lists, kinds_at
end

-- Reads the second part, with times of 64 bits, and the footer. Raises if the file is damaged.
local function read(name, data)
  local over, times, kinds, lists, kinds_at = part_at(data, part_at(data, 1, 4), 8)
  if kinds < 1 then error "no kinds" end
  local function offset_of(kind) return (">i4"):unpack(data, kinds_at + 6 * kind) end
  local self = setmetatable({ name = name, times = {}, offsets = {}, first = offset_of(0) }, Zone)
  for i = 0, times - 1 do self:add((">i8"):unpack(data, lists + 8 * i), offset_of(data:byte(lists + 8 * times + i))) end
  local footer = data:match("^\n([^\n]*)\n", over)
  local rule = footer and (footer == "" or read_footer(footer))
  if not rule then error "no footer" end
  local last = self.times[#self.times]
  if math.type(rule) == "integer" then
    if not last then self.first = rule end
  elseif rule ~= true then
    self.rule, self.year = rule, last and (days.from(last // DAY)) - 1 or 1969
  end
  return self
end

---Notes a change of the offset, unless it is none.
---@param at integer
---@param offset integer
---@private
function Zone:add(at, offset)
  local n = #self.times
  if n > 0 and at <= self.times[n] or offset == (self.offsets[n] or self.first) then return end
  self.times[n + 1], self.offsets[n + 1] = at, offset
end

-- The text of the file of a zone; nil if there is none.
local function text_of(name)
  for _, folder in ipairs { getenv "TZDIR" or FOLDERS[1], table.unpack(FOLDERS) } do
    local file <close> = open(folder .. "/" .. name, "rb")
    local data = file and file:read "a" -- nil for a folder
    if data then return data end
  end
  return nil
end

---Reads a zone. "UTC" needs no file.
---@param name string as "Europe/Berlin"
---@return runnel.store.Zone? zone, string? err
function zone.open(name)
  if name == "UTC" then return setmetatable({ name = name, times = {}, offsets = {}, first = 0 }, Zone) end
  local is_name = name:find "^%a[%w_+/-]*$" and not name:find "//" and not name:find "/$"
  local data = is_name and text_of(name)
  if not data then
    return nil, ("there is no time zone %q on this machine: names are like \"Europe/Berlin\", and the system's package "
      .. "tzdata has their files"):format(name)
  end
  local ok, self = pcall(read, name, data)
  if ok then return self end
  return nil, ("the file of the time zone %q is damaged, or too old to have times of 64 bits: install the system's "
    .. "package tzdata again"):format(name)
end

-- ---- what it says ----

-- Adds the changes of the rule up to the end of a year.
local function extend(self, year)
  local rule = self.rule
  for one = self.year + 1, year do
    local begins, ends = rule.begins(one) - rule.standard, rule.ends(one) - rule.summer
    if begins < ends then self:add(begins, rule.summer) end
    self:add(ends, rule.standard)
    if begins >= ends then self:add(begins, rule.summer) end
    self.year = one
  end
end

---The span in which a time is: from when to when (math.mininteger, math.maxinteger: without end), its offset, and that
---of the span before it.
---@param at integer
---@return integer from, integer to, integer offset, integer before
function Zone:span(at)
  if self.rule then extend(self, (days.from(at // DAY)) + 1) end
  local times, offsets = self.times, self.offsets
  local low, high = 0, #times -- times[low] <= at < times[high + 1]
  while low < high do
    local middle = (low + high + 1) // 2
    if times[middle] <= at then low = middle else high = middle - 1 end
  end
  local before = offsets[low - 1] or self.first
  return times[low] or math.mininteger, times[low + 1] or math.maxinteger, offsets[low] or self.first, before
end

return zone
