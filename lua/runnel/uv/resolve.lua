---Names of hosts to addresses.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local loop = require "runnel.internal.uv.loop"

local uv = loop.uv

local resolve = {}

---The addresses of a host, by the system's resolver; parks.
---@param host string
---@return string[]? addresses at least one
---@return string? err
function resolve.addresses(host)
  local answers, err, found = core.chan(1), nil, nil
  local req, problem, name = uv.getaddrinfo(host, nil, { socktype = "stream" }, function(e, list)
    err, found = e, list
    answers:offer(true)
  end)
  if not req then return nil, loop.message(name or problem, host) end
  answers:take()
  if err then return nil, loop.message(err, host) end
  local addresses = {}
  for i, entry in ipairs(found) do addresses[i] = entry.addr end
  return addresses
end

local function resolve_into(out, host)
  local addresses, err = resolve.addresses(host)
  for _, address in ipairs(addresses or {}) do
    if not out:put(address) then return end
  end
  out:close(err)
end

---The addresses of a host, as a channel of strings, best first.
---@param host string a name or an address
---@return runnel.Channel<string> addresses closes after the last, or with an error
function resolve.resolve(host)
  if type(host) ~= "string" then
    error("resolve: the name of a host expected, got " .. (host == nil and "nothing" or "a " .. type(host)), 2)
  end
  loop.check_time "resolve"
  local out = core.chan()
  guard.started(guard.go(guard.close, out, resolve_into, out, host), "uv.resolve")
  return out
end

return resolve
