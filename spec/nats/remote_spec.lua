-- Remote stages over real servers, with workers in processes of their own.
local rn = require "runnel"
local background = require "spec.support.background"
local long = require "spec.support.long"
local nats_server = require "spec.support.nats_server"
local stage = require "spec.support.stage"

local has_nats, nats = pcall(require, "runnel.nats")

local LUA = os.getenv "LUA" or "lua5.4"

-- A worker program: url, name of the stage and of the module, n, the directory of the module, ack_wait.
local WORKER = [[
local nats = require "runnel.nats"
package.path = arg[5] .. "/?.lua;" .. package.path
local conn = assert(nats.connect(arg[1], { reconnect_wait = 50 }))
local worker = conn:serve(arg[2], math.tointeger(arg[4]), arg[3], { ack_wait = tonumber(arg[6]) })
print "serves"
worker:wait()
local stats = worker:stats()
print(("ended: %d done, %d failed"):format(stats.done, stats.failed))
conn:drain()
]]

-- The modules that workers serve. Each works here, in threads, and elsewhere.
local MODULES = {
  square = [[
    local rn = require "runnel"
    return function(v, out)
      rn.sleep(v % 3)
      if v % 10 == 7 then error("no " .. v, 0) end
      if not out then return v * v end
      out:put(v * v)
      out:put(-v)
      out:close()
    end
  ]],
  -- Kills its worker for some values; not at once, so that jobs that have begun with it can end.
  poison = [[
    local rn = require "runnel"
    return function(v)
      if v % 50 == 0 then
        rn.sleep(250)
        os.execute "kill -KILL $PPID"
      end
      rn.sleep(5)
      return v
    end
  ]],
  -- Says on stdout when a job begins and ends.
  slow = [[
    local rn = require "runnel"
    return function(v)
      print("begins " .. v)
      io.stdout:flush()
      rn.sleep(v)
      print("ends " .. v)
      io.stdout:flush()
      return v
    end
  ]],
  -- Says when a job begins, and waits for a file. A job is { number, path of the file }.
  gated = [[
    local rn = require "runnel"
    return function(v)
      io.write("begins ", v[1], "\\n")
      io.stdout:flush()
      repeat
        rn.sleep(20)
        local file <close> = io.open(v[2])
      until file
      return v[1]
    end
  ]],
  -- Computes for so many ms, without letting any other go block run.
  busy = [[
    local rn = require "runnel"
    return function(v)
      print("begins " .. v)
      io.stdout:flush()
      local start = rn.now()
      while rn.now() - start < v do end
      return v
    end
  ]],
  -- How many run at a time, as it sees it; and what process it is.
  peak = [[
    local rn = require "runnel"
    local running = 0
    local file <close> = io.open "/proc/self/stat"
    local pid = file and file:read "n" or 0
    return function(v)
      running = running + 1
      local now = running
      rn.sleep(10)
      running = running - 1
      return { v, now, pid }
    end
  ]],
  large = [[
    return function(v) return ("x"):rep(v) end
  ]],
}

local function each_test(f)
  return function()
    if not nats_server.installed then return pending(nats_server.MISSING) end
    if not has_nats then return pending "runnel.nats has not been built" end
    local server <close> = nats_server.start()
    for name, text in pairs(MODULES) do server.set:write(name .. ".lua", text) end
    server.set:write("worker.lua", WORKER)
    local path = package.path
    package.path = server.set.dir .. "/?.lua;" .. path
    local conn <close> = assert(nats.connect(server.url, { reconnect_wait = 50 }))
    local ok, err = xpcall(f, debug.traceback, server, conn)
    package.path = path
    for name in pairs(MODULES) do package.loaded[name] = nil end
    if not ok then error(err, 0) end
  end
end

