---http.basic_auth: a name and a password for the requests of a function (RFC 7617).

local base64 = require "runnel.internal.base64"
local check = require "runnel.internal.check"
local core = require "runnel.core"
local raise = core.internal.raise

---@class runnel.http.basic_auth
local auth = {}

local OPTIONS = { realm = true }

-- ---- comparing ----

-- Whether two strings are equal, in a time that depends only on the length of the first one, which the client has sent.
local function is_same(sent, expected)
  local difference = #sent ~ #expected
  for i = 1, #sent do difference = difference | sent:byte(i) ~ (expected:byte((i - 1) % (#expected + 1) + 1) or 0) end
  return difference == 0
end

-- A check that knows the passwords.
local function checker(users)
  return function(name, password)
    local expected = users[name]
    return is_same(password, expected or "") and expected ~= nil
  end
end

-- ---- requests ----

local function login_of(req)
  local scheme, token = ((req.headers or {}).authorization or ""):match "^(%a+) +(%S+)$"
  if not scheme or scheme:lower() ~= "basic" then return nil end
  if #token % 4 ~= 0 or not token:find "^[%w+/]+=?=?$" then return nil end
  return base64.decode(token):match "^([^:]*):(.*)$"
end

local function handle(self, req)
  local name, password = login_of(req)
  if name and self.is_user(name, password, req) then
    req.user = name
    return self.f(req)
  end
  return 401, { ["WWW-Authenticate"] = self.challenge }, "401: a name and a password are needed\n"
end

local function check_users(users)
  for name, password in pairs(users) do
    if type(name) ~= "string" or name:find ":" or type(password) ~= "string" or password == "" then
      raise(("basic_auth: names without colons, and passwords, expected, as in { ann = \"secret\" }; got the name %s")
        :format(check.describe(name)))
    end
  end
end

---Makes a function for http.serve that calls another one if the client sends a name and a password that are right;
---`req.user` is then the name. Others get status 401, for which browsers ask the user.
---@param f fun(req: runnel.http.Request): integer, table?, any
---@param users table<string, string>|fun(name: string, password: string, req: runnel.http.Request): any the passwords
---by name; or a function that says whether they are right, and may park
---@param opts? { realm?: string } `realm`: what browsers call the place; default "restricted"
---@return fun(req: runnel.http.Request): integer, table?, any
function auth.basic_auth(f, users, opts)
  check.callable(f, "basic_auth: f")
  check.options(opts, OPTIONS, "basic_auth")
  local realm = opts and opts.realm or "restricted"
  if type(realm) ~= "string" or realm:find '[^ !#-[%]^-~]' then
    raise("basic_auth: realm: a string of ASCII characters without quotes and backslashes expected, got "
      .. check.describe(realm))
  end
  local is_function = check.is_callable(users) and not core.is_chan(users)
  if not is_function then
    check.table(users, "basic_auth: users")
    check_users(users)
  end
  local self = { f = f, is_user = is_function and users or checker(users),
    challenge = ('Basic realm="%s", charset="UTF-8"'):format(realm) }
  return function(req) return handle(self, req) end
end

return auth
