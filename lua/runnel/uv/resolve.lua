---Names of hosts to addresses.

local core = require "runnel.core"
local loop = require "runnel.uv.loop"

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
  local closing <close> = out
  local addresses, err = resolve.addresses(host)
  if not addresses then return closing:close(err) end
  for _, address in ipairs(addresses) do
    if not out:put(address) then return end
  end
end

---The addresses of a host, as a channel of strings, best first.
---@param host string a name or an address
---@return runnel.Channel<string> addresses closes after the last, or with an error
function resolve.resolve(host)
  if type(host) ~= "string" then
    error("resolve: the name of a host expected, got " .. (host == nil and "nothing" or "a " .. type(host)), 2)
  end
  local out = core.chan()
  core.go(resolve_into, out, host)
  return out
end

return resolve
