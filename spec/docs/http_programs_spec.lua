-- Programs of the manual about HTTP that need more than they have in themselves: certificates, a signal, a proxy.

local http_stage = require "spec.support.http.http_stage"
local pages = require "spec.support.docs.pages"
local rn = require "runnel"

local missing = http_stage.missing or not pcall(require, "runnel.tls.core") and "OpenSSL is not installed" or nil

describe("a program of the manual", function()
  if missing then return pending(missing) end
  local http, tls, uv = require "runnel.http", require "spec.support.tls", require "runnel.uv"

  before_each(http_stage.open)
  after_each(http_stage.close)

  -- Runs a block of a page with further variables, and some of its text replaced. Returns what it prints.
  local function run(page, line, variables, replaced)
    local code, printed = pages.block("docs/manual/" .. page, line), {}
    for from, to in pairs(replaced) do
      local at = assert(code:find(from, 1, true), from)
      code = code:sub(1, at - 1) .. to .. code:sub(at + #from)
    end
    local env = setmetatable(variables, { __index = _G })
    function env.print(...) printed[#printed + 1] = table.concat({ ... }, "\t") end
    assert(load(code, "@" .. page, "t", env))()
    return printed
  end

  it("tells for how many days the certificates of servers are valid, with few connections", function()
    local folder <close> = tls.folder()
    local most, now = 0, 0
    local server <close> = assert(http.serve(0, function()
      now = now + 1
      most = math.max(most, now)
      rn.sleep(1)
      now = now - 1
      return 200
    end, { tls = { cert = folder.path .. "/cert", key = folder.path .. "/key" } }))
    local hosts = {}
    for i = 1, 12 do hosts[i] = "localhost:" .. server.port end
    local printed = run("http.md", "days_left", { http = http, rn = rn, hosts = hosts }, {
      ["certificates = true"] = ('certificates = true, cainfo = %q'):format(folder.path .. "/ca"),
    })
    http.max_connections(nil)
    assert.equal(12, #printed)
    for _, text in ipairs(printed) do assert.match("^localhost:%d+: [12] days, %d+ ms$", text) end
    assert.is_true(most <= 4, most)
  end)

  it("takes a renewed certificate at SIGHUP, and goes on with the old one if the new one is wrong", function()
    local folder <close> = tls.folder()
    local cert, key = folder.path .. "/cert", folder.path .. "/key"
    local signals, context, block = rn.chan(), nil, nil
    local printed = run("tls.md", "fullchain.pem", {
      tls = { server = function(opts)
        context = require("runnel.tls").server(opts)
        return context
      end },
      uv = { signal = function(name) return name == "hup" and signals or nil end },
      rn = { go = function(f) block = rn.go(f) end },
    }, {
      ["/etc/letsencrypt/live/example.org/fullchain.pem"] = cert,
      ["/etc/letsencrypt/live/example.org/privkey.pem"] = key,
    })
    local server <close> = assert(http.serve(0, function() return 200 end, { tls = context }))
    local function serial()
      local res = assert(http.get("https://localhost:" .. server.port, { certificates = true,
        cainfo = folder.path .. "/ca" }))
      return res.certificates[1].serial
    end
    local function reload()
      signals:put "hup"
      rn.yield()
    end
    local before = serial()
    tls.certify(folder, "renewed", { names = "DNS:localhost" })
    os.rename(folder.path .. "/renewed", cert)
    os.rename(folder.path .. "/renewed_key", key)
    reload()
    local renewed = serial()
    assert.same({ true, {} }, { before ~= renewed, printed })
    os.remove(key)
    reload()
    assert.same({ renewed, 1 }, { serial(), #printed })
    signals:close()
    block:take()
  end)

  it("gets messages of a WebSocket through a proxy", function()
    local server <close> = assert(http.serve(0, function(req)
      local conn = assert(req:websocket())
      for i = 1, 2 do conn:write("message " .. i) end
    end))
    local asked
    local conns, port = assert(uv.listen("127.0.0.1", 0))
    rn.go(function()
      local conn <close> = conns:take()
      local input, head = conn:read(), ""
      repeat head = head .. input:take() until head:find "\r\n\r\n$"
      asked = head:match "^[^\r]*"
      local to <close> = assert(uv.connect("127.0.0.1", server.port))
      conn:write "HTTP/1.1 200 OK\r\n\r\n"
      local back = rn.go(function() for piece in to:read() do conn:write(piece) end end)
      for piece in input do to:write(piece) end
      to:close()
      back:take()
    end)
    local printed = run("websocket.md", "feed.example.org", { http = http }, {
      ["http://proxy.example.org:3128"] = "http://127.0.0.1:" .. port,
    })
    assert.same({ "message 1", "message 2" }, printed)
    assert.equal("CONNECT feed.example.org:80 HTTP/1.1", asked)
    conns:close()
  end)
end)
