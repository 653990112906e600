-- Bad input for remote stages.
local rn = require "runnel"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local remote_workers = require "spec.support.queue.remote_workers"
local stage = require "spec.support.stage"

local nats = nats_server.library()
local each_test = remote_workers.each_test
local start_workers = remote_workers.start_workers
local jobs_left = remote_workers.jobs_left

describe("bad input for remote stages", function()
  if remote_workers.missing then return pending(remote_workers.missing) end

  local function message(f, ...) return select(2, pcall(f, ...)) end

  it("raises at the caller's line", each_test(function(_, conn)
    local function remote(name, opts)
      return message(function() conn:remote(name, opts) end)
    end
    local at = "^%S*remote/input_spec.lua:%d+: "
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
    assert.matches(at .. "serve: max_running: an integer", serve("x", 1, print, { max_running = 0 }))
  end))

  it("is a stream with other settings", each_test(function(_, conn)
    assert(conn:request("$JS.API.STREAM.CREATE.runnel-jobs-x",
      '{"name":"runnel-jobs-x","subjects":["runnel.jobs.x.>"],"retention":"limits"}'))
    local at = "^%S*remote/input_spec.lua:%d+: "
    assert.matches(at .. "remote: the stream runnel%-jobs%-x: retention is limits, expected work",
      message(function() conn:remote "x" end))
    assert.matches(at .. "serve: the stream runnel%-jobs%-x: retention is limits, expected work",
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
    assert(conn:request("$JS.API.STREAM.CREATE.other", '{"name":"other","subjects":["runnel.jobs.y.>"]}'))
    assert.matches("remote: the stream runnel%-jobs%-y: subjects overlap with an existing stream",
      message(function() conn:remote "y" end))
  end))

  it("is a server without JetStream", function()
    local server <close> = nats_server.start { jetstream = false }
    local conn <close> = assert(nats.connect(server.url))
    assert.matches("remote/input_spec.lua:%d+: remote: .*JetStream", message(function() conn:remote "x" end))
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
      assert.equal(0, patience.wait_until(function() return jobs_left(conn, "x") == 0 and 0 end))
    end)
    assert.equal(1, #reports)
    assert.equal("serve x: a message in its stream was removed: it is not a job", reports[1].err)
  end))

  it("is a deleted stream, which is made again", each_test(function(server, conn)
    local w = start_workers(server, 1, "slow", 1)[1]
    local results = rn.pmap(3, conn:remote "slow", { 200, 201, 202 })
    assert(w:says "begins 200")
    assert(conn:request("$JS.API.STREAM.DELETE.runnel-jobs-slow", "", { timeout = 5000 }))
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
