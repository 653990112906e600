-- Passes lines on at a limited rate, with a token bucket.
--
--     lua5.4 examples/ratelimit.lua RATE [BURST] < LINES
--     lua5.4 examples/ratelimit.lua 50 10 < examples/access.log | lua5.4 examples/logstat.lua
--
-- RATE is the number of lines a second in the long run, BURST (1 by default) the number of lines at once after a pause.
--
-- The bucket is a channel with a dropping buffer: a go block puts a token into it at every tick, which is dropped if
-- the bucket is full. Each line takes a token, or waits for one.

local rn = require "runnel"

local USAGE = [[
usage: lua5.4 examples/ratelimit.lua RATE [BURST] < LINES
  RATE: lines a second, a number above 0
  BURST: lines at once, a whole number from 1; 1 by default
]]
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function usage()
  io.stderr:write(USAGE)
  os.exit(2)
end

-- A channel that gets a token every `interval` ms and holds at most `burst` of them; full at the beginning.
local function bucket(interval, burst)
  local tokens = rn.chan(rn.dropping_buffer(burst))
  for _ = 1, burst do tokens:put "token" end
  rn.go(function()
    local due = rn.now()
    repeat
      due = due + interval
      -- Reading a line may have blocked the program: then the missed ticks come at once.
      rn.alts { rn.timeout(math.max(0, due - rn.now())), tokens:done() }
    until not tokens:put "token"
  end)
  return tokens
end

local rate, burst = tonumber(arg[1]), tonumber(arg[2] or "1")
if not (rate and rate > 0 and rate < math.huge) or math.type(burst) ~= "integer" or burst < 1 or arg[3] then usage() end

io.stdout:setvbuf "line"
local tokens <close> = bucket(1000 / rate, burst)
for line in io.lines() do
  tokens:take()
  print(line)
end
