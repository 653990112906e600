-- Time zones for specs: those that the system has, what its C library says of them, and the places that changes make
-- interesting.

local days = require "runnel.internal.days"
local process = require "spec.support.process"
local zone = require "runnel.store.schedules.zone"

local zones = { are_installed = zone.open "Europe/Berlin" ~= nil }

---Zones with all kinds of changes: none, half an hour, of a whole day, twice a year in the other order, by religious
---dates, by 45 minutes, and summer time that is standard time (Dublin).
zones.NAMES = {
  "Europe/Berlin", "America/New_York", "Europe/London", "Europe/Dublin", "Australia/Lord_Howe", "America/Sao_Paulo",
  "Africa/Casablanca", "Asia/Kolkata", "Pacific/Apia", "Pacific/Chatham", "America/St_Johns", "Asia/Tehran",
  "Africa/Monrovia", "Antarctica/Troll", "Asia/Gaza", "UTC",
}

local PROGRAM <const> = [[
for line in io.lines "times" do print((os.date("%Y %m %d %H %M %S", tonumber(line)):gsub(" 0", " "))) end
]]

---What the C library says: the offset of a zone at each of some times.
---@param name string
---@param times integer[]
---@return integer[] offsets
function zones.of_libc(name, times)
  local dir <close> = process.directory()
  dir:write("times", table.concat(times, "\n") .. "\n")
  dir:write("program.lua", PROGRAM)
  local got = process.run(dir.path, ("TZ=%s %s program.lua"):format(name, process.runnel))
  assert(got.status == 0, got.err)
  local offsets = {}
  for year, month, day, hour, minute, second in got.out:gmatch "(%-?%d+) (%d+) (%d+) (%d+) (%d+) (%d+)\n" do
    local at = days.to(tonumber(year), tonumber(month), tonumber(day)) * 86400 + hour * 3600 + minute * 60 + second
    offsets[#offsets + 1] = math.tointeger(at) - times[#offsets + 1]
  end
  assert(#offsets == #times, #offsets)
  return offsets
end

return zones
