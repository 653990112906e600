---HTTP: requests to servers, and a small server.
---
---    local http = require "runnel.http"
---    local page = assert(http.get "https://example.org/")
---    print(page.status, page.headers["content-type"], #page.body)
---
---The client needs libcurl, WebSocket zlib, the server nothing. Each is loaded when one of its functions is first
---used, so a program that only serves needs no library.

local require = require
local json = require "runnel.json"

-- The module of each function.
local HOMES = {
  get = "client", request = "client", stream = "client", download = "download", cookies = "client", fake = "client", close_idle = "client",
  max_connections = "client",
  basic_auth = "middleware.basic_auth", compress = "middleware.compress", cors = "middleware.cors",
  limit = "middleware.limit", within = "middleware.within",
  cookie = "cookie", events = "events",
  files = "files", log = "log", proxy = "reverse_proxy", router = "router",
  serve = "server", websocket = "websocket",
}

---@class runnel.http: runnel.http.basic_auth, runnel.http.client, runnel.http.compress, runnel.http.cookie,
---runnel.http.cors, runnel.http.download, runnel.http.events, runnel.http.files, runnel.http.limit, runnel.http.log,
---runnel.http.reverse_proxy, runnel.http.router, runnel.http.server, runnel.http.websocket, runnel.http.within
---@field null table null in JSON, where a value is read or sent
---@field array fun(list: table): table makes a table an array in JSON even while it is empty; returns it
local http = { null = json.null, array = json.array }

local function load_late(_, name)
  local home = HOMES[name]
  if not home then return nil end
  http[name] = require("runnel.http." .. home)[name]
  return http[name]
end

-- For `pairs`, which visits every name.
local function load_all()
  for name in pairs(HOMES) do local _ = http[name] end
  return next, http, nil
end

return setmetatable(http, { __index = load_late, __pairs = load_all })
