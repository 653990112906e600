-- Remote stages over real servers, with workers in processes of their own.
local rn = require "runnel"
local patience = require "spec.support.patience"
local remote_workers = require "spec.support.queue.remote_workers"
local stage = require "spec.support.stage"

local _, nats = pcall(require, "runnel.nats")
local each_test = remote_workers.each_test
local start_workers = remote_workers.start_workers
local jobs_left = remote_workers.jobs_left
local range = remote_workers.range

describe("a stage", function()
  if remote_workers.missing then return pending(remote_workers.missing) end

  it("has the same results here, in two threads, and in four processes #ci", each_test(function(server, conn)
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
  if remote_workers.missing then return pending(remote_workers.missing) end

  it("that come for the first time start without a question to the submitter #ci", each_test(function(server, conn)
    local working <close> = assert(nats.connect(server.url))
    local worker = working:serve("plain", 32, function(v) return v end, { ack_wait = 60000 })
    assert.equal(5000, #stage.drain(rn.pmap(128, conn:remote "plain", range(5000))))
    assert.same({ 5000, 0 }, { worker:stats().done, worker:stats().redelivered })
    worker:stop()
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

  it("of two submitters do not mix #ci", each_test(function(server, conn)
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

  it("that wait for a worker are not taken for ones that the stream will not deliver", each_test(function(_, conn)
    local job = conn:remote "x"
    rn.go(pcall, job, 5)
    patience.wait_until(function() return jobs_left(conn, "x") == 1 end)
    local stream = job.stream
    assert.is_false(stream:is_stuck(job:subject(job.jobs["1"]))) -- there is no consumer
    assert.is_false(stream:is_stuck "runnel.jobs.x.nothing")
    job:close()
  end))

  it("that run are not sent again, although the server's floor has passed them", each_test(function(_, conn)
    local job = conn:remote "x"
    rn.go(pcall, job, 5)
    patience.wait_until(function() return jobs_left(conn, "x") == 1 end) -- with the number 1
    local info = {}
    function conn.request(self, subject, ...)
      if subject ~= "$JS.API.CONSUMER.INFO.runnel-jobs-x.workers" then
        return getmetatable(self).request(self, subject, ...)
      end
      return { data = ('{"ack_floor":{"stream_seq":%d},"num_redelivered":%d,"delivered":{"stream_seq":%d}}')
        :format(info[1], info[2], info[3]) }
    end
    for _, case in ipairs {
      { 1, 1, 1, false }, { 1, 0, 1, true }, { 0, 0, 1, false },
      -- The stream has lost the messages from 2 on: redelivered ones are never finished.
      { 9, 1, 9, true }, { 9, 0, 9, true }, { 0, 1, 9, false },
    } do
      info = case
      assert.equal(case[4], job.stream:is_stuck(job:subject(job.jobs["1"])))
    end
    conn.request = nil
    job:close()
  end))
end)
