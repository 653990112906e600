-- Connections to NATS when the network accepts no bytes, and when they have ended before the program knows it.

local rn = require "runnel"
local nats_server = require "spec.support.queue.nats_server"
local options = require "runnel.nats.internal.options"
local patience = require "spec.support.patience"

describe("a connection to a server that fails", function()
  local nats, missing = nats_server.library()
  if not nats then return pending(missing) end

  local server

  before_each(function() server = nats_server.start { jetstream = false } end)
  after_each(function() server:close() end)

  -- Whether the network accepts no bytes: the thread that writes has not written any for a while, or has given up
  -- (there is no number of bytes then).
  local function is_full(conn)
    local function bytes() return conn:stats().buffered_bytes or math.huge end
    local before = bytes()
    for _ = 1, 10 do
      if bytes() <= 900000 then return false end
      rn.sleep(50)
    end
    return bytes() >= before
  end

  -- Options with which the connection is not given up while is_full looks: on a busy machine that takes longer.
  local function patient()
    return { write_timeout = math.ceil(1000 * patience.factor()), ping_interval = 600000 }
  end

  -- Publishes until the network accepts no more bytes. Returns how many messages that were.
  local function fill(conn)
    assert(conn:flush())
    server:pause()
    local data = ("x"):rep(10000)
    for i = 1, 10000 do
      assert(conn:publish("a", data))
      if is_full(conn) then return i end
    end
    error "the network accepts everything"
  end

  describe("when it is closed,", function()
    it("writes for at most write_timeout, and returns how many bytes are left", function()
      local opts = patient()
      local conn = assert(nats.connect(server.url, opts))
      local before = rn.now() -- the connection's thread counts from when the network is full, close from its call
      local published = fill(conn) * 10000
      local sent, left = conn:close()
      assert.is_false(sent)
      local least = patience.is_under_valgrind and 100000 or 900000
      assert.is_true(left > least and left < published * 1.01, left)
      assert.is_true(rn.now() - before >= opts.write_timeout)
      assert.equal("closed", conn:stats().status)
      assert.is_true(conn:close())
    end)

    it("sends everything to a server that accepts it again within write_timeout", function()
      local conn = assert(nats.connect(server.url, { write_timeout = 60000 }))
      local other <close> = assert(nats.connect(server.url))
      local heard = other:subscribe "a"
      assert(other:flush())
      local count = fill(conn)
      server.set:start { "sh", "-c", ("sleep 1; kill -CONT %d"):format(server.program.pid) }
      assert.is_true(conn:close()) -- Lua does not run meanwhile
      for i = 1, count do assert(heard:take(), i) end
    end)

    it("returns how many bytes are left if the server ends meanwhile", function()
      local conn = assert(nats.connect(server.url, { write_timeout = 60000, ping_interval = 600000 }))
      fill(conn)
      server.set:start { "sh", "-c", ("sleep 0.3; kill -KILL %d"):format(server.program.pid) }
      local sent, left = conn:close() -- Lua does not run meanwhile
      assert.is_false(sent)
      assert.is_true(left > 900000, left)
    end)

    it("returns how many bytes are left that were published while it was lost", function()
      local conn = assert(nats.connect(server.url))
      local events = conn:events()
      assert(conn:flush())
      server:kill()
      assert.equal("disconnected", events:take().event)
      assert(conn:publish("a", ("x"):rep(1000)))
      local sent, left = conn:close()
      assert.is_false(sent)
      assert.is_true(left >= 1000 and left < 1500)
    end)

    it("by the end of a variable, reports how many bytes are left", function()
      local reported = {}
      local before = rn.on_error(function(err) reported[#reported + 1] = err end)
      do
        local conn <close> = assert(nats.connect(server.url, patient()))
        fill(conn)
      end
      rn.on_error(before)
      assert.equal(1, #reported)
      assert.matches("^nats: the connection was closed before %d+ bytes were sent", reported[1])
    end)

    it("by the end of the program, sends what it can, and says how many bytes are left", function()
      local path = server.set:write("end.lua", [[
        local conn = assert(require("runnel.nats").connect(arg[1], { write_timeout = 200 }))
        assert(conn:flush())
        conn:publish("a", "sent")
        if arg[2] then
          os.execute("kill -STOP " .. arg[2])
          for _ = 1, 4500 do conn:publish("a", ("x"):rep(10000)) end -- more than the system holds for both ends
        end
      ]])
      local LUA = os.getenv "LUA" or "lua5.4"
      local conn <close> = assert(nats.connect(server.url))
      local heard = conn:subscribe "a"
      assert(conn:flush())
      local program = server.set:start { LUA, path, server.url }
      assert.equal("sent", heard:take().data)
      assert.equal(0, program:wait())
      assert.equal("", program:output())
      conn:close() -- before large messages come: libnats leaks one of which a part has come when the connection closes
      program = server.set:start { LUA, path, server.url, server.program.pid }
      assert.equal(0, program:wait())
      assert.matches("^runnel: nats: the program has ended before %d+ bytes were sent that it had published; "
        .. "conn:close%(%) writes for at most write_timeout %(200 ms%)\n$", program:output())
      server:resume()
    end)
  end)

  it("gives the network up when it takes nothing for long, also if nothing more is published #ci", function()
    local conn <close> = assert(nats.connect(server.url, { write_timeout = 100, reconnect_wait = 20 }))
    local events = conn:events()
    fill(conn)
    local event = rn.alts { events, rn.timeout(30000) }
    assert.equal("disconnected", event and event.event)
    server:resume()
    repeat
      event = rn.alts { events, rn.timeout(30000) }
    until not event or event.event == "reconnected"
    assert.is_truthy(event)
    assert.is_true(conn:flush())
  end)

  describe("is made again when the network drops all data without an error:", function()
    local proxy
    before_each(function() proxy = nats_server.has_proxy and nats_server.proxy(server) end)

    -- Waits for an event, for at most ms, and returns how long that took.
    local function wait_for(events, name, ms)
      local before, deadline = rn.now(), rn.timeout(ms * patience.factor())
      repeat
        local event, port = rn.alts { events, deadline }
        assert.not_equal(deadline, port, name .. " did not come")
      until event.event == name
      return rn.now() - before
    end

    it("within 15 s, by default #long", function()
      if not proxy then return pending "luv is not installed" end
      local conn <close> = assert(nats.connect(proxy.url))
      local events = conn:events()
      local heard = assert(conn:subscribe "a")
      assert(conn:flush())
      proxy:drop()
      local ms = wait_for(events, "disconnected", 30000)
      ms = ms + wait_for(events, "reconnected", 30000)
      assert.is_true(ms < 15000 * patience.factor(), ms)
      assert(conn:publish("a", "here"))
      assert.equal("here", heard:take().data)
    end)

    it("after 10 s without anything from the server, by default", function()
      assert.equal(10000, (options.read(server.url, nil, 2)).silence)
    end)

    it("after a time that options say, also while Lua publishes; and not while something comes", function()
      if not proxy then return pending "luv is not installed" end
      -- The server's answers come later on a machine that is busy.
      local pings_out = math.ceil(2 * patience.factor())
      local opts = { ping_interval = 400, pings_out = pings_out, reconnect_wait = 20 }
      local conn <close> = assert(nats.connect(proxy.url, opts))
      local other <close> = assert(nats.connect(server.url))
      local events, sub = conn:events(), assert(conn:subscribe "a")
      assert(conn:flush())
      local count = 0
      local since = rn.now()
      while rn.now() - since < 2000 do
        other:publish("a", "")
        rn.sleep(20)
        if sub:poll() then count = count + 1 end
      end
      assert.is_true(count > 10)
      assert.is_nil(events:poll())
      proxy:drop()
      local publisher = rn.go(function()
        while true do
          conn:publish("b", "x")
          rn.sleep(5)
        end
      end)
      wait_for(events, "disconnected", 20000)
      wait_for(events, "reconnected", 20000)
      rn.cancel(publisher)
    end)

    it("so that the results of a remote stage come #ci", function()
      if not proxy then return pending "luv is not installed" end
      local whole <close> = nats_server.start()
      local router = nats_server.proxy(whole)
      local quick = { ping_interval = 300, reconnect_wait = 20 }
      local submitter <close> = assert(nats.connect(router.url, quick))
      local worker <close> = assert(nats.connect(router.url, quick))
      worker:serve("echo", 4, function(v)
        rn.sleep(20)
        return v
      end, { drain_on_term = false })
      local values, results = {}, {}
      for i = 1, 100 do values[i] = i end
      local ch = rn.pmap(8, submitter:remote "echo", values)
      for i = 1, 100 do
        if i == 20 or i == 60 then router:drop() end
        results[i] = rn.alts { ch, rn.timeout(60000) }
      end
      assert.same(values, results)
    end)
  end)

  it("refuses subscriptions when it has ended, also before the program knows that", function()
    local conn <close> = assert(nats.connect(server.url, { reconnect = false }))
    local ended, reason = conn:subscribe "a", nil
    local direct, sub = conn:subscribe("b", nil, function() end)
    conn:on_close(function(err) reason = err or "none" end)
    assert(conn:flush())
    server.program:signal "KILL"
    local ch, err
    local before = rn.now()
    repeat -- without letting other go blocks run
      local since = rn.now()
      while rn.now() - since < 10 do end
      ch, err = conn:subscribe "c"
    until not ch or rn.now() - before > 20000
    assert.same({ nil, "Connection Closed" }, { ch, err })
    assert.is_false((sub:drain()))
    assert.same({ delivered = 0, dropped = 0, waiting = 0, waiting_bytes = 0 }, sub:stats())
    assert.is_nil(reason)
    assert.is_nil((ended:take()))
    assert.is_nil((direct:take()))
    assert.is_true(patience.wait_until(function() return reason ~= nil end))
    assert.is_string(reason)
    assert.not_equal("none", reason)
  end)

  it("starts no thread that gets signals, even when a write finds it lost", function()
    -- How many threads do not block SIGTERM. They are read here, since this thread blocks signals while it starts `ls`.
    local function count()
      local pipe <close> = assert(io.popen "ls /proc/$PPID/task")
      local n = 0
      for thread in pipe:lines() do
        local file <close> = io.open(("/proc/self/task/%s/status"):format(thread))
        local blocked = file and file:read "a":match "SigBlk:%s*(%x+)"
        if blocked and tonumber(blocked, 16) & 1 << 14 == 0 then n = n + 1 end
      end
      return n
    end
    if count() == 0 then return pending "this system does not show signals as Linux does" end
    local before, large = count(), ("x"):rep(100000)
    for i = 1, 4 do
      if i > 1 then server:start() end
      local conn <close> = assert(nats.connect(server.url, { reconnect_buffer = 1 }))
      os.execute(("{ kill -KILL %d; } 2>/dev/null &"):format(server.program.pid))
      repeat conn:publish("large", large) until conn:stats().status ~= "connected"
      assert.equal(before, count())
      server.program:wait()
    end
  end)
end)
