-- make bench-queues: durable queues beside each other: runnel.store in a file, runnel over NATS, BullMQ over Redis, and
-- pg-boss over PostgreSQL.
--
--     lua5.4 bench/queues.lua [--quick] [store] [nats] [bullmq] [pg-boss]     from the repository's root, after make
--
-- Each does the same: puts messages of 100 bytes, 128 at a time, each of which is stored when its put returns; then
-- calls a function for each message, 128 at a time, and stores its result. One program does this, in bench/queues/, and
-- the server, if there is one, runs on this machine. There are two groups of settings. In the first, what is stored is
-- on the disk. In the second, the system has it, which writes it to the disk a little later: it survives the end of the
-- server, but not a power cut.
--
-- In each round they take turns. The table shows the best of the rounds: the time of a message, and its CPU time in the
-- program and the server together; the ratios are to the first one with the same settings. Before that it says which of
-- them are not installed (scripts/setup queues; BullMQ and pg-boss come from npm).

package.path = "bench/?.lua;" .. package.path
local background = require "spec.support.background"
local free_port = require "spec.support.free_port"
local markdown = require "markdown"
local nats_server = require "spec.support.queue.nats_server"

local LUA = os.getenv "LUA" or "lua5.4"
local MODULES <const>, BULLMQ <const>, PG_BOSS <const> = "build/queues", "bullmq@5.81.5", "pg-boss@10.4.2"
local TICKS <const> = 100 -- a second, in which Linux counts CPU time

