-- Whether a client can make a proxy in front of http.serve pass on a request that the proxy has not read as one: nginx,
-- HAProxy and Caddy, each if it is installed.
--
--   build/bin/runnel tests/http/http_proxies.lua [SECONDS] [SEED]     for random requests; see http_changes.lua
--
-- Each proxy adds a header to a request, with a number, the method, the target and the host that it has read. It keeps
-- its connection to the server for further requests. It gets the requests of spec/http/vectors.lua, then random changes
-- of them, and a plain request behind each one. It is a failure if the function of http.serve gets a request without
-- that header, or one that the header describes otherwise, or one of these twice; or if a plain request gets another
-- answer than its own.

local http = require "runnel.http"
local rn = require "runnel"
local uv = require "runnel.uv"

local background = require "spec.support.background"
local changes = dofile "tests/http/http_changes.lua"
local free_port = require "spec.support.free_port"
local patience = require "spec.support.patience"
local service = require "spec.support.http.service"

local PATIENCE <const> = 300 -- ms without an answer after which a request counts as incomplete

-- In `config` and `command`, $PORT is the port of the proxy, $SERVER that of http.serve, and $FOLDER a folder.
local PROXIES <const> = {
  {
    name = "nginx", version = { "nginx", "-v" },
    command = { "nginx", "-p", "$FOLDER", "-c", "$FOLDER/nginx", "-e", "$FOLDER/nginx.log" },
    config = [[
daemon off;
master_process off;
pid $FOLDER/nginx.pid;
events { }
http {
  access_log off;
  client_body_temp_path $FOLDER/body;
  proxy_temp_path $FOLDER/proxy;
  fastcgi_temp_path $FOLDER/fastcgi;
  uwsgi_temp_path $FOLDER/uwsgi;
  scgi_temp_path $FOLDER/scgi;
  ignore_invalid_headers off;
  underscores_in_headers on;
  upstream here { server 127.0.0.1:$SERVER max_fails=0; keepalive 1; }
  server {
    listen 127.0.0.1:$PORT;
    location / {
      proxy_pass http://here;
      proxy_http_version 1.1;
      proxy_request_buffering off;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Read "$request_id $request_method <$http_host> $request_uri";
    }
  }
}
]],
  },
  {
    name = "HAProxy", version = { "haproxy", "-v" },
    command = { "haproxy", "-q", "-f", "$FOLDER/HAProxy" },
    config = [[
defaults
  mode http
  timeout connect 5s
  timeout client 10s
  timeout server 10s
  option http-keep-alive
  http-reuse always
listen here
  bind 127.0.0.1:$PORT
  http-request set-header X-Forwarded-For %[src]
  http-request set-header X-Read "%[uuid()] %[method] <%[req.hdr(host)]> %[url]"
  server here 127.0.0.1:$SERVER
]],
  },
  {
    name = "Caddy", version = { "caddy", "version" },
    command = { "env", "HOME=$FOLDER", "caddy", "run", "--config", "$FOLDER/Caddy", "--adapter", "caddyfile" },
    config = [[
{
  admin off
  auto_https off
}
http://:$PORT {
  bind 127.0.0.1
  reverse_proxy 127.0.0.1:$SERVER {
    header_up X-Read "{http.request.uuid} {http.request.method} <{http.request.hostport}> {http.request.uri}"
  }
}
]],
  },
}

local set <close> = background.set()

-- Starts a proxy in front of the server, and waits until it listens.
local function start(proxy, server)
  local port = free_port()
  local values = { PORT = port, SERVER = server.port, FOLDER = set.dir }
  local function fill(text) return (text:gsub("%$(%u+)", values)) end
  set:write(proxy.name, fill(proxy.config))
  local command = {}
  for i, word in ipairs(proxy.command) do command[i] = fill(word) end
  local program = set:start(command)
  local conn <close> = patience.wait_until(function() return uv.connect("127.0.0.1", port) end)
  assert(conn, proxy.name .. " does not listen: " .. program:output())
  return port
