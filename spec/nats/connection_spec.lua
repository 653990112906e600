-- nats.connect and the methods of a connection, with real servers.

local rn = require "runnel"
local interrupted = require "spec.support.interrupted"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local raises = require "spec.support.raises"
local remains = require "spec.support.remains"
local stage = require "spec.support.stage"

describe("a connection to NATS", function()
  local nats, missing = nats_server.library()
  if not nats then return pending(missing) end

  local server, conn

  setup(function() server = nats_server.start { jetstream = false } end)
  teardown(function() server:close() end)
  before_each(function() conn = assert(nats.connect(server.url)) end)
  after_each(function() conn:close() end)

  local function take(ch) return (ch:take()) end

  -- Takes events up to one of that name.
  local function event_of(events, name)
    while true do
      local event = take(events)
      if event.event == name then return event end
    end
  end

  -- The memory of this process, where the system tells it.
  local function kilobytes()
    collectgarbage()
    collectgarbage()
    local file <close> = io.open "/proc/self/status"
    return file and tonumber(file:read("a"):match "VmRSS:%s*(%d+)")
  end

  -- Answers each message to a subject by a function of it.
  local function answer(subject, f)
    local ch = conn:subscribe(subject)
    rn.go(function()
      for message in ch do f(message) end
    end)
    assert.is_true(conn:flush())
    return ch
  end

  describe("publish and subscribe", function()
    it("carry strings of any bytes, in order", function()
      local ch = conn:subscribe "bytes"
      local sent = { "", "\0", ("long "):rep(100000), "last" }
      for _, text in ipairs(sent) do assert.is_true(conn:publish("bytes", text)) end
      for _, text in ipairs(sent) do
        local message = take(ch)
        assert.equal("bytes", message.subject)
        assert.equal(text, message.data)
        assert.equal(text, message.value)
        assert.is_nil(message.reply)
        assert.is_nil(message.headers)
      end
    end)

    it("carry a reply subject and headers", function()
      local ch = conn:subscribe "headers"
      conn:publish("headers", "x", { reply = "to.me", headers = { ["Nats-Msg-Id"] = 7, Several = { "a", "b" } } })
      local message = take(ch)
      assert.equal("to.me", message.reply)
      assert.same({ ["Nats-Msg-Id"] = "7", Several = { "a", "b" } }, message.headers)
    end)

    it("carry values as MessagePack or JSON", function()
      local value = { list = { 1, 2, 3 }, yes = true, text = "ü", half = 0.5 }
      for _, encoding in ipairs { "msgpack", "json" } do
        local other <close> = assert(nats.connect(server.url, { encoding = encoding }))
        local ch = other:subscribe "values"
        other:publish("values", value)
        assert.same(value, take(ch).value)
        other:publish("values", "bytes that are not valid: \xC1", { encoding = "raw" })
        local message = take(ch)
        raises("the message to \"values\" is not valid " .. encoding, function() return message.value end)
        assert.equal("bytes that are not valid: \xC1", message.data)
      end
    end)

    it("match wildcards", function()
      local one, rest = conn:subscribe "w.*.z", conn:subscribe "w.>"
      for _, subject in ipairs { "w.a.z", "w.a.y", "w.b.z" } do conn:publish(subject, "") end
      assert.equal("w.a.z", take(one).subject)
      assert.equal("w.b.z", take(one).subject)
      for _, subject in ipairs { "w.a.z", "w.a.y", "w.b.z" } do assert.equal(subject, take(rest).subject) end
    end)

    it("take '*' and '>' inside a part of a subject as they are", function()
      local ch = conn:subscribe "w*.*y.x>"
      conn:publish("wa.by.xc", "")
      conn:publish("w*.*y.x>", "")
      assert.equal("w*.*y.x>", take(ch).subject)
    end)

    it("give each message to one subscription of a queue", function()
      local a = conn:subscribe("q", { group = "g", buffer = 200 })
      local b = conn:subscribe("q", { group = "g", buffer = 200 })
      for i = 1, 100 do conn:publish("q", tostring(i)) end
      local seen = {}
      for _ = 1, 100 do
        local message = rn.alts { a, b }
        assert.is_nil(seen[message.data])
        seen[message.data] = true
      end
      assert.is_true(conn:flush())
      assert.equal(0, #a + #b)
    end)

    it("stop when the channel is closed", function()
      local ch, sub = conn:subscribe "stop"
      conn:publish("stop", "1")
      take(ch)
      ch:close()
      conn:publish("stop", "2")
      assert.is_true(conn:flush())
      assert.equal(1, sub:stats().delivered)
    end)

    it("deliver what has arrived when the subscription is closed, and then close the channel", function()
      local ch, sub = conn:subscribe("close", { encoding = "json" })
      for i = 1, 100 do conn:publish("close", tostring(i)) end
      conn:flush()
      assert.is_true(patience.wait_until(function() return sub:stats().delivered == 100 end))
      sub:close()
      sub:close()
      assert.same({ false, "Invalid Subscription" }, { sub:drain() })
      for i = 1, 100 do assert.equal(i, take(ch).value) end
      assert.is_nil(take(ch))
    end)

    it("deliver all that was sent when the subscription is drained", function()
      local ch, sub = conn:subscribe "drain"
      for i = 1, 3000 do conn:publish("drain", tostring(i)) end
      conn:flush()
      local drained = rn.go(sub.drain, sub, 60000)
      rn.yield()
      conn:publish("drain", "too late")
      for i = 1, 3000 do assert.equal(tostring(i), take(ch).data) end
      assert.is_nil(take(ch))
      assert.is_true(drained:take())
      assert.equal(3000, sub:stats().delivered)
    end)

    it("are drained within the time: what nobody takes ends the wait with a timeout error", function()
      local ch, sub = conn:subscribe "drain"
      conn:publish("drain", "1")
      conn:flush()
      local drained, err = sub:drain(20)
      assert.is_false(drained)
      assert.is_true(rn.is_timeout(err))
      assert.equal("the subscription drain was not drained within 20 ms", tostring(err))
      assert.same({ "1" }, { take(ch).data, take(ch) })
    end)

    it("have limits that may be larger than the library's", function()
      local ch, sub = conn:subscribe("large", { max_waiting = (1 << 32) + 1, max_waiting_bytes = (1 << 32) + 1 })
      for _ = 1, 3000 do conn:publish("large", "x") end
      conn:flush()
      rn.go(sub.drain, sub)
      assert.equal(3000, #stage.drain(ch))
    end)

    it("leave no memory behind when they end #slow #ci", function()
      if not kilobytes() then return pending "the system does not tell how much memory a process has" end
      local function subscribe_and_end(times)
        for _ = 1, times do
          local ch = conn:subscribe "ends"
          conn:publish("ends", "x")
          take(ch)
          ch:close()
        end
        return kilobytes()
      end
      local before = subscribe_and_end(500)
      local more = subscribe_and_end(1500) - before
      assert.is_true(more < 4000, more .. " KB more")
    end)

    it("wait while the channel is full, and count and report what is dropped beyond the limit", function()
      local ch, sub = conn:subscribe("slow", { max_waiting = 100 })
      local events = conn:events()
      for _ = 1, 5000 do conn:publish("slow", "x") end
      conn:flush()
      local event = event_of(events, "dropped")
      assert.equal("slow", event.subject)
      assert.is_true(event.dropped > 0)
      assert.is_true(patience.wait_until(function()
        local stats = sub:stats()
        return stats.delivered + stats.dropped + stats.waiting >= 5000
      end))
      rn.go(sub.drain, sub)
      local got = #stage.drain(ch)
      assert.equal(5000, got + sub:stats().dropped)
      assert.is_true(got >= 100)
    end)
  end)

  describe("request", function()
    it("returns the answer, also for many at a time", function()
      answer("double", function(message) message:respond(tostring(message.data * 2)) end)
      assert.equal("84", conn:request("double", "42").data)
      local results = {}
      for i = 1, 200 do
        results[i] = rn.go(function() return assert(conn:request("double", tostring(i))).data end)
      end
      for i = 1, 200 do assert.equal(tostring(2 * i), results[i]:take()) end
      assert.is_nil(next(conn.requests))
    end)

    it("uses the encoding and headers that it is given", function()
      answer("meta", function(message) message:respond(message.headers.Name .. message.data) end)
      local reply = conn:request("meta", { 1 }, { timeout = 5000, encoding = "json", headers = { Name = "x" } })
      assert.equal("x[1]", reply.data)
    end)

    it("ends after its time, and ignores an answer that comes later", function()
      local late
      answer("late", function(message) late = message end)
      local reply, err = conn:request("late", "", { timeout = 30 })
      assert.is_nil(reply)
      assert.is_true(rn.is_timeout(err))
      assert.matches("^the request had no reply after 30 ms$", tostring(err))
      assert.is_truthy(patience.wait_until(function() return late end))
      late:respond "too late"
      assert.is_true(conn:flush())
      assert.is_nil(next(conn.requests))
    end)

    it("fails at once if nobody subscribes", function()
      local reply, err = conn:request("nobody", "", { timeout = 60000 })
      assert.is_nil(reply)
      assert.equal('nobody answers requests to "nobody" (no responders)', err)
    end)

    it("is withdrawn when its go block is cancelled", function()
      answer("never", function() end)
      local asking = rn.go(function() conn:request("never", "") end)
      rn.yield()
      rn.cancel(asking)
      asking:take()
      assert.is_nil(next(conn.requests))
    end)

    it("ends when the connection closes", function()
      answer("never", function() end)
      local asking = rn.go(function() return select(2, conn:request("never", "")) end)
      rn.yield()
      conn:close()
      assert.equal("the connection is closed", asking:take())
    end)

    it("does not keep the program running after its answer", function()
      local request = conn:request("nobody", "")
      assert.is_nil(request)
      local before = rn.now()
      rn.run()
      assert.is_true(rn.now() - before < 2000)
    end)
  end)

  describe("beat", function()
    it("sends while Lua computes, until unbeat", function()
      local ch, sub = conn:subscribe("beat", { buffer = 1000 })
      conn:flush()
      conn:beat("beat", "still here", 5)
      local before = rn.now()
      while sub:stats().delivered < 3 and rn.now() - before < 30000 do end
      conn:unbeat "beat"
      -- How many beats come before a message that is sent now.
      local function beats()
        conn:publish("beat", "end")
        local count = 0
        while take(ch).data == "still here" do count = count + 1 end
        return count
      end
      local count = beats()
      assert.is_true(count >= 3, count .. " beats")
      rn.sleep(20)
      assert.equal(0, beats())
    end)

    it("is sent never, if its time is longer than any program runs", function()
      local ch = conn:subscribe("beat", { buffer = 10 })
      conn:beat("beat", "", 1e300)
      rn.sleep(30)
      conn:flush()
      assert.equal(0, #ch)
    end)

    it("has ended with the connection", function()
      local beat, attended = conn.core:beat("beat", "", 60000, ""), conn.core:attend(rn.chan())
      conn:close()
      conn.core:unbeat(beat)
      conn.core:unattend(attended)
      assert.equal("closed", conn:stats().status)
    end)

    it("can be added and removed thousands of times", function()
      for i = 1, 5000 do conn:beat("b" .. i, "", 60000) end
      for i = 5000, 1, -1 do conn:unbeat("b" .. i) end
      conn:beat("b1", "", 60000)
      raises('beat: "b1" has a beat already', function() conn:beat("b1", "", 1) end)
      raises('beat: the subject "a b" has a space', function() conn:beat("a b", "", 1) end)
      conn:close()
      conn:unbeat "b1"
      assert.same({ nil, "Connection Closed" }, { conn:beat("b1", "", 1) })
    end)
  end)

  describe("events", function()
    it("leave no memory behind when their channel is closed #slow", function()
      if not kilobytes() then return pending "the system does not tell how much memory a process has" end
      local function listen_and_close(times)
        for i = 1, times do
          conn:events():close()
          if i % 100 == 0 then rn.sleep(1) end -- the scheduler frees ports when it waits
        end
        return kilobytes()
      end
      local before, least = listen_and_close(1000), math.huge
      for _ = 1, 5 do -- on a busy machine the library's thread may have freed little yet
        local after = listen_and_close(5000)
        least, before = math.min(least, after - before), after
        if least < 3000 then return end
      end
      error(least .. " KB more, at least")
    end)
  end)

  describe("a program that computes", function()
    -- Starts a program, and returns what says that it is ready.
    local function start(text)
      local command = { os.getenv "LUA" or "lua5.4", server.set:write("computes.lua", text), server.url }
      local started = server.set:start(command)
      assert(started:says("ready"), started:output())
      return started
    end

    it("has sent what it published before", function()
      local program = start [[
        local rn = require "runnel"
        local conn = assert(require("runnel.nats").connect(arg[1]))
        rn.go(function()
          local ch = conn:subscribe "computes"
          conn:flush()
          print "ready"
          io.stdout:flush()
          for m in ch do
            m:respond "answer"
            while true do end
          end
        end):take()
      ]]
      assert.equal("answer", conn:request("computes", "", { timeout = 30000 }).data)
      assert.is_nil(program:status()) -- it computes
      program:signal "KILL"
    end)

    it("stays connected: the server's pings are answered", function()
      -- The server gives a client up that has not answered for 1 s; on a busy machine it gets its share of time later.
      local factor = patience.factor()
      local config = 'ping_interval: "250ms"\nping_max: ' .. math.ceil(4 * factor)
      local strict <close> = nats_server.start { jetstream = false, config = config }
      local other <close> = assert(nats.connect(strict.url, { reconnect_wait = 20 }))
      local events = other:events()
      os.execute(("sleep %.2f"):format(1.75 * factor)) -- Lua does not run meanwhile
      assert.is_true(other:flush())
      assert.equal(0, #events)
      assert.equal(0, other:stats().reconnects)
    end)
  end)

  describe("send_asap = false", function()
    it("sends all the same: inside and outside of go blocks, and before the end", function()
      local ch = conn:subscribe("later", { buffer = 10 })
      conn:flush()
      local other = assert(nats.connect(server.url, { send_asap = false }))
      other:publish("later", "outside")
      assert.equal("outside", take(ch).data)
      rn.go(function() other:publish("later", "inside") end)
      assert.equal("inside", take(ch).data)
      other:publish("later", "last")
      other:close()
      assert.equal("last", take(ch).data)
    end)
  end)

  describe("the end", function()
    it("sends what was published before", function()
      local ch = conn:subscribe("before.end", { buffer = 2000 })
      conn:flush()
      rn.go(function()
        local other = assert(nats.connect(server.url))
        other:flush()
        for i = 1, 1000 do other:publish("before.end", tostring(i)) end
        other:close()
      end):take()
      for i = 1, 1000 do assert.equal(tostring(i), take(ch).data) end
    end)

    it("closes channels and refuses further work", function()
      local ch, events = conn:subscribe "x", conn:events()
      local reasons = {}
      conn:on_close(function(err) reasons[#reasons + 1] = err or "none" end)
      local removed = conn:on_close(function() reasons[#reasons + 1] = "removed" end)
      removed()
      conn:close()
      conn:close()
      assert.same({ "none" }, reasons)
      assert.is_nil(take(ch))
      assert.is_nil(take(events))
      assert.is_nil(take(conn:events()))
      assert.same({ nil, "Connection Closed" }, { conn:publish("x", "") })
      assert.same({ nil, "Connection Closed" }, { conn:publish("x", "", { headers = { a = "b" } }) })
      assert.same({ nil, "Connection Closed" }, { conn:subscribe "x" })
      assert.same({ nil, "Connection Closed" }, { conn:request("x", "") })
      assert.equal("closed", conn:stats().status)
      assert.matches("%(closed%)$", tostring(conn))
    end)

    it("drains: what has arrived is delivered, answers are sent", function()
      local other <close> = assert(nats.connect(server.url))
      local ch, answers = conn:subscribe "work", other:subscribe("done", { buffer = 2000 })
      other:flush()
      for i = 1, 1000 do other:publish("work", tostring(i)) end
      other:flush()
      local working = rn.go(function()
        local n = 0
        for message in ch do
          n = n + 1
          conn:publish("done", message.data)
        end
        return n
      end)
      local reason = "not called"
      conn:on_close(function(err) reason = err end)
      assert.is_true(conn:drain(10000))
      assert.is_nil(reason)
      assert.equal(1000, working:take())
      assert.is_true(patience.wait_until(function() return #answers == 1000 end))
    end)

    it("drains no longer than it may", function()
      conn:subscribe "stuck"
      for _ = 1, 3000 do conn:publish("stuck", "") end
      conn:flush()
      local ok, err = conn:drain(50)
      assert.is_false(ok)
      assert.equal("the connection was not drained within 50 ms", tostring(err))
      assert.same({ false, "the connection is closed" }, { conn:drain(50) })
    end)
  end)

  describe("a server that fails", function()
    local victim

    before_each(function() victim = nats_server.start { jetstream = false } end)
    after_each(function() victim:close() end)

    it("comes back: subscriptions go on, and what was published meanwhile is sent", function()
      local other <close> = assert(nats.connect(victim.url, { reconnect_wait = 20 }))
      local ch, events, told = other:subscribe("a", { buffer = 10 }), other:events(), {}
      other:on_event(function(event) told[#told + 1] = event.event end)
      other:flush()
      victim:kill()
      event_of(events, "disconnected")
      assert.is_true(other:publish("a", "meanwhile"))
      assert.equal("reconnecting", other:stats().status)
      assert.is_true(rn.is_timeout(select(2, other:request("a", "", { timeout = 30 }))))
      victim:start()
      assert.equal(victim.url, event_of(events, "reconnected").url)
      assert.equal("meanwhile", take(ch).data)
      assert.same({ "disconnected", "reconnected" }, told)
      assert.equal(1, other:stats().reconnects)
    end)

    it("leaves no socket behind, neither of the lost connection nor of the closed one", function()
      local before = remains.now()
      local other = assert(nats.connect(victim.url, { reconnect_wait = 20 }))
      local events = other:events()
      victim:kill()
      victim:start()
      event_of(events, "reconnected")
      other:close()
      assert.is_nil(remains.since(before))
    end)

    it("gets the messages of beats that say so in place of the first ones", function()
      local other <close> = assert(nats.connect(victim.url, { reconnect_wait = 20 }))
      local ch, events = other:subscribe("a", { buffer = 1000 }), other:events()
      other:beat("a", "here", 5, "here again")
      assert.equal("here", take(ch).data)
      victim:kill()
      event_of(events, "disconnected")
      rn.sleep(20) -- one is due
      victim:start()
      while take(ch).data == "here" do end -- from before
      assert.same({ "here", "here" }, { take(ch).data, take(ch).data })
      other:unbeat "a"
      raises("^beat: again: a string expected, got a number$", function() other:beat("a", "", 5, 5) end)
    end)

    it("has lost answers: requests that ask for it end at the reconnect, but those that were sent after it", function()
      local other <close> = assert(nats.connect(victim.url, { reconnect_wait = 20 }))
      local echo, events = other:subscribe "echo", other:events()
      assert(other:subscribe "silence")
      rn.go(function()
        for message in echo do message:respond(message.data) end
      end)
      local function request(subject, opts)
        opts = opts or {}
        opts.timeout = 60000
        return rn.go(function()
          local message, err = other:request(subject, "x", opts)
          return message and message.data or err
        end)
      end
      local ends, waits = request("silence", { until_reconnect = true }), request "silence"
      rn.yield()
      assert(other:flush())
      victim:kill()
      event_of(events, "disconnected")
      local late = request("echo", { until_reconnect = true })
      rn.yield()
      victim:start()
      assert.equal("the connection was lost meanwhile", ends:take())
      assert.equal("x", late:take())
      assert.is_false(waits:closed())
    end)

    it("does not hold up the program while it gives no answer to a new connection", function()
      if not nats_server.has_proxy then return pending "luv is not installed" end
      local proxy = nats_server.proxy(victim)
      local other <close> = assert(nats.connect(proxy.url, { reconnect_wait = 20, reconnect_buffer = 9000 }))
      local ch, events = other:subscribe("a", { buffer = 100 }), other:events()
      other:flush()
      victim:pause()
      proxy:cut()
      event_of(events, "disconnected")
      other:beat("a", "a beat", 1)
      local longest, before = 0, rn.now()
      while rn.now() - before < 500 do
        local start = rn.now()
        assert.is_true(other:publish("a", "x", { headers = { Name = "value" } }))
        assert.equal("reconnecting", other:stats().status)
        longest = math.max(longest, rn.now() - start)
        rn.sleep(20)
      end
      assert.is_true(longest < 1500, longest .. " ms")
      assert.same({ nil, "Insufficient Buffer" }, { other:publish("a", ("x"):rep(9000)) })
      local kept = 0 -- messages without bytes take memory as well
      while other:publish("a", "") and kept < 1000 do kept = kept + 1 end
      assert.is_true(kept < 100, kept .. " messages")
      other:unbeat "a"
      victim:resume()
      event_of(events, "reconnected")
      other:publish("a", "last")
      local message
      repeat
        message = take(ch)
      until message.data ~= "a beat"
      assert.same({ Name = "value" }, message.headers)
      repeat
        message = take(ch)
      until message.data == "last"
    end)

    it("is given up after max_reconnects: everything ends with an error", function()
      local other <close> = assert(nats.connect(victim.url, { reconnect_wait = 10, max_reconnects = 2 }))
      local ch, events, reason = other:subscribe "a", other:events(), nil
      local closed = other:events()
      closed:close() -- disturbs nobody
      other:on_close(function(err) reason = err end)
      local asking = rn.go(function() return select(2, other:request("a", "", { timeout = 60000 })) end)
      other:flush()
      victim:kill()
      event_of(events, "closed")
      assert.is_nil(take(events))
      assert.is_string(reason)
      assert.equal(reason, asking:take())
      while take(ch) do end
      assert.is_nil((other:publish("a", "")))
    end)

    it("stalls: a publish fails after write_timeout, and the connection recovers", function()
      local other <close> = assert(nats.connect(victim.url, {
        write_timeout = 100, reconnect_wait = 20,
        ping_interval = 60000, -- else a ping may find out first, on a slow machine
      }))
      other:flush()
      local events = other:events()
      victim:pause()
      local ok, err
      for _ = 1, 1000 do
        ok, err = other:publish("a", ("x"):rep(100000))
        if not ok then break end
      end
      victim:resume()
      assert.is_nil(ok)
      -- If libnats' own thread is the first to find out, publishing goes on until what waits to be sent is too much.
      assert.is_true(err == "Timeout" or err == "Insufficient Buffer", err)
      event_of(events, "reconnected")
      assert.is_true(other:flush())
    end)
  end)

  describe("connecting", function()
    it("says why it failed", function()
      local function fails(pattern, ...)
        local none, err = nats.connect(...)
        assert.is_nil(none)
        assert.matches(pattern, err)
      end
      fails("^cannot connect to nats://127.0.0.1:1: No server available", "nats://127.0.0.1:1")
      local guarded <close> = nats_server.start { jetstream = false, user = "me", password = "secret" }
      local plain = guarded.url:gsub("//.*@", "//")
      fails("[Aa]uthorization", plain)
      fails("[Aa]uthorization", plain, { user = "me", password = "wrong" })
      assert(nats.connect(plain, { user = "me", password = "secret" })):close()
      assert(nats.connect(guarded.url)):close()
    end)

    it("raises what Ctrl-C raises, wherever it comes", function()
      rn.on_error(function() end) -- gets it if it comes in a callback
      finally(function() rn.on_error(nil) end)
      local n = interrupted.each("planted", function() return nats.connect "nats://127.0.0.1:1" end, function(ok, err)
        if not ok then assert.equal("planted", err) end
      end)
      assert.is_true(n > 50, n)
    end)

    it("shows no password", function()
      local _, err = nats.connect "nats://me:secret@127.0.0.1:1,nats://token@127.0.0.1:2"
      assert.matches("^cannot connect to nats://127.0.0.1:1, nats://127.0.0.1:2: ", err)
      local guarded <close> = nats_server.start { jetstream = false, user = "me", password = "secret" }
      local other <close> = assert(nats.connect(guarded.url))
      assert.equal(("nats connection: %s (connected)"):format(guarded.url:gsub("//.*@", "//")), tostring(other))
    end)

    it("reports what the server refuses", function()
      local strict <close> = nats_server.start {
        jetstream = false,
        config = "authorization { users: [ { user: u, password: p, permissions: { publish: { deny: refused } } } ] }",
      }
      local other <close> = assert(nats.connect(strict.url, { user = "u", password = "p" }))
      local events = other:events()
      other:publish("refused", "")
      assert.matches('Permissions Violation for Publish to "refused"', event_of(events, "error").error)
    end)

    it("uses TLS, and checks the certificate", function()
      local secure <close> = nats_server.start { jetstream = false, tls = true }
      local none, err = nats.connect(secure.url)
      assert.is_nil(none)
      assert.matches("certificate", err)
      local other <close> = assert(nats.connect(secure.url, { tls = { ca = secure.cert, name = "localhost" } }))
      assert.is_true(other:flush())
      assert(nats.connect(secure.url, { tls = { insecure = true } })):close()
    end)

    it("tries the other servers of a list", function()
      local other <close> = assert(nats.connect { "nats://127.0.0.1:1", server.url })
      assert.equal(server.url, other.url)
      assert(nats.connect("nats://127.0.0.1:1," .. server.url, { in_order = true, name = "spec" })):close()
    end)

    it("lets other go blocks run, and can be cancelled", function()
      local turns = 0
      local connecting = rn.go(function() return nats.connect(server.url) end)
      rn.go(function()
        for _ = 1, 3 do
          turns = turns + 1
          rn.yield()
        end
      end)
      local other <close> = connecting:take()
      assert.is_true(turns >= 1) -- all three, unless the server is faster
      local cancelled = rn.go(function() return nats.connect(server.url) end)
      rn.yield()
      rn.cancel(cancelled)
      assert.is_nil((cancelled:take()))
      assert.is_true(other:flush()) -- and nothing is left of the cancelled one
    end)

    it("ends with the program, even if a child process of it lives on", function()
      local path = server.set:write("parent.lua", [[
        local conn = assert(require("runnel.nats").connect(arg[1]))
        conn:subscribe "parent"
        assert(conn:flush())
        print "listens"
        io.stdout:flush()
        os.execute "sleep 60 & echo child $!; wait"
      ]])
      local program = server.set:start { os.getenv "LUA" or "lua5.4", path, server.url }
      assert(program:says("child"), program:output())
      program:signal "KILL"
      program:wait()
      assert.is_truthy(patience.wait_until(function()
        local message, err = conn:request("parent", "", { timeout = 100 })
        return not message and tostring(err):find "no responders"
      end))
      os.execute("kill " .. program:output():match "child (%d+)")
    end)

    it("does not keep the program running", function()
      local idle <close> = assert(nats.connect(server.url))
      rn.run()
      assert.equal("connected", idle:stats().status)
    end)
  end)

  describe("bad input", function()
    it("is refused at the caller's line", function()
      raises('unknown option "nmae"', function() nats.connect(server.url, { nmae = "x" }) end)
      raises("encoding: .* expected, got \"xml\"", function() nats.connect(server.url, { encoding = "xml" }) end)
      raises("connect: name: a string expected, got 7", function() nats.connect(server.url, { name = 7 }) end)
      raises("ping_interval: a number of milliseconds", function() nats.connect(server.url, { ping_interval = 0 }) end)
      raises("the option password needs user", function() nats.connect(server.url, { password = "x" }) end)
      raises("connect: tls: ca: .*No such file", function()
        nats.connect(server.url, { tls = { ca = "/does/not/exist" } })
      end)
      raises('connect: tls: unknown option "alpn"; known: ca, cert', function()
        nats.connect(server.url, { tls = { alpn = { "x" } } })
      end)
      raises("connect: tls: true, false or a table of options expected", function()
        nats.connect(server.url, { tls = "yes" })
      end)
      raises("connect: the option tls: key needs tls: cert as well", function()
        nats.connect(server.url, { tls = { key = "-----BEGIN PRIVATE KEY-----" } })
      end)
      raises('connect: unknown option "tls_ca"; known: ', function()
        nats.connect(server.url, { tls_ca = "/does/not/exist" })
      end)
      local file = server.set:write("no-certificate", "nothing")
      raises("connect: tls: ca: ", function() nats.connect(server.url, { tls = { ca = file } }) end)
      raises("connect: tls: cert: ", function() nats.connect(server.url, { tls = { cert = file, key = file } }) end)
      raises("credentials: .*No such file", function()
        nats.connect(server.url, { credentials = "/does/not/exist" })
      end)
      raises("begins with nats:// or tls://", function() nats.connect "http://localhost" end)
      raises("a port is a number", function() nats.connect "nats://localhost:99999" end)
      raises("a port is a number", function() nats.connect "nats://localhost:x" end)
      raises("has no host", function() nats.connect "nats://:4222" end)
      raises("no spaces", function() nats.connect "nats://local host" end)
      raises("a URL is a string", function() nats.connect { 7 } end)
      raises("an empty one", function() nats.connect {} end)
      raises("a table of options expected", function() nats.connect(server.url, "x") end)

      for pattern, subject in pairs {
        ["is empty"] = "", ["a space at byte 2"] = "a b", ["\"a%.%.b\" has an empty part at byte 3"] = "a..b",
        ["an empty part at byte 1"] = ".a", ["an empty part at byte 3"] = "a.", ["a control character"] = "a\nb",
        ["a control character at byte 2"] = "a\127",
        ["a wildcard"] = "a.*", ["a wildcard, to which nothing can be sent, at byte 1"] = ">",
      } do
        raises(pattern, function() conn:publish(subject, "x") end)
      end
      raises("a subject expected, got 7", function() conn:publish(7, "x") end)
      raises("the subject \"a b\" has a space", function() conn:publish("a", "x", { reply = "a b" }) end)
      raises("a '>' before the last part", function() conn:subscribe "a.>.b" end)
      raises("a subject expected", function() conn:subscribe() end)
      raises('unknown option "q"', function() conn:subscribe("a", { q = 1 }) end)
      raises("group: a name without spaces", function() conn:subscribe("a", { group = "a b" }) end)
      raises("max_waiting: an integer of at least 1", function() conn:subscribe("a", { max_waiting = 0 }) end)
      raises("request: timeout: a number of milliseconds, at least 1, expected", function()
        conn:request("a", "x", { timeout = -1 })
      end)
      raises("request: the time is an option now", function() conn:request("a", "x", 100) end)
      raises("request: the subject", function() conn:request("a b", "x") end)
      raises("drain: timeout: a number of milliseconds", function() conn:drain(0) end)
      raises("headers: a table expected", function() conn:publish("a", "x", { headers = "x" }) end)
      raises("a header's value has a newline", function() conn:publish("a", "x", { headers = { a = "x\r\ny" } }) end)
      raises("a header's value has a newline or a zero", function()
        conn:publish("a", "x", { headers = { a = "x\0y" } })
      end)
      for _, name in ipairs { "a:", "", "a\0b" } do
        raises("a header's name", function() conn:publish("a", "x", { headers = { [name] = "x" } }) end)
      end
      raises("a header's name must be a string", function() conn:publish("a", "x", { headers = { "x" } }) end)
      raises("a header's value must be", function() conn:publish("a", "x", { headers = { a = {{}} } }) end)
      assert.is_true(conn:flush()) -- the connection has not suffered
    end)

    it("names the part of a value that cannot be packed", function()
      raises('publish: unknown option "to"', function() conn:publish("a", "x", { to = "b" }) end)
      raises("connect: a URL is a string such as", function() nats.connect(4222) end)
      raises("publish: value: a string expected, got a table", function() conn:publish("a", {}) end)
      raises("value.x%[1%]: a function cannot be sent", function()
        conn:publish("a", { x = { print } }, { encoding = "msgpack" })
      end)
      raises("publish: .*x", function() conn:publish("a", { x = print }, { encoding = "json" }) end)
      local ch = conn:subscribe "plain"
      conn:publish("plain", "x")
      raises("has no reply subject", function(message) message:respond "x" end, take(ch))
    end)

    it("is refused by the C module too, where the library would give it what is no channel or no beat", function()
      local lib = require "runnel.nats.core"
      local settings, wrong = { servers = { server.url } }, "cannot open a port: invalid argument"
      assert.has_error.matches(function() conn.core:attend(7) end, wrong)
      assert.has_error.matches(function() lib.connect(settings, 7, print) end, wrong)
      assert.has_error.matches(function() conn.core:unbeat "b" end, "a beat expected")
      assert.is_true(conn:flush())
    end)

    it("refuses more than the server accepts", function()
      assert.equal(1048576, conn.max_payload)
      raises("the value takes 1048577 bytes, and the server's limit is 1048576", function()
        conn:publish("a", ("x"):rep(1048577))
      end)
      -- Headers count, too: a line before them, an empty one behind them, and the lines "A: bcd", "E: f" and "E: g".
      local headers, most = { A = "bcd", E = { "f", "g" } }, 1048576 - 12 - 8 - 6 - 6
      assert.is_true(conn:publish("a", ("x"):rep(most), { headers = headers }))
      raises("publish: the value takes 1048545 bytes, its headers 32, and the server's limit is 1048576", function()
        conn:publish("a", ("x"):rep(most + 1), { headers = headers })
      end)
      assert.is_true(conn:flush())
    end)

    it("has a clear message where the time is virtual", function()
      local sim = require "runnel.sim"
      sim.run(function()
        raises("a simulation, whose time is virtual", function() nats.connect(server.url) end)
      end)
    end)
  end)
end)
