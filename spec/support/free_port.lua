---A loopback port for a server that a spec starts: below the ports that the system gives to clients, since a client
---could take it before the server does, and used by no server now. Chosen with the system's random numbers: math.random
---may have the same seed in specs that run at the same time, and one would take the other's port while its server is
---stopped. Another program may have it nevertheless.

-- The ports on which a server listens, as a set; empty where the system does not say.
local function taken()
  local set = {}
  for _, path in ipairs { "/proc/net/tcp", "/proc/net/tcp6" } do
    local file <close> = io.open(path)
    -- The local address, the remote one, and the state, where 0A is LISTEN.
    for port, state in (file and file:read "a" or ""):gmatch "%d: %x+:(%x+) %x+:%x+ (%x+)" do
      if state == "0A" then set[tonumber(port, 16)] = true end
    end
  end
  return set
end

---@param n? integer this many ports in a row, from a multiple of n on; by default one
---@return integer port the first of them
return function(n)
  n = n or 1
  local file <close> = assert(io.open("/dev/urandom", "rb"))
  local used = taken()
  while true do
    local port = (15000 + ("I2"):unpack(file:read(2)) % 17000) // n * n
    local is_free = true
    for i = port, port + n - 1 do is_free = is_free and not used[i] end
    if is_free then return port end
  end
end
