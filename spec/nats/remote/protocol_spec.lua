-- What remote stages do, over a fake server, in simulations: cancelling, closing, errors, encodings, bad input. The
-- model spec beside it has what happens when messages and workers are lost.
local rn = require "runnel"
local fake_nats = require "spec.support.queue.fake_nats"
local remote = require "runnel.nats.remote"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local wire = require "runnel.nats.internal.wire"

local MODULES = {
  keeper = require "runnel.nats.internal.keeper", serve = require "runnel.nats.internal.serve",
  worker = require "runnel.queue.worker",
}

local function reliable() return fake_nats.new(function() return 0.5 end, { lost = 0, doubled = 0, delay = 1 }) end

local function submitter(server, opts)
  opts = opts or {}
  local connection = server:connect()
  return remote.new(connection, "job", server:stream_for(connection), {
    encoding = opts.encoding or "msgpack", starts = opts.starts or 5, traceback = opts.traceback == true,
    tries = opts.tries or 1, retry = opts.retry or 1000, has_letters = true,
  }), connection
end

local function worker(server, n, f, label)
  local connection = server:connect()
  return fake_nats.worker(connection, MODULES, n, f, { label = label or "w" }), connection
end

-- Runs f in a simulation, and asserts that nothing was reported.
local function within(f)
  return function()
    local reports = stage.reports(function() sim.run(f) end)
    if #reports > 0 then error(tostring(reports[1].err) .. "\n" .. tostring(reports[1].trace), 0) end
  end
end

