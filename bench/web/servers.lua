-- Compares servers: files of http.files, and a string, with Go's net/http and nginx. CPU time of the server's process
-- for each request, and how long responses take at half of the highest load.
--
--     lua5.4 bench/web/servers.lua [--quick]     from the repository's root, after make; Linux
--
-- build/web/load (bench/web/load.c) sends the requests, over 64 connections that stay open. In each round every server
-- has its turn; the tables show medians. GO is the go command; its server runs as it is, and with GOMAXPROCS=1.
-- On a busy machine the times mean something only if its other programs wait: chrt -f 10 lua5.4 bench/web/servers.lua,
-- as root.

package.path = "bench/?.lua;" .. package.path
local markdown = require "markdown"
local rn = require "runnel"
local uv = require "runnel.uv"
local luv = require "luv"

local LUA, GO = os.getenv "LUA" or "lua5.4", os.getenv "GO" or "go"
local quick = arg[1] == "--quick"
local ROUNDS, SECONDS = quick and 1 or 7, quick and 0.3 or 1
local CONNECTIONS <const> = 64
local WWW, FOLDER = "build/web/www", luv.cwd() .. "/build/web"

local FILES = { { "1k", 1000 }, { "100k", 100000 } }
local WORKLOADS = {
  { name = "file of 1 KB", path = "/files/1k" }, { name = "file of 100 KB", path = "/files/100k" },
  { name = "string of 100 KB", path = "/string", no_nginx = true },
  { name = "file of 1 KB, TLS", path = "/files/1k", tls = true },
  { name = "file of 100 KB, TLS", path = "/files/100k", tls = true },
}

local function has(command) return os.execute(("{ %s; } >/dev/null 2>&1"):format(command)) == true end

local function prepare()
  os.execute("mkdir -p " .. WWW)
  for _, file in ipairs(FILES) do
    local to <close> = assert(io.open(WWW .. "/" .. file[1], "wb"))
    to:write(("x"):rep(file[2]))
  end
  os.execute(("cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
    .. "-subj /CN=localhost -keyout key -out cert 2>/dev/null"):format(FOLDER))
end

local NGINX = [[
daemon off; master_process off; pid %s/nginx.pid; error_log stderr;
events { worker_connections 256; }
http { access_log off; sendfile on; keepalive_requests 1000000000;
  client_body_temp_path %s/nginx; proxy_temp_path %s/nginx; fastcgi_temp_path %s/nginx; uwsgi_temp_path %s/nginx;
  scgi_temp_path %s/nginx;
  server { listen 127.0.0.1:%d %s; location /files/ { alias %s/www/; } } }
]]

-- Each starts a server, with TLS or without; returns the process and its port.
local function start(command, tls)
  if tls then
    command[#command + 1] = FOLDER .. "/cert"
    command[#command + 1] = FOLDER .. "/key"
  end
  command.stdout, command.stderr = "lines", false
  local process = uv.spawn(command)
  return process, assert(process.stdout:take(), "a server has not started")
end

local function start_nginx(tls)
  local conns, port = assert(uv.listen("127.0.0.1", 0))
  conns:close()
  local at = { FOLDER, FOLDER, FOLDER, FOLDER, FOLDER, FOLDER, port,
    tls and ("ssl; ssl_certificate %s/cert; ssl_certificate_key %s/key"):format(FOLDER, FOLDER) or "", FOLDER }
  local file <close> = assert(io.open(FOLDER .. "/nginx.conf", "w"))
  file:write(NGINX:format(table.unpack(at)))
  file:flush()
  local process = uv.spawn { "nginx", "-c", FOLDER .. "/nginx.conf", stderr = false }
  for _ = 1, 100 do
    local conn = uv.connect("127.0.0.1", port)
    if conn then
      conn:close()
      break
    end
    rn.sleep(20)
  end
  return process, tostring(port)
end

local SERVERS = {
  { name = "runnel", start = function(tls) return start({ LUA, "bench/web/files.lua", WWW }, tls) end },
  {
    name = "Go", has = GO .. " build -o build/web/go_files bench/web/go_files/main.go",
    start = function(tls) return start({ "build/web/go_files", WWW }, tls) end,
  },
  {
    name = "Go, GOMAXPROCS=1", has = "test -x build/web/go_files",
    start = function(tls) return start({ "env", "GOMAXPROCS=1", "build/web/go_files", WWW }, tls) end,
  },
  { name = "nginx", has = "command -v nginx", start = start_nginx },
}

-- The CPU time of a process, in µs.
local function cpu_of(pid)
  local all, list = 0, assert(luv.fs_scandir(("/proc/%d/task"):format(pid)))
  for thread in luv.fs_scandir_next, list do
    local file = io.open(("/proc/%d/task/%s/schedstat"):format(pid, thread))
    if file then
      all = all + file:read "n"
      file:close()
    end
  end
  return all / 1000
end

local function median(list)
  table.sort(list)
  return list[#list // 2 + 1]
end

-- Sends requests; returns µs of CPU time for each, requests a second, and three percentiles in µs.
local function load(process, port, workload, rate)
  local before = cpu_of(process.pid)
  local client = uv.spawn { "build/web/load", port, workload.path, tostring(CONNECTIONS), tostring(SECONDS),
    tostring(rate), workload.tls and "tls" or nil }
  local output = table.concat(rn.into({}, client.stdout):take())
  local n, _, p50, p99, p999, seconds = output:match "^(%d+) (%d+) ([%d.]+) ([%d.]+) ([%d.]+) ([%d.]+)"
  if not n then error(workload.name .. ": " .. table.concat(rn.into({}, client.stderr):take()), 0) end
  return (cpu_of(process.pid) - before) / n, n / seconds, { tonumber(p50), tonumber(p99), tonumber(p999) }
end

local function measure(workload, servers)
  local found = {}
  for _, server in ipairs(servers) do
    local process, port = server.start(workload.tls)
    found[server] = { process = process, port = port, cpu = {}, rate = {}, times = { {}, {}, {} } }
  end
  for _ = 1, ROUNDS do
    for _, server in ipairs(servers) do
      local of = found[server]
      local cpu, rate = load(of.process, of.port, workload, 0)
      table.insert(of.cpu, cpu)
      table.insert(of.rate, rate)
      local _, _, times = load(of.process, of.port, workload, rate / 2)
      for i, time in ipairs(times) do table.insert(of.times[i], time) end
    end
  end
  local rows = { { workload.name, "µs of CPU", "ratio", "requests/s", "p50 µs", "p99 µs", "p99.9 µs", "p99.9 / p50" } }
  local first
  for _, server in ipairs(servers) do
    local of = found[server]
    of.process:close()
    local cpu, p50, p99, p999 = median(of.cpu), median(of.times[1]), median(of.times[2]), median(of.times[3])
    first = first or cpu
    rows[#rows + 1] = { server.name, ("%.1f"):format(cpu), ("%.2f"):format(cpu / first),
      ("%.0f"):format(median(of.rate)), ("%.0f"):format(p50), ("%.0f"):format(p99), ("%.0f"):format(p999),
      ("%.1f"):format(p999 / p50) }
  end
  print(markdown(rows) .. "\n")
end

prepare()
local there = {}
for _, server in ipairs(SERVERS) do
  if not server.has or has(server.has) then there[#there + 1] = server
  else print("without " .. server.name .. ", which is not installed") end
end
for _, workload in ipairs(WORKLOADS) do
  local servers = {}
  for _, server in ipairs(there) do
    if server.name ~= "nginx" or not workload.no_nginx then servers[#servers + 1] = server end
  end
  measure(workload, servers)
end
