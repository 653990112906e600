-- The times of schedules: what is read, and when they are, compared with a search through all minutes.

local cron = require "runnel.store.schedules.cron"
local days = require "runnel.internal.days"
local generator = require "spec.support.generator"
local long = require "spec.support.long"
local zone = require "runnel.store.schedules.zone"
local zones = require "spec.support.zones"

local DAY <const> = 86400

-- A time in UTC, in s, of "2026-03-29 01:30".
local function utc(text)
  local year, month, day, hour, minute = text:match "(%d+)-(%d+)-(%d+) (%d+):(%d+)"
  return math.tointeger(days.to(tonumber(year), tonumber(month), tonumber(day)) * DAY + hour * 3600 + minute * 60)
end

local function text_of(time) return os.date("!%Y-%m-%d %H:%M", time) end

-- The next n starts after a time, in UTC.
local function starts(fields, name, after, n)
  local of, in_zone, list = assert(cron.read(fields)), assert(zone.open(name)), {}
  local at = utc(after)
  for i = 1, n do
    at = of:next(at, in_zone)
    list[i] = text_of(at)
  end
  return list
end

describe("five fields of cron", function()
  it("start once in each range with a step that leads out of it, however long", function()
    for _, step in ipairs { "60", "9223372036854775807", "99999999999999999999", ("9"):rep(400) } do
      local expected = { "2026-01-01 01:00", "2026-01-01 02:00" }
      assert.same(expected, starts("*/" .. step .. " * * * *", "UTC", "2026-01-01 00:30", 2), step)
      assert.same({ "2026-01-01 01:00" }, starts("0 1-9/" .. step .. " * * *", "UTC",
        "2026-01-01 00:30", 1), step)
    end
  end)

  it("say what is wrong with them", function()
    for fields, problem in pairs {
      ["* * * *"] = "five fields expected, minute, hour, day of the month, month and day of the week, got 4",
      [""] = "five fields expected, minute, hour, day of the month, month and day of the week, got 0",
      ["0 0 * * * *"] = "five fields expected, minute, hour, day of the month, month and day of the week, got 6",
      ["60 * * * *"] = 'minute: 0 to 59 expected, got "60"',
      ["* 24 * * *"] = 'hour: 0 to 23 expected, got "24"',
      ["* * 0 * *"] = 'day of the month: 1 to 31 expected, got "0"',
      ["* * * 13 *"] = 'month: 1 to 12, or a name of three letters, expected, got "13"',
      ["* * * * funday"] = 'day of the week: 0 to 7, or a name of three letters, expected, got "funday"',
      ["1,,2 * * * *"] = 'minute: 0 to 59 expected, got ""',
      ["1- * * * *"] = 'minute: 0 to 59 expected, got ""',
      ["-1 * * * *"] = 'minute: 0 to 59 expected, got ""',
      ["1.5 * * * *"] = 'minute: 0 to 59 expected, got "1.5"',
      ["5/15 * * * *"] = "minute: a step needs a range, as 5-59/15, or *",
      ["*/0 * * * *"] = 'minute: a step is a number from 1 on, got "0"',
      ["*/00 * * * *"] = 'minute: a step is a number from 1 on, got "00"',
      ["*/1e3 * * * *"] = 'minute: a step is a number from 1 on, got "1e3"',
      ["*/ * * * *"] = 'minute: a step is a number from 1 on, got ""',
      ["0 17-9 * * *"] = "hour: 17-9 ends before it begins",
      ["0 0 30 feb *"] = "no month has this day",
      ["0 0 31 4,6,9,11 *"] = "no month has this day",
      ["@reboot"] = '"@reboot" is none of @hourly, @daily, @weekly, @monthly and @yearly',
    } do
      local none, why = cron.read(fields)
      assert.is_nil(none, fields)
      assert.equal(problem, why)
    end
  end)

  it("have lists, ranges, steps, names and short forms", function()
    for _, one in ipairs {
      { "*/20 * * * *", "00:20 00:40 01:00" }, { "0-10/5,30 4 * * *", "04:00 04:05 04:10 04:30" },
      { "0 9-17/4 * * *", "09:00 13:00 17:00" }, { "@hourly", "01:00 02:00" },
    } do
      local list = starts(one[1], "UTC", "2026-01-01 00:00", #one[2]:gsub("[^:]", ""))
      for i, text in ipairs(list) do list[i] = text:sub(12) end
      assert.equal(one[2], table.concat(list, " "), one[1])
    end
    local first <const> = "2026-01-01 00:00" -- a Thursday
    assert.same({ "2026-01-01 08:00", "2026-01-02 08:00", "2026-01-05 08:00" },
      starts("0 8 * JAN,feb Mon-Fri", "UTC", first, 3))
    assert.same({ "2026-01-04 00:00", "2026-01-11 00:00" }, starts("@weekly", "UTC", first, 2))
    assert.same({ "2026-01-04 00:00", "2026-01-11 00:00" }, starts("0 0 * * 7", "UTC", first, 2))
    assert.same({ "2026-01-03 00:00", "2026-01-04 00:00", "2026-01-10 00:00" },
      starts("0 0 * * sat-sun", "UTC", first, 3))
    assert.same({ "2026-02-01 00:00", "2026-03-01 00:00" }, starts("@monthly", "UTC", first, 2))
    assert.same({ "2027-01-01 00:00" }, starts("@yearly", "UTC", first, 1))
    assert.same({ "2096-02-29 00:00", "2104-02-29 00:00" }, starts("0 0 29 2 *", "UTC", "2095-01-01 00:00", 2))
    assert.same({ "2032-02-29 00:00", "2060-02-29 00:00" }, starts("0 0 29 2 */7", "UTC", first, 2))
  end)

  it("want one of the two days if both are given, and both if one begins with *", function()
    assert.same({ "2026-01-02 00:00", "2026-01-09 00:00", "2026-01-13 00:00" },
      starts("0 0 13 * fri", "UTC", "2026-01-01 00:00", 3))
    assert.same({ "2026-01-09 00:00", "2026-01-23 00:00" }, starts("0 0 */2 * fri", "UTC", "2026-01-02 00:00", 2))
  end)

  if not zones.are_installed then return pending "tzdata is not installed" end

  it("start at 02:30 once on the day with two 02:30, and at 03:30 on the day with none", function()
    assert.same({ "2026-03-28 01:30", "2026-03-29 01:30", "2026-03-30 00:30" },
      starts("30 2 * * *", "Europe/Berlin", "2026-03-28 00:00", 3))
    assert.same({ "2026-10-24 00:30", "2026-10-25 00:30", "2026-10-26 01:30" },
      starts("30 2 * * *", "Europe/Berlin", "2026-10-24 00:00", 3))
    assert.same({ "2026-03-07 07:30", "2026-03-08 07:30", "2026-03-09 06:30" },
      starts("30 2 * * *", "America/New_York", "2026-03-07 00:00", 3))
  end)

  it("for every hour go by the hours that pass", function()
    assert.same({ "2026-03-29 00:30", "2026-03-29 01:30", "2026-03-29 02:30" },
      starts("30 * * * *", "Europe/Berlin", "2026-03-29 00:00", 3))
    assert.same({ "2026-10-25 00:30", "2026-10-25 01:30", "2026-10-25 02:30" },
      starts("30 * * * *", "Europe/Berlin", "2026-10-25 00:00", 3))
  end)

  -- Whether fields have a time of a clock: the definition, one field after the other.
  local function has(sets, shown)
    local date = os.date("!*t", shown)
    if not (sets[1][date.min] and sets[2][date.hour] and sets[4][date.month]) then return false end
    local day, weekday = sets[3][date.day], sets[5][date.wday - 1]
    if sets.is_either then return day or weekday end
    return day and weekday
  end

  -- The starts in a time by a search: what the clock shows in each minute that passes, and what it leaves out.
  local function search(sets, in_zone, from, to)
    local found, before = {}, nil
    local latest -- that the clock has shown
    for at = from - 2 * DAY, to, 60 do
      local _, _, offset = in_zone:span(at)
      local shown = at + offset
      if not before then latest = shown - 60 end
      local is_new = sets.every_hour or shown > latest
      if is_new and has(sets, shown) then found[at] = true end
      if not sets.every_hour and before and offset > before then
        for left_out = shown - (offset - before), shown - 60, 60 do
          if left_out > latest and has(sets, left_out) then found[left_out - before] = true end
        end
      end
      latest, before = math.max(latest, shown), offset
    end
    local list = {}
    for at in pairs(found) do
      if at >= from and at <= to then list[#list + 1] = at end
    end
    table.sort(list)
    return list
  end

  -- A field, and the set of its numbers.
  local function field_of(random, least, most)
    local set, parts = {}, {}
    if random(3) == 1 then
      local step = random(3) == 1 and random(5) or 1
      for n = least, most, step do set[n] = true end
      return step == 1 and "*" or "*/" .. step, set
    end
    for i = 1, random(3) do
      local from = least + random(most - least + 1) - 1
      local to = random(2) == 1 and from or from + random(most - from + 1) - 1
      local step = to > from and random(2) == 1 and random(4) or nil
      for n = from, to, step or 1 do set[n] = true end
      parts[i] = ("%d%s%s"):format(from, (to > from or step) and "-" .. to or "", step and "/" .. step or "")
    end
    return table.concat(parts, ","), set
  end

  -- A change of a zone's offset, near which the search is, or any time.
  local function place(random, in_zone)
    local at = days.to(1971, 1, 1) * DAY + random(100 * 31557600)
    local _, to = in_zone:span(at)
    if to == math.maxinteger then to = at end
    return (to - random(2 * DAY)) // 60 * 60
  end

  it("start when a search through all minutes says, in any zone and year #ci", function()
    local n = 0
    for seed = 1, long.times(40, 1000) do
      local random = generator(seed)
      local name = zones.NAMES[random(#zones.NAMES)]
      local in_zone = assert(zone.open(name))
      local texts, sets = {}, {}
      for i, range in ipairs { { 0, 59 }, { 0, 23 }, { 1, 31 }, { 1, 12 }, { 0, 6 } } do
        texts[i], sets[i] = field_of(random, range[1], range[2])
      end
      -- Most have hours at which clocks are changed, and each day.
      if random(2) == 1 then texts[2], sets[2] = "0-3", { [0] = true, true, true, true } end
      if random(2) == 1 then texts[3], sets[3] = field_of(function() return 1 end, 1, 31) end
      if random(2) == 1 then texts[4], sets[4] = field_of(function() return 1 end, 1, 12) end
      sets.is_either = not (texts[3]:find "^%*" or texts[5]:find "^%*")
      sets.every_hour = #sets[2] == 23 and sets[2][0] == true
      local fields = table.concat(texts, " ")
      local of = cron.read(fields)
      local from = place(random, in_zone)
      local to, last = from + 4 * DAY, nil
      local _, _, offset = in_zone:span(from)
      if of and offset % 60 == 0 then -- a zone with seconds has its starts between the minutes
        local at, list = from - 1, {}
        repeat
          at = of:next(at, in_zone)
          if at and at <= to then list[#list + 1] = at end
        until not at or at > to
        local wanted = search(sets, in_zone, from, to)
        for i = 1, math.max(#list, #wanted) do
          if list[i] ~= wanted[i] then
            error(("seed %d, %q in %s: %s, not %s"):format(seed, fields, name, list[i] and text_of(list[i]),
              wanted[i] and text_of(wanted[i])))
          end
          last = wanted[i]
        end
        assert.equal(last, of:last(from - 1, to, in_zone))
        n = n + #list
      end
    end
    assert.is_true(n > 1000, n)
  end)
end)
