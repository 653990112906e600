-- Compares the client and the server of runnel.http with others: CPU time of the process, time that passes, and memory.
--
--     lua5.4 bench/web.lua [--quick] [WORKLOAD...]     from the repository's root, after make
--
-- All get the same pages from one server (bench/web/server.lua). In each round every client runs once, one after the
-- other. The tables show medians; a ratio is the median of the rounds' ratios to runnel. A client that is not installed
-- is left out. The workload "echo" is WebSocket beside plain sockets (bench/web/echo.lua), "servers" compares servers
-- (bench/web/servers.lua).

package.path = "bench/?.lua;" .. package.path
local markdown = require "markdown"

local LUA = os.getenv "LUA" or "lua5.4"
local AT_ONCE = 64

-- `run` is a format for the URL, the number of requests, and how many at once.
local CLIENTS = {
  { name = "runnel", has = "true", run = LUA .. " bench/web/runnel.lua %s %d %d" },
  {
    name = "Go", has = "command -v go && mkdir -p build/web && go build -o build/web/go bench/web/go/main.go",
    run = "build/web/go %s %d %d",
  },
  { name = "Go, GOMAXPROCS=1", has = "command -v go", run = "GOMAXPROCS=1 build/web/go %s %d %d" },
  { name = "node (fetch)", has = [[node -e 'fetch; process.exit(0)']], run = "node bench/web/node.js %s %d %d" },
  {
    name = "lua-http", has = LUA .. " -e 'require \"http.request\"'", run = LUA .. " bench/web/lua_http.lua %s %d %d",
    streams = false, most = 2000,
  },
  {
    name = "curl --parallel", has = "command -v curl", by_list = true,
    run = "curl -s --parallel --parallel-max %3$d -K build/web/list",
  },
  {
    name = "xargs -P curl", has = "command -v curl", only = 2000, streams = false, rounds = 1, -- it is slow
    run = "yes '%s' | head -n %d | xargs -P %d -n 1 curl -s -o /dev/null",
  },
}

local WORKLOADS = {
  { name = "few", title = "2,000 pages, 64 at a time", path = "hello", n = 2000 },
  { name = "many", title = "20,000 pages, 64 at a time", path = "hello", n = 20000 },
  { name = "slow", title = "1,000 pages that take a second each, at once", path = "slow", n = 1000, at_once = 1000 },
  { name = "large", title = "1 GB as a stream", path = "large", n = 0, at_once = 1 },
}

-- ---- the command line ----

local quick, wanted = false, {}
for _, word in ipairs(arg) do
  if word == "--quick" then quick = true else wanted[word] = true end
end
local ROUNDS = quick and 1 or 7

-- ---- measuring ----

local function median(list)
  table.sort(list)
  return list[#list // 2 + 1]
end

local function write_list(url, n)
  local file <close> = assert(io.open("build/web/list", "w"))
  for _ = 1, math.max(n, 1) do file:write('url = "', url, '"\noutput = "/dev/null"\n') end
end

-- Runs a command; returns the seconds of CPU time of it and its children, and those that have passed; and MB of memory.
local function measure(command)
  local script = ("TIMEFORMAT='%%U %%S %%R'; time { %s; } >build/web/out 2>build/web/errors || echo failed")
    :format(command)
  local file = assert(io.open("build/web/run", "w"))
  file:write(script)
  file:close()
  local pipe = assert(io.popen("bash build/web/run 2>&1"))
  local user, system, real, rest = pipe:read("n", "n", "n", "a")
  pipe:close()
  if rest:find "failed" then error("this has failed (see build/web/errors): " .. command, 0) end
  return { cpu = user + system, real = real }
end

-- The MB that a process has had at most, by a run of its own.
local function memory(command)
  local pipe = assert(io.popen(([[bash -c '%s >/dev/null 2>&1 & pid=$!
    while kill -0 $pid 2>/dev/null; do grep VmHWM /proc/$pid/status 2>/dev/null; sleep 0.02; done']])
    :format(command:gsub("^GOMAXPROCS=1 ", "exec env GOMAXPROCS=1 "):gsub("'", "'\\''"))))
  local most = 0
  for line in pipe:lines() do most = math.max(most, tonumber(line:match "(%d+) kB") or 0) end
  pipe:close()
  return most / 1024
end

os.execute "mkdir -p build/web"
if not next(wanted) or wanted.echo then
  os.execute(LUA .. " bench/web/echo.lua " .. (quick and "2000" or "20000"))
  print()
end
if not next(wanted) or wanted.servers then
  os.execute(LUA .. " bench/web/servers.lua" .. (quick and " --quick" or ""))
end
local is_named = next(wanted)
wanted.echo, wanted.servers = nil, nil
if is_named and not next(wanted) then return end
local server = assert(io.popen("exec " .. LUA .. " bench/web/server.lua > build/web/url", "w"))
local base
repeat
  local file <close> = io.open "build/web/url"
  base = file and file:read "l"
until base and base:find "/$"

local clients = {}
for _, client in ipairs(CLIENTS) do
  if os.execute(("{ %s; } >/dev/null 2>&1"):format(client.has)) then clients[#clients + 1] = client
  else print("without " .. client.name .. ", which is not installed") end
end

for _, workload in ipairs(WORKLOADS) do
  if not next(wanted) or wanted[workload.name] then
    local url, n, at_once = base .. workload.path, workload.n, workload.at_once or AT_ONCE
    write_list(url, n)
    local taking, results = {}, {}
    for _, client in ipairs(clients) do
      local can = n <= (client.most or n) and n == (client.only or n) and (n > 0 or client.streams ~= false)
      if can then taking[#taking + 1] = client end
      results[client] = { cpu = {}, real = {}, ratio = {} }
    end
    for round = 1, n == 0 and 1 or ROUNDS do
      local first
      for _, client in ipairs(taking) do
        if round <= (client.rounds or round) then
          local command = client.by_list and client.run:gsub("%%3$d", at_once) or client.run:format(url, n, at_once)
          local found, list = measure(command), results[client]
          first = first or found.cpu
          table.insert(list.cpu, found.cpu)
          table.insert(list.real, found.real)
          table.insert(list.ratio, found.cpu / first)
          client.command = command
        end
      end
    end
    local rows = { { workload.title, "CPU s", "ratio", "time s", "memory MB" } }
    for _, client in ipairs(taking) do
      local list = results[client]
      rows[#rows + 1] = {
        client.name, ("%.3f"):format(median(list.cpu)), ("%.2f"):format(median(list.ratio)),
        ("%.2f"):format(median(list.real)),
        client.name:find "xargs" and "-" or ("%.0f"):format(memory(client.command)),
      }
    end
    print(markdown(rows) .. "\n")
  end
end
server:close()
