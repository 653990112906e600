---The options of nats.connect.

local io, os = io, os
local check = require "runnel.internal.check"
local values = require "runnel.queue.encodings"
local raise = check.raise

local options = {}

local INT_MAX <const> = 0x7fffffff

local function is_string(value) return type(value) == "string", "a string" end
local function is_boolean(value) return type(value) == "boolean", "true or false" end
local function is_ms(value)
  return type(value) == "number" and value >= 1 and value <= INT_MAX, "a number of milliseconds, at least 1,"
end
local function is_count(value)
  return math.type(value) == "integer" and value >= 0 and value <= INT_MAX, "an integer of 0 or more"
end

local function is_tls(value)
  return type(value) == "boolean" or type(value) == "table", "true, false or a table of options"
end

-- The options for libnats, and their types.
local KNOWN = {
  name = is_string, user = is_string, password = is_string, token = is_string, credentials = is_string,
  credentials_seed = is_string, nkey = is_string, nkey_seed = is_string, inbox_prefix = is_string,
  connect_timeout = is_ms, write_timeout = is_ms, ping_interval = is_ms, pings_out = is_count, reconnect = is_boolean,
  max_reconnects = is_count, reconnect_wait = is_ms, reconnect_buffer = is_count, in_order = is_boolean,
  no_echo = is_boolean, ignore_discovered = is_boolean, send_asap = is_boolean, tls = is_tls,
}

-- The options of the table `tls`. In the settings they are called "tls: ca" and so on, as in messages.
local TLS = { ca = is_string, cert = is_string, key = is_string, name = is_string, ciphers = is_string,
  insecure = is_boolean }

-- Those that are a text in PEM format, or the name of a file with it.
local PEM = { ca = true, cert = true, key = true }

-- Options that are names of files.
local FILES = { credentials = true, credentials_seed = true, nkey_seed = true }

-- Secret options, hidden in messages.
local SECRET = { password = true, token = true }

-- Options that require another one.
local NEEDS = { password = "user", ["tls: key"] = "tls: cert", credentials_seed = "credentials", nkey = "nkey_seed",
  nkey_seed = "nkey" }

-- Options from environment variables (RUNNEL_NATS_TLS_CA and so on), if the program gives no URL.
local ENVIRONMENT = { "user", "password", "token", "credentials", "credentials_seed", "nkey", "nkey_seed", "tls: ca",
  "tls: cert", "tls: key", "tls: name" }
local PREFIX <const> = "RUNNEL_NATS_"

-- ---- URLs ----

-- The parts of a URL: the scheme with its slashes, the credentials, and the rest. The first two may be empty or nil.
local function parts_of(url)
  local scheme, rest = url:match "^([^/@]*://)(.*)$"
  local user, host = (rest or url):match "^(.*)@(.*)$"
  return scheme or "", user, host or rest or url
end

---A URL for messages, without user, password and token.
---@param url string
---@return string
function options.without_secrets(url)
  local scheme, _, host = parts_of(url)
  return scheme .. host
end

-- Checks a URL: returns the problem, or nil. A port, a name and a password may be missing.
local function complaint(url)
  if type(url) ~= "string" then return "a URL is a string such as \"nats://localhost:4222\"" end
  if url:find "%z" then return "a URL has no zero bytes" end
  if url:find "[%s%c]" then return "a URL has no spaces (in a password, write %20)" end
  local scheme, _, host = parts_of(url)
  if scheme ~= "" and scheme ~= "nats://" and scheme ~= "tls://" then return "a URL begins with nats:// or tls://" end
  host = host:gsub("/$", "")
  local name, port = host:match "^(%[[%x:.]+%])(.*)$"
  if not name then name, port = host:match "^([^:/]*)(.*)$" end
  if name == "" then return "the URL has no host" end
  local number = port == "" and 1 or port:match "^:(%d+)$"
  if not number or tonumber(number) < 1 or tonumber(number) > 65535 then
    return "a port is a number from 1 to 65535"
  end
end

-- A list of URLs from a URL, several with commas between them, or a list. `what` names where the URL is from.
local function servers(url, what)
  local list, has_secrets = {}, false
  if type(url) == "string" then
    for one in url:gmatch "[^,]+" do list[#list + 1] = one end
  elseif type(url) == "table" then
    for i, one in ipairs(url) do list[i] = one end
  else
    list[1] = url
  end
  if #list == 0 then raise(what .. ": a URL expected, or a list of them, got an empty one") end
  for _, one in ipairs(list) do has_secrets = has_secrets or type(one) == "string" and one:find "@" ~= nil end
  for i, one in ipairs(list) do
    local wrong = complaint(one)
    if wrong then
      local shown = check.describe(type(one) == "string" and options.without_secrets(one) or one)
      -- A comma in a password has split one URL: this may be a part of the password.
      if has_secrets and not (type(one) == "string" and one:find "@") then shown = ("server %d"):format(i) end
      raise(("%s: %s: %s"):format(what, wrong, shown))
    end
  end
  return list
end

-- A part of the credentials, which the error does not show.
local function decoded(text, what)
  local plain = text:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end)
  check.no_zero(plain, what .. ": the user, password or token of the URL")
  return plain
end

