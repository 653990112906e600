-- Options of nats.connect that say which servers, ciphers and subjects a connection uses.

local free_port = require "spec.support.free_port"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local rn = require "runnel"

describe("the options of nats.connect", function()
  local nats, missing = nats_server.library()
  if not nats then return pending(missing) end

  -- Takes events up to one of these names, which it returns.
  local function event_of(events, ...)
    while true do
      local event = assert(rn.alts { events, rn.timeout(patience.seconds(30) * 1000) }, "no event")
      for _, name in ipairs { ... } do
        if event.event == name then return name end
      end
    end
  end

  it("inbox_prefix: the subjects for replies begin with it", function()
    local server <close> = nats_server.start { jetstream = false }
    local conn <close> = assert(nats.connect(server.url, { inbox_prefix = "mine.replies" }))
    assert.matches("^mine%.replies%.", conn:inbox())
    local requests = conn:subscribe "orders"
    local reply
    rn.go(function()
      local m = requests:take()
      reply = m.reply
      m:respond "done"
    end)
    assert.equal("done", assert(conn:request("orders", "eggs")).data)
    assert.matches("^mine%.replies%.", reply)
    local other <close> = assert(nats.connect(server.url))
    assert.matches("^_INBOX%.", other:inbox())
  end)

  it("ignore_discovered: the connection goes to no server of the cluster that was not named", function()
    local first <close> = nats_server.start {
      jetstream = false, config = 'cluster { name: spec, listen: "127.0.0.1:-1" }',
    }
    assert(first.program:says "Listening for route connections on")
    local port = first:log():match "Listening for route connections on [%d.]+:(%d+)"
    local few = { max_reconnects = 2, reconnect_wait = 10 }
    local conn <close> = assert(nats.connect(first.url, few))
    few.ignore_discovered = true
    local faithful <close> = assert(nats.connect(first.url, few))
    local events, others = conn:events(), faithful:events()
    local second <close> = nats_server.start {
      jetstream = false,
      config = ('server_name: second\ncluster { name: spec, listen: "127.0.0.1:-1", routes: ["nats://127.0.0.1:%s"] }')
        :format(port),
    }
    event_of(events, "discovered")
    assert(faithful:flush())
    first:kill()
    assert.equal("reconnected", event_of(events, "reconnected", "closed"))
    assert.equal("closed", event_of(others, "reconnected", "closed"))
    assert.is_true(second:running())
  end)

  it("tls.ciphers: OpenSSL's list for TLS 1.2; one that names no cipher is an error #ci", function()
    local monitor = free_port()
    local server <close> = nats_server.start { jetstream = false, tls = true,
      config = ("http: 127.0.0.1:%d"):format(monitor) }
    raises("^connect: tls: ciphers: .*no%-such%-cipher", function()
      nats.connect(server.url, { tls = { ca = server.cert, ciphers = "no-such-cipher" } })
    end)
    if not pcall(require, "luv") then return end
    local dir <close> = process.directory()
    dir:write("openssl.cnf", "openssl_conf = all\n[all]\nssl_conf = modules\n[modules]\nsystem_default = tls\n[tls]\n"
      .. "MaxProtocol = TLSv1.2\n")
    dir:write("job.lua", ([[
      local nats, uv = require "runnel.nats", require "runnel.uv"
      local conn <close> = assert(nats.connect("%s", { tls = { ca = "%s", ciphers = arg[1] } }))
      assert(conn:flush())
      local page = assert(uv.connect("127.0.0.1", %d))
      page:write "GET /connz HTTP/1.0\r\n\r\n"
      for piece in page:read() do io.write(piece) end
    ]]):format(server.url, server.cert, monitor))
    for given, used in pairs {
      ["ECDHE-RSA-AES256-GCM-SHA384"] = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
      ["ECDHE-RSA-AES128-GCM-SHA256"] = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    } do
      local command = ("OPENSSL_CONF=%s/openssl.cnf %s job.lua %s"):format(dir.path, process.runnel, given)
      local result = process.run(dir.path, command)
      assert.equal(0, result.status, result.err)
      assert.matches(('"tls_cipher_suite": "%s"'):format(used), result.out)
    end
  end)
end)
