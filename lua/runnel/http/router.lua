---http.router: calls a function by the method and the path of a request.

local check = require "runnel.internal.check"
local contexts = require "runnel.internal.trace_context"
local decode = require("runnel.http.request").decode
local sign = require "runnel.internal.sign"
local raise = require("runnel.core").internal.raise

---@class runnel.http.router
local router = {}

-- ---- the tree of the routes ----

-- A node is a segment of the paths. `below`: the nodes of the next segment, by their text, or false for a :name.
-- `methods`: the routes that end here; `rest`: those that end with a *name; both by method, "" for all methods.
local function new_node() return { below = {} } end

-- Adds a route; returns a message if it is wrong.
local function add(root, pattern, f)
  local method, space, path = tostring(pattern):match "^(%u*)( ?)(/[^%s?#]*)$"
  if not path or (method ~= "") ~= (space ~= "") then return "a key as in \"GET /users/:id\" or \"/users\" expected" end
  local node, names, place = root, {}, "methods"
  for kind, name in path:gmatch "/([:*]?)([^/]*)" do
    if place == "rest" then return "nothing can follow *" .. names[#names] end
    if name:find "[{}<>]" then
      local word = name:match "[{<]([^}>]*)" or ""
      return ("%q is text, not a part with a name: write :%s"):format(name, word:match "([%a_][%w_]*)%W*$" or "name")
    end
    if kind ~= "" then
      if not name:find "^[%a_][%w_]*$" then return ("a name expected after %q, got %q"):format(kind, name) end
      if names[name] then return "two parts have the name " .. name end
      names[#names + 1], names[name] = name, true
    end
    local key = kind == "" and name
    place = kind == "*" and "rest" or place
    if place ~= "rest" then
      node.below[key] = node.below[key] or new_node()
      node = node.below[key]
    end
  end
  node[place] = node[place] or {}
  local same = node[place][method]
  if same then return "a route for the same requests is there: " .. same.pattern end
  node[place][method] = { f = f, names = names, pattern = pattern }
end

-- ---- finding the route of a request ----

-- The route for a method. Adds all methods that have a route to `seen`.
local function choose(routes, method, seen)
  for name in pairs(routes) do seen[name] = true end
  return routes[method] or method == "HEAD" and routes.GET or routes[""]
end

-- The route for the segments of a path from number i on, and the number of the first segment of its rest. Puts the
-- values of its names into `values`. Visits each node at most once.
local function find(node, segments, i, method, values, seen)
  local segment, route, rest = segments[i], nil, nil
  if not segment then return node.methods and choose(node.methods, method, seen) end
  local literal, any = node.below[decode(segment)], segment ~= "" and node.below[false]
  if literal then route, rest = find(literal, segments, i + 1, method, values, seen) end
  if not route and any then
    values[#values + 1] = decode(segment)
    route, rest = find(any, segments, i + 1, method, values, seen)
    if not route then values[#values] = nil end
  end
  if route or not node.rest then return route, rest end
  return choose(node.rest, method, seen), i
end

-- The response where there is no route.
local function refuse(method, seen)
  if not next(seen) then return 404, nil, "there is no such page\n" end
  seen.OPTIONS, seen.HEAD = true, seen.HEAD or seen.GET
  local list = {}
  for name in pairs(seen) do list[#list + 1] = name end
  table.sort(list)
  local headers = { Allow = table.concat(list, ", ") }
  if method == "OPTIONS" then return 204, headers end
  return 405, headers, "this page does not support this method\n"
end

-- The operation of the request gets the name of the route: there are fewer of these than of paths.
local function name_operation(req, route)
  local operation, path = contexts.current(), route.pattern:match "/.*"
  if not operation or operation.kind ~= "server" then return end
  operation.name = req.method .. " " .. path
  operation.attributes["http.route"] = path
end

local function route_request(root, req)
  local path = req.rest and "/" .. req.rest -- in a router within a router
    or (req.target or req.path):gsub("^%a[%w+.-]*://[^/?#]*", ""):match "^[^?#]*"
  local segments, values, seen = {}, {}, {}
  for segment in (path == "" and "/" or path):gmatch "/([^/]*)" do segments[#segments + 1] = segment end
  local route, rest = find(root, segments, 1, req.method, values, seen)
  if not route then return refuse(req.method, seen) end
  if contexts.on and not req.rest then name_operation(req, route) end
  req.rest = rest and table.concat(segments, "/", rest)
  values[#values + 1] = rest and decode(req.rest)
  req.params = req.params or {}
  for i, name in ipairs(route.names) do req.params[name] = values[i] end
  return route.f(req)
end

---Makes a function for http.serve that chooses another one by the method and the path of a request. For each segment of
---the path, text comes before :name, and :name before *name. If no route has the path, the client gets 404; if none of
---those has the method, 405, or 204 for OPTIONS, with a header Allow. A route for GET answers HEAD, too.
---@param routes table<string, fun(req: runnel.http.Request): integer, table?, any> by method and path, as in "GET
---/users/:id", or by path. `:name` stands for a segment that is not empty, `*name` for the rest, which may be empty;
---req.params has their values
---@return fun(req: runnel.http.Request): integer, table?, any
function router.router(routes)
  sign.dot(routes, "http", "router")
  check.table(routes, "router")
  if not next(routes) then
    raise("router: the table has no routes; a key with the value nil is none: write the functions above the table")
  end
  local root = new_node()
  for pattern, f in pairs(routes) do
    local what = "router: " .. tostring(pattern)
    check.callable(f, what)
    local problem = add(root, pattern, f)
    if problem then raise(what .. ": " .. problem) end
  end
  return function(req) return route_request(root, req) end
end

return router
