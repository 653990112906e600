---A port for a server that a spec starts: below those that the system gives to clients, one of which could take it
---before the server does. From the system's random numbers: math.random may have the same seed in specs that run beside
---each other, and one would take the port of the other's server while that is stopped. Another program may have it
---nevertheless.
---@return integer port
return function()
  local file <close> = assert(io.open("/dev/urandom", "rb"))
  return 15000 + ("I2"):unpack(file:read(2)) % 17000
end
