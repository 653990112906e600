-- The programs and files of examples/cluster. `make demo-cluster` has demo_spec.lua.

local background = require "spec.support.background"
local nats_server = require "spec.support.queue.nats_server"
local shell = require "spec.support.shell"

local nats, missing = nats_server.library()
if not nats then
  describe("examples/cluster", function() pending(missing) end)
  return
end

local LUA = os.getenv "LUA" or "lua5.4"
local FOLDER = "examples/cluster/"

local function contents(name)
  local file <close> = assert(io.open(FOLDER .. name))
  return file:read "a"
end

describe("examples/cluster", function()
  local server
  before_each(function() server = nats_server.start() end)
  after_each(function() server:close() end)

  -- A worker runs: stops it by SIGTERM, and returns what it has said.
  local function stop(worker)
    worker:signal "TERM"
    assert.equal(0, worker:wait(), worker:output())
    return worker:output()
  end

  local function start_worker(...)
    return server.set:start { "env", "RUNNEL_NATS_URL=" .. server.url, LUA, FOLDER .. "worker.lua", ... }
  end

  it("has the same results here, in two threads and in four processes", function()
    local set = server.set
    for i = 1, 60 do set:write(("file %d"):format(i), ("line %d\n"):format(i):rep(i * 20)) end
    local function run(...)
      local words = { ... }
      for i, word in ipairs(words) do words[i] = ("'%s'"):format(word) end
      local command = ("ls %s/file* %s/missing 2>/dev/null; echo %s/missing"):format(set.dir, set.dir, set.dir)
      return shell.run(("{ %s; } | RUNNEL_NATS_URL=%s %s %sanywhere.lua %s"):format(command, server.url, LUA, FOLDER,
        table.concat(words, " ")))
    end
    local here = run "here"
    assert.equal(61, select(2, here:gsub("\n", "")))
    assert.matches("%x+ 1200 [^\n]*/file 60\n", here)
    assert.matches("unreadable 0 [^\n]*/missing\n$", here)
    assert.equal(here, run "threads")

    -- A worker that the system halts for ack_wait would lose its jobs to another one: with 500 ms, on a busy machine.
    local conn <close> = assert(nats.connect(server.url))
    conn:serve("checksum", 1, print, { ack_wait = 60000, drain_on_term = false }):stop()
    local workers = {}
    for i = 1, 4 do workers[i] = start_worker("checksum", "2") end
    for _, worker in ipairs(workers) do assert.is_true(worker:says("ready"), worker:output()) end
    assert.equal(here, run "machines")
    local done = 0
    for _, worker in ipairs(workers) do done = done + tonumber(stop(worker):match "(%d+) jobs done, 0 failed") end
    assert.equal(61, done)
  end)

  it("ends with status 1 if an error has ended the results, and says what a wrong command line lacks #ci", function()
    local out, err, status = shell.run(("echo x | RUNNEL_NATS_URL=nats://127.0.0.1:1 %s %sanywhere.lua machines")
      :format(LUA, FOLDER))
    assert.equal(1, status, out .. err)
    server.set:write("checksum.lua", 'return function(path) error("cannot read " .. path, 0) end\n')
    server.set:write("worker.lua", contents "worker.lua")
    local worker = server.set:start { "env", "RUNNEL_NATS_URL=" .. server.url, LUA, server.set.dir .. "/worker.lua",
      "checksum", "1" }
    out, err, status = shell.run(("echo x | RUNNEL_NATS_URL=%s %s %sanywhere.lua machines"):format(server.url, LUA,
      FOLDER))
    assert.equal(1, status, out .. err)
    assert.matches("cannot read x", err)
    stop(worker)
    local wrong = start_worker("checksum")
    assert.equal(2, wrong:wait())
    assert.matches("usage: worker.lua NAME N %[REPLICAS%]; RUNNEL_NATS_URL", wrong:output())
  end)

  it("has a compose file and a systemd unit whose workers run", function()
    local compose, unit = contents "compose.yaml", contents "worker@.service"
    local servers = compose:match 'environment: { RUNNEL_NATS_URL: "([^"]*)" }'
    assert.equal("nats://nats1:4222,nats://nats2:4222,nats://nats3:4222", servers)
    assert.equal(servers, unit:match "\nEnvironment=RUNNEL_NATS_URL=([^\n]*)\n")
    local of_compose = compose:match "my%-worker.-command: %[(lua[^%]]*)%]":gsub("[,\"]", "")
    local of_unit = unit:match "\nExecStart=([^\n]*)\n"
    for _, command in ipairs { "exec " .. of_compose, "exec " .. of_unit } do
      local count
      -- This server is alone, and has the programs in another folder.
      command, count = command:gsub("%S*lua5.4 (.*) 3$", function(rest) return LUA .. " " .. rest .. " 1" end)
      assert.equal(1, count)
      local worker = server.set:start {
        "env", "RUNNEL_NATS_URL=" .. server.url, "sh", "-c", ("cd '%s' && %s"):format(FOLDER, command),
      }
      assert.is_true(worker:says("ready"), worker:output())
      assert.matches("0 jobs done, 0 failed\n$", stop(worker))
    end
  end)

  it("has a compose file, a unit and a configuration that Docker, systemd and nats-server accept", function()
    local text, count = contents("nats.conf"):gsub("/store\n", server.set.dir .. "/three\n")
    assert.equal(1, count)
    -- nats-server 2.9, Debian 12's, cannot sync at once.
    if shell.run("nats-server --version"):find "v2%.9%." then
      text, count = text:gsub("\n  sync_interval: always[^\n]*", "")
    end
    assert.equal(1, count)
    local conf = server.set:write("three.conf", text)
    local out, err, status = shell.run("nats-server -t -c " .. conf)
    assert.equal(0, status, out .. err)
    if background.has_command "docker-compose" then
      out, err, status = shell.run("docker-compose --file " .. FOLDER .. "compose.yaml config --quiet")
      assert.equal(0, status, out .. err)
    end
    if not background.has_command "systemd-analyze" then return end
    text = contents("worker@.service"):gsub("/usr/bin/lua5%.4", "/bin/sh") -- which every machine has
    local path = server.set:write("worker@1.service", text)
    out, err, status = shell.run("systemd-analyze verify " .. path)
    assert.equal(0, status, out .. err)
    assert.equal("", out .. err)
  end)
end)