-- Removes the credentials from the URLs: libnats does not decode %-escapes, and shows URLs. URLs with different users
-- stay as they are, decoded.
local function take_users(settings, what)
  local list, first, are_same = settings.servers, nil, true
  for _, url in ipairs(list) do
    local _, user = parts_of(url)
    if user then
      first = first or user
      are_same = are_same and user == first
    end
  end
  if not first then return end
  local function plain(text) return decoded(text, what) end
  for i, url in ipairs(list) do
    local scheme, user, host = parts_of(url)
    if are_same then
      list[i] = scheme .. host
    elseif user then
      local name, password = user:match "^([^:]*):?(.*)$"
      name, password = plain(name), plain(password)
      if name:find "[:/@]" or password:find "[/@]" then
        raise(what .. ": of servers with different users, names and passwords cannot have : / and @")
      end
      list[i] = scheme .. plain(user) .. "@" .. host
    end
  end
  if not are_same then return end
  local name, password = first:match "^([^:]*):(.*)$"
  if name then settings.user, settings.password = plain(name), plain(password)
  else settings.token = plain(first) end
end

-- ---- options ----

local function is_pem(value) return value:find("-----BEGIN", 1, true) ~= nil end

local function check_file(path, what)
  local file <close>, why = io.open(path)
  if not file then raise(("%s: %s"):format(what, why)) end
  return file:read "a"
end

-- Sets an option from the program or the environment.
local function set(settings, key, value, what)
  local of_tls = key:match "^tls: (.*)"
  local ok, expected = (of_tls and TLS[of_tls] or KNOWN[key])(value)
  if not ok then
    raise(("%s: %s expected, got %s"):format(what, expected, SECRET[key] and "another" or check.describe(value)))
  end
  if type(value) == "string" then check.no_zero(value, what) end
  if FILES[key] or PEM[of_tls] and not is_pem(value) then check_file(value, what) end
  settings[key] = value
end

-- Sets the option `tls` of the program.
local function set_tls(settings, opts)
  if type(opts) ~= "table" then return end
  settings.tls = true
  for key, value in pairs(opts) do
    local what = "connect: tls: " .. tostring(key)
    if not TLS[key] then raise("connect: tls: " .. check.unknown(key, TLS)) end
    set(settings, "tls: " .. key, value, what)
  end
end

-- libnats takes files, or texts; certificate and key in the same way.
local function settle_tls(settings)
  local ca, cert = settings["tls: ca"], settings["tls: cert"]
  local key = settings["tls: key"] or cert
  if ca and is_pem(ca) then settings["tls: ca"], settings["tls: ca text"] = nil, ca end
  if cert and (is_pem(cert) or is_pem(key)) then
    settings["tls: cert"], settings["tls: key"] = nil, nil
    settings["tls: cert text"] = is_pem(cert) and cert or check_file(cert, "connect: tls: cert")
    settings["tls: key text"] = is_pem(key) and key or check_file(key, "connect: tls: key")
  else
    settings["tls: key"] = key
  end
  settings.has_certificate = cert ~= nil
  for key_of in pairs(TLS) do
    if settings["tls: " .. key_of] ~= nil and settings.tls == nil then settings.tls = true end
  end
end

-- Fills in options from the environment that the program has not set. Returns the URL.
local function read_environment(settings)
  for _, key in ipairs(ENVIRONMENT) do
    local variable = PREFIX .. key:upper():gsub(": ", "_")
    local value = os.getenv(variable)
    if value and value ~= "" and settings[key] == nil then
      set(settings, key, value, "connect: " .. variable)
    end
  end
  local url = os.getenv(PREFIX .. "URL")
  return url ~= "" and url or nil
end

---Checks the arguments of nats.connect, and converts them for the C module.
---@param url any
---@param opts any
---@return table settings, string encoding
function options.read(url, opts)
  local settings, encoding = {}, "raw"
  if opts == nil then opts = {} end
  if type(opts) ~= "table" then raise("connect: a table of options expected, got a " .. type(opts)) end
  for key, value in pairs(opts) do
    if key == "encoding" then
      encoding = values.check(value, "connect")
    elseif not KNOWN[key] then
      raise("connect: " .. check.unknown(key, KNOWN) .. ", encoding")
    else
      set(settings, key, value, "connect: " .. key)
    end
  end
  set_tls(settings, opts.tls)
  local what = "connect"
  if url == nil then
    url = read_environment(settings)
    if url then what = "connect: " .. PREFIX .. "URL" end
  end
  settings.servers = servers(url or "nats://127.0.0.1:4222", what)
  take_users(settings, what)
  for key, other in pairs(NEEDS) do
    if settings[key] ~= nil and settings[other] == nil then
      raise(("connect: the option %s needs %s as well"):format(key, other))
    end
  end
  settle_tls(settings)
  -- Without these libnats gives up after 60 attempts, and a stalled network stops the program forever.
  if settings.max_reconnects == nil then settings.max_reconnects = -1 end
  settings.reconnect_wait = settings.reconnect_wait or 2000 -- libnats' default
  settings.write_timeout = settings.write_timeout or 2000
  -- A connection that is silent for longer is lost.
  settings.ping_interval = settings.ping_interval or 5000
  settings.silence = settings.ping_interval * ((settings.pings_out or 1) + 1)
  if settings.send_asap == nil then settings.send_asap = true end
  settings.is_secure = settings.tls
  for _, server in ipairs(settings.servers) do
    if server:find "^tls:" then settings.is_secure = true end
  end
  return settings, encoding
end

return options
