-- The script of sensors.c: it prints the mean of every ten temperatures, and how many people are inside. It runs until
-- `stop` closes: when another version is loaded, or the program ends. Edit it while the program runs, and send SIGHUP.
local rn = require "runnel"
local temperatures, passages, stop = ...

local tens = rn.chan(1, rn.xf.partition_all(10))

rn.go(function()
  for ten in tens do
    local sum = 0
    for _, degrees in ipairs(ten) do sum = sum + degrees end
    print(("%.1f degrees, mean of %d"):format(sum / #ten, #ten))
  end
end)

local inside, passed = 0, 0

while true do
  -- `stop` has priority. Values that are not taken stay on their channels for the next version.
  local value, port = rn.alts({ stop, temperatures, passages }, { priority = true })
  if port == stop then break end
  if port == temperatures then
    tens:put(value)
  else
    inside = inside + (value.inwards and 1 or -1)
    passed = passed + 1
    if passed % 20 == 0 then print(("%d inside, the last one by door %d"):format(inside, value.door)) end
  end
end

tens:close()
print "stopped"
