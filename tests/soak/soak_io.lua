-- Load on runnel.uv, for some time: an echo server and its clients, some of which reset, fall silent or never read;
-- processes that end by themselves, are killed, do not exist or write too much; files. No byte may be lost, no
-- descriptor and no process may be left, and memory must not grow. Run by tests/runner.c.
--
--   runner tests/soak/soak_io.lua SECONDS SEED

local t = t -- luacheck: globals t
local has_luv, luv = pcall(require, "luv")
if not has_luv then return print "soak_io: skipped: luv is not installed" end
local rn = require "runnel"
local uv = require "runnel.uv"
local load = require "tests.soak.load"

local seconds, seed = ...
seconds, seed = tonumber(seconds), math.tointeger(seed) or os.time()
math.randomseed(seed)
print(("seed %d"):format(seed))

local function descriptors()
  local n, list = 0, luv.fs_scandir "/proc/self/fd"
  while list and luv.fs_scandir_next(list) do n = n + 1 end
  return n
end

local function text(most)
  local piece = string.char(math.random(97, 122)):rep(math.random(20)) .. "\n"
  return piece:rep(math.random(most) // #piece + 1)
end

local function all(ch)
  local parts = {}
  for part in ch do parts[#parts + 1] = part end
  return table.concat(parts)
end

local work = {}

-- ---- sockets ----

-- Runs a server while f(port) runs.
local function with_server(f)
  local conns, port, err = uv.listen("127.0.0.1", 0)
  assert(port, err)
  rn.go(function()
    for conn in conns do
      rn.go(function()
        local closing <close> = conn
        for chunk in closing:read() do
          if not closing:write(chunk) then return end
        end
      end)
    end
  end)
  f(port)
  conns:close()
end

local clients = {}

function clients.honest(port)
  local conn <close> = assert(uv.connect("127.0.0.1", port))
  local sent = text(300000)
  local writing = rn.go(function()
    local at = 1
    while at <= #sent do
      local to = at + math.random(40000)
      assert(conn:write(sent:sub(at, to)))
      at = to + 1
    end
    conn:shutdown()
  end)
  assert(all(conn:read()) == sent, "an echo is not what was sent")
  writing:take()
end

function clients.by_lines(port)
  local conn <close> = assert(uv.connect("127.0.0.1", port))
  local out = conn:writer()
  for i = 1, 50 do
    assert(out:put(i .. "\n"))
    assert(conn:lines():take() == tostring(i), "a line is not what was sent")
  end
end

function clients.deaf(port)
  local conn <close> = assert(uv.connect("127.0.0.1", port))
  local writing = rn.go(function()
    while conn:write(("x"):rep(65536)) do end
  end)
  rn.sleep(math.random(20))
  conn:close()
  writing:take()
end

function clients.rude(port)
  local conn = assert(uv.connect("127.0.0.1", port))
  conn:write(text(100000))
  local handle = conn.handle
  conn.handle = nil
  handle:close_reset()
  rn.sleep(1) -- lets the loop run before anything else can end
end

function clients.forgotten(port) assert(uv.connect("127.0.0.1", port)):write "x" end

function work.echo()
  with_server(function(port)
    local kinds, running = {}, {}
    for kind in pairs(clients) do kinds[#kinds + 1] = kind end
    table.sort(kinds)
    for i = 1, 12 do
      local kind = kinds[math.random(#kinds)]
      running[i] = { kind, rn.go(clients[kind], port) }
    end
    for _, entry in ipairs(running) do
      local _, err = entry[2]:take()
      if err ~= nil then error(entry[1] .. ": " .. tostring(err), 0) end
    end
  end)
end

-- ---- processes ----

function work.cat()
  local sent = text(200000)
  local p = uv.spawn { "cat", stdin = rn.to_chan { sent } }
  assert(all(p.stdout) == sent, "cat has changed what it was sent")
  assert(p.exit:take().code == 0)
end

function work.killed()
  local p <close> = uv.spawn { "sleep", 1000, grace = math.random(0, 20) }
  rn.sleep(math.random(0, 3))
  p:close()
  assert(p.exit:take().signal)
end

function work.no_command()
  local status, err = uv.spawn({ "no-such-command-here" }).exit:take()
  assert(not status and err:find "ENOENT")
end

function work.much()
  local p = uv.spawn { "sh", "-c", "head -c 1000000 /dev/zero >&2; echo end", stdout = "lines" }
  assert(p.stdout:take() == "end")
  assert(p.exit:take().code == 0)
end

-- ---- files ----

function work.files()
  local path, content = os.tmpname(), text(300000)
  assert(uv.write(path, rn.to_chan { content }):take() == #content)
  local n = 0
  for _ in uv.lines(path) do n = n + 1 end
  assert(n == select(2, content:gsub("\n", "")), "lines are missing")
  assert(uv.write("/dev/null", uv.read(path)):take() == #content)
  os.remove(path)
  local _, err = uv.write("/dev/full", rn.to_chan { content }):take()
  assert(err:find "ENOSPC")
end

function work.abandoned()
  uv.read("/dev/zero"):take()
  uv.spawn({ "yes" }).stdout:take()
  local ticks = uv.ticker(1)
  ticks:take()
  ticks:close()
end

-- ---- the load ----

local open -- descriptors after the first round

-- Collects what was abandoned; then nothing may be alive.
local function measure()
  for _ = 1, 6 do
    collectgarbage()
    rn.sleep(1)
  end
  t.limit(60)
  rn.run()
  t.limit(0)
  for _ = 1, 4 do collectgarbage() end
  t.invariants()
  local left = #rn.ps()
  assert(left == 0, ("%d go blocks are left"):format(left))
  local now_open = descriptors()
  open = open or now_open
  assert(now_open <= open, ("%d descriptors are open, there were %d"):format(now_open, open))
  return t.bytes()
end

local round, rounds = load.round(work, 8), 0
local first = load.go_on(seconds, function()
  rn.run(round)
  rounds = rounds + 1
end, measure, 262144, 32768)
print(("%d rounds, %d bytes after a fifth of the time, %d descriptors"):format(rounds, first, open))
