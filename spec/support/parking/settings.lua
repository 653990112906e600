---Runs the calls of parks.lua and keepers.lua where they can run: in a simulation, on a host of a simulated world, and
---in reality.

local rn = require "runnel"
local sim = require "runnel.sim"

---@field server any a context of TLS
---@field client any the same
local settings = {}

-- Calls a function with a setting. Returns whether another go block has run while the call of interest ran.
local function parks(f, s)
  local has_called, has_run, closing = false, false, {}
  f(s, function(g, ...)
    local ran = false
    local other = rn.go(function() ran = true end)
    local results = table.pack(g(...))
    has_called, has_run = true, ran
    other:take()
    closing = results
    return table.unpack(results, 1, results.n)
  end)
  assert(has_called, "the call was not made")
  for i = 1, closing.n do
    local value = closing[i]
    local can_close, close = pcall(function() return value.close end)
    if can_close and close then pcall(close, value) end
  end
  return has_run
end

local function echo(port)
  local conns, where = assert(require "runnel.uv".listen("127.0.0.1", port))
  rn.go(function()
    for conn in conns do
      rn.go(function()
        for chunk in conn:read() do
          if not conn:write(chunk) then break end
        end
        conn:close()
      end)
    end
  end)
  return where, conns
end

-- The functions that open what a kind of calls needs.
local OPEN = {
  stores = function(s) return require "runnel.store".open(s.path, { synchronous = "off" }) end,
  nats = function(s)
    return assert(require "runnel.nats".connect(s.url))
  end,
}

local function run(kind, f, s)
  s.server, s.client = settings.server, settings.client
  local open = OPEN[s.keeper or kind]
  if open then s.open = function() return open(s) end end
  local conns
  if kind == "io" then s.port, conns = echo(0) end
  local before = rn.on_error(function() end) -- of a message that is to become a dead letter
  local ok, did = pcall(parks, f, s)
  rn.on_error(before)
  if conns then conns:close() end
  if kind == "http" then require "runnel.http".close_idle() end
  if not ok then error(did, 0) end
  return did
end

---In a simulation without a world.
---@param kind string
---@param f function
---@param keeper? "stores"
---@param is_there? boolean it runs in a simulation
---@return boolean parks
function settings.simulation(kind, f, keeper, is_there)
  local function body() return run(kind, f, { path = ":memory:", keeper = keeper }) end
  return is_there and body() or sim.run(body)
end

---On a host of a simulated world.
---@param kind string
---@param f function
---@param keeper? "stores"|"nats"
---@param is_there? boolean it runs in a simulation
---@return boolean parks
function settings.world(kind, f, keeper, is_there)
  local function body()
    local world, result = sim.world(), nil
    world:program("true", function() end)
    if (keeper or kind) == "nats" then world:nats "nats" end
    local host = world:host("host", function()
      result = run(kind, f, { path = "/file", url = "nats://nats", command = "true", free_port = 80, keeper = keeper,
        much = 1 << 20 })
    end)
    for _ = 1, 1000 do
      if result ~= nil or not host.alive then break end
      world:run(1000)
    end
    assert(result ~= nil, "it waits for ever")
    return result
  end
  return is_there and body() or sim.run(body)
end

---In reality.
---@param kind string
---@param f function
---@param keeper? "stores"
---@return boolean parks
function settings.reality(kind, f, keeper)
  local path = os.tmpname()
  local result, err = rn.go(function()
    return run(kind, f, { path = path, command = "true", free_port = 0, keeper = keeper, much = 1 << 24 })
  end):take()
  collectgarbage() -- closes what only finalizers close
  for _, suffix in ipairs { "", "-wal", "-shm", "-locks" } do os.remove(path .. suffix) end
  if result == nil then error(err, 0) end
  return result
end

return settings
