-- Remote stages when workers are drained and programs end.
local rn = require "runnel"
local long = require "spec.support.long"
local patience = require "spec.support.patience"
local remote_workers = require "spec.support.queue.remote_workers"
local stage = require "spec.support.stage"

local _, nats = pcall(require, "runnel.nats")
local each_test = remote_workers.each_test
local start_workers = remote_workers.start_workers
local jobs_left = remote_workers.jobs_left
local range = remote_workers.range
local LUA = os.getenv "LUA" or "lua5.4"

-- The ack_wait of workers where each job must start once, in ms: a worker whose threads have to wait longer for a busy
-- machine gets a job again.
local PATIENT <const> = math.ceil(2000 * patience.factor())

describe("remote jobs", function()
  if remote_workers.missing then return pending(remote_workers.missing) end

  -- Six jobs for gated workers, of which three at a time run in each of two programs. Sends SIGTERM to the first one,
  -- and lets no job end before the second one, which is started after that, has begun the others.
  local function drain_and_take_over(server, conn, first)
    local gate, jobs = server.set.dir .. "/gate", {}
    for i = 1, 6 do jobs[i] = { i, gate } end
    local results = rn.pmap(6, conn:remote "gated", jobs)
    local function has_begun_three(program)
      assert(patience.wait_until(function()
        return select(2, program:output():gsub("begins", "")) == 3
      end), program:output())
    end
    has_begun_three(first)
    first:signal "TERM"
    local second = start_workers(server, 1, "gated", 3, PATIENT)[1]
    has_begun_three(second)
    server.set:write("gate", "")
    assert.same(range(6), stage.drain(results))
    assert.equal(0, first:wait(), first:output())
    local _, begun = (first:output() .. second:output()):gsub("begins", "")
    assert.equal(6, begun)
  end

  it("go on after SIGTERM has drained their worker: each ran once", each_test(function(server, conn)
    local first = start_workers(server, 1, "gated", 3, PATIENT)[1]
    drain_and_take_over(server, conn, first)
    assert.matches("ended: 3 done, 0 failed", first:output())
  end))

  it("go on after SIGTERM has drained the workers of all threads of a program: each ran once", each_test(
    function(server, conn)
      server.set:write("threads.lua", [[
        local rn = require "runnel"
        package.path = arg[2] .. "/?.lua;" .. package.path
        local threads = {}
        for i = 1, 3 do
          threads[i] = rn.thread(function(url, path, ack_wait)
            package.path = path
            local conn <close> = assert(require("runnel.nats").connect(url, { reconnect_wait = 50 }))
            local worker = conn:serve("gated", 1, "gated", { ack_wait = ack_wait })
            io.write "serves\n" -- at once, as print does not
            io.stdout:flush()
            worker:wait()
            return worker:stats().done
          end, arg[1], package.path, math.tointeger(arg[3]))
        end
        local done = 0
        for i = 1, 3 do done = done + assert(threads[i]:take()) end
        print("ended: " .. done)
      ]])
      local program = server.set:start { LUA, server.set.dir .. "/threads.lua", server.url, server.set.dir,
        PATIENT }
      assert(program:says("serves\nserves\nserves"), program:output())
      drain_and_take_over(server, conn, program)
      assert.matches("ended: 3\n$", program:output())
    end))

  it("end before conn:drain closes their worker's connection", each_test(function(server, conn)
    local other = assert(nats.connect(server.url))
    local ran, gate = 0, rn.chan()
    local worker = other:serve("here", 2, function(v)
      gate:take()
      ran = ran + 1
      return v
    end, { drain_on_term = false, ack_wait = 2000 })
    local results = rn.pmap(4, conn:remote "here", { 1, 2, 3, 4 })
    while worker:stats().running < 2 do rn.sleep(5) end
    local draining = rn.go(other.drain, other)
    rn.yield()
    gate:close()
    assert.is_true(draining:take())
    worker:wait()
    assert.equal(2, ran)
    local last <close> = assert(nats.connect(server.url))
    last:serve("here", 4, function(v) return -v end, { drain_on_term = false })
    local all = stage.drain(results)
    table.sort(all, function(a, b) return math.abs(a) < math.abs(b) end)
    assert.same({ 1, 2, -3, -4 }, all)
  end))

  it("that a worker's function submits end before its worker has drained", each_test(function(server, conn)
    start_workers(server, 1, "slow", 4)
    local other = assert(nats.connect(server.url))
    local slow = other:remote "slow"
    local worker = other:serve("outer", 2, function(v) return -slow(v) end, { drain_on_term = false, ack_wait = 2000 })
    local results = rn.pmap(2, conn:remote "outer", { 400, 401 })
    while worker:stats().running < 2 do rn.sleep(5) end
    assert.is_true(other:drain())
    assert.same({ -400, -401 }, stage.drain(results))
    assert.equal(2, worker:stats().done)
  end))

  it("of a submitter that is killed do not stay in the stream", each_test(function(server, conn)
    server.set:write("submitter.lua", [[
      local rn = require "runnel"
      local conn = assert(require("runnel.nats").connect(arg[1]))
      local i = 0
      rn.pmap(20, conn:remote "slow", function() i = i + 1 return 300 end)
      print "submits"
      io.stdout:flush()
      rn.sleep(100000)
    ]])
    local submitter = server.set:start { LUA, server.set.dir .. "/submitter.lua", server.url }
    assert(submitter:says "submits", submitter:output())
    assert.is_true(patience.wait_until(function() return jobs_left(conn, "slow") > 0 end))
    submitter:signal "KILL"
    submitter:wait()
    assert.is_true(jobs_left(conn, "slow") > 0)
    start_workers(server, 2, "slow", 5)
    assert.equal(0, patience.wait_until(function() return jobs_left(conn, "slow") == 0 and 0 end))
  end))

  it("do not keep a program from ending at any moment #ci", each_test(function(server, conn)
    start_workers(server, 1, "square", 5)
    server.set:write("submitter.lua", [[
      local rn = require "runnel"
      rn.go(function()
        rn.sleep(tonumber(arg[2]))
        print "exits"
        os.exit(true, arg[3] == "close")
      end)
      local conn = assert(require("runnel.nats").connect(arg[1]))
      local i = 0
      for _ in rn.pmap(20, conn:remote "square", function()
        i = i + 10
        return i
      end) do end
    ]])
    for i = 0, long.times(7, 60) do
      local how = i % 2 == 0 and "close" or "at once"
      local program = server.set:start { LUA, server.set.dir .. "/submitter.lua", server.url, i * 5, how }
      assert.equal(0, program:wait(), program:output())
      assert.equal("exits\n", program:output())
    end
    assert.equal(0, patience.wait_until(function() return jobs_left(conn, "square") == 0 and 0 end))
  end))
end)
