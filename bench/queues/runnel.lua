-- The program of bench/queues.lua for runnel: in a store or over NATS.
--
--     lua5.4 bench/queues/runnel.lua FILE|URL SYNCHRONOUS put|work N

local rn = require "runnel"

local AT_ONCE <const> = 128
local place, synchronous, part, n = arg[1], arg[2], arg[3], tonumber(arg[4])

local owner = place:find "://" and assert(require("runnel.nats").connect(place))
  or require("runnel.store").open(place, { synchronous = synchronous })
for _, name in ipairs { "in", "out" } do assert(owner:stream(name)) end

local start, clock = rn.now(), os.clock()
if part == "put" then
  local sink, value, list = assert(owner:sink "in"), ("x"):rep(100), {}
  for i = 1, n do list[i] = i end
  for _ in rn.pmap_unordered(AT_ONCE, function() return (assert(sink:put(value))) end, list) do end
else
  local stage = assert(owner:stage("in", AT_ONCE, function(v) return v end, "out"))
  repeat rn.sleep(2) until stage:stats().done >= n
end
print((rn.now() - start) / 1000, os.clock() - clock)
assert(assert(owner:stream(part == "put" and "in" or "out"):stats()).messages == n, "messages are missing")
owner:drain()
