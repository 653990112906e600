-- The programs of make bench-programs in runnel: main.lua NAME ARGUMENT... Each prints what the other languages' do.

local rn = require "runnel"

local programs = {}

-- bench/programs.lua runs examples/recipes/toplog.lua for `logs`.

-- Runs `n` commands, 8 at a time.
function programs.commands(n)
  local uv = require "runnel.uv"
  local list = {}
  for i = 1, tonumber(n) do list[i] = i end
  local ok = 0
  local function run() return assert(uv.run { "true", stdout = false, stderr = false }).code end
  for code in rn.pmap_unordered(8, run, list) do ok = ok + (code == 0 and 1 or 0) end
  print(ok)
end

-- Passes on what clients send to a server, and back.
function programs.proxy(port)
  local uv = require "runnel.uv"
  local conns, ours = assert(uv.listen("127.0.0.1", 0))
  print("port " .. ours)
  io.stdout:flush()
  local function copy(from, to)
    for piece in from:read() do
      if not to:write(piece) then break end
    end
    to:shutdown()
  end
  for client in conns do
    rn.go(function()
      local _ <close> = client
      local server <close> = assert(uv.connect("127.0.0.1", tonumber(port)))
      local back = rn.go(copy, server, client)
      copy(client, server)
      back:take()
    end)
  end
end

-- Sums a field of JSON lines, in threads.
function programs.json(path)
  local uv = require "runnel.uv"
  local pool <close> = rn.threads(rn.cores(), function(piece)
    local decode, sum, n = require("runnel.json").decode, 0, 0
    for line in require("runnel").each_line(piece) do
      sum, n = sum + decode(line).value, n + 1
    end
    return { sum = sum, n = n }
  end)
  local sum, n = 0, 0
  for part in rn.pmap_unordered(2 * rn.cores(), pool, uv.lines(path, { pieces = 65536 })) do
    sum, n = sum + part.sum, n + part.n
  end
  print(("%d %.0f"):format(n, sum))
end

-- Stores a file of comma-separated values in SQLite, and prints sums.
function programs.csv(path)
  local csv, uv = require "runnel.csv", require "runnel.uv"
  local db <close> = require("runnel.sqlite").open ":memory:"
  db:exec "create table sale(id integer, name text, amount integer, city text)"
  db:exec("insert into sale values (?, ?, ?, ?)", { rows = csv.rows(uv.read(path)) })
  for row in db:query "select city, count(*) as n, sum(amount) as s from sale group by city order by city" do
    print(row.city, row.n, row.s)
  end
end

-- Sends 10 messages to each of n actors, which answer with their sum.
function programs.actors(n)
  n = tonumber(n)
  local inboxes, total = {}, rn.chan(100)
  for i = 1, n do
    local inbox = rn.chan()
    inboxes[i] = inbox
    rn.go(function()
      local sum = 0
      for _ = 1, 10 do sum = sum + inbox:take() end
      total:put(sum)
    end)
  end
  rn.go(function()
    for message = 1, 10 do
      for i = 1, n do inboxes[i]:put(message) end
    end
  end)
  local sum = 0
  for _ = 1, n do sum = sum + total:take() end
  print(sum)
end

-- n jobs, 100 at a time, with a time limit; every tenth one fails at first.
function programs.retries(n)
  local failed, list = {}, {}
  for i = 1, tonumber(n) do list[i] = i end
  local function job(i)
    rn.yield()
    if i % 10 == 0 and not failed[i] then
      failed[i] = true
      error("try again", 0)
    end
    return i
  end
  local sum = 0
  for v in rn.pmap_unordered(100, job, list, { timeout = 60000, tries = 3, backoff = 1 }) do sum = sum + v end
  print(sum)
end

-- n GETs, 64 at a time.
function programs.requests(n, url)
  local http = require "runnel.http"
  local urls, bytes = {}, 0
  for i = 1, tonumber(n) do urls[i] = url end
  for page in rn.pmap_unordered(64, http.get, urls) do bytes = bytes + #page.body end
  print(bytes)
end

-- n timers, of which nine in ten are stopped before they fire: prints the sum of the numbers of the others.
function programs.timers(n)
  local timers, sum = {}, 0
  local function add(i) sum = sum + i end
  for i = 1, tonumber(n) do timers[i] = rn.after(2000 + i * 7919 % 1000, add, i) end
  for i = 1, #timers do
    if i % 10 ~= 0 then timers[i]:stop() end
  end
  rn.run()
  print(sum)
end

-- Serves a short page, until SIGTERM ends it.
function programs.hello()
  local http = require "runnel.http"
  local server = assert(http.serve(0, function() return 200, nil, "hello" end))
  print("port " .. server.port)
  io.stdout:flush()
  rn.run()
end

local dir = arg[0]:match "^(.*/)"
for _, name in ipairs { "streams", "servers" } do
  for program, f in pairs(dofile(dir .. name .. ".lua")) do programs[program] = f end
end

programs[arg[1]](table.unpack(arg, 2))
os.exit(true, false)
