-- Connects to a host that has several addresses, as browsers do ("happy eyeballs"): if an address has not answered
-- after a while, or has refused, the next one is tried as well. The first connection wins; the other attempts are
-- cancelled and their sockets closed. The network is simulated: each address answers, or refuses, after some ms.
--
--     lua5.4 examples/scope.lua [--delay MS] [--limit MS] [ADDRESS=MS | ADDRESS=refused]...
--
-- By default: lua5.4 examples/scope.lua --delay 25 --limit 1000 v6-a=refused v6-b=400 v4-a=60 v4-b=5

local rn = require "runnel"

-- A simulated socket, which its owner must close.
local function socket(address)
  return setmetatable({ address = address }, {
    __close = function(self)
      if self.used then return end
      print(self.address .. ": closed")
    end,
  })
end

-- Waits for an address's answer. Returns true, or nil and an error.
local function connect(answer)
  if answer == "refused" then
    rn.sleep(1)
    return nil, "refused"
  end
  rn.sleep(answer)
  return true
end

-- Tries one address: puts its socket on `connected`, or true on `failed`. In any other case the socket is closed.
local function try(address, answer, connected, failed)
  print(address .. ": trying")
  local sock <close> = socket(address)
  local ok, err = connect(answer)
  if ok then
    sock.used = connected:put(sock) -- if this is cancelled, the socket is closed
  else
    print(("%s: %s"):format(address, err))
    failed:put(true)
  end
end

-- Returns the first socket that is connected, or nil if all attempts fail. Raises an error after `limit` ms.
local function dial(addresses, delay, limit)
  return rn.scope(function(s)
    local connected, failed = rn.chan(), rn.chan()
    local running = 0
    for i = 1, #addresses do
      s:go(try, addresses[i].name, addresses[i].answer, connected, failed)
      running = running + 1
      while running > 0 do
        -- The last address has all the remaining time.
        local ops = i < #addresses and { connected, failed, rn.timeout(delay) } or { connected, failed }
        local value, port = rn.alts(ops, { priority = true })
        if port == connected then
          s:cancel "another address was faster"
          return value
        end
        if port == failed then running = running - 1 end
        if i < #addresses then break end
      end
    end
  end, { timeout = limit })
end

-- ---- the command line ----

local USAGE = [[
usage: lua5.4 examples/scope.lua [--delay MS] [--limit MS] [ADDRESS=MS | ADDRESS=refused]...
  --delay MS: how long to wait for one address before trying the next; --limit MS: how long to wait for all
]]
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function usage()
  io.stderr:write(USAGE)
  os.exit(2)
end

local function milliseconds(text)
  local ms = tonumber(text)
  if not ms or ms < 0 or ms ~= ms or ms == math.huge then usage() end
  return ms
end

local options = { ["--delay"] = 25, ["--limit"] = 1000 }
local addresses = {}
local i = 1
while arg[i] do
  if options[arg[i]] then
    options[arg[i]] = milliseconds(arg[i + 1])
    i = i + 1
  else
    local name, answer = arg[i]:match "^([^-=][^=]*)=(.+)$"
    if not name then usage() end
    addresses[#addresses + 1] = { name = name, answer = answer == "refused" and answer or milliseconds(answer) }
  end
  i = i + 1
end
if #addresses == 0 then
  addresses = {
    { name = "v6-a", answer = "refused" }, { name = "v6-b", answer = 400 }, { name = "v4-a", answer = 60 },
    { name = "v4-b", answer = 5 },
  }
end

local start = rn.now()
local ok, sock = pcall(dial, addresses, options["--delay"], options["--limit"])
if ok and sock then
  print(("connected to %s after %.0f ms"):format(sock.address, rn.now() - start))
else
  print(ok and "no address answers" or "gave up: " .. tostring(sock))
  os.exit(1)
end
