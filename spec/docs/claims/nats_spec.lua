-- What the documents say of messages over NATS, streams on a server, and remote stages: in a simulated world.

local rn = require "runnel"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local no_nats = require "spec.support.missing" "runnel.nats"
local nats = not no_nats and require "runnel.nats"
local claim = require "spec.support.docs.claims"(no_nats and pending or it, no_nats)

-- Runs f(conn, ...) on a host of a world with a server, with as many connections as f wants.
local function with_conn(f, opts)
  sim.run(function()
    local world, ended = sim.world(), false
    world:nats "nats"
    world:host("here", function()
      local conn <close> = assert(nats.connect("nats://nats", opts))
      local other <close> = assert(nats.connect "nats://nats")
      f(conn, other, world)
      ended = true
    end)
    world:run(3600000)
    assert(ended, "it waits for ever")
  end)
end

-- The ms that f takes, and what it returns.
local function timed(f, ...)
  local began = sim.elapsed()
  local results = table.pack(f(...))
  return sim.elapsed() - began, table.unpack(results, 1, results.n)
end

local function about(expected, ms) assert.is_true(ms >= expected and ms < expected * 1.05 + 10, ms) end

describe("the documents say of NATS", function()
  claim("| `timeout` | number (ms) | 5000 | `conn:request` only: how long to wait for the answer |", function()
    with_conn(function(conn, other)
      local silent = other:subscribe "silent"
      other:flush()
      local ms, answer, err = timed(conn.request, conn, "silent", "x")
      about(5000, ms)
      assert.is_nil(answer)
      assert.is_true(rn.is_timeout(err))
      ms, answer, err = timed(conn.request, conn, "nobody", "x")
      assert.is_true(ms < 1000)
      assert.is_nil(answer)
      assert.is_false(rn.is_timeout(err))
      silent:close()
    end)
  end)

  claim("NATS delivers a message at most once, to those who subscribe at the time when it is published.", function()
    with_conn(function(conn, other)
      conn:publish("a", "early")
      conn:flush()
      local messages = other:subscribe "a"
      other:flush()
      conn:publish("a", "late")
      assert.equal("late", messages:take().data)
      messages:close()
    end)
  end)

  claim("In the subject, `*` stands for one part, `>` at the end for all that follow", function()
    with_conn(function(conn, other)
      local one, all = other:subscribe "a.*", other:subscribe "a.>"
      other:flush()
      for _, subject in ipairs { "a", "a.b", "a.b.c" } do conn:publish(subject, subject) end
      conn:flush()
      rn.sleep(100)
      assert.equal("a.b", one:take().data)
      assert.same({ "a.b", "a.b.c" }, { all:take().data, all:take().data })
      assert.is_nil(one:poll())
      assert.is_nil(all:poll())
      one:close()
      all:close()
    end)
  end)

  claim("each message goes to one of the subscriptions with the same group", function()
    with_conn(function(conn, other)
      local a, b = other:subscribe("s", { group = "q" }), conn:subscribe("s", { group = "q" })
      other:flush()
      conn:flush()
      for i = 1, 20 do conn:publish("s", tostring(i)) end
      local seen = {}
      for _ = 1, 20 do seen[#seen + 1] = tonumber(rn.alts { a, b }.data) end
      rn.sleep(100)
      assert.is_nil(a:poll())
      assert.is_nil(b:poll())
      table.sort(seen)
      for i = 1, 20 do assert.equal(i, seen[i]) end
      a:close()
      b:close()
    end)
  end)

  claim("raises if the message has no reply subject", function()
    with_conn(function(conn, other)
      local messages = other:subscribe "a"
      other:flush()
      conn:publish("a", "x")
      local m = messages:take()
      raises("", function() m:respond "y" end)
      messages:close()
    end)
  end)

  claim("reading `m.value` raises if the bytes are not valid", function()
    with_conn(function(conn, other)
      local messages = other:subscribe("a", { encoding = "json" })
      other:flush()
      conn:publish("a", "no json")
      local m = messages:take()
      assert.equal("no json", m.data)
      assert.is_false(pcall(function() return m.value end))
      messages:close()
    end)
  end)

  claim("then closes, after `timeout` (30000) in any case", function()
    with_conn(function(conn, other)
      local messages = other:subscribe "a"
      other:flush()
      conn:publish("a", "x")
      conn:flush()
      rn.sleep(100)
      local ms, ok, err = timed(other.drain, other) -- nobody takes the message
      about(30000, ms)
      assert.is_false(ok)
      assert.is_true(rn.is_timeout(err))
      messages:close()
    end)
  end)

  claim("`delivered`, `dropped`, `waiting`, `waiting_bytes`", function()
    with_conn(function(conn)
      local messages, sub = conn:subscribe "a"
      local fields = {}
      for name in pairs(sub:stats()) do fields[#fields + 1] = name end
      table.sort(fields)
      assert.equal("delivered dropped waiting waiting_bytes", table.concat(fields, " "))
      messages:close()
    end)
  end)

  claim("The longest message in bytes", function()
    with_conn(function(conn)
      assert.equal(1048576, conn.max_payload)
      assert.is_true(conn:publish("a", ("x"):rep(1048576)))
      assert.is_false(pcall(function() assert(conn:publish("a", ("x"):rep(1048577))) end))
    end)
  end)
end)

describe("the documents say of streams on a server", function()
  claim("`duplicates` | number (ms) | 120000 |", function()
    with_conn(function(conn)
      assert(conn:stream "orders")
      local sink = assert(conn:sink "orders")
      assert.same({ true, 1, false }, { sink:put("a", { id = "1" }) })
      rn.sleep(110000)
      assert.same({ true, 1, true }, { sink:put("a", { id = "1" }) })
      rn.sleep(125000)
      assert.same({ true, 2, false }, { sink:put("a", { id = "1" }) })
    end)
  end)

  claim("| `ack_wait` | number (ms) | 30000 | the time from the take after which a message that is not acknowledged is "
    .. "delivered again |", function()
    with_conn(function(conn)
      assert(conn:stream "orders")
      assert(assert(conn:sink "orders"):put "a")
      local source = assert(conn:source("orders", { name = "a" }))
      rn.sleep(100000) -- the time does not run while it waits for a taker
      assert.equal(1, source:take().deliveries)
      local ms, m = timed(source.take, source)
      assert.equal(2, m.deliveries)
      assert.is_true(ms > 29500 and ms < 31000, ms)
      source:close()
    end)
  end)

  claim("nil and an error; so it is if the stream has other settings than those given: then it is not changed",
    function()
    with_conn(function(conn)
      local stream = assert(conn:stream("orders", { max_messages = 10 }))
      assert(conn:stream "orders")
      local other, err = conn:stream("orders", { max_messages = 20 })
      assert.is_nil(other)
      assert.is_string(tostring(err))
      assert.is_true(stream:change { max_messages = 20 })
      assert(conn:stream("orders", { max_messages = 20 }))
    end)
  end)

  claim("For that the stream `to` must have the retention `\"limits\"`.", function()
    with_conn(function(conn)
      assert(conn:stream "orders")
      assert(conn:stream("results", { retention = "workqueue" }))
      local stage, err = conn:stage("orders", 1, tostring, "results")
      assert.is_nil(stage)
      assert.matches("at_least_once", tostring(err))
      assert(conn:stage("orders", 1, tostring, "results", { at_least_once = true })):stop()
    end)
  end)

  claim("Without `to` there are no results, and the option `name` is needed", function()
    with_conn(function(conn)
      assert(conn:stream "orders")
      raises("name", function() conn:stage("orders", 1, tostring) end)
    end)
  end)

  claim("the present values (the last one has `remaining` 0), then each change", function()
    with_conn(function(conn)
      local bucket = assert(conn:kv "b")
      for i = 1, 3 do bucket:put("k" .. i, "v") end
      local changes = bucket:watch()
      local remaining = {}
      for i = 1, 3 do remaining[i] = changes:take().remaining end
      assert.same({ 2, 1, 0 }, remaining)
      bucket:delete "k1"
      assert.is_true(changes:take().deleted)
      changes:close()
    end)
  end)
end)

describe("the documents say of remote stages", function()
  claim("A worker never runs more than `n` jobs at a time.", function()
    with_conn(function(conn, other)
      local running, most = 0, 0
      local worker = other:serve("f", 3, function(v)
        running = running + 1
        most = math.max(most, running)
        rn.sleep(10)
        running = running - 1
        return v * 2
      end)
      local list = {}
      for i = 1, 30 do list[i] = i end
      local results = rn.into({}, rn.pmap(16, conn:remote "f", list)):take()
      for i = 1, 30 do assert.equal(2 * i, results[i]) end
      assert.equal(3, most)
      worker:stop()
    end)
  end)

  claim("A job that raises an error, or returns nil and one, is tried `tries` times, 1 by default.", function()
    with_conn(function(conn, other)
      local calls = 0
      local worker = other:serve("f", 3, function()
        calls = calls + 1
        error("no", 0)
      end)
      local remote = conn:remote("f", { dead = false })
      local ok, err = pcall(remote, 1)
      assert.is_false(ok)
      assert.matches("^no\n", err) -- the worker's name and traceback are appended
      assert.equal(1, calls)
      local three = conn:remote("f", { tries = 3, dead = false, traceback = false })
      assert.same({ false, "no" }, { pcall(three, 1) })
      assert.equal(4, calls)
      worker:stop()
    end)
  end)

  claim("If no worker has taken a job for 5 s, or the stage is paused, the program says so on stderr, once.", function()
    with_conn(function(conn)
      local times = {}
      local before = rn.on_error(function() times[#times + 1] = sim.elapsed() end)
      local began = sim.elapsed()
      local call = rn.go(conn:remote "f", 1)
      rn.sleep(60000)
      rn.on_error(before)
      if times[1] then about(5000, times[1] - began) end
      assert.is_true(#times <= 1, #times)
      rn.cancel(call)
    end)
  end)

  claim("The server delivers the job again 5 s later. It has not failed, and the start does not count.", function()
    with_conn(function(conn, other)
      local times = {}
      local before = rn.on_error(function() end)
      local worker = other:serve("f", 1, function(v)
        times[#times + 1] = sim.elapsed()
        if #times < 8 then nats.hand_back "not now" end
        return v
      end)
      assert.equal(1, conn:remote "f"(1)) -- more often than `starts`
      rn.on_error(before)
      for i = 2, 8 do about(5000, times[i] - times[i - 1]) end
      worker:stop()
    end)
  end)

  claim("or `{ jobs, ms }`: that many in any `ms` ms (at least 100)", function()
    with_conn(function(conn, other)
      local times, list = {}, {}
      local worker = other:serve("f", 10, function() times[#times + 1] = sim.elapsed() end, { rate = { 3, 1000 } })
      for i = 1, 12 do list[i] = i end
      rn.into({}, rn.pmap(12, conn:remote "f", list)):take()
      assert.equal(12, #times)
      for i = 4, 12 do assert.is_true(times[i] - times[i - 3] >= 1000, i) end
      raises("at least 1 call and 100 ms", function() other:serve("g", 1, tostring, { rate = { 3, 99 } }) end)
      worker:stop()
    end)
  end)

  claim("The first worker of a stage decides; another value is an error", function()
    with_conn(function(conn, other)
      local worker = conn:serve("f", 1, tostring, { ack_wait = 700 })
      rn.sleep(100)
      raises("ack_wait", function() other:serve("f", 1, tostring, { ack_wait = 800 }) end)
      worker:stop()
    end)
  end)

  claim("`name`: letters, digits, `-` and `_`", function()
    with_conn(function(conn)
      assert(conn:remote "aZ-_9")
      for _, name in ipairs { "a.b", "a b", "", "ä", "*" } do raises("", function() conn:remote(name) end) end
    end)
  end)
end)
