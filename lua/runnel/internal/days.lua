---The calendar.

local days = {}

---Days from 1970-01-01 to a date of the Gregorian calendar. Years begin with March here, so that the leap day is their
---last.
---@param year integer
---@param month integer
---@param day integer
---@return integer
function days.to(year, month, day)
  if month <= 2 then year = year - 1 end
  local in_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
  return 365 * year + year // 4 - year // 100 + year // 400 + in_year - 719468
end

---The date of a day: what days.to makes of it.
---@param day integer days since 1970-01-01
---@return integer year, integer month, integer day
function days.from(day)
  local since = day + 719468 -- 1 March of the year 0
  local era = since // 146097 -- of 400 years
  local in_era = since - era * 146097
  local year = (in_era - in_era // 1460 + in_era // 36524 - in_era // 146096) // 365
  local in_year = in_era - (365 * year + year // 4 - year // 100)
  local month = (5 * in_year + 2) // 153
  local of_month = in_year - (153 * month + 2) // 5 + 1
  month = month < 10 and month + 3 or month - 9
  return era * 400 + year + (month <= 2 and 1 or 0), month, of_month
end

return days
