-- Servers of a simulated world that listen on "::".

local rn = require "runnel"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

describe('an address "::" of a simulated host', function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  local uv = require "runnel.uv"
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  -- Runs a server, and a client on another host. Returns what the client returns.
  local function between(server, client)
    return sim.run(function()
      local world, result = sim.world(), nil
      world:host("server", server)
      world:host("client", function()
        rn.sleep(1)
        result = table.pack(client())
      end)
      world:run()
      return table.unpack(result, 1, result.n)
    end)
  end

  -- Serves connections on "::", and sends each the address that its client has here. Returns the port.
  local function tell_addresses(port)
    local conns, number = assert(uv.listen("::", port))
    rn.go(function()
      for conn in conns do
        conn:write(conn:peer():gsub("%d+%.%d+%.%d+%.%d+", "IPv4") .. "\n")
        conn:close()
      end
    end)
    return number, conns
  end

  it("takes connections by IPv4, whose addresses are those of a socket of IPv6", function()
    local function ask(host, port)
      local conn <close> = assert(uv.connect(host, port))
      return (conn:lines():take())
    end
    local port, conns = tell_addresses(0)
    local real = ask("127.0.0.1", port)
    conns:close()
    assert.equal("::ffff:IPv4", real)
    assert.equal(real, between(function() tell_addresses(80) end, function() return ask("server", 80) end))
    assert.equal(real, between(function() tell_addresses(80) end, function() return ask("::ffff:10.0.0.1", 80) end))
  end)

  it("is one on which http.serve listens, which tells IPv4", function()
    local ok, http = pcall(require, "runnel.http")
    if not (ok and pcall(function() return http.get end)) then return pending "libcurl is not installed" end
    local function server() assert(http.serve(80, function(req) return 200, nil, req.address end, { host = "::" })) end
    assert.equal("10.0.0.2", between(server, function() return assert(http.get "http://server/").body end))
  end)

  it("gets datagrams, and answers them", function()
    local text, from = between(function()
      local socket = assert(uv.udp { host = "::", port = 53 })
      for datagram in socket:read() do assert(socket:send(datagram.host, datagram.host, datagram.port)) end
    end, function()
      local socket <close> = assert(uv.udp())
      assert(socket:send("text", "server", 53))
      local datagram = socket:read():take()
      return datagram.data, datagram.host
    end)
    assert.same({ "::ffff:10.0.0.2", "10.0.0.1" }, { text, from })
  end)

  it("is free once: two programs cannot both have its port", function()
    local errors = between(function() end, function()
      local errors = {}
      assert(uv.listen("::", 80))
      errors[1] = select(2, uv.listen("0.0.0.0", 80))
      errors[2] = select(2, uv.listen("::1", 81))
      errors[3] = select(2, uv.connect("::1", 80))
      return errors
    end)
    assert.matches("EADDRINUSE", errors[1])
    assert.matches("EADDRNOTAVAIL", errors[2])
    assert.matches("ENETUNREACH", errors[3])
  end)
end)
