---Redirects of requests in a simulated world: the next request, as the real client makes it (csrc/http/client).

local lib = require "runnel.http.curl"

local redirect = {}

local REDIRECTS = { [301] = true, [302] = true, [303] = true, [307] = true, [308] = true }

-- Headers are a list of lines. Those that describe a body go with it; secrets are for the first server only.
local function headers_for(lines, has_body, is_same)
  local kept = {}
  for _, line in ipairs(lines or {}) do
    local name = line:match("^[^:;]+"):lower()
    local goes = not has_body and name:find "^content%-" or not is_same and (name == "authorization"
      or name == "cookie")
    if not goes then kept[#kept + 1] = line end
  end
  return kept
end

local PORTS = { http = ":80", https = ":443" }

-- The scheme, the host and the port of a URL.
local function server_of(url)
  local scheme, authority = url:match "^(%a+)://([^/?#]*)"
  scheme, authority = scheme:lower(), authority:match "[^@]*$":lower()
  return scheme .. "://" .. authority .. (authority:find ":%d+$" and "" or PORTS[scheme])
end

---The next request after a response; nil if it is no redirect, or redirects are not followed.
---@param url string
---@param settings runnel.http.Settings
---@param status integer
---@param headers table?
---@return string? url
---@return runnel.http.Settings? settings
---@return string? problem why it cannot be made
function redirect.next(url, settings, status, headers)
  local location
  for name, value in pairs(REDIRECTS[status] and settings.redirects > 0 and headers or {}) do
    if name:lower() == "location" then location = value end
  end
  if type(location) ~= "string" or location == "" then return nil end -- an empty one leads nowhere
  local to, malformed = lib.resolve(url, location)
  if not to then return nil, nil, malformed end
  if not to:find "^https?://" then return nil, nil, ("Protocol %q not supported"):format(to:match "^[^:]*") end
  local was = settings.method or "GET"
  local is_get = was ~= "GET" and was ~= "HEAD" and (status == 303 or status <= 302 and was == "POST")
  local has_body = not is_get
  if has_body and settings.source then
    return nil, nil,
      "the server wants the body again, after a redirect or with a login, and what came from a channel can "
      .. "be sent only once: send it to the URL behind the redirect, or as a string or a file"
  end
  local is_same = server_of(url) == server_of(to)
  local changed = { method = is_get and "GET" or settings.method, headers = headers_for(settings.headers, has_body,
    is_same) }
  if not has_body then changed.body, changed.source, changed.multipart = false, false, false end
  return to, setmetatable(changed, { __index = settings }), nil
end

return redirect
