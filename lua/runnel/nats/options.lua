---The options of nats.connect.

local check = require "runnel.internal.check"
local values = require "runnel.nats.values"

local options = {}

local INT_MAX <const> = 0x7fffffff

local function is_string(value) return type(value) == "string" and not value:find "%z", "a string" end
local function is_boolean(value) return type(value) == "boolean", "true or false" end
local function is_ms(value)
  return type(value) == "number" and value >= 1 and value <= INT_MAX, "a number of milliseconds, at least 1,"
end
local function is_count(value)
  return math.type(value) == "integer" and value >= 0 and value <= INT_MAX, "an integer of 0 or more"
end

-- The options that libnats gets, and what each must be.
local KNOWN = {
  name = is_string, user = is_string, password = is_string, token = is_string, credentials = is_string,
  credentials_seed = is_string, nkey = is_string, nkey_seed = is_string, inbox_prefix = is_string,
  connect_timeout = is_ms, write_timeout = is_ms, ping_interval = is_ms, pings_out = is_count, reconnect = is_boolean,
  max_reconnects = is_count, reconnect_wait = is_ms, reconnect_buffer = is_count, in_order = is_boolean,
  no_echo = is_boolean, ignore_discovered = is_boolean, send_asap = is_boolean, tls = is_boolean, tls_ca = is_string,
  tls_cert = is_string, tls_key = is_string, tls_skip_verify = is_boolean, tls_host = is_string,
  tls_ciphers = is_string,
}

-- Options that are names of files.
local FILES = { tls_ca = true, tls_cert = true, tls_key = true, credentials = true, credentials_seed = true,
  nkey_seed = true }

-- Options that make no sense without another one.
local NEEDS = { password = "user", tls_key = "tls_cert", tls_cert = "tls_key", credentials_seed = "credentials",
  nkey = "nkey_seed", nkey_seed = "nkey" }

-- What is wrong with a URL, or nil. A port, a name and a password may be missing.
local function complaint(url)
  if type(url) ~= "string" then return "a URL is a string such as \"nats://localhost:4222\"" end
  if url:find "[%s%c]" then return "a URL has no spaces" end
  local scheme, rest = url:match "^([%w+.-]*)://(.*)$"
  if scheme and scheme ~= "nats" and scheme ~= "tls" then return "a URL begins with nats:// or tls://" end
  local host = (rest or url):gsub("^.*@", ""):gsub("/$", "")
  local name, port = host:match "^(%[[%x:.]+%])(.*)$"
  if not name then name, port = host:match "^([^:/]*)(.*)$" end
  if name == "" then return "the URL has no host" end
  local number = port == "" and 1 or port:match "^:(%d+)$"
  if not number or tonumber(number) < 1 or tonumber(number) > 65535 then
    return "a port is a number from 1 to 65535"
  end
end

-- A list of URLs from a URL, several with commas between them, or a list.
local function servers(url, level)
  local list = {}
  if url == nil then url = "nats://127.0.0.1:4222" end
  if type(url) == "string" then
    for one in url:gmatch "[^,]+" do list[#list + 1] = one end
  elseif type(url) == "table" then
    for i, one in ipairs(url) do list[i] = one end
  else
    list[1] = url
  end
  if #list == 0 then error("connect: a URL expected, or a list of them, got an empty one", level + 1) end
  for _, one in ipairs(list) do
    local wrong = complaint(one)
    if wrong then error(("connect: %s: %s"):format(wrong, check.describe(one)), level + 1) end
  end
  return list
end

---Checks the arguments of nats.connect, and turns them into what the C module takes.
---@param url any
---@param opts any
---@param level integer the level of the function that was called by the program: 2 is this function's caller
---@return table settings, string encoding
function options.read(url, opts, level)
  local settings, encoding = { servers = servers(url, level) }, "raw"
  if opts == nil then opts = {} end
  if type(opts) ~= "table" then error("connect: a table of options expected, got a " .. type(opts), level) end
  for key, value in pairs(opts) do
    if key == "encoding" then
      encoding = values.check(value, "connect", level)
    elseif not KNOWN[key] then
      error("connect: " .. check.unknown(key, KNOWN) .. ", encoding", level)
    else
      local ok, expected = KNOWN[key](value)
      if not ok then
        error(("connect: %s: %s expected, got %s"):format(key, expected, check.describe(value)), level)
      end
      if FILES[key] then
        local file <close>, why = io.open(value)
        if not file then error(("connect: %s: %s"):format(key, why), level) end
      end
      settings[key] = value
    end
  end
  for key, other in pairs(NEEDS) do
    if settings[key] ~= nil and settings[other] == nil then
      error(("connect: the option %s needs %s as well"):format(key, other), level)
    end
  end
  for _, key in ipairs { "tls_ca", "tls_cert", "tls_skip_verify", "tls_host", "tls_ciphers" } do
    if settings[key] and settings.tls == nil then settings.tls = true end
  end
  -- Without these libnats gives up after 60 attempts, and a stalled network stops the program for ever.
  if settings.max_reconnects == nil then settings.max_reconnects = -1 end
  settings.write_timeout = settings.write_timeout or 2000
  if settings.send_asap == nil then settings.send_asap = true end
  settings.is_secure = settings.tls
  for _, server in ipairs(settings.servers) do
    if server:find "^tls:" then settings.is_secure = true end
  end
  return settings, encoding
end

return options
