-- What remote stages do, over a simulated server: cancelling, closing, errors, encodings, bad input. The model spec
-- beside it has what happens when messages and workers are lost.
local json = require "runnel.json"
local long = require "spec.support.long"
local nats_world = require "spec.support.queue.nats_world"
local patience = require "spec.support.patience"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local missing = nats_world.missing
local wire = not missing and require "runnel.nats.internal.wire"

local JOBS <const>, ASKS <const> = "^runnel%.jobs%.", "^%$JS%.API%.CONSUMER%.MSG%.NEXT%."
local program, clock = nats_world.program, os.clock -- in a world os.clock is simulated

-- Runs f in a simulated world, and asserts that nothing was reported.
local function within(f, opts)
  return function()
    local reports = stage.reports(function() program(f, opts) end)
    if #reports > 0 then error(tostring(reports[1].err) .. "\n" .. tostring(reports[1].trace), 0) end
  end
end

local function reports_of(f)
  return stage.reports(function() program(f) end)
end

describe("a remote stage", function()
  if missing then return pending(missing) end

  it("can be called like a function, and like one with a channel for its results", within(function(server)
    server:worker(2, function(v, out)
      if not out then return v.text:upper() end
      out:put(v.text)
      out:put { v.text }
      out:close()
    end)
    local job = server:remote()
    assert.equal("HELLO", job { text = "hello" })
    local out = rn.chan(5)
    job({ text = "x" }, out)
    assert.same({ "x", { "x" } }, stage.drain(out))
    assert.equal("remote stage: job", tostring(job))
    assert.same({ waiting = 0, submitted = 2 }, job:stats())
  end))

  it("raises a job's error, with the worker's traceback", within(function(server)
    local function fails(v)
      if v == "text" then error "no such file" end
      error({ code = 7 })
    end
    server:worker(1, fails, { host = "here" })
    local job = server:remote({ traceback = true })
    local _, err = pcall(job, "text")
    assert.matches("^%S*remote/protocol_spec.lua:%d+: no such file\n%[worker here:1%]\nstack traceback:\n", err)
    assert.matches("remote/protocol_spec.lua:%d+: in ", err)
    _, err = pcall(job, "table")
    assert.equal(7, err.code)
    assert.matches("^%[worker here:1%]\nstack traceback:", err.traceback)
    -- To ex_handler, also from a function with a channel.
    local function fails_later(v, out)
      out:put(v)
      rn.sleep(1)
      fails(v)
    end
    local errors = {}
    server:worker(2, fails_later, { name = "other", host = "w" })
    local job_of_other = server:remote { name = "other", traceback = true }
    local to = rn.pipeline_async(2, rn.chan(), job_of_other, rn.to_chan { "text", "table" }, true, {
      ex_handler = function(e)
        errors[#errors + 1] = e
        return "handled"
      end,
    })
    assert.same({ "text", "handled", "table", "handled" }, stage.drain(to))
    assert.matches("no such file\n%[worker w:1%]\nstack traceback:\n.*'fails'", errors[1])
    assert.equal(7, errors[2].code)
  end))

  it("without tracebacks raises what the function has raised", within(function(server)
    server:worker(1, function(_, out)
      if out then out:close "closed with it" else error("plain", 0) end
    end)
    local job = server:remote()
    assert.same({ false, "plain" }, { pcall(job, 1) })
    local out = rn.chan(1)
    job(1, out)
    assert.same({ nil, "closed with it" }, { out:take() })
  end))

  it("passes on errors that cannot be packed, and other failures, as text", within(function(server)
    server:worker(1, function(v)
      if v == 1 then error(setmetatable({}, { __tostring = function() return "its text" end })) end
      if v == 2 then coroutine.yield() end
      if v == 3 then return { f = print } end
      if v == 4 then return ("x"):rep(2000000) end
      if v == 5 then error() end
    end)
    local job = server:remote()
    local function message(v) return tostring(select(2, pcall(job, v))) end
    local reports = stage.reports(function()
      assert.equal("its text", message(1))
      assert.matches("coroutine.yield", message(2))
      assert.equal("serve job: result.f: a function cannot be sent", message(3))
      assert.matches("^serve job: a result of %d+ bytes is too large: the server takes up to 1048576", message(4))
      assert.equal(_VERSION == "Lua 5.5" and "<no error object>" or "nil", message(5))
      local out = rn.chan(1)
      server:remote()(2, out) -- the same function, with a channel
      assert.matches("coroutine.yield", tostring(select(2, out:take())))
    end)
    assert.equal(0, #reports, reports[1] and reports[1].err)
  end))

  it("raises for a value that cannot be sent, at the caller's line, and goes on", within(function(server)
    server:worker(1, function(v) return v end)
    local job = server:remote()
    local function message(v) return select(2, pcall(function() return (job(v)) end)) end
    local at = "^%S*remote/protocol_spec.lua:%d+: remote job: "
    assert.matches(at .. "value.f: a function cannot be sent$", message { f = print })
    assert.matches(at .. "a value of 2000005 bytes is too large: the server takes up to", message(("x"):rep(2000000)))
    assert.matches("remote job: a value other than nil expected", message(nil))
    assert.equal(1, job(1))
    assert.equal(1, job:stats().submitted)
  end))

  it("goes on after a result with a size that makes no sense", within(function(server)
    local job = server:remote()
    local connection = server:connect()
    local failed = rn.go(function() return select(2, pcall(job, 1)) end)
    rn.sleep(10)
    connection:publish(job.reply, "2 - result 1 a v99999999999999999999\nx")
    assert.equal("the worker's result cannot be read: it is cut short", failed:take())
    server:worker(1, function(v) return v + 1 end)
    assert.equal(8, job(7))
  end))

  it("says when a worker sends what makes no sense, or has another version", function()
    local reports = reports_of(function(server)
      local job = server:remote()
      for _, text in ipairs { "2 - gibberish\n", "hello", "2 -", "3 - something new\n" } do
        server:connect():publish(job.reply, text)
        rn.sleep(10)
      end
      job:close()
    end)
    assert.equal(2, #reports)
    assert.equal('remote job: a message from a worker makes no sense: "2 - gibberish\\\n"', reports[1].err)
    assert.matches("^remote job: a worker has sent a message of protocol version 3 that this program, of version 2, "
      .. "cannot read. Use the same version of runnel in both$",
      reports[2].err)
  end)

  it("says when the stream refuses a job, or a worker's requests for jobs, for long", function()
    local reports = reports_of(function(server)
      local job = server:remote()
      local w = server:worker(1, print)
      function server.intercept(subject)
        if subject:find(JOBS) then return { code = 400, description = "maximum bytes exceeded" } end
        if subject:find(ASKS) then return false end
        if subject:find "^%$JS%." then return { code = 503, description = "no leader" } end
      end
      rn.go(pcall, job, 1)
      rn.sleep(20000)
      job:close()
      w:stop()
    end)
    table.sort(reports, function(a, b) return a.err < b.err end)
    assert.equal(2, #reports)
    assert.equal("remote job: its stream does not accept jobs for now: maximum bytes exceeded", reports[1].err)
    assert.equal("serve job: no jobs for now: no leader", reports[2].err)
  end)

  it("looks only at jobs that wait, however many have ended since", within(function(server)
    server:worker(1, function() rn.sleep(1000000) end)
    local job = server:remote()
    rn.go(pcall, job, 1)
    rn.yield()
    job.last = job.last + 3000000 -- as if so many had been submitted, and had ended
    local before = clock()
    rn.sleep(200000)
    assert.equal(1, job:stats().waiting)
    assert.is_true(clock() - before < 3 * patience.factor(), clock() - before .. " s")
    job:close()
  end))

  describe("with many jobs", function()
    local MANY <const> = long.times(200, 1000)

    -- A submitter whose messages and requests are counted, and n calls of it that wait.
    local function with_jobs(server, n)
      local job = server:remote()
      local counts = { sent = 0, acks = 0, removing = 0, most = 0 }
      function server.intercept(subject, data)
        if subject:find(JOBS) then counts.sent = counts.sent + 1 end
        if data == "+ACK" then counts.acks = counts.acks + 1 end
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
      return job, counts, results
    end

    -- What a server that has ended has lost is a choice: tries seeds until f(server) returns that it has lost some.
    local function until_lost(f, opts)
      return function()
        for seed = 1, 20 do
          local has_lost
          local reports = stage.reports(function()
            program(function(server) has_lost = f(server) end, opts, { seed = seed })
          end)
          assert.equal(0, #reports, reports[1] and reports[1].err)
          if has_lost then return end
        end
        error "the server has never lost anything"
      end
    end

    -- Starts the server again; returns how many jobs it has then.
    local function restart(server)
      rn.sleep(10)
      server.server:restart()
      rn.sleep(0.5)
      return server:count()
    end

    it("that wait asks the stream which it has, and sends none of them again #ci", within(function(server)
      local _, counts, results = with_jobs(server, MANY)
      rn.sleep(100000)
      assert.equal(MANY, server:count())
      assert.equal(MANY, counts.sent)
      assert.is_true(counts.subjects >= 4 and counts.subjects < 20, counts.subjects .. " questions")
      assert.is_true(counts.is_stuck <= 16 * counts.subjects, counts.is_stuck .. " jobs were looked after")
      assert.is_true(counts.most <= 2, counts.most .. " requests at a time")
      server:worker(50, function(v) return v end)
      assert.equal(MANY, #stage.drain(results))
      rn.sleep(100)
      assert.same({ MANY, 0 }, { counts.sent, server:count() })
    end))

    it("sends those again after a reconnect that are lost, and no others #heavy", until_lost(function(server)
      local _, counts, results = with_jobs(server, MANY)
      rn.sleep(1000)
      server.server:crash()
      local lost = MANY - restart(server)
      rn.sleep(5000)
      assert.same({ MANY, MANY + lost }, { server:count(), counts.sent })
      server:worker(50, function(v) return v end)
      assert.equal(MANY, #stage.drain(results))
      assert.equal(MANY + lost, counts.sent)
      return lost > 0 and lost < MANY
    end, { sync_interval = 60000 }))

    it("acknowledges those again that a server has again which was killed", until_lost(function(server)
      server:worker(50, function(v) return v end)
      local _, counts, results = with_jobs(server, MANY)
      assert.equal(MANY, #stage.drain(results))
      rn.sleep(10)
      assert.same({ 0, MANY }, { server:count(), counts.acks })
      server.server:kill()
      local back = restart(server)
      rn.sleep(5000)
      assert.same({ 0, 0 }, { server:count(), counts.remove })
      assert.is_true(counts.acks >= MANY + back, counts.acks .. " acknowledgements")
      return back > 0
    end))

    it("removes those that ended long before a server was killed, a few at a time", until_lost(function(server)
      server:worker(50, function(v) return v end)
      local job, counts, results = with_jobs(server, MANY)
      assert.equal(MANY, #stage.drain(results))
      for _ = 1, 2 do -- what was acknowledged is forgotten as time passes while the server is heard
        rn.sleep(3000)
        job(1)
      end
      server.server:crash()
      local back = restart(server)
      rn.sleep(10000)
      assert.equal(0, server:count())
      assert.is_true(counts.remove >= back - 10, counts.remove .. " were removed")
      assert.is_true(counts.most <= 16, counts.most .. " requests at a time")
      return back > 0
    end, { sync_interval = 60000 }))

    it("that are given up removes a few at a time from the stream", within(function(server)
      local _, counts, results = with_jobs(server, MANY)
      rn.sleep(1000)
      results:close()
      rn.sleep(3000)
      assert.same({ 0, MANY }, { server:count(), counts.remove })
      assert.is_true(counts.most <= 16, counts.most .. " requests at a time")
    end))
  end)

  it("sends strings as they are, if asked", within(function(server)
    server:worker(1, function(v) return v == "number" and 7 or v .. "\0\xff" end)
    local job = server:remote({ encoding = "raw" })
    assert.equal("abc\n\0\xff", job "abc\n")
    assert.matches('value: a string expected, got a number; to send other values,', select(2, pcall(job, 1)))
    assert.matches('result: a string expected, got a number', select(2, pcall(job, "number")))
  end))

  it("sends JSON, if asked", within(function(server)
    server:worker(1, function(v) return { v.a[2], "ü" } end)
    assert.same({ "x", "ü" }, server:remote({ encoding = "json" }) { a = { 1, "x" } })
  end))

  it("cancels jobs that nobody waits for any more: in workers and in the stream", within(function(server)
    local running, started, cancelled = 0, 0, 0
    local w = server:worker(2, function()
      running, started = running + 1, started + 1
      local leaving <close> = setmetatable({}, { __close = function(_, err) -- luacheck: ignore 211
        running = running - 1
        if err ~= nil then cancelled = cancelled + 1 end
      end })
      rn.sleep(1e6)
    end)
    local job = server:remote()
    local results = rn.pmap(5, job, { 1, 2, 3, 4, 5 })
    rn.sleep(100)
    assert.equal(2, running)
    assert.equal(5, server:count())
    results:close()
    rn.sleep(100)
    assert.is_true(started < 5, started .. " were started")
    assert.same({ 0, started, 0 }, { running, cancelled, server:count() })
    assert.same({ running = 0, waiting = 0, done = 0, failed = 0, given_up = 0, redelivered = 0 }, w:stats())
    assert.equal(0, job:stats().waiting)
    -- A timeout.
    local _, err = rn.pmap(1, job, { 1 }, { timeout = 300 }):take()
    assert.is_true(rn.is_timeout(err))
    rn.sleep(100)
    assert.same({ 0, started, 0 }, { running, cancelled, server:count() })
  end))

  it("removes a job from the stream that is stored after nobody waits for it any more", within(function(server)
    local sent = 0
    function server.intercept(subject)
      if not subject:find(JOBS) then return nil end
      sent = sent + 1
      if sent == 1 then return false end
      return 2000 -- it was sent again
    end
    local call = rn.go(server:remote(), 1)
    rn.sleep(1000)
    assert.equal(2, sent)
    rn.cancel(call)
    rn.sleep(1000)
    assert.equal(0, server:count())
    rn.sleep(2000)
    assert.same({ 2, 1, 0 }, { sent, server:stream().last, server:count() })
  end))

  it("cancels a job whose cancellation overtakes it", within(function(server)
    local running = 0
    server:worker(20, function()
      running = running + 1
      local function leave() running = running - 1 end
      local leaving <close> = setmetatable({}, { __close = leave }) -- luacheck: ignore 211
      rn.sleep(1e6)
    end)
    function server.intercept(subject)
      if subject:find(JOBS) then return 20 end
      if subject:find "^%$JS%.API%.STREAM%.MSG%.GET%.runnel%-jobs%-job" then return 40 end -- comes after the job
    end
    local job = server:remote()
    for i = 1, 10 do
      local call = rn.go(job, i)
      rn.sleep(1)
      rn.cancel(call)
    end
    rn.sleep(1000)
    assert.same({ 0, 0 }, { running, server:count() })
    job:close()
  end))

  it("sends a job again soon after its stream has refused it", function()
    local took
    local reports = reports_of(function(server)
      function server.intercept(subject)
        if subject:find(JOBS) and rn.now() < 50000 then
          return { code = 503, err_code = 10023, description = "insufficient resources" }
        end
      end
      server:worker(1, function(v) return v end)
      local job = server:remote()
      assert.equal(1, job(1))
      took = rn.now()
    end)
    assert.is_true(took < 54000)
    assert.same({ "remote job: its stream does not accept jobs for now: insufficient resources" },
      { #reports == 1 and tostring(reports[1].err) or #reports })
  end)

  it("runs jobs within 1 s that were lost on their way to the stream, however many #ci", within(function(server)
    for _, n in ipairs { 50, 300 } do
      server:worker(n, function(v) return v end)
      -- as if the server that leads the stream were stopped
      function server.intercept(subject)
        if subject:find(JOBS) then return false end
      end
      local job, done = server:remote(), rn.chan(n)
      for i = 1, n do rn.go(function() done:put(job(i)) end) end
      rn.sleep(100)
      server.intercept = nil
      local before = rn.now() - 100
      for _ = 1, n do done:take() end
      assert.is_true(rn.now() - before < (n == 50 and 1010 or 1510), rn.now() - before)
    end
  end))

  it("does not send all jobs again that wait for a worker", within(function(server)
    local count = 0
    function server.intercept(subject, data)
      if subject:find(JOBS) and data:find "^2 %S+ %d+ %S+ r" then count = count + 1 end -- it was sent before
    end
    local job = server:remote()
    for i = 1, long.times(1000, 5000) do rn.go(pcall, job, i) end
    rn.sleep(5000)
    assert.equal(0, count) -- the stream says that it has them
    job:close()
  end))

  it("asks again for the jobs that a request has not got in its time", within(function(server)
    server:worker(4, function(v) rn.sleep(v) end)
    local job = server:remote()
    rn.sleep(1000)
    for _ = 1, 2 do rn.go(pcall, job, 100) end
    rn.sleep(1000)
    local function asked()
      local sum = 0
      for _, left in ipairs(server:requests()) do sum = sum + left end
      return sum
    end
    assert.equal(2, #server:requests()) -- one for 4 jobs, of which two have come; and one for two more
    assert.equal(4, asked())
    rn.sleep(29000) -- the first one has ended, the second one has not
    assert.equal(2, #server:requests())
    assert.equal(4, asked())
    for _ = 1, 5 do rn.go(pcall, job, 5000) end
    rn.sleep(1000)
    assert.equal(0, asked())
  end))

  it("asks for no jobs while others reconnect, although the server has refused a request before", within(function(
    server)
    server:worker(1, function(v) return v end)
    local conn = server:connect()
    local function api(verb, body)
      return json.decode(assert(conn:request("$JS.API.CONSUMER." .. verb .. "runnel-jobs-job.workers", body)).data)
    end
    rn.sleep(100)
    local config = api("INFO.", "").config
    api("DELETE.", "") -- refuses the request that waits
    api("DURABLE.CREATE.", json.encode { stream_name = "runnel-jobs-job", config = config })
    server.server:kill()
    rn.sleep(450)
    server.server:restart()
    rn.sleep(300) -- it has looked for the consumer by then
    assert.equal(0, #server:requests())
    rn.sleep(150)
    assert.equal(1, #server:requests())
  end))

  it("runs a job once, however long it takes #ci", within(function(server)
    local starts = 0
    server:worker(1, function()
      starts = starts + 1
      rn.sleep(10 * 60 * 1000)
      return "done"
    end)
    server:worker(1, function() error "the other worker" end):drain()
    server:worker(1, function(v) return v end)
    local job = server:remote()
    assert.equal("done", job(1))
    assert.equal(1, starts)
  end))

  it("gives up a job that ends its workers after its last start, which runs alone, and no other job", within(function(
    server)
    local starts, beside, running, _, host = {}, {}, 0, nil, nil
    local ended = rn.chan(10)
    _, host = server:worker(10, function(v)
      starts[v] = (starts[v] or 0) + 1
      running = running + 1
      local function leave() running = running - 1 end
      local leaving <close> = setmetatable({}, { __close = leave }) -- luacheck: ignore 211
      if v == "poison" then
        beside[#beside + 1] = running - 1
        ended:put(true)
        host:kill()
      end
      rn.sleep(20)
      return v
    end)
    rn.go(function()
      for _ in ended do
        rn.sleep(50)
        running = 0
        host:restart()
      end
    end)
    local values = { 1, 2, 3, "poison", 5, 6, 7, 8, 9, 10 }
    for i = 11, 60 do values[i] = i end
    local errors = {}
    local results = stage.drain(rn.pmap(10, server:remote({ starts = 3 }), values, {
      ex_handler = function(err) errors[#errors + 1] = err end,
    }))
    ended:close()
    table.remove(values, 4)
    assert.same(values, results)
    assert.same({ "remote job: the job was given up: its worker fell silent at each of 3 starts" }, errors)
    assert.equal(3, starts.poison)
    assert.equal(0, beside[3])
  end))

  it("leaves nothing behind when it ends without closing", within(function(server)
    local _, host = server:on_host("submitter", function(conn)
      local job = conn:remote "job"
      for i = 1, 20 do rn.go(pcall, job, i) end
    end)
    rn.sleep(10)
    assert.equal(20, server:count())
    host:kill()
    local ran = {}
    server:worker(3, function(v) ran[v] = (ran[v] or 0) + 1 end)
    rn.sleep(5000)
    assert.equal(0, server:count())
    local count = 0
    for i = 1, 20 do
      assert.is_true((ran[i] or 0) <= 1)
      count = count + (ran[i] or 0)
    end
    assert.is_true(count >= 1 and count < 10, count) -- the worker looks whether the submitter is there
  end))

  it("that is closed drops its jobs, whose callers get an error", within(function(server)
    local job = server:remote()
    local waiting = rn.go(job, 1)
    local results = rn.pipeline_async(3, rn.chan(1), job, rn.to_chan { 1, 2, 3, 4 }, true,
      { ex_handler = function(err) return err end })
    rn.sleep(10)
    assert.equal(4, server:count())
    job:close()
    assert.same({ nil, "remote job: the remote stage is closed" }, { waiting:take() })
    assert.equal("remote job: the remote stage is closed", results:take())
    rn.sleep(10)
    assert.equal(0, server:count())
    assert.matches("remote/protocol_spec.lua:%d+: remote job: the remote stage is closed", select(2, pcall(function()
      return (job(1))
    end)))
    job:close()
    stage.drain(results)
  end))

  it("keeps its jobs waiting for a worker that can read them", function()
    local reports = reports_of(function(server)
      local version = wire.VERSION
      local job = server:remote()
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
      server:worker(1, print):drain() -- makes the consumer
      old:publish("$JS.API.CONSUMER.MSG.NEXT.runnel-jobs-job.workers", request, { reply = "_INBOX.old.p1" })
      rn.go(function()
        rn.sleep(3000)
        server:worker(1, function(v) return v + 1 end)
      end)
      assert.equal(2, job(1))
      assert.equal(1, refusals)
    end)
    assert.equal(1, #reports)
    assert.matches("remote job: the worker old speaks version 0 of the protocol, this program version", reports[1].err)
  end)
end)

describe("a worker", function()
  if missing then return pending(missing) end

  it("goes on when somebody sends jobs that make no sense", function()
    local reports = reports_of(function(server)
      local w = server:worker(2, function(v) return v + 1 end)
      local connection = server:connect()
      for i, text in ipairs {
        "", "not even a line", "2 r x raw - 5 1 1000\n", "2 r 1 raw\n", "2 r 1 raw -\n", "2 r 1 raw - 0 1 1000\n",
        "\n\n",
      } do
        connection:publish("runnel.jobs.job.x." .. i, text)
      end
      rn.sleep(100)
      assert.equal(0, server:count())
      connection:publish("runnel.jobs.job.x.y", "2 nobody 1 msgpack - 5 1 1000\n\xC1")
      rn.sleep(100)
      assert.equal(8, server:remote()(7))
      assert.equal("worker: job (0/2)", tostring(w))
    end)
    local errors = {}
    for i, report in ipairs(reports) do errors[i] = report.err end
    assert.same({
      "serve job: a message in its stream was removed: it is not a job",
      "serve job: a message in its stream was removed: its first line makes no sense",
    }, errors)
  end)

  it("leaves jobs with an encoding that it does not know to others, and both sides say so", function()
    local reports = reports_of(function(server)
      server:worker(2, function() error "it is called" end, { host = "old" })
      local job, connection = server:remote()
      connection:publish("runnel.jobs.job.x.1", wire.job(job.reply, 1, "cbor", "- 5 1 1000", "x"))
      rn.sleep(100)
      assert.equal(1, server:count())
    end)
    assert.equal(2, #reports)
    assert.equal("serve job: a job has an encoding that this worker does not know; it is left to other workers",
      reports[1].err)
    assert.matches("^remote job: the worker old:1 does not know the encoding", reports[2].err)
  end)

  it("leaves jobs of another version to others, and says so", function()
    local reports = reports_of(function(server)
      local w = server:worker(2, function() error "it is called" end, { host = "new" })
      local connection = server:connect()
      local inbox = connection:subscribe "_INBOX.other"
      connection:publish("runnel.jobs.job.x.1", "9 _INBOX.other something new\n")
      rn.sleep(100)
      assert.equal("9 - refused 0 2 new:1\n", inbox:take().data)
      assert.equal(1, server:count())
      assert.same({ running = 0, waiting = 0, done = 0, failed = 0, given_up = 0, redelivered = 0 }, w:stats())
    end)
    assert.equal(1, #reports)
    assert.equal("serve job: a job has version 9 of the protocol, this worker version 2; it is left to other workers. "
      .. "Use the same version of runnel in the workers and in the programs with conn:remote", reports[1].err)
  end)

  it("that drains ends the jobs that run, and leaves the others", within(function(server)
    local done = {}
    local w = server:worker(2, function(v)
      rn.sleep(1000)
      done[#done + 1] = v
      return v
    end)
    local job = server:remote()
    local results = rn.pmap(6, job, { 1, 2, 3, 4, 5, 6 })
    rn.sleep(500)
    assert.is_true(w:drain())
    w:wait()
    assert.same({ 1, 2 }, done)
    server:worker(6, function(v) return -v end)
    assert.same({ 1, 2, -3, -4, -5, -6 }, stage.drain(results))
  end))

  it("that drains gives back a job that comes meanwhile", within(function(server)
    local w = server:worker(2, function(v)
      rn.sleep(1000)
      return v
    end)
    local job = server:remote()
    local first = rn.go(job, 1)
    rn.sleep(100)
    local draining = rn.go(w.drain, w)
    rn.sleep(100)
    local second = rn.go(job, 2) -- for which the worker had asked
    rn.sleep(100)
    server:worker(1, function(v) return -v end)
    assert.equal(-2, second:take())
    assert.equal(1, first:take())
    assert.is_true(draining:take())
  end))

  -- A job that has killed its worker; its submitter, with so many `starts`, and its result.
  local function suspect(server, starts)
    local _, host
    _, host = server:worker(1, function() host:kill() end)
    local job = server:remote { starts = starts }
    local result = rn.go(job, "suspect")
    rn.sleep(100)
    return job, result
  end

  it("starts a job that must run alone when its other jobs have ended", within(function(server)
    local job, result = suspect(server, 2)
    local running, beside = 0, nil
    server:worker(3, function(v)
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

  it("that drains gives back a job whose starts it looks up", within(function(server)
    local _, result = suspect(server, 5)
    function server.intercept(subject)
      if subject:find "MSG%.GET%.KV_" then return false end
    end
    local w = server:worker(1, function(v) return v end)
    rn.sleep(600)
    assert.equal(1, w:stats().running)
    assert.is_true(w:drain())
    server.intercept = nil
    server:worker(1, function(v) return "other " .. v end)
    local before = sim.elapsed()
    assert.equal("other suspect", result:take())
    assert.is_true(sim.elapsed() - before < 100)
  end))

  it("that drains for too long stops, and its jobs run elsewhere at once", within(function(server)
    local w = server:worker(2, function() rn.sleep(1e6) end)
    local job = server:remote()
    local results = rn.pmap(2, job, { 1, 2 })
    rn.sleep(500)
    assert.is_false((w:drain(100)))
    local before = sim.elapsed()
    server:worker(2, function(v) return -v end)
    assert.same({ -1, -2 }, stage.drain(results))
    assert.is_true(sim.elapsed() - before < 100)
  end))

  it("never runs more than n jobs, and n of them when there is work", within(function(server)
    local running, peak, at_peak = {}, {}, 0
    for number = 1, 2 do
      running[number], peak[number] = 0, 0
      server:worker(3, function(v)
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
    assert.same(values, stage.drain(rn.pmap(20, server:remote(), values)))
    assert.same({ 3, 3 }, peak)
    assert.is_true(at_peak > 10)
  end))
end)