end

-- Sends bytes on a connection of their own, and waits until they are answered.
local function send(port, bytes)
  local conn <close> = assert(uv.connect("127.0.0.1", port))
  local pieces = conn:read()
  rn.go(function()
    conn:write(bytes)
    conn:write "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
  end)
  repeat
    local piece, from = rn.alts { pieces, rn.timeout(PATIENCE) }
  until not piece or from ~= pieces
end

-- Returns how many failures there are.
local function try(proxy)
  local failures, reached, seen, bytes = 0, 0, {}, nil
  local function fail(...)
    failures = failures + 1
    print((("%s: %s, sent %q"):format(proxy.name, string.format(...), bytes):gsub("\\\n", "\\n")))
  end

  local function judge(req)
    local mark = req.headers["x-read"]
    local id, method, host, target = (mark or ""):match "^(%S+) (%S+) <(.*)> (.*)$"
    reached = reached + 1
    if not mark then return fail("it has not read %s %s", req.method, req.target) end
    target = target or ""
    -- nginx writes a URL without a path, and one with a fragment, otherwise than it passes them on.
    local passed = target:gsub("#.*", ""):gsub("^%?$", "")
    if not passed:find "^/" then passed = "/" .. passed end
    -- If there is no host, Caddy sends one of its own; it drops brackets, and encodes letters that are not ASCII.
    -- HAProxy ignores the port that is the default.
    local function plain(name) return (name:gsub(":%d*$", { [":"] = "", [":80"] = "", [":443"] = "" })) end
    local has_host = host == "" or (host or ""):find "[\128-\255%[]"
      or plain(host or "") == plain(req.headers.host or "")
    local is_same = id and req.method == method and has_host and (req.target == target or req.target == passed)
    if not is_same then fail("it has read %s, and not %s <%s> %s", mark, req.method, req.headers.host, req.target) end
    if seen[id or ""] then fail("a second request with the mark %s: %s %s", mark, req.method, req.target) end
    seen[id or ""] = true
    local client = req.headers["x-forwarded-for"]
    if client ~= "127.0.0.1" then fail("X-Forwarded-For: %s", client) end
  end

  local server <close> = assert(http.serve(0, service.around(function(req)
    judge(req)
    local body = req:body()
    return 200, nil, req.path:find "^/plain/" and req.path or body
  end), { max_requests = 1000000 }))
  local port = start(proxy, server)
  local count = 0
  local function try_one()
    count = count + 1
    send(port, bytes)
    local path = "/plain/" .. count
    local res, err = http.get(("http://127.0.0.1:%d%s"):format(port, path), { forbid_reuse = true, timeout = 10000 })
    if not (res and res.status == 200 and res.body == path) then
      fail("%s is answered with %s: %s", path, res and res.status or err, res and res.body or "")
    end
  end

  for _, vector in ipairs(changes.vectors) do
    bytes = vector
    try_one()
  end
  local deadline = rn.now() + changes.seconds * 1000
  while rn.now() < deadline do
    bytes = changes.random()
    try_one()
  end
  print(("%s: %d vectors, %d random requests; %d requests have reached the server; %d failures"):format(proxy.name,
    #changes.vectors, count - #changes.vectors, reached - count, failures))
  assert(reached > 1.05 * count, "hardly any request has reached the server")
  return failures
end

rn.on_error(function() end) -- bodies that are cut
local running = {}
for _, proxy in ipairs(PROXIES) do
  local found = uv.run { stderr = "stdout", table.unpack(proxy.version) }
  if found then
    print((found.stdout:match "[^\n]*"))
    running[#running + 1] = rn.go(try, proxy)
  else
    print("without " .. proxy.name .. ", which is not installed")
  end
end
local failures = 0
for _, one in ipairs(running) do failures = failures + assert(one:take()) end
os.exit(failures == 0 and #running > 0, true)
