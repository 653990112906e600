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

return days
