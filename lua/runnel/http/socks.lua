---Connections through a SOCKS proxy (RFC 1928, RFC 1929, and SOCKS4), as libcurl names its kinds: with socks5h and
---socks4a the proxy looks up the host, with socks5 and socks4 this end.

local addresses = require "runnel.http.ip_address"
local names = require "runnel.uv.hostnames"
local readers = require "runnel.uv.reader"

local pack, unpack = string.pack, string.unpack
local ipv4 = addresses.ipv4

local socks = {}

---The schemes of such proxies, and whether the proxy looks up the host.
---@type table<string, boolean>
socks.SCHEMES = { socks4 = false, socks4a = true, socks5 = false, socks5h = true }

-- What the codes of an answer mean.
local REFUSALS = {
  [1] = "it has failed", [2] = "its rules do not allow this", [3] = "the network is unreachable",
  [4] = "the host is unreachable", [5] = "the connection was refused", [6] = "it took too long",
  [7] = "it does not know this command", [8] = "it does not know this kind of address",
}

-- The address to name to the proxy: the host itself, unless this end looks it up. SOCKS4 has only IPv4, and the host
-- may have both.
local function target(host, scheme)
  if socks.SCHEMES[scheme] or ipv4(host) or host:find(":", 1, true) then return host end
  local list, err = names.look_up(host)
  if not list then return nil, err end
  for _, address in ipairs(scheme == "socks4" and list or {}) do
    if ipv4(address) then return address end
  end
  return list[1]
end

-- Sends bytes and reads n; or returns nil and an error.
local function exchange(conn, reader, bytes, n)
  local ok, err = conn:write(bytes)
  if not ok then return nil, err end
  local answer
  answer, err = reader:read(n)
  return answer, err or "it has closed the connection"
end

local function ask5(conn, reader, login, host, port)
  local answer, err = exchange(conn, reader, login and "\5\2\0\2" or "\5\1\0", 2)
  if not answer then return nil, err end
  local user, password = (login or ""):match "^([^:]*):?(.*)$"
  if answer == "\5\2" and login then
    if #user > 255 or #password > 255 then return nil, "the name or the password is longer than 255 bytes" end
    answer, err = exchange(conn, reader, pack("Bs1s1", 1, user, password), 2)
    if not answer then return nil, err end
    if answer:byte(2) ~= 0 then return nil, "it has refused the name or the password" end
  elseif answer ~= "\5\0" then
    return nil, answer:byte() == 5 and "it accepts none of our ways to log in" or "it does not speak SOCKS5"
  end
  local four, six = ipv4(host), addresses.ipv6(host)
  local address = four and "\1" .. four or six and "\4" .. six or "\3" .. pack("s1", host)
  answer, err = exchange(conn, reader, "\5\1\0" .. address .. pack(">I2", port), 5)
  if not answer then return nil, err end
  local _, code, _, kind, first = unpack("BBBBB", answer)
  if code ~= 0 then return nil, REFUSALS[code] or "it has refused, with code " .. code end
  local size = kind == 1 and 4 or kind == 4 and 16 or first + 1 -- of the address, of which one byte was read
  answer, err = reader:read(size + 1)
  return answer, err
end

local function ask4(conn, reader, login, host, port)
  local address = ipv4(host)
  if not address and host:find(":", 1, true) then return nil, "SOCKS4 has no IPv6" end
  local user = (login or ""):match "^[^:]*"
  local answer, err = exchange(conn, reader, "\4\1" .. pack(">I2", port) .. (address or "\0\0\0\1") .. user .. "\0"
    .. (address and "" or host .. "\0"), 8)
  if not answer then return nil, err end
  if answer:byte(2) == 0x5A then return true end
  return nil, "it has refused, with code " .. answer:byte(2)
end

---Has a proxy connect to a host. Parks.
---@param conn runnel.uv.Connection to the proxy
---@param proxy runnel.http.Proxy
---@param host string
---@param port integer
---@return any ok
---@return string? err
function socks.ask(conn, proxy, host, port)
  local there, err = target(host, proxy.scheme)
  if not there then return nil, err end
  if #there > 255 then return nil, "the name of the host is longer than 255 bytes" end
  local reader <close> = readers.reader(conn)
  local ask = proxy.scheme:find "^socks4" and ask4 or ask5
  local ok
  ok, err = ask(conn, reader, proxy.login, there, port)
  return ok, err
end

return socks
