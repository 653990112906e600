-- The sieve of primes: each prime is a go block that takes
-- from the one before it.
local rn = require "runnel"

local function filter(prime, from)
  local to = rn.chan():name("not by " .. prime)
  rn.go(function()
    rn.rename("filter " .. prime)
    for n in from do
      if n % prime ~= 0 then to:put(n) end
    end
    to:close()
  end)
  return to
end

local numbers = rn.chan():name "numbers"
rn.go(function()
  rn.rename "numbers"
  for n = 2, 150 do
    numbers:put(n)
    rn.sleep(25)
  end
  numbers:close()
end)

local ch = numbers
while true do
  local prime = ch:take()
  if not prime then break end
  print(prime)
  ch = filter(prime, ch)
end
