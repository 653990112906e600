-- One source and several consumers of different speeds: which values each gets depends on its buffer.
--
--     lua5.4 examples/fanout.lua [VALUES [MS]]
--
-- A meter gives a value every MS milliseconds; by default 100 values, every 2 ms. A mult copies each value to three
-- consumers: a fast one, which gets all values; a slow one with a sliding buffer, which gets the newest; and a slow one
-- with a dropping buffer, which gets the oldest. These two buffers never make the mult wait. The last line of the table
-- shows a slow consumer with a plain buffer, which sets the pace for the source.

local rn = require "runnel"

local SLOWNESS = 10 -- a slow consumer needs this many of the meter's intervals for a value

local USAGE = "usage: lua5.4 examples/fanout.lua [VALUES [MS]]\n"
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function usage()
  io.stderr:write(USAGE)
  os.exit(2)
end

local values, ms = tonumber(arg[1] or "100"), tonumber(arg[2] or "2")
if math.type(values) ~= "integer" or values < 1 or not (ms and ms > 0 and ms < math.huge) or arg[3] then usage() end

-- A channel of the numbers from 1 to n, one every `ms`.
local function meter(n)
  local ch = rn.chan()
  rn.go(function()
    for i = 1, n do
      rn.sleep(ms)
      ch:put(i)
    end
    ch:close()
  end)
  return ch
end

-- Taps the mult with a channel that has the buffer, and takes from it, pausing `pause` ms after each value. Returns a
-- channel that gives the report.
local function consumer(name, source, buffer, pause)
  local ch = source:tap(rn.chan(buffer))
  return rn.go(function()
    local start, count, last = rn.now(), 0, nil
    for value in ch do
      count, last = count + 1, value
      if pause > 0 then rn.sleep(pause) end
    end
    return ("%-24s %6d  %6d  %6.0f"):format(name, count, last, rn.now() - start)
  end)
end

print "consumer                 values    last      ms"
local source = rn.mult(meter(values))
local reports = {
  consumer("fast, buffer(10)", source, rn.buffer(10), 0),
  consumer("slow, sliding_buffer(1)", source, rn.sliding_buffer(1), SLOWNESS * ms),
  consumer("slow, dropping_buffer(1)", source, rn.dropping_buffer(1), SLOWNESS * ms),
}
for _, report in ipairs(reports) do print((report:take())) end

print(consumer("slow, buffer(1)", rn.mult(meter(values)), rn.buffer(1), SLOWNESS * ms):take())
