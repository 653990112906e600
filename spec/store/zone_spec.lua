-- Time zones as the files of the system have them, compared with the C library.

local days = require "runnel.internal.days"
local generator = require "spec.support.generator"
local long = require "spec.support.long"
local zone = require "runnel.store.schedules.zone"
local zones = require "spec.support.zones"

describe("time zones", function()
  it("are refused with the name of the system's package if there is none of a name", function()
    for _, name in ipairs { "Europe/Nowhere", "Europe", "", "/etc/passwd", "../../../etc/passwd", "Europe//Berlin",
      "CET-1", "Europe/Berlin/" } do
      local none, err = zone.open(name)
      assert.is_nil(none)
      assert.matches("^there is no time zone .* on this machine: .*package tzdata", err)
    end
  end)

  it("need no file for UTC", function()
    assert.same({ math.mininteger, math.maxinteger, 0, 0 }, { zone.open "UTC":span(1700000000) })
  end)

  it("know each day of the calendar", function()
    local day = days.to(1899, 12, 31)
    for year = 1900, 2104 do
      for month = 1, 12 do
        local next_month = month == 12 and days.to(year + 1, 1, 1) or days.to(year, month + 1, 1)
        for of_month = 1, next_month - days.to(year, month, 1) do
          day = day + 1
          local y, m, d = days.from(day)
          if y ~= year or m ~= month or d ~= of_month then -- assert.same takes a second for all
            error(("day %d is %d-%d-%d, not %d-%d-%d"):format(day, y, m, d, year, month, of_month))
          end
        end
      end
    end
  end)

  if not zones.are_installed then return pending "tzdata is not installed" end

  it("have the offsets of the C library at any time, and at each change of a century #ci", function()
    for i, name in ipairs(zones.NAMES) do
      local of, random, times = assert(zone.open(name)), generator(i), {}
      for _ = 1, long.times(500, 5000) do times[#times + 1] = days.to(1900, 1, 1) * 86400 + random(200 * 31557600) end
      local at, last = days.to(1950, 1, 1) * 86400, days.to(2060, 1, 1) * 86400
      while at < last do
        local _, to, offset, before = of:span(at)
        assert.is_true(offset ~= before or at < days.to(1990, 1, 1) * 86400 or to == math.maxinteger, name)
        times[#times + 1], times[#times + 2] = at, math.min(to, last) - 1
        at = to
      end
      for k, offset in ipairs(zones.of_libc(name, times)) do
        local from, to, own = of:span(times[k])
        if own ~= offset or from > times[k] or to <= times[k] then
          error(("%s at %d: %d, not %d"):format(name, times[k], own, offset))
        end
      end
    end
  end)

  it("of every name that the system has can be read", function()
    local list, n = io.popen "cd /usr/share/zoneinfo 2>/dev/null && find [A-Z]* -type f | LC_ALL=C sort", 0
    for name in assert(list):lines() do
      local of = zone.open(name)
      if of then
        n = n + 1
        of:span(4000000000)
      end
    end
    list:close()
    assert.is_true(n > 100 or not zone.open "Asia/Tokyo", n)
  end)
end)
