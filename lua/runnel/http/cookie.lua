---Cookies of a server: the ones that a client has sent, and the header Set-Cookie (RFC 6265bis).

local check = require "runnel.internal.check"
local token = require "runnel.http.token"
local raise = require("runnel.core").internal.raise

---@class runnel.http.cookie
local cookie = {}

-- The characters that a value must not have; and those that a path or a domain must not have.
local NOT_IN_A_VALUE <const>, NOT_IN_AN_ATTRIBUTE <const> = '[^!#-+--:<-[%]^-~]', "[^ -:<-~]"

-- Browsers drop a cookie that is longer.
local LONGEST <const> = 4096

local SAME_SITE = { strict = "Strict", lax = "Lax", none = "None" }

local kinds = check.kinds
local OPTIONS = { domain = true, http_only = kinds.boolean, max_age = kinds.ms(0), path = true,
  same_site = kinds.one_of { "lax", "none", "strict" }, secure = kinds.boolean }

---The options of http.cookie.
---@class runnel.http.CookieOptions
---@field max_age? number ms until the client forgets it; 0: at once; default: when the browser ends
---@field path? string default "/"
---@field domain? string the host and all below it; default: only the host that sends it
---@field secure? boolean only over HTTPS, and to localhost; default true
---@field http_only? boolean hidden from scripts of the page; default true
---@field same_site? "lax"|"strict"|"none" default "lax"

local function attribute(opts, name)
  local value = opts[name]
  if value == nil then return nil end
  if type(value) ~= "string" or value == "" or value:find(NOT_IN_AN_ATTRIBUTE) then
    raise(("cookie: %s: a string without semicolons and control characters expected, got %s"):format(name,
      check.describe(value)))
  end
  return value
end

-- What browsers demand of the attributes; a cookie that breaks it is dropped without a word.
local function check_rules(name, opts, is_secure, path)
  if opts.same_site == "none" and not is_secure then raise("cookie: same_site = \"none\" needs secure = true") end
  local prefix = name:lower():match "^__%l+%-"
  if (prefix == "__host-" or prefix == "__secure-") and not is_secure then
    raise(("cookie: %s: a name with this beginning needs secure = true"):format(name))
  end
  if prefix == "__host-" and (path ~= "/" or opts.domain) then
    raise(("cookie: %s: a name with this beginning has the path / and no domain"):format(name))
  end
end

---Makes the value of a header Set-Cookie.
---@param name string
---@param value string|number
---@param opts? runnel.http.CookieOptions
---@return string
function cookie.cookie(name, value, opts)
  if not token.is(name) then raise("cookie: a name such as \"session\" expected, got " .. check.describe(name)) end
  if math.type(value) == "integer" then value = tostring(value) end
  if type(value) ~= "string" or value:find(NOT_IN_A_VALUE) then
    raise(("cookie: %s: a string of ASCII characters without spaces, quotes, commas, semicolons and backslashes "
      .. "expected, got %s: encode others, for example in hexadecimal digits"):format(name, check.describe(value)))
  end
  check.options(opts, OPTIONS, "cookie")
  opts = opts or {}
  local path, domain, is_secure = attribute(opts, "path") or "/", attribute(opts, "domain"), opts.secure ~= false
  if path:sub(1, 1) ~= "/" then raise("cookie: path: a path from / on expected, got " .. check.describe(path)) end
  check_rules(name, opts, is_secure, path)
  local parts = { name .. "=" .. value, "Path=" .. path }
  if domain then parts[#parts + 1] = "Domain=" .. domain end
  if opts.max_age then parts[#parts + 1] = ("Max-Age=%d"):format(math.ceil(opts.max_age / 1000)) end
  if is_secure then parts[#parts + 1] = "Secure" end
  if opts.http_only ~= false then parts[#parts + 1] = "HttpOnly" end
  parts[#parts + 1] = "SameSite=" .. SAME_SITE[opts.same_site or "lax"]
  local text = table.concat(parts, "; ")
  if #text > LONGEST then
    raise(("cookie: %s: it has %d bytes, and clients keep at most %d: keep the data on the server, and its key in the "
      .. "cookie"):format(name, #text, LONGEST))
  end
  return text
end

---The cookies of the header Cookie; of several with one name the first, which has the longest path.
---@param header? string
---@return table<string, string>
function cookie.parse(header)
  local cookies = {}
  for pair in (header or ""):gmatch "[^;]+" do
    local name, value = pair:match "^%s*([^=%s]+)=(.*)$"
    if name and cookies[name] == nil then
      value = token.trim(value)
      cookies[name] = value:match '^"(.*)"$' or value
    end
  end
  return cookies
end

return cookie
