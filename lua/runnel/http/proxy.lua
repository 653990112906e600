---The proxy of a request: the option `proxy`, or what the environment names, by libcurl's rules. libcurl finds its own;
---this is for WebSockets, and for messages.

local os, require = os, require
local addresses = require "runnel.http.ip_address"

local proxies = {}

---A proxy.
---@class runnel.http.Proxy
---@field scheme string "http", "https", "socks5", ...
---@field host string
---@field port integer
---@field name string host and port, for messages
---@field login? string name and password, decoded, with a colon between them

local PORTS <const> = { https = 443 }
local PORT <const> = 1080

-- The value of an environment variable, which counts only if it is not empty.
local function variable(name)
  local value = os.getenv(name)
  return value ~= "" and value or nil
end

-- As in libcurl, HTTP_PROXY does not count: in a CGI program it is the header Proxy of a client.
local function of_environment(scheme)
  local name = scheme .. "_proxy"
  return variable(name) or name ~= "http_proxy" and variable(name:upper()) or variable "all_proxy"
    or variable "ALL_PROXY"
end

-- Whether the first bits of two addresses are the same.
local function is_same(a, b, bits)
  local whole, rest = bits // 8, bits % 8
  if #a ~= #b or whole + (rest > 0 and 1 or 0) > #a or a:sub(1, whole) ~= b:sub(1, whole) then return false end
  return rest == 0 or (a:byte(whole + 1) ~ b:byte(whole + 1)) >> 8 - rest == 0
end

-- Whether a word is the address, or its network, as in "10.0.0.0/8".
local function has_address(word, address)
  local text, bits = word:match "^([^/]*)/?(%d*)"
  local other = addresses.ipv4(text) or addresses.ipv6(text)
  local n = tonumber(bits) or 0
  return other and is_same(address, other, n > 0 and n or 8 * #address)
end

-- Whether a word is the host's name, or that of its domain.
local function has_name(word, host)
  local name = word:gsub("^%.", ""):gsub("%.$", "")
  return host == name or host:sub(-#name - 1) == "." .. name
end

-- Whether a list names the host: "*", or names of hosts and domains, addresses and networks, with commas or spaces
-- between.
local function is_excepted(host, list)
  local address = addresses.ipv4(host) or addresses.ipv6(host)
  for word in (list or ""):lower():gmatch "[^%s,]+" do
    if word == "*" then return true end
    if address and has_address(word, address) or not address and has_name(word, host) then return true end
  end
  return false
end

local function decode(text) return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end)) end

---Parses the address of a proxy.
---@param text string as in "http://name:password@proxy.example:3128"; without a scheme it is http
---@return runnel.http.Proxy? proxy nil if it is malformed
function proxies.parse(text)
  local scheme, rest = text:match "^(%w+)://(.*)$"
  scheme, rest = (scheme or "http"):lower(), (rest or text):match "^[^/?#]*"
  local login, place = rest:match "^(.*)@([^@]*)$"
  place = place or rest
  local host, port = place:match "^%[([%x:.]+)%]:?(%d*)$"
  if not host then host, port = place:match "^([^:%[%]]+):?(%d*)$" end
  local number = port == "" and (PORTS[scheme] or PORT) or tonumber(port)
  if not host or number < 1 or number > 65535 then return nil end
  return { scheme = scheme, host = host, port = number, name = place, login = login and decode(login) }
end

---The proxy for a URL, or nil: its text, as it is in the option or the environment.
---@param scheme string of the URL, "http" or "https"
---@param host string of the URL
---@param opts? { proxy?: string, noproxy?: string }
---@return string?
function proxies.text(scheme, host, opts)
  local text = opts and opts.proxy or of_environment(scheme) -- of "", too
  if not text or text == "" then return nil end
  local exceptions = opts and opts.noproxy or variable "no_proxy" or variable "NO_PROXY"
  host = host:lower():gsub("%.$", "")
  return not is_excepted(host, exceptions) and text or nil
end

---The proxy of a request, for messages.
---@param url string
---@param opts? { proxy?: string, noproxy?: string } libcurl's options of the request
---@return runnel.http.Proxy? proxy nil if there is none
function proxies.of(url, opts)
  local scheme, authority = url:match "^(%a+)://([^/?#]*)"
  if not scheme or opts and opts.unix_socket_path then return nil end
  local place = authority:match "^.*@(.*)$" or authority
  local text = proxies.text(scheme:lower(), place:match "^%[(.-)%]" or place:match "^[^:]*", opts)
  return text and proxies.parse(text)
end

return proxies