describe("a remote stage", function()
  it("can be called like a function, and like one with a channel for its results", within(function()
    local server = reliable()
    worker(server, 2, function(v, out)
      if not out then return v.text:upper() end
      out:put(v.text)
      out:put { v.text }
      out:close()
    end)
    local job = submitter(server)
    assert.equal("HELLO", job { text = "hello" })
    local out = rn.chan(5)
    job({ text = "x" }, out)
    assert.same({ "x", { "x" } }, stage.drain(out))
    assert.equal("remote stage: job", tostring(job))
    assert.same({ waiting = 0, submitted = 2 }, job:stats())
  end))

  it("raises a job's error, with the worker's traceback", within(function()
    local server = reliable()
    local function fails(v)
      if v == "text" then error "no such file" end
      error({ code = 7 })
    end
    worker(server, 1, fails, "here")
    local job = submitter(server, { traceback = true })
    local _, err = pcall(job, "text")
    assert.matches("^%S*remote/protocol_spec.lua:%d+: no such file\n%[worker here%]\nstack traceback:\n", err)
    assert.matches("remote/protocol_spec.lua:%d+: in ", err)
    _, err = pcall(job, "table")
    assert.equal(7, err.code)
    assert.matches("^%[worker here%]\nstack traceback:", err.traceback)
    -- To ex_handler, also from a function with a channel.
    local function fails_later(v, out)
      out:put(v)
      rn.sleep(1)
      fails(v)
    end
    local errors = {}
    local other = reliable()
    worker(other, 2, fails_later)
    local job_of_other = submitter(other, { traceback = true })
    local to = rn.pipeline_async(2, rn.chan(), job_of_other, rn.to_chan { "text", "table" }, true, {
      ex_handler = function(e)
        errors[#errors + 1] = e
        return "handled"
      end,
    })
    assert.same({ "text", "handled", "table", "handled" }, stage.drain(to))
    assert.matches("no such file\n%[worker w%]\nstack traceback:\n.*'fails'", errors[1])
    assert.equal(7, errors[2].code)
  end))

  it("without tracebacks raises what the function has raised", within(function()
    local server = reliable()
    worker(server, 1, function(_, out)
      if out then out:close "closed with it" else error("plain", 0) end
    end)
    local job = submitter(server)
    assert.same({ false, "plain" }, { pcall(job, 1) })
    local out = rn.chan(1)
    job(1, out)
    assert.same({ nil, "closed with it" }, { out:take() })
  end))

  it("passes on errors that cannot be packed, and other failures, as text", within(function()
    local server = reliable()
    worker(server, 1, function(v)
      if v == 1 then error(setmetatable({}, { __tostring = function() return "its text" end })) end
      if v == 2 then coroutine.yield() end
      if v == 3 then return { f = print } end
      if v == 4 then return ("x"):rep(2000000) end
      if v == 5 then error() end
    end)
    local job = submitter(server)
    local function message(v) return tostring(select(2, pcall(job, v))) end
    local reports = stage.reports(function()
      assert.equal("its text", message(1))
      assert.matches("coroutine.yield", message(2))
      assert.equal("serve job: result.f: a function cannot be sent", message(3))
      assert.matches("^serve job: a result of %d+ bytes is too large: the server takes up to 1000000", message(4))
      assert.equal("nil", message(5))
      local out = rn.chan(1)
      submitter(server)(2, out) -- the same function, with a channel
      assert.matches("coroutine.yield", tostring(select(2, out:take())))
    end)
    assert.equal(0, #reports, reports[1] and reports[1].err)
  end))

  it("raises for a value that cannot be sent, at the caller's line, and goes on", within(function()
    local server = reliable()
    worker(server, 1, function(v) return v end)
    local job = submitter(server)
    local function message(v) return select(2, pcall(function() return (job(v)) end)) end
    local at = "^%S*remote/protocol_spec.lua:%d+: remote job: "
    assert.matches(at .. "value.f: a function cannot be sent$", message { f = print })
    assert.matches(at .. "a value of 2000005 bytes is too large: the server takes up to", message(("x"):rep(2000000)))
    assert.matches("remote job: a value other than nil expected", message(nil))
    assert.equal(1, job(1))
    assert.equal(1, job:stats().submitted)
  end))

  it("goes on after a result with a size that makes no sense", within(function()
    local server = reliable()
    local job = submitter(server)
    local connection = server:connect()
    local failed = rn.go(function() return select(2, pcall(job, 1)) end)
    rn.sleep(10)
    connection:publish(job.reply, "2 - result 1 a v99999999999999999999\nx")
    assert.equal("the worker's result cannot be read: it is cut short", failed:take())
    worker(server, 1, function(v) return v + 1 end)
    assert.equal(8, job(7))
  end))

  it("says when a worker sends what makes no sense, or has another version", function()
    local reports = stage.reports(function()
      sim.run(function()
        local server = reliable()
        local job = submitter(server)
        for _, text in ipairs { "2 - gibberish\n", "hello", "2 -", "3 - something new\n" } do
          server:connect():publish(job.reply, text)
          rn.sleep(10)
        end
        job:close()
      end)
    end)
    assert.equal(2, #reports)
    assert.equal('remote job: a message from a worker makes no sense: "2 - gibberish\\\n"', reports[1].err)
    assert.matches("^remote job: a worker has sent a message of protocol version 3 that this program, of version 2, "
      .. "cannot read. Use the same version of runnel in both$",
      reports[2].err)
  end)

  it("says when the stream refuses a job, or a worker's requests for jobs, for long", function()
    local reports = stage.reports(function()
      sim.run(function()
        local server = reliable()
        local receive = server.receive
        function server:receive(subject, data, reply)
          if subject:find("^runnel.jobs.") and reply then
            local refusal = '{"error":{"code":400,"description":"maximum bytes exceeded"}}'
            self:send(reply, { subject = reply, data = refusal })
          elseif subject:find("^%$JS.API.CONSUMER.MSG.NEXT.") then
            self:send(reply, { subject = reply, data = "", status = "503" }) -- nobody takes requests
          elseif not subject:find("^runnel.jobs.") then
            receive(self, subject, data, reply)
          end
        end
        local job = submitter(server)
        rn.go(pcall, job, 1)
        rn.sleep(20000)
        job:close()
        local w = fake_nats.worker(server:connect(), MODULES, 1, print, {
          label = "w", look = function() return nil, "no leader" end,
        })
        rn.sleep(20000)
        w:stop()
      end)
    end)
    assert.equal(2, #reports)
    assert.equal("remote job: its stream does not accept jobs for now: maximum bytes exceeded", reports[1].err)
    assert.equal("serve job: no jobs for now: no leader", reports[2].err)
  end)

  it("looks only at jobs that wait, however many have ended since", within(function()
    local server = reliable()
    worker(server, 1, function() rn.sleep(1000000) end)
    local job = submitter(server)
    rn.go(job, 1)
    rn.yield()
    job.last = job.last + 3000000 -- as if so many had been submitted, and had ended
    local before = os.clock()
    rn.sleep(200000)
    assert.equal(1, job:stats().waiting)
    assert.is_true(os.clock() - before < 3, os.clock() - before .. " s")
    job:close()
  end))

  describe("with many jobs", function()
    local MANY <const> = 1000

    -- A submitter whose messages and requests are counted, and n calls of it that wait.
    local function with_jobs(server, n)
      local job, connection = submitter(server)
      local counts, publish = { sent = 0, acks = 0, removing = 0, most = 0 }, connection.publish
      function connection:publish(subject, data, ...)
        if subject:find("runnel.jobs.", 1, true) == 1 then counts.sent = counts.sent + 1 end
        if data == "+ACK" then counts.acks = counts.acks + 1 end
        return publish(self, subject, data, ...)
      end
      for _, name in ipairs { "subjects", "is_stuck", "remove" } do
        local ask = job.stream[name]
        counts[name] = 0
        job.stream[name] = function(...)
          counts[name], counts.removing = counts[name] + 1, counts.removing + 1
          counts.most = math.max(counts.most, counts.removing)
          local found = ask(...)
          counts.removing = counts.removing - 1
          return found
        end
      end
      local results = rn.pmap_unordered(n, job, rn.to_chan(function()
        return job.last < n and job.last + 1 or nil
      end))
      return job, counts, results, connection
    end

    it("that wait asks the stream which it has, and sends none of them again", within(function()
      local server = reliable()
      local _, counts, results = with_jobs(server, MANY)
      rn.sleep(100000)
      assert.equal(MANY, server.count)
      assert.equal(MANY, counts.sent)
      assert.is_true(counts.subjects >= 4 and counts.subjects < 20, counts.subjects .. " questions")
      assert.is_true(counts.is_stuck <= 16 * counts.subjects, counts.is_stuck .. " jobs were looked after")
      assert.is_true(counts.most <= 2, counts.most .. " requests at a time")
      worker(server, 50, function(v) return v end)
      assert.equal(MANY, #stage.drain(results))
      rn.sleep(100)
      assert.same({ MANY, 0 }, { counts.sent, server.count })
    end))

    it("sends those again after a reconnect that the stream has lost, and only those", within(function()
      local server = reliable()
      local _, counts, results = with_jobs(server, MANY)
      rn.sleep(1000)
      server:restart(100, MANY // 2, 0)
      rn.sleep(1000)
      assert.equal(MANY, server.count)
      assert.equal(MANY + MANY // 2, counts.sent)
      worker(server, 50, function(v) return v end)
      assert.equal(MANY, #stage.drain(results))
      assert.equal(MANY + MANY // 2, counts.sent)
    end))

    it("acknowledges those again that a server has again which was killed", within(function()
      local server = reliable()
      worker(server, 50, function(v) return v end)
      local _, counts, results = with_jobs(server, MANY)
      assert.equal(MANY, #stage.drain(results))
      rn.sleep(100)
      assert.same({ 0, MANY }, { server.count, counts.acks })
      server:restart(100, 0, 200)
      assert.equal(200, server.count)
      rn.sleep(200)
      assert.same({ 0, 0, MANY + 200 }, { server.count, counts.remove, counts.acks })
    end))

    it("removes those that ended long before a server was killed, a few at a time", within(function()
      local server = reliable()
      worker(server, 50, function(v) return v end)
      local job, counts, results = with_jobs(server, MANY)
      assert.equal(MANY, #stage.drain(results))
      for _ = 1, 2 do -- what was acknowledged is forgotten as time passes while the server is heard
        rn.sleep(3000)
        job(1)
      end
      server:restart(100, 0, 200)
      rn.sleep(3000)
      assert.equal(0, server.count)
      assert.is_true(counts.remove >= 190, counts.remove .. " were removed")
      assert.is_true(counts.most <= 16, counts.most .. " requests at a time")
    end))

    it("that are given up removes a few at a time from the stream", within(function()
      local server = reliable()
      local _, counts, results = with_jobs(server, MANY)
      rn.sleep(1000)
      results:close()
      rn.sleep(3000)
      assert.same({ 0, MANY }, { server.count, counts.remove })
      assert.is_true(counts.most <= 16, counts.most .. " requests at a time")
    end))
  end)

  it("sends strings as they are, if asked", within(function()
    local server = reliable()
    worker(server, 1, function(v) return v == "number" and 7 or v .. "\0\xff" end)
    local job = submitter(server, { encoding = "raw" })
    assert.equal("abc\n\0\xff", job "abc\n")
    assert.matches('value: a string expected, got a number; to send other values,', select(2, pcall(job, 1)))
    assert.matches('result: a string expected, got a number', select(2, pcall(job, "number")))
  end))

  it("sends JSON, if asked", within(function()
    local server = reliable()
    worker(server, 1, function(v) return { v.a[2], "ü" } end)
    assert.same({ "x", "ü" }, submitter(server, { encoding = "json" }) { a = { 1, "x" } })
  end))

  it("cancels jobs that nobody waits for any more: in workers and in the stream", within(function()
    local server = reliable()
    local running, cancelled = 0, 0
    local w = worker(server, 2, function()
      running = running + 1
      local leaving <close> = setmetatable({}, { __close = function(_, err) -- luacheck: ignore 211
        running = running - 1
        if err ~= nil then cancelled = cancelled + 1 end
      end })
      rn.sleep(1e6)
    end)
    local job = submitter(server)
    local results = rn.pmap(5, job, { 1, 2, 3, 4, 5 })
    rn.sleep(100)
    assert.equal(2, running)
    assert.equal(5, server.count)
    results:close()
    rn.sleep(100)
    assert.same({ 0, 2, 0 }, { running, cancelled, server.count })
    assert.same({ running = 0, waiting = 0, done = 0, failed = 0, given_up = 0, redelivered = 0 }, w:stats())
    assert.equal(0, job:stats().waiting)
    -- A timeout.
    local _, err = rn.pmap(1, job, { 1 }, { timeout = 300 }):take()
    assert.is_true(rn.is_timeout(err))
    rn.sleep(100)
    assert.same({ 0, 3, 0 }, { running, cancelled, server.count })
  end))

  it("cancels a job whose cancellation overtakes it", within(function()
    local server = reliable()
    local running = 0
    worker(server, 20, function()
      running = running + 1
      local function leave() running = running - 1 end
      local leaving <close> = setmetatable({}, { __close = leave }) -- luacheck: ignore 211
      rn.sleep(1e6)
    end)
    local receive = server.receive
    function server:receive(subject, data, reply)
      if subject:find "^runnel%.jobs%." then rn.sleep(20) end
      receive(self, subject, data, reply)
    end
    local job = submitter(server)
    job.stream.remove = function(_, subject) -- it comes to the server after the job
      rn.sleep(40)
      if server.by_subject[subject] then server:remove(server.by_subject[subject]) end
    end
    for i = 1, 10 do
      local call = rn.go(job, i)
      rn.sleep(1)
      rn.cancel(call)
    end
    rn.sleep(1000)
    assert.same({ 0, 0 }, { running, server.count })
    job:close()
  end))

  it("sends a job again soon after its stream has refused it", function()
    local took
    local reports = stage.reports(function()
      sim.run(function()
        local server = reliable()
        local store = server.store
        function server:store(subject, data, reply)
          if rn.now() > 50000 then return store(self, subject, data, reply) end
          local answer = '{"error":{"code":503,"err_code":10023,"description":"insufficient resources"}}'
          if reply then self:send(reply, { subject = reply, data = answer }) end
        end
        worker(server, 1, function(v) return v end)
        local job = submitter(server)
        assert.equal(1, job(1))
        took = rn.now()
      end)
    end)
    assert.is_true(took < 54000)
    assert.same({ "remote job: its stream does not accept jobs for now: insufficient resources" },
      { #reports == 1 and tostring(reports[1].err) or #reports })
  end)

  it("has jobs that were lost on their way to the stream run within 1 s, however many they are", within(function()
    for _, n in ipairs { 50, 300 } do
      local server = reliable()
      worker(server, n, function(v) return v end)
      local receive, is_away = server.receive, true
      function server:receive(subject, data, reply) -- as if the server that leads the stream were stopped
        if not (is_away and subject:find "^runnel%.jobs%.") then receive(self, subject, data, reply) end
      end
      local job, done = submitter(server), rn.chan(n)
      for i = 1, n do rn.go(function() done:put(job(i)) end) end
      rn.sleep(100)
      is_away = false
      local before = rn.now() - 100
      for _ = 1, n do done:take() end
      assert.is_true(rn.now() - before < (n == 50 and 1010 or 1510), rn.now() - before)
    end
  end))

  it("does not send all jobs again that wait for a worker", within(function()
    local server = reliable()
    local count, receive = 0, server.receive
    function server:receive(subject, data, reply)
      if subject:find "^runnel%.jobs%." and reply then count = count + 1 end
      receive(self, subject, data, reply)
    end
    local job = submitter(server)
    for i = 1, 5000 do rn.go(pcall, job, i) end
    rn.sleep(5000)
    assert.equal(0, count) -- the stream says that it has them
    job:close()
  end))

  it("asks again for the jobs that a request has not got in its time", within(function()
    local server = reliable()
    worker(server, 4, function(v) rn.sleep(v) end)
    local job = submitter(server)
    rn.sleep(1000)
    for _ = 1, 2 do rn.go(job, 100) end
    rn.sleep(1000)
    local function asked()
      local sum = 0
      for _, request in ipairs(server.requests) do sum = sum + request.batch end
      return sum
    end
    assert.equal(2, #server.requests) -- one for 4 jobs, of which two have come; and one for two more
    assert.equal(4, asked())
    rn.sleep(29000) -- the first one has ended, the second one has not
    assert.equal(2, #server.requests)
    assert.equal(4, asked())
    for _ = 1, 5 do rn.go(job, 5000) end
    rn.sleep(1000)
    assert.equal(0, asked())
  end))

  it("asks for no jobs while others reconnect, although the server has refused a request before", within(function()
    local server = reliable()
    local _, connection = worker(server, 1, function(v) return v end)
    rn.sleep(100)
    local request = table.remove(server.requests)
    server:send(request.reply, { subject = request.reply, data = "", status = "409" })
    rn.sleep(10)
    connection:cut(450)
    rn.sleep(450 + 300) -- it has looked for the stream, 500 ms after the refusal
    assert.equal(0, #server.requests)
    rn.sleep(100)
    assert.equal(1, #server.requests)
  end))

  it("runs a job once, however long it takes", within(function()
    local server = reliable()
    local starts = 0
    worker(server, 1, function()
      starts = starts + 1
      rn.sleep(2 * 60 * 60 * 1000)
      return "done"
    end)
    worker(server, 1, function() error "the other worker" end):drain()
    worker(server, 1, function(v) return v end)
    local job = submitter(server)
    assert.equal("done", job(1))
    assert.equal(1, starts)
  end))

  it("gives up a job that ends its workers after its last start, which runs alone, and no other job", within(function()
    local server = reliable()
    local starts, beside, running, over = {}, {}, 0, false
    local function start()
      local w, connection
      w, connection = worker(server, 10, function(v)
        starts[v] = (starts[v] or 0) + 1
        running = running + 1
        local function leave() running = running - 1 end
        local leaving <close> = setmetatable({}, { __close = leave }) -- luacheck: ignore 211
        if v == "poison" then
          beside[#beside + 1] = running - 1
          connection:kill()
          rn.go(function()
            w:stop()
            rn.sleep(50)
            if not over then start() end
          end)
        end
        rn.sleep(v == "poison" and 1e6 or 20)
        return v
      end)
    end
    start()
    local values = { 1, 2, 3, "poison", 5, 6, 7, 8, 9, 10 }
    for i = 11, 60 do values[i] = i end
    local errors = {}
    local results = stage.drain(rn.pmap(10, submitter(server, { starts = 3 }), values, {
      ex_handler = function(err) errors[#errors + 1] = err end,
    }))
    over = true
    table.remove(values, 4)
    assert.same(values, results)
    assert.same({ "remote job: the job was given up: its worker fell silent at each of 3 starts" }, errors)
    assert.equal(3, starts.poison)
    assert.equal(0, beside[3])
  end))

  it("leaves nothing behind when it ends without closing", within(function()
    local server = reliable()
    local job, connection = submitter(server)
    for i = 1, 20 do rn.go(pcall, job, i) end
    rn.sleep(10)
    assert.equal(20, server.count)
    connection:kill()
    local ran = {}
    worker(server, 3, function(v) ran[v] = (ran[v] or 0) + 1 end)
    rn.sleep(5000)
    assert.equal(0, server.count)
    local count = 0
    for i = 1, 20 do
      assert.is_true((ran[i] or 0) <= 1)
      count = count + (ran[i] or 0)
    end
    assert.is_true(count >= 1 and count < 10, count) -- the worker looks whether the submitter is there
    job:close()
  end))

  it("that is closed drops its jobs, whose callers get an error", within(function()
    local server = reliable()
    local job = submitter(server)
    local waiting = rn.go(job, 1)
    local results = rn.pipeline_async(3, rn.chan(1), job, rn.to_chan { 1, 2, 3, 4 }, true,
      { ex_handler = function(err) return err end })
    rn.sleep(10)
    assert.equal(4, server.count)
    job:close()
    assert.same({ nil, "remote job: the remote stage is closed" }, { waiting:take() })
    assert.equal("remote job: the remote stage is closed", results:take())
    rn.sleep(10)
    assert.equal(0, server.count)
    assert.matches("remote/protocol_spec.lua:%d+: remote job: the remote stage is closed", select(2, pcall(function()
      return (job(1))
    end)))
    job:close()
    stage.drain(results)
  end))

  it("keeps its jobs waiting for a worker that can read them", function()
    local reports = stage.reports(function()
      sim.run(function()
        local server = reliable()
        local version = wire.VERSION
        local job = submitter(server)
        -- A worker of another version, as far as it differs: it refuses.
        local old = server:connect()
        local inbox = old:subscribe "_INBOX.old.>"
        local refusals = 0
        rn.go(function()
          for message in inbox do
            if message.reply then
              refusals = refusals + 1
              old:publish(message.data:match "^%S+ (%S+)", ("%s - refused 0 0 old\n"):format(version))
              old:publish(message.reply, '-NAK {"delay":5000000000}')
            end
          end
        end)
        local request = '{"batch":1,"expires":30000000000,"idle_heartbeat":2000000000}'
        old:publish("$JS.API.CONSUMER.MSG.NEXT.S.workers", request, "_INBOX.old.p1")
        rn.go(function()
          rn.sleep(3000)
          worker(server, 1, function(v) return v + 1 end)
        end)
        assert.equal(2, job(1))
        assert.equal(1, refusals)
      end)
    end)
    assert.equal(1, #reports)
    assert.matches("remote job: the worker old speaks version 0 of the protocol, this program version", reports[1].err)
  end)
end)

describe("a worker", function()
  it("goes on when somebody sends jobs that make no sense", function()
    local reports = stage.reports(function()
      sim.run(function()
        local server = reliable()
        local w = worker(server, 2, function(v) return v + 1 end)
        local connection = server:connect()
        for i, text in ipairs {
          "", "not even a line", "2 r x raw - 5 1 1000\n", "2 r 1 raw\n", "2 r 1 raw -\n", "2 r 1 raw - 0 1 1000\n",
          "\n\n",
        } do
          connection:publish("runnel.jobs.job.x." .. i, text)
        end
        rn.sleep(100)
        assert.equal(0, server.count)
        connection:publish("runnel.jobs.job.x.y", "2 nobody 1 msgpack - 5 1 1000\n\xC1")
        rn.sleep(100)
        assert.equal(8, submitter(server)(7))
        assert.equal("worker: job (0/2)", tostring(w))
      end)
    end)
    local errors = {}
    for i, report in ipairs(reports) do errors[i] = report.err end
    assert.same({
      "serve job: a message in its stream was removed: it is not a job",
      "serve job: a message in its stream was removed: its first line makes no sense",
    }, errors)
  end)

  it("leaves jobs with an encoding that it does not know to others, and both sides say so", function()
    local reports = stage.reports(function()
      sim.run(function()
        local server = reliable()
        worker(server, 2, function() error "it is called" end, "old")
        local job, connection = submitter(server)
        connection:publish("runnel.jobs.job.x.1", wire.job(job.reply, 1, "cbor", "- 5 1 1000", "x"))
        rn.sleep(100)
        assert.equal(1, server.count)
      end)
    end)
    assert.equal(2, #reports)
    assert.equal("serve job: a job has an encoding that this worker does not know; it is left to other workers",
      reports[1].err)
    assert.matches("^remote job: the worker old does not know the encoding", reports[2].err)
  end)

  it("leaves jobs of another version to others, and says so", function()
    local reports = stage.reports(function()
      sim.run(function()
        local server = reliable()
        local w = worker(server, 2, function() error "it is called" end, "new")
        local connection = server:connect()
        local inbox = connection:subscribe "_INBOX.other"
        connection:publish("runnel.jobs.job.x.1", "9 _INBOX.other something new\n")
        rn.sleep(100)
        assert.equal("9 - refused 0 2 new\n", inbox:take().data)
        assert.equal(1, server.count)
        assert.same({ running = 0, waiting = 0, done = 0, failed = 0, given_up = 0, redelivered = 0 }, w:stats())
      end)
    end)
    assert.equal(1, #reports)
    assert.equal("serve job: a job has version 9 of the protocol, this worker version 2; it is left to other workers. "
      .. "Use the same version of runnel in the workers and in the programs with conn:remote", reports[1].err)
  end)

  it("that drains ends the jobs that run, and leaves the others", within(function()
    local server = reliable()
    local done = {}
    local w = worker(server, 2, function(v)
      rn.sleep(1000)
      done[#done + 1] = v
      return v
    end)
    local job = submitter(server)
    local results = rn.pmap(6, job, { 1, 2, 3, 4, 5, 6 })
    rn.sleep(500)
    assert.is_true(w:drain())
    w:wait()
    assert.same({ 1, 2 }, done)
    worker(server, 6, function(v) return -v end)
    assert.same({ 1, 2, -3, -4, -5, -6 }, stage.drain(results))
  end))

  it("that drains gives back a job that comes meanwhile", within(function()
    local server = reliable()
    local w = worker(server, 2, function(v)
      rn.sleep(1000)
      return v
    end)
    local job = submitter(server)
    local first = rn.go(job, 1)
    rn.sleep(100)
    local draining = rn.go(w.drain, w)
    rn.sleep(100)
    local second = rn.go(job, 2) -- for which the worker had asked
    rn.sleep(100)
    worker(server, 1, function(v) return -v end)
    assert.equal(-2, second:take())
    assert.equal(1, first:take())
    assert.is_true(draining:take())
  end))

  -- A job that has killed its worker, in the stream of a new server; its submitter, with so many `starts`.
  local function suspect(starts)
    local server = reliable()
    local dead, connection
    dead, connection = worker(server, 1, function()
      connection:kill()
      rn.go(dead.stop, dead)
      rn.sleep(1e6)
    end)
    local job = submitter(server, { starts = starts })
    local result = rn.go(job, "suspect")
    rn.sleep(100)
    return server, job, result
  end

  it("starts a job that must run alone when its other jobs have ended", within(function()
    local server, job, result = suspect(2)
    local running, beside = 0, nil
    worker(server, 3, function(v)
      if v == "suspect" then beside = running end
      running = running + 1
      rn.sleep(2000)
      running = running - 1
      return v
    end)
    local others = { rn.go(job, 1), rn.go(job, 2) }
    assert.equal("suspect", result:take())
    assert.equal(0, beside)
    assert.same({ 1, 2 }, { others[1]:take(), others[2]:take() })
  end))

  it("that drains gives back a job whose starts it looks up", within(function()
    local server, _, result = suspect(5)
    server.counts_take = 1e6
    local w = worker(server, 1, function(v) return v end)
    rn.sleep(600)
    assert.equal(1, w:stats().running)
    assert.is_true(w:drain())
    server.counts_take = nil
    worker(server, 1, function(v) return "other " .. v end)
    local before = sim.elapsed()
    assert.equal("other suspect", result:take())
    assert.is_true(sim.elapsed() - before < 100)
  end))

  it("that drains for too long stops, and its jobs run elsewhere at once", within(function()
    local server = reliable()
    local w = worker(server, 2, function() rn.sleep(1e6) end)
    local job = submitter(server)
    local results = rn.pmap(2, job, { 1, 2 })
    rn.sleep(500)
    assert.is_false((w:drain(100)))
    local before = sim.elapsed()
    worker(server, 2, function(v) return -v end)
    assert.same({ -1, -2 }, stage.drain(results))
    assert.is_true(sim.elapsed() - before < 100)
  end))

  it("never runs more than n jobs, and n of them when there is work", within(function()
    local server = reliable()
    local running, peak, at_peak = {}, {}, 0
    for number = 1, 2 do
      running[number], peak[number] = 0, 0
      worker(server, 3, function(v)
        running[number] = running[number] + 1
        peak[number] = math.max(peak[number], running[number])
        if running[1] + (running[2] or 0) == 6 then at_peak = at_peak + 1 end
        rn.sleep(50)
        running[number] = running[number] - 1
        return v
      end)
    end
    local values = {}
    for i = 1, 100 do values[i] = i end
    assert.same(values, stage.drain(rn.pmap(20, submitter(server), values)))
    assert.same({ 3, 3 }, peak)
    assert.is_true(at_peak > 10)
  end))
end)
