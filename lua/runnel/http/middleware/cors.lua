---http.cors: which pages of other origins may use the responses of a function (CORS, of the Fetch standard).

local check = require "runnel.internal.check"
local headers_of = require "runnel.http.middleware.headers"
local token = require "runnel.http.token"
local raise = require("runnel.core").internal.raise

---@class runnel.http.cors
local cors = {}

local kinds = check.kinds
local OPTIONS = { allow_credentials = kinds.boolean, allow_headers = kinds.table, expose_headers = kinds.table,
  max_age = kinds.ms(0), methods = kinds.table, origins = true }

---The options of http.cors.
---@class runnel.http.CorsOptions
---@field origins string[]|"*" origins, as in "https://example.org"; "*": all
---@field methods? string[] besides GET, HEAD and POST
---@field allow_headers? string[] of requests, besides those that every page may send
---@field expose_headers? string[] headers of responses that scripts may read
---@field allow_credentials? boolean requests may have cookies and passwords
---@field max_age? number ms for which browsers remember what is allowed; default: what they like, 5 s mostly

local function joined(list, what)
  for _, name in ipairs(list or {}) do
    if not token.is(name) then
      raise(("cors: %s: a list of names expected, got %s"):format(what, check.describe(name)))
    end
  end
  return list and #list > 0 and table.concat(list, ", ") or nil
end

local function set_of(origins)
  local set = {}
  for _, origin in ipairs(origins) do
    if type(origin) ~= "string" or not origin:find "^%l[%w+.-]*://[^/%s]+$" then
      raise("cors: origins: a list such as { \"https://example.org\" }, without paths, expected, got "
        .. check.describe(origin))
    end
    set[origin] = true
  end
  return set
end

-- What a response says about the origin; nil: one that may not see it. What the function itself says does not count.
local function allow(self, headers, origin)
  headers_of.set(headers, "Access-Control-Allow-Origin", self.all and "*" or origin)
  headers_of.set(headers, "Access-Control-Allow-Credentials", origin and self.credentials and "true" or nil)
  return headers
end

local function preflight(self, origin)
  return 204, allow(self, { ["Access-Control-Allow-Methods"] = self.methods,
    ["Access-Control-Allow-Headers"] = self.headers, ["Access-Control-Max-Age"] = self.max_age,
    Vary = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers" }, origin)
end

local function pass(self, origin, status, headers, body)
  if math.type(status) ~= "integer" then return status, headers, body end -- it has become a WebSocket, or is wrong
  local copy = headers_of.copy(headers)
  if not self.all then headers_of.add_vary(copy, "Origin") end
  -- What any page may see says so always: a cache may give it to a page later, whoever has asked first.
  if self.expose and (origin or self.all) then headers_of.set(copy, "Access-Control-Expose-Headers", self.expose) end
  return status, allow(self, copy, origin), body
end

local function handle(self, req)
  local sent = req.headers or {}
  local origin = sent.origin
  if origin and not (self.all or self.origins[origin]) then origin = nil end
  local is_preflight = req.method == "OPTIONS" and sent["access-control-request-method"]
  if origin and is_preflight then return preflight(self, origin) end
  return pass(self, origin, self.f(req))
end

---Makes a function for http.serve that calls another one, and lets browsers give its responses to the pages of other
---origins. It answers their questions (preflights) itself. Requests of other origins are answered, too, but their pages
---do not see the response.
---@param f fun(req: runnel.http.Request): integer, table?, any
---@param opts runnel.http.CorsOptions
---@return fun(req: runnel.http.Request): integer, table?, any
function cors.cors(f, opts)
  check.callable(f, "cors: f")
  check.options(opts, OPTIONS, "cors")
  local origins = opts and opts.origins
  if origins ~= "*" and type(origins) ~= "table" then
    raise("cors: origins: a list such as { \"https://example.org\" }, or \"*\", expected, got "
      .. check.article(origins))
  end
  if origins == "*" and opts.allow_credentials then
    raise("cors: allow_credentials: not with origins = \"*\", since any page could then act for the user; name them")
  end
  local self = { f = f, all = origins == "*", origins = origins ~= "*" and set_of(origins) or nil,
    credentials = opts.allow_credentials, methods = joined(opts.methods, "methods"),
    headers = joined(opts.allow_headers, "allow_headers"), expose = joined(opts.expose_headers, "expose_headers"),
    max_age = opts.max_age and math.ceil(opts.max_age / 1000) }
  return function(req) return handle(self, req) end
end

return cors
