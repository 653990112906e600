-- uv.udp: datagrams, in reality and between simulated hosts.

local both = require "spec.support.in_world" (it)
local raises = require "spec.support.raises"
local patience = require "spec.support.patience"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local has_luv = pcall(require, "luv")

describe("uv.udp", function()
  if not has_luv then return pending "luv is not installed" end
  local uv = require "runnel.uv"
  local has_localhost = require("luv").getaddrinfo "localhost" ~= nil -- it has none without /etc/hosts
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  -- Two sockets `a` and `b`, and the port of the first one.
  local function pair(opts)
    opts = opts or {}
    opts.host = "127.0.0.1"
    local a, b = assert(uv.udp(opts)), assert(uv.udp { host = "127.0.0.1" })
    local _, port = a:address()
    return setmetatable({ a = a, b = b, port = port }, { __close = function()
      a:close()
      b:close()
    end })
  end

  both("sends datagrams whole, also empty ones, and tells who has sent them", function()
    local both_ends <close> = pair()
    local a, b, port = both_ends.a, both_ends.b, both_ends.port
    local _, from = b:address()
    local input = a:read()
    assert.equal(input, a:read())
    for _, text in ipairs { "hello", "", ("x"):rep(60000) } do
      assert.is_true(b:send(text, has_localhost and "localhost" or "127.0.0.1", port))
      assert.same({ data = text, host = "127.0.0.1", port = from }, input:take())
    end
    assert.is_true(a:send("back", "127.0.0.1", from))
    assert.equal("back", b:read():take().data)
  end)

  both("drops and counts what comes while many wait", function()
    local both_ends <close> = pair { buffer = 2 }
    local a, b, port = both_ends.a, both_ends.b, both_ends.port
    local input = a:read()
    for i = 1, 5 do assert.is_true(b:send(tostring(i), "127.0.0.1", port)) end
    patience.wait_until(function() return a.dropped >= 3 end)
    assert.equal(3, a.dropped)
    assert.equal("1", input:take().data)
    assert.equal("2", input:take().data)
    b:send("6", "127.0.0.1", port)
    assert.equal("6", input:take().data)
    local usual <close> = pair()
    usual.a:read()
    for _ = 1, 70 do assert.is_true(usual.b:send("x", "127.0.0.1", usual.port)) end
    patience.wait_until(function() return usual.a.dropped >= 6 end)
    assert.equal(6, usual.a.dropped)
  end)

  both("connects, gets only what comes from there, and tells that nothing listens", function()
    local both_ends <close> = pair()
    local a, b, port = both_ends.a, both_ends.b, both_ends.port
    local other <close> = assert(uv.udp { host = "127.0.0.1" })
    local _, from = b:address()
    assert.is_true(b:connect("127.0.0.1", port))
    local input = b:read()
    assert.is_true(b:send "hello")
    assert.equal("hello", a:read():take().data)
    other:send("stranger", "127.0.0.1", from)
    a:send("answer", "127.0.0.1", from)
    assert.equal("answer", input:take().data)
    a:close()
    local ok, err
    patience.wait_until(function() -- the socket is closed, and the system has told that of an earlier datagram
      ok, err = b:send "again"
      return not ok
    end)
    assert.is_false(ok)
    assert.equal(("127.0.0.1:%d: ECONNREFUSED: connection refused"):format(port), err)
    assert.is_true(b:send "it is told once")
    repeat rn.sleep(1) until b.late
    local _, new = other:address()
    assert.is_true(b:connect("127.0.0.1", new)) -- what the system has told was about the last address
    assert.is_true(b:send "to another one")
    assert.equal("to another one", other:read():take().data)
    other:send("welcome now", b:address()) -- Linux has given it another port
    assert.equal("welcome now", input:take().data)
    assert.is_false((b:connect("::1", 9)))
    assert.is_true(b:send("not connected", "127.0.0.1", new))
    assert.equal("not connected", other:read():take().data)
  end)

  both("closes the channel, and frees the port, with the socket", function()
    local both_ends <close> = pair()
    local a, b, port = both_ends.a, both_ends.b, both_ends.port
    local input = a:read()
    local waiting = rn.go(function() return select(2, input:take()) end)
    rn.yield()
    a:close "done"
    assert.equal("done", waiting:take())
    assert.same({ false, ("udp 127.0.0.1:%d: the socket is closed"):format(port) }, { a:send("x", "127.0.0.1", 9) })
    assert.same({ nil, ("udp 127.0.0.1:%d: the socket is closed"):format(port) }, { a:read():take() })
    local again <close> = assert(uv.udp { host = "127.0.0.1", port = port })
    local none, err = uv.udp { host = "127.0.0.1", port = port }
    assert.is_nil(none)
    assert.matches("EADDRINUSE: address already in use", err)
    again:read():close()
    b:send("lost", "127.0.0.1", port)
    b:send("got", "127.0.0.1", port)
    rn.sleep(20)
    assert.equal("lost", again:read():take().data)
  end)

  both("joins groups, also with others on the same port, and leaves them", function()
    local first <close> = assert(uv.udp { reuse = true, loopback = true, ttl = 1, broadcast = false })
    local _, port = first:address()
    local second <close> = assert(uv.udp { reuse = true, port = port })
    local sender <close> = assert(uv.udp { host = "127.0.0.1" })
    local inputs = {}
    for i, sock in ipairs { first, second } do
      assert.is_true(sock:join("239.1.2.3", "127.0.0.1"))
      inputs[i] = sock:read()
    end
    assert.is_true(sender:send("all", "239.1.2.3", port))
    assert.same({ "all", "all" }, { inputs[1]:take().data, inputs[2]:take().data })
    assert.is_true(first:leave("239.1.2.3", "127.0.0.1"))
    local ok, err = first:leave("239.1.2.3", "127.0.0.1")
    assert.is_false(ok)
    assert.matches("^239.1.2.3: EADDRNOTAVAIL", err)
    assert.is_nil((uv.udp { port = port, reuse = false }))
    local alone <close> = assert(uv.udp {})
    assert.is_nil((uv.udp { port = select(2, alone:address()), reuse = true }))
    for _, group in ipairs { "224.0.1.9", "239.255.255.250" } do assert.is_true(first:join(group, "127.0.0.1")) end
    assert.is_false((first:join("240.1.2.3", "127.0.0.1")))
    assert.is_true(sender:send("the first group", "224.0.1.9", port))
    assert.equal("the first group", inputs[1]:take().data)
  end)

  both("lives as long as its channel is open", function()
    local sender <close> = assert(uv.udp { host = "127.0.0.1" })
    local function open()
      local sock = assert(uv.udp { host = "127.0.0.1" })
      return sock:read(), (select(2, sock:address()))
    end
    local input, port = open()
    for _ = 1, 3 do collectgarbage() end
    assert.is_true(sender:send("still there", "127.0.0.1", port))
    assert.equal("still there", input:take().data)
    input:close()
    input = nil -- luacheck: ignore 311
    for _ = 1, 3 do collectgarbage() end
    rn.sleep(1)
  end)

  it("has no port if one of its options is refused", function()
    local first = assert(uv.udp { host = "127.0.0.1" })
    local _, port = first:address()
    first:close()
    assert.matches("EINVAL", select(2, uv.udp { host = "127.0.0.1", port = port, ttl = 1000 }))
    assert(uv.udp { host = "127.0.0.1", port = port }):close()
  end)

  both("returns what goes wrong", function()
    local both_ends <close> = pair()
    local a, b, port = both_ends.a, both_ends.b, both_ends.port
    assert.matches("EMSGSIZE: message too long", select(2, b:send(("x"):rep(70000), "127.0.0.1", port)))
    assert.is_false((b:send("x", "no.such.host.invalid", port)))
    assert.is_false((b:send("x", "::1", port)))
    assert.is_false((b:join("127.0.0.1")))
    assert.is_nil((uv.udp { host = "no.such.host.invalid" }))
    assert.matches("^udp 192.0.2.1:0: EADDRNOTAVAIL", select(2, uv.udp { host = "192.0.2.1" }))
    assert.matches("closed%)$", (a:close() or tostring(a)))
    assert.same({ nil, 0, n = 2 }, table.pack(a:address()))
    if not has_localhost then return end
    local named <close> = assert(uv.udp { host = "localhost" })
    assert.is_truthy(({ ["127.0.0.1"] = true, ["::1"] = true })[(named:address())]) -- the first one that it has
  end)

  it("sends over IPv6, and looks for addresses of names that are of the socket's kind", function()
    local a <close> = uv.udp { host = "::1" }
    if not a then return pending "this machine has no ::1" end
    local b <close> = assert(uv.udp { host = "::1" })
    local ip, port = a:address()
    assert.equal("::1", ip)
    assert.is_true(b:send("to six", "::1", port))
    local _, from = b:address()
    assert.same({ data = "to six", host = "::1", port = from }, a:read():take())
    assert.is_true(b:connect("::1", port))
    assert.is_true(b:send "connected")
    assert.equal("connected", a:read():take().data)
    local all <close> = assert(uv.udp { host = "::" })
    assert.is_true(a:send("to all", "::1", (select(2, all:address()))))
    assert.equal("to all", all:read():take().data)
    local four <close> = assert(uv.udp { host = "127.0.0.1" })
    local ok, err = four:send("x", "::1", port)
    assert.is_false(ok)
    assert.matches("^::1:%d+: E%u+: ", err)
    if not has_localhost then return end
    assert.is_true(four:send("by name", "localhost", (select(2, four:address()))))
    assert.equal("by name", four:read():take().data)
    local found = {}
    for _, one in ipairs(require("luv").getaddrinfo "localhost") do found[one.family] = true end
    if not found.inet6 then
      assert.same({ false, "localhost: it has no address of the kind IPv6" }, { all:send("x", "localhost", port) })
      assert.same({ false, "localhost: it has no address of the kind IPv6" }, { all:connect("localhost", port) })
    end
  end)

  it("waits until the system has room for a datagram, and returns what it says then", function()
    sim.run(function()
      local world, sent = sim.world(), {}
      world:host("a", function()
        local sock <close> = assert(uv.udp { port = 9 })
        sock:connect("10.0.0.1", 9)
        local handle = rawget(sock, "handle") -- a simulated one always has room
        function handle.try_send() return nil, "EAGAIN: resource temporarily unavailable", "EAGAIN" end
        for _, status in ipairs { false, "ENETDOWN" } do
          function handle.send(_, data, _, _, done)
            sent[#sent + 1] = data
            rn.after(30, done, status or nil)
            return {}
          end
          local before = rn.now()
          local ok, err = sock:send "x"
          sent[#sent + 1] = { ok, err or false, rn.now() - before }
        end
        function handle.send() return nil, "ENOBUFS: no buffer space available", "ENOBUFS" end
        sent[#sent + 1] = { sock:send "y" }
      end)
      world:run()
      assert.same({
        "x", { true, false, 30 }, "x", { false, "10.0.0.1:9: ENETDOWN: network is down", 30 },
        { false, "10.0.0.1:9: ENOBUFS: no buffer space available" },
      }, sent)
    end)
  end)

  it("refuses wrong arguments", function()
    local sock <close> = assert(uv.udp { host = "127.0.0.1" })
    raises("udp: port: an integer from 0 to 65535 expected, got 70000", function() uv.udp { port = 70000 } end)
    raises("udp: port: an integer from 0 to 65535 expected, got 65536", function() uv.udp { port = 65536 } end)
    raises("udp: host: an address or a name expected, got 5", function() uv.udp { host = 5 } end)
    raises("send: a host expected, got nothing", function() sock:send "x" end)
    raises("send: port: an integer from 1 to 65535 expected, got 0", function() sock:send("x", "localhost", 0) end)
    raises("send: port: an integer from 1 to 65535 expected, got 65536", function() sock:send("x", "::1", 65536) end)
    raises("send: a string expected, got a table", function() sock:send({}, "localhost", 1) end)
    assert.matches('^uv.udp "udp 127.0.0.1:%d+" %(made at spec/uv/udp_spec.lua:%d+%)$',
      require("runnel.uv.loop").purpose(sock.handle))
    sock:connect("127.0.0.1", 9)
    raises("send: the socket is connected to 127.0.0.1:9", function() sock:send("x", "localhost", 1) end)
  end)

  -- What a host gets of these datagrams, in one string.
  local function received(faults, n)
    local world = sim.world { faults = faults }
    local got = {}
    world:host("a", function()
      local sock = assert(uv.udp { port = 9 })
      for datagram in sock:read() do got[#got + 1] = datagram.data end
    end)
    world:host("b", function()
      rn.sleep(1)
      local sock <close> = assert(uv.udp())
      for i = 1, n do
        assert(sock:send(tostring(i), "a", 9))
        rn.sleep(2)
      end
    end)
    world:run()
    return table.concat(got)
  end

  for fault, expected in pairs { lost = "%d ", twice = "%d%d%d", delay = "21" } do
    it("is searched with datagrams that are lost, late and doubled: " .. fault, function()
      search.finds("got " .. expected, function()
        local got = received({ [fault] = 1 }, 2)
        if got ~= "12" then error("got " .. got, 0) end
      end)
    end)
  end

  it("sends to groups and to all hosts of a simulated network, to its own if `loopback` is not false", function()
    sim.run(function()
      local world, got = sim.world(), {}
      local function send()
        rn.sleep(1)
        for _, loopback in ipairs { true, false } do
          local sock <close> = assert(uv.udp { loopback = loopback, broadcast = true, ttl = 0 })
          for _, to in ipairs { "239.1.2.3", "255.255.255.255" } do
            assert(sock:send(("%s %s"):format(to:sub(-3), loopback), to, 9))
            rn.sleep(5)
          end
        end
      end
      for _, name in ipairs { "a", "b" } do
        world:host(name, function()
          local sock = assert(uv.udp { port = 9 })
          assert(sock:join "239.1.2.3")
          if name == "b" then rn.go(send) end
          for datagram in sock:read() do got[#got + 1] = name .. " " .. datagram.data end
        end)
      end
      world:run()
      table.sort(got)
      assert.same({
        "a 2.3 false", "a 2.3 true", "a 255 false", "a 255 true", "b 2.3 true", "b 255 true",
      }, got)
    end)
  end)

  it("keeps 208 KB that were not read, on a simulated host", function()
    sim.run(function()
      local world, got = sim.world(), {}
      world:host("a", function()
        local sock <close> = assert(uv.udp { port = 9 })
        for round = 1, 2 do
          rn.sleep(50)
          local input = sock:read()
          for i = 1, 4 do got[#got + 1] = tonumber(input:take().data:sub(1, 1)) - i + round end
          assert.is_nil((input:poll()))
          input:close()
        end
      end)
      world:host("b", function()
        rn.sleep(1)
        local sock <close> = assert(uv.udp())
        for _ = 1, 2 do
          for i = 1, 5 do
            assert(sock:send(i .. ("x"):rep(51000), "a", 9))
            rn.sleep(5)
          end
          rn.sleep(40)
        end
      end)
      world:run()
      assert.same({ 1, 1, 1, 1, 2, 2, 2, 2 }, got)
    end)
  end)

  it("loses nothing within a simulated host, whose last socket with a port gets what is sent to that", function()
    search.finds_nothing(function()
      local world, got = sim.world { faults = { lost = 1, twice = 1, delay = 1 } }, {}
      world:host("a", function()
        local first <close> = assert(uv.udp { port = 9, reuse = true })
        local last <close> = assert(uv.udp { port = 9, reuse = true })
        for _, sock in ipairs { first, last } do
          rn.go(function()
            for datagram in sock:read() do got[#got + 1] = (sock == last and "last " or "first ") .. datagram.data end
          end)
        end
        local sender <close> = assert(uv.udp())
        for i = 1, 2 do
          assert(sender:send(tostring(i), "127.0.0.1", 9))
          rn.sleep(5)
        end
        assert(sender:send("the faults are for those to others", "b", 9))
      end)
      world:host("b", function() end)
      world:run()
      assert.same({ "last 1", "last 2" }, got)
    end)
  end)

  it("loses nothing between simulated hosts without these faults, but while they are cut off or down", function()
    sim.run(function() assert.equal("12345", received(nil, 5)) end)
    sim.run(function()
      local world, got = sim.world(), {}
      local a = world:host("a", function()
        local sock = assert(uv.udp { port = 9 })
        for datagram in sock:read() do got[#got + 1] = datagram.data end
      end)
      world:host("b", function()
        rn.sleep(1)
        local sock <close> = assert(uv.udp())
        local function send(text)
          assert(sock:send(text, "a", 9))
          rn.sleep(5)
        end
        send "1"
        world:partition("a", "b")
        send "2"
        assert(sock:send("cut off when it is sent", "a", 9))
        world:heal()
        rn.sleep(5)
        assert(sock:send("cut off before it comes", "a", 9))
        world:partition("a", "b")
        rn.sleep(5)
        world:heal()
        a:kill()
        send "3"
        a:restart()
        rn.sleep(1)
        send "4"
      end)
      world:run()
      assert.same({ "1", "4" }, got)
    end)
  end)
end)