local function start_worker(server, name, n, module)
  local command = { LUA, server.set.dir .. "/worker.lua", server.url, name, module or name, n, server.set.dir }
  -- Where a test counts the starts of jobs, the server is patient: threads may have to wait for a busy machine.
  if name == "busy" or name == "slow" or name == "gated" then command[#command + 1] = "2000" end
  return server.set:start(command)
end

local function start_workers(server, k, name, n)
  local list = {}
  for i = 1, k do list[i] = start_worker(server, name, n) end
  for i = 1, k do assert(list[i]:says("serves", 20000), list[i]:output()) end
  return list
end

-- Starts a worker again whenever it has ended, until the result is called.
local function keep_up(server, list, name, n)
  local over = false
  local block = rn.go(function()
    while not over do
      for i = 1, #list do
        if list[i]:status() and not over then list[i] = start_worker(server, name, n) end
      end
      rn.sleep(30)
    end
  end)
  return function()
    over = true
    block:take()
  end
end

-- How many messages the stream of a stage has.
local function jobs_left(conn, name)
  local message = assert(conn:request("$JS.API.STREAM.INFO.runnel-jobs-" .. name, "", 5000))
  return math.tointeger(tonumber(message.data:match '"messages":(%d+)'))
end

local function range(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

describe("a stage", function()
  it("has the same results here, in two threads, and in four processes", each_test(function(server, conn)
    start_workers(server, 4, "square", 4)
    local values = range(200)

    -- The program, of which only `f` changes.
    local function run(f)
      local errors = {}
      local from_pmap = stage.drain(rn.pmap(16, f, values, { ex_handler = function(err, v)
        errors[v] = err
        return "failed"
      end }))
      local from_pipeline = stage.drain(rn.pipeline_async(16, rn.chan(), f, rn.to_chan(values), true, {
        ex_handler = function(err) return { err } end,
      }))
      local unordered = stage.drain(rn.pmap_unordered(16, f, values, { ex_handler = function() end }))
      table.sort(unordered)
      return { from_pmap, from_pipeline, unordered, errors }
    end

    local here = run(require "square")
    assert.equal(200, #here[1])
    assert.equal(380, #here[2])
    assert.same({ "no 7" }, here[2][13])
    local threads <close> = rn.threads(2, "square")
    assert.same(here, run(threads))
    assert.same(here, run(conn:remote("square", { traceback = false })))
  end))

  it("gives its errors with the worker's traceback", each_test(function(server, conn)
    start_workers(server, 1, "square", 1)
    local reports = stage.reports(function()
      local _, err = rn.pmap(1, conn:remote "square", { 7 }):take()
      assert.matches("^no 7\n%[worker [^:]+:%d+%]\nstack traceback:\n.*square.lua", err)
    end)
    assert.equal(0, #reports)
  end))
end)

describe("remote jobs", function()
  local JOBS = long.times(5000, 100000)

  it("come back once and in order, whatever is killed", each_test(function(server, conn)
    local list = start_workers(server, 4, "square", 8)
    local stop = keep_up(server, list, "square", 8)
    local over, kills = false, 0
    local killer = rn.go(function()
      while not over do
        rn.sleep(400)
        local victim = list[math.random(#list)]
        if not over and victim:output():find "serves" then
          victim:signal "KILL"
          kills = kills + 1
          if kills % 6 == 5 then
            server:kill()
            server:start()
          end
        end
      end
    end)
    local job = conn:remote("square", { traceback = false })
    local results = rn.pmap(64, job, range(JOBS), {
      ex_handler = function(err) return err end,
    })
    local n = 0
    for v in results do
      n = n + 1
      assert.equal(n % 10 == 7 and "no " .. n or n * n, v)
    end
    over = true
    killer:take()
    assert.equal(JOBS, n)
    assert.equal(0, background.wait_until(30000, function() return jobs_left(conn, "square") == 0 and 0 end))
    stop()
  end))

  it("that end their worker are given up, and only those", each_test(function(server, conn)
    local list = start_workers(server, 3, "poison", 6)
    local stop = keep_up(server, list, "poison", 6)
    local given_up = {}
    local results = stage.drain(rn.pmap(18, conn:remote("poison", { starts = 3 }), range(120), {
      ex_handler = function(err, v)
        assert.equal("remote poison: the job was given up: its worker fell silent at each of 3 starts", err)
        given_up[#given_up + 1] = v
      end,
    }))
    stop()
    table.sort(given_up)
    assert.same({ 50, 100 }, given_up)
    assert.equal(118, #results)
    for i, v in ipairs(results) do assert.equal(i + (i >= 50 and 1 or 0) + (i >= 99 and 1 or 0), v) end
  end))

  it("run once though Lua computes for longer than the server waits", each_test(function(server, conn)
    local list = start_workers(server, 2, "busy", 1)
    assert.same({ 3000, 10 }, stage.drain(rn.pmap(2, conn:remote "busy", { 3000, 10 })))
    local _, begun = (list[1]:output() .. list[2]:output()):gsub("begins 3000", "")
    assert.equal(1, begun)
  end))

  it("that have waited while Lua computed run on another worker, and there only", each_test(function(server, conn)
    local first = start_workers(server, 1, "busy", 2)[1]
    local results = rn.pmap(2, conn:remote "busy", { 3000, 11 })
    assert(first:says "begins")
    local second = start_workers(server, 1, "busy", 2)[1]
    assert.same({ 3000, 11 }, stage.drain(results))
    rn.sleep(100)
    for _, v in ipairs { 3000, 11 } do
      local _, begun = (first:output() .. second:output()):gsub("begins " .. v .. "\n", "")
      assert.equal(1, begun, "job " .. v)
    end
  end))

  it("are as many as the workers take at a time, and never more", each_test(function(server, conn)
    start_workers(server, 2, "peak", 3)
    local peaks, all = {}, {}
    for result in rn.pmap(12, conn:remote "peak", range(200)) do
      all[#all + 1] = result[1]
      peaks[result[3]] = math.max(peaks[result[3]] or 0, result[2])
    end
    assert.same(range(200), all)
    local workers = 0
    for _, peak in pairs(peaks) do
      workers = workers + 1
      assert.equal(3, peak)
    end
    assert.equal(2, workers)
  end))

  it("of two submitters do not mix", each_test(function(server, conn)
    start_workers(server, 2, "square", 5)
    local other <close> = assert(nats.connect(server.url))
    local function run(c, sign)
      local list = {}
      for i = 1, 300 do list[i] = sign * i * 10 end
      return rn.go(function()
        return stage.drain(rn.pmap(20, c:remote "square", list))
      end)
    end
    local a, b, c = run(conn, 1), run(other, -1), run(conn, 2)
    local squares = {}
    for i = 1, 300 do squares[i] = i * i * 100 end
    assert.same(squares, a:take())
    assert.same(squares, b:take())
    for i = 1, 300 do squares[i] = squares[i] * 4 end
    assert.same(squares, c:take())
  end))

  -- Six jobs for gated workers, of which three at a time run in each of two programs. Sends SIGTERM to the first one,
  -- and lets no job end before the second one, which is started after that, has begun the others.
  local function drain_and_take_over(server, conn, first)
    local gate, jobs = server.set.dir .. "/gate", {}
    for i = 1, 6 do jobs[i] = { i, gate } end
    local results = rn.pmap(6, conn:remote "gated", jobs)
    local function has_begun_three(program)
      assert(background.wait_until(30000, function()
        return select(2, program:output():gsub("begins", "")) == 3
      end), program:output())
    end
    has_begun_three(first)
    first:signal "TERM"
    local second = start_workers(server, 1, "gated", 3)[1]
    has_begun_three(second)
    server.set:write("gate", "")
    assert.same(range(6), stage.drain(results))
    assert.equal(0, first:wait(), first:output())
    local _, begun = (first:output() .. second:output()):gsub("begins", "")
    assert.equal(6, begun)
  end

  it("go on after SIGTERM has drained their worker: each ran once", each_test(function(server, conn)
    local first = start_workers(server, 1, "gated", 3)[1]
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
          threads[i] = rn.thread(function(url, path)
            package.path = path
            local conn <close> = assert(require("runnel.nats").connect(url, { reconnect_wait = 50 }))
            local worker = conn:serve("gated", 1, "gated", { ack_wait = 2000 })
            io.write "serves\n" -- at once, as print does not
            io.stdout:flush()
            worker:wait()
            return worker:stats().done
          end, arg[1], package.path)
        end
        local done = 0
        for i = 1, 3 do done = done + assert(threads[i]:take()) end
        print("ended: " .. done)
      ]])
      local program = server.set:start { LUA, server.set.dir .. "/threads.lua", server.url, server.set.dir }
      assert(program:says("serves\nserves\nserves", 20000), program:output())
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
    assert.is_true(background.wait_until(30000, function() return jobs_left(conn, "slow") > 0 end))
    submitter:signal "KILL"
    submitter:wait()
    assert.is_true(jobs_left(conn, "slow") > 0)
    start_workers(server, 2, "slow", 5)
    assert.equal(0, background.wait_until(30000, function() return jobs_left(conn, "slow") == 0 and 0 end))
  end))

  it("do not keep a program from ending at any moment", each_test(function(server, conn)
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
    assert.equal(0, background.wait_until(30000, function() return jobs_left(conn, "square") == 0 and 0 end))
  end))

  it("that wait for a worker are not taken for ones that the stream will not deliver", each_test(function(_, conn)
    local job = conn:remote "x"
    rn.go(pcall, job, 5)
    background.wait_until(10000, function() return jobs_left(conn, "x") == 1 end)
    local stream = job.stream
    assert.is_false(stream:is_stuck(job:subject(job.jobs["1"]))) -- there is no consumer
    assert.is_false(stream:is_stuck "runnel.jobs.x.nothing")
    job:close()
  end))

  it("wait for a network that stalls", each_test(function(server, conn) -- luacheck: no unused
    if not nats_server.has_proxy then return pending "luv is not installed" end
    start_workers(server, 2, "square", 4)
    local proxy = nats_server.proxy(server)
    local stalled <close> = assert(nats.connect(proxy.url, { reconnect_wait = 50 }))
    local n = 0
    local disturber = rn.go(function()
      rn.sleep(50)
      proxy:stall()
      rn.sleep(1500)
      proxy:flow()
      rn.sleep(100)
      proxy:cut()
    end)
    local values = range(2000)
    for v in rn.pmap(10, stalled:remote("square", { traceback = false }), values, {
      ex_handler = function(err) return err end,
    }) do
      n = n + 1
      assert.equal(n % 10 == 7 and "no " .. n or n * n, v)
    end
    assert.equal(2000, n)
    disturber:take()
  end))
end)

describe("bad input for remote stages", function()
  local function message(f, ...) return select(2, pcall(f, ...)) end

  it("raises at the caller's line", each_test(function(_, conn)
    local function remote(name, opts)
      return message(function() conn:remote(name, opts) end)
    end
    local at = "^%S*remote_spec.lua:%d+: "
    assert.matches(at .. 'remote: name: letters, digits, %- and _ expected %(at most 100%), got "two words"',
      remote "two words")
    assert.matches(at .. "remote: name: letters, .* got nothing", remote())
    assert.matches(at .. "remote: name: letters, .* got a table", remote {})
    assert.matches(at .. 'remote: unknown option "window"', remote("x", { window = 3 }))
    assert.matches(at .. 'remote: encoding: "raw", "msgpack" or "json" expected, got "xml"',
      remote("x", { encoding = "xml" }))
    assert.matches(at .. "remote: starts: an integer of at least 1 expected, got 0", remote("x", { starts = 0 }))
    assert.matches(at .. 'remote: storage: "file" or "memory" expected, got "disk"', remote("x", { storage = "disk" }))
    assert.matches(at .. "remote: max_age: a number of milliseconds", remote("x", { max_age = 0 }))
    assert.matches(at .. "remote: replicas: an integer of at least 1 expected, got 0", remote("x", { replicas = 0 }))
    local function serve(...)
      local args = table.pack(...)
      return message(function() conn:serve(table.unpack(args, 1, args.n)) end)
    end
    assert.matches(at .. "serve: name: letters", serve("a.b", 1, print))
    assert.matches(at .. "serve: n: an integer of at least 1 expected, got 0", serve("x", 0, print))
    assert.matches(at .. "serve: f: a function expected, got nothing", serve("x", 1))
    assert.matches(at .. 'serve: the module "no.such" cannot be loaded: ', serve("x", 1, "no.such"))
    assert.matches(at .. 'serve: the module "string" does not return a function', serve("x", 1, "string"))
    assert.matches(at .. 'serve: unknown option "label"', serve("x", 1, print, { label = 1 }))
    assert.matches(at .. "serve: ack_wait: a number of milliseconds", serve("x", 1, print, { ack_wait = "1" }))
    assert.matches(at .. "serve: max_jobs: an integer", serve("x", 1, print, { max_jobs = 0 }))
  end))

  it("is a stream with other settings", each_test(function(_, conn)
    assert(conn:request("$JS.API.STREAM.CREATE.runnel-jobs-x",
      '{"name":"runnel-jobs-x","subjects":["runnel.jobs.x.>"],"retention":"limits"}', 5000))
    assert.matches("^%S*remote_spec.lua:%d+: remote: the stream runnel%-jobs%-x: retention is limits, expected work",
      message(function() conn:remote "x" end))
    assert.matches("^%S*remote_spec.lua:%d+: serve: the stream runnel%-jobs%-x: retention is limits, expected work",
      message(function() conn:serve("x", 1, print) end))
    local works = '"retention":"workqueue","discard":"new","discard_new_per_subject":true,"max_msgs_per_subject":1}'
    assert(conn:request("$JS.API.STREAM.CREATE.runnel-jobs-w", '{"name":"runnel-jobs-w","subjects":["w"],' .. works))
    assert.matches("remote: the stream runnel%-jobs%-w: its subjects are w, expected runnel.jobs.w.>; delete it",
      message(function() conn:remote "w" end))
    for name, case in pairs {
      v = { '"max_deliver":3', "max_deliver is 3, expected %-1" },
      u = { '"filter_subject":"runnel.jobs.u.a"', "it has a filter: runnel.jobs.u.a" },
    } do
      local stream = "runnel-jobs-" .. name
      conn:remote(name):close()
      local config = '{"stream_name":"%s","config":{"durable_name":"workers","ack_policy":"explicit",%s}}'
      local create = ("$JS.API.CONSUMER.DURABLE.CREATE.%s.workers"):format(stream)
      assert(conn:request(create, config:format(stream, case[1])))
      assert.matches("serve: the consumer workers of the stream " .. stream:gsub("%-", "%%-") .. ": " .. case[2],
        message(function() conn:serve(name, 1, print) end))
    end
    -- Another stream has the subject.
    assert(conn:request("$JS.API.STREAM.CREATE.other", '{"name":"other","subjects":["runnel.jobs.y.>"]}', 5000))
    assert.matches("remote: the stream runnel%-jobs%-y: subjects overlap with an existing stream",
      message(function() conn:remote "y" end))
  end))

  it("is a server without JetStream", function()
    if not nats_server.installed then return pending(nats_server.MISSING) end
    if not has_nats then return pending "runnel.nats has not been built" end
    local server <close> = nats_server.start { jetstream = false }
    local conn <close> = assert(nats.connect(server.url))
    assert.matches("remote_spec.lua:%d+: remote: .*JetStream", message(function() conn:remote "x" end))
  end)

  it("is a value or a result over the server's limit, which loses nothing else", each_test(function(server, conn)
    start_workers(server, 1, "large", 2)
    local errors = {}
    local results = stage.drain(rn.pmap(3, conn:remote "large", { 5, 2000000, 6, ("y"):rep(2000000), 7 }, {
      ex_handler = function(err) errors[#errors + 1] = err end,
    }))
    assert.same({ "xxxxx", "xxxxxx", "xxxxxxx" }, results)
    table.sort(errors)
    assert.matches("remote large: a value of 2000005 bytes is too large: the server takes up to", errors[1])
    assert.matches("^serve large: a result of %d+ bytes is too large: the server takes up to 1048576", errors[2])
  end))

  it("is a message that is not a job, which is removed", each_test(function(_, conn)
    local reports = stage.reports(function()
      local function same(v) return v end
      local worker <close> = conn:serve("x", 1, same, { drain_on_term = false }) -- luacheck: ignore 211
      conn:publish("runnel.jobs.x.y.1", "hello")
      assert.equal(5, conn:remote "x"(5))
      assert.equal(0, background.wait_until(10000, function() return jobs_left(conn, "x") == 0 and 0 end))
    end)
    assert.equal(1, #reports)
    assert.equal("serve x: a message in its stream was removed: it is not a job", reports[1].err)
  end))

  it("is a deleted stream, which is made again", each_test(function(server, conn)
    local w = start_workers(server, 1, "slow", 1)[1]
    local results = rn.pmap(3, conn:remote "slow", { 200, 201, 202 })
    assert(w:says "begins 200")
    assert(conn:request("$JS.API.STREAM.DELETE.runnel-jobs-slow", "", 5000))
    assert.same({ 200, 201, 202 }, stage.drain(results))
  end))

  it("is a connection that closes: jobs end with an error", each_test(function(server, _)
    local conn = assert(nats.connect(server.url))
    local job = conn:remote "nobody"
    local waiting = rn.go(job, 1)
    rn.sleep(20)
    conn:close()
    local _, err = waiting:take()
    assert.equal("remote nobody: the connection is closed", err)
    assert.matches("remote nobody: the connection is closed", message(job, 1))
    local other = assert(nats.connect(server.url))
    local worker = other:serve("nobody", 1, print, { drain_on_term = false })
    other:close()
    worker:wait()
  end))
end)
