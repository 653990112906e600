-- Hoare's prime sieve: a go block for each prime, which passes on the numbers that its prime does not divide.
--
--     lua5.4 examples/sieve.lua [N]        the first N primes, one a line; 25 by default

local rn = require "runnel"

local USAGE = "usage: lua5.4 examples/sieve.lua [N]\n  N: how many primes, a whole number from 1\n"
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

-- 2, 3, 4, ... for ever. The go block is one of the scope's.
local function numbers(scope)
  local out = rn.chan()
  scope:go(function()
    local i = 2
    while out:put(i) do i = i + 1 end
  end)
  return out
end

-- The values of `from` that are not multiples of `prime`.
local function sift(scope, from, prime)
  local out = rn.chan()
  scope:go(function()
    for i in from do
      if i % prime ~= 0 then out:put(i) end
    end
  end)
  return out
end

local n = math.tointeger(tonumber(arg[1] or "25"))
if not n or n < 1 or arg[2] then
  io.stderr:write(USAGE)
  os.exit(2)
end

rn.scope(function(scope)
  local sieve = numbers(scope)
  for _ = 1, n do
    local prime = sieve:take() -- the first that passes all sieves is the next prime
    print(prime)
    sieve = sift(scope, sieve, prime)
  end
  scope:cancel() -- none of the go blocks would end by itself
end)