local function run(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read "a"
end

-- The path of PostgreSQL's programs, which Debian has outside PATH; nil if it is not installed.
local function postgres_path()
  local path = run "ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1"
  if path ~= "" then return path:gsub("\n", "/") end
  return background.has_command "initdb" and "" or nil
end

-- Why a library of node cannot be used; nil if it can. Installs it if it is not there.
local function missing_module(package)
  if not (background.has_command "node" and background.has_command "npm") then return "node or npm is not installed" end
  local name = package:match "^(.*)@"
  if io.open(("%s/node_modules/%s/package.json"):format(MODULES, name)) then return nil end
  local ok = os.execute(("mkdir -p %s && npm install --silent --no-audit --no-fund --prefix %s %s >&2"):format(MODULES,
    MODULES, package))
  if not ok then return "npm cannot install " .. package end
end

local function node(program) return ("NODE_PATH=%s/node_modules node bench/queues/%s.js"):format(MODULES, program) end

-- ---- the peers; start(set, setting) returns the place for the program, and the server ----

local function start_redis(set, setting)
  local port = free_port()
  local server = set:start { "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", set.dir, "--save", "",
    "--appendonly", "yes", "--appendfsync", setting }
  assert(server:says "Ready to accept connections", server:output())
  return port, server
end

local function start_postgres(set, setting)
  local path, port = postgres_path(), free_port()
  -- It does not run as root.
  local as = run "id -u" == "0\n" and "setpriv --reuid=postgres --regid=postgres --clear-groups " or ""
  local data = set.dir .. "/data"
  assert(os.execute(("chmod 755 %s && mkdir %s"):format(set.dir, data)))
  if as ~= "" then assert(os.execute(("chown postgres %s"):format(data))) end
  assert(os.execute(("cd / && %s%sinitdb -A trust -U postgres -D %s >%s/initdb.log"):format(as, path, data, set.dir)))
  local command = ("cd / && exec %s%spostgres -D %s -k '' -h 127.0.0.1 -p %d -c synchronous_commit=%s"):format(as, path,
    data, port, setting)
  local server = set:start { "sh", "-c", command }
  assert(server:says "is ready to accept connections", server:output())
  return port, server
end

local PEERS <const> = {
  {
    name = "store", title = "runnel.store", setting = "synchronous = %q", disk = "full", system = "normal",
    missing = function() return not pcall(require, "runnel.sqlite") and "libsqlite3 is not installed" or nil end,
    program = LUA .. " bench/queues/runnel.lua",
    start = function(set, setting) return ("%s/work.db %s"):format(set.dir, setting) end,
  },
  {
    name = "nats", title = "runnel over NATS", setting = "sync_interval %s", system = "2m",
    missing = function() return select(2, nats_server.library()) end,
    program = LUA .. " bench/queues/runnel.lua",
    start = function()
      local server = nats_server.start()
      return server.url .. " -", server.program, server
    end,
  },
  {
    name = "bullmq", title = "BullMQ, Redis", setting = "appendfsync %s", disk = "always", system = "everysec",
    missing = function()
      return not background.has_command "redis-server" and "redis-server is not installed" or missing_module(BULLMQ)
    end,
    program = node "bullmq", start = start_redis,
  },
  {
    name = "pg-boss", title = "pg-boss, PostgreSQL", setting = "synchronous_commit = %s", disk = "on", system = "off",
    missing = function()
      return not postgres_path() and "PostgreSQL is not installed" or missing_module(PG_BOSS)
    end,
    program = node "pg_boss", start = start_postgres,
  },
}

-- ---- the command line ----

local quick, asked = false, {}
for _, word in ipairs(arg) do
  local is_known = word == "--quick"
  for _, peer in ipairs(PEERS) do is_known = is_known or peer.name == word end
  if not is_known then
    io.stderr:write "usage: lua5.4 bench/queues.lua [--quick] [store] [nats] [bullmq] [pg-boss]\n"
    os.exit(2)
  end
  if word == "--quick" then quick = true else asked[word] = true end
end
local MESSAGES <const>, ROUNDS <const> = quick and 1000 or 10000, quick and 1 or 3

-- ---- measuring ----

-- The seconds of CPU that a server has used, with its child processes.
local function cpu_of(server)
  if not server then return 0 end
  local ticks, pid = 0, tostring(server.pid)
  for line in run("cat /proc/[0-9]*/stat 2>/dev/null"):gmatch "[^\n]+" do
    local id, rest = line:match "^(%d+) .*%) (.*)$"
    local fields = {}
    for field in rest:gmatch "%S+" do fields[#fields + 1] = field end -- the first one is the third of the line
    if id == pid or fields[2] == pid then
      for i = 12, 15 do ticks = ticks + fields[i] end -- the last two are those of children that have ended
    end
  end
  return ticks / TICKS
end

-- Runs a part of a peer's work: "put" or "work". Returns us of a message, and us of its CPU time.
local function measure(peer, place, server, part)
  local before = cpu_of(server)
  local output = run(("%s %s %s %d"):format(peer.program, place, part, MESSAGES))
  local seconds, cpu = output:match "^([%d.]+)%s([%d.]+)\n$"
  if not seconds then error(("%s: %s has failed"):format(peer.title, part), 0) end
  return seconds / MESSAGES * 1e6, (cpu + cpu_of(server) - before) / MESSAGES * 1e6
end

-- Adds a round's figures to the best ones.
local function add(best, ...)
  for i, value in ipairs { ... } do best[i] = math.min(best[i] or math.huge, value) end
end

local function play(peer, setting, best)
  local set <close> = background.set()
  local place, server, closing = peer.start(set, setting)
  local _ <close> = closing
  run(("%s %s put 0"):format(peer.program, place)) -- makes the tables and streams, which is not measured
  local put, put_cpu = measure(peer, place, server, "put")
  local work, work_cpu = measure(peer, place, server, "work")
  add(best, put, work, put_cpu + work_cpu, put + work)
end

local peers, rows = {}, {}
for _, peer in ipairs(PEERS) do
  if next(asked) == nil or asked[peer.name] then
    local missing = peer.missing()
    if missing then io.stderr:write(("without %s: %s\n"):format(peer.title, missing))
    else peers[#peers + 1] = peer end
  end
end
for _, group in ipairs { "disk", "system" } do
  for _, peer in ipairs(peers) do
    if peer[group] then rows[#rows + 1] = { peer = peer, group = group, best = {} } end
  end
end
for _ = 1, ROUNDS do
  for _, row in ipairs(rows) do play(row.peer, row.peer[row.group], row.best) end
end

-- ---- the table ----

local GROUPS <const> = { disk = "on the disk", system = "in the system" }
local lines, reference = { { "", "what is stored is", "put", "work", "CPU", "ratio of time", "of CPU" } }, {}
for _, row in ipairs(rows) do
  local best, peer = row.best, row.peer
  reference[row.group] = reference[row.group] or best
  local to = reference[row.group]
  lines[#lines + 1] = {
    peer.title, ("%s: %s"):format(GROUPS[row.group], peer.setting:format(peer[row.group])),
    ("%.0f us"):format(best[1]), ("%.0f us"):format(best[2]), ("%.0f us"):format(best[3]),
    ("%.1f"):format(best[4] / to[4]), ("%.1f"):format(best[3] / to[3]),
  }
end
print(markdown(lines))
