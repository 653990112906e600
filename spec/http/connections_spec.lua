-- What is told of the connection of a request (timing, certificates), and how many connections there may be.

local both = require "spec.support.in_world" (it)
local http_stage = require "spec.support.http.http_stage"
local certificates = not http_stage.missing and require "spec.support.tls" -- which needs luv
local raises = require "spec.support.raises"
local patience = require "spec.support.patience"
local rn = require "runnel"
local sim = require "runnel.sim"

if http_stage.missing then
  describe("the connections of requests", function() pending(http_stage.missing) end)
  return
end

local http = require "runnel.http"
local PHASES = { "name", "connect", "tls", "first_byte", "total" }

local function numbers(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

describe("the connections of requests", function()
  before_each(http_stage.open)
  after_each(function()
    http.max_connections()
    http_stage.close()
  end)

  -- Calls f(url, most, expect) with a server that waits before it answers. most() is how many requests it had at a
  -- time; expect(n) makes it wait until it has had so many.
  local function with_server(f)
    local now, most, expected = 0, 0, 0
    local server <close> = assert(http.serve(0, function(req)
      now = now + 1
      most = math.max(most, now)
      patience.wait_for(function() return most >= expected end)
      rn.sleep(5)
      now = now - 1
      return 200, nil, req.path
    end))
    f(server.url, function() return most end, function(n) expected = n end)
  end

  both("are as many as http.max_connections says, and other requests wait", function()
    with_server(function(url, most, expect)
      http.max_connections(3)
      expect(3)
      local count = 0
      for res in rn.pmap(20, function(i) return http.get(url .. i) end, numbers(20)) do
        assert.equal(200, res.status)
        count = count + 1
      end
      assert.same({ 20, 3 }, { count, most() })
      http.max_connections(nil)
      expect(4)
      for res in rn.pmap(20, function(i) return http.get(url .. i) end, numbers(20)) do
        assert.equal(200, res.status)
      end
      assert.is_true(most() > 3)
    end)
  end)

  both("are free again after a request that was cancelled, or waited too long, or has streamed", function()
    with_server(function(url)
      http.max_connections(1)
      local blocks = {}
      for i = 1, 3 do blocks[i] = rn.go(http.get, url .. i) end
      rn.yield()
      local _, err = http.get(url, { timeout = 1 })
      assert.is_true(rn.is_timeout(err))
      rn.cancel(blocks[1])
      rn.cancel(blocks[2])
      assert.equal(200, assert(blocks[3]:take()).status)
      for _ = 1, 3 do assert.equal("/b", rn.into({}, (http.stream(url .. "b"))):take()[1]) end
      local left = http.stream(url .. "c")
      left:take()
      left:close()
      assert.equal("/d", assert(http.get(url .. "d")).body)
    end)
  end)

  both("do not keep a request that waits for one beyond its timeout", function()
    local first_may_end = rn.chan()
    local server <close> = assert(http.serve(0, function(req)
      if req.path == "/first" then first_may_end:take() end
      return 200
    end))
    http.max_connections(1)
    local first = rn.go(http.get, server.url .. "first")
    rn.yield()
    local patient = rn.go(http.get, server.url, { timeout = 60000 })
    local _, err = http.get(server.url, { timeout = 20 })
    assert.is_true(rn.is_timeout(err))
    local pieces = http.stream(server.url, { timeout = 20 })
    assert.is_true(rn.is_timeout(select(2, pieces:take())))
    assert.is_nil(first:poll())
    first_may_end:close()
    assert.equal(200, assert(first:take()).status)
    assert.equal(200, assert(patient:take()).status)
  end)

  it("are waited for: the error of a timeout says so, and only if the request was not sent", function()
    local arrived = rn.chan()
    local server <close> = assert(http.serve(0, function()
      arrived:close()
      rn.sleep(60000)
    end))
    http.max_connections(1)
    local sent = rn.go(http.get, server.url, { timeout = 300 })
    arrived:take()
    local _, waited = http.get(server.url, { timeout = 20 })
    local _, err = sent:take()
    assert.matches("timed out after 20 milliseconds, before the request was sent$", waited)
    assert.not_matches("before the request was sent", err)
    assert.matches("timed out after %d+ milliseconds", err)
  end)

  it("are limited for each server, and from each host of a world", function()
    sim.run(function()
      local world, elapsed = sim.world(), {}
      local function serve()
        assert(http.serve(80, function()
          rn.sleep(100)
          return 200
        end, { host = "0.0.0.0" }))
      end
      world:host("a", serve)
      world:host("b", serve)
      for _, name in ipairs { "first", "second" } do
        world:host(name, function()
          rn.sleep(1)
          http.max_connections(1)
          local blocks = { rn.go(http.get, "http://a/"), rn.go(http.get, "http://b/"), rn.go(http.get, "http://a/") }
          for _, block in ipairs(blocks) do assert(block:take()) end
          elapsed[#elapsed + 1] = sim.elapsed() // 100
        end)
      end
      world:run()
      assert.same({ 2, 2 }, elapsed)
    end)
  end)

  it("tell how long each phase has taken", function()
    with_server(function(url)
      local res = assert(http.get(url))
      local before = 0
      for _, name in ipairs(PHASES) do
        assert.is_number(res.timing[name])
        if name ~= "tls" then
          assert.is_true(res.timing[name] >= before, name)
          before = res.timing[name]
        end
      end
      assert.equal(0, res.timing.tls)
      assert.is_true(res.timing.connect > 0 and res.timing.first_byte >= 5)
      local fields = {}
      for name in pairs(assert(http.get(url))) do fields[name] = true end
      assert.is_true(fields.timing and fields.headers)
      assert.is_nil(fields.times or fields.head)
      local pieces, head = http.stream(url)
      assert.is_nil(head().timing)
      assert.equal("/", rn.into({}, pieces):take()[1])
      assert.is_true(head().timing.total >= 5)
    end)
  end)

  it("tell it in virtual time, too", function()
    sim.run(function()
      local before = http.fake(function()
        rn.sleep(70)
        local body = rn.chan()
        rn.go(function()
          rn.sleep(30)
          body:close()
        end)
        return 200, nil, body
      end)
      local expected = { name = 0, connect = 0, tls = 0, first_byte = 100, total = 100 }
      assert.same(expected, assert(http.get "http://x/").timing)
      local pieces, head = http.stream "http://x/"
      rn.into({}, pieces):take()
      expected.first_byte = 70
      assert.same(expected, head().timing)
      http.fake(before)
    end)
  end)

  it("show the certificates of the server, if that is asked, also once a connection is kept", function()
    if not certificates.has "openssl" or not pcall(require, "runnel.tls") then return pending "openssl" end
    local folder = certificates.folder()
    local server <close> = assert(http.serve(0, function() return 200 end,
      { tls = { cert = folder.path .. "/cert", key = folder.path .. "/key" } }))
    local url, opts = ("https://localhost:%d/"):format(server.port), { cainfo = folder.path .. "/ca" }
    local plain = assert(http.get(url, opts))
    assert.is_nil(plain.certificates)
    assert.is_true(plain.timing.tls >= plain.timing.connect and plain.timing.tls > 0)
    opts.certificates = true
    for _ = 1, 2 do
      local own = assert(http.get(url, opts)).certificates[1]
      assert.matches("CN ?= ?localhost", own.subject)
      assert.matches("localhost", own.names)
      assert.matches("^%-%-%-%-%-BEGIN CERTIFICATE", own.pem)
      local left = own.expires - os.time()
      assert.is_true(left > 86400 and left <= 2 * 86400, left)
    end
    local pieces, head = http.stream(url, opts)
    rn.into({}, pieces):take()
    assert.is_string(head().certificates[1].issuer)
    folder:remove()
  end)

  it("refuse what is no number of connections, and an option that is no boolean", function()
    raises("max_connections: an integer of at least 1 expected, got 0", function() http.max_connections(0) end)
    raises("get: certificates: true or false expected, got a string", function()
      http.get("http://x/", { certificates = "yes" })
    end)
  end)
end)
