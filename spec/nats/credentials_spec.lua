-- Who may connect to a server, and what they may do: passwords, tokens, NKeys, files of credentials, certificates.

local background = require "spec.support.background"
local rn = require "runnel"
local nats_server = require "spec.support.nats_server"
local nkeys = require "spec.support.nkeys"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"

local has_nats, nats = pcall(require, "runnel.nats")
if not has_nats or not nats_server.installed then
  describe("credentials", function() pending "libnats or nats-server is not installed" end)
  return
end

describe("a server that knows its clients", function()
  -- Asserts that one can connect.
  local function accepts(...)
    local conn <close> = assert(nats.connect(...))
    assert.is_true(conn:flush())
  end

  local function refuses(pattern, ...)
    local conn, err = nats.connect(...)
    assert.is_nil(conn)
    assert.matches(pattern, err)
  end

  it("accepts a user and the password", function()
    local server <close> = nats_server.start { jetstream = false, user = "me", password = "secret" }
    local plain = server.url:gsub("//.*@", "//")
    accepts(server.url)
    accepts(plain, { user = "me", password = "secret" })
    for _, opts in ipairs { {}, { user = "me", password = "wrong" }, { user = "you", password = "secret" } } do
      refuses("^cannot connect to nats://127.0.0.1:%d+: Authorization Violation$", plain, opts)
    end
  end)

  it("accepts a token", function()
    local server <close> = nats_server.start { jetstream = false, token = "a-token" }
    local plain = server.url:gsub("//.*@", "//")
    accepts(server.url)
    accepts(plain, { token = "a-token" })
    refuses("Authorization Violation", plain, { token = "another" })
    refuses("Authorization Violation", plain)
  end)

  it("accepts an NKey", function()
    if not nkeys.available then return pending "openssl is not installed" end
    local server <close> = nats_server.start { jetstream = false }
    local user, other = nkeys.new(server.set, "user"), nkeys.new(server.set, "user")
    server:stop()
    server.options.config = ("authorization { users: [ { nkey: %s } ] }"):format(user.public)
    server:start()
    accepts(server.url, { nkey = user.public, nkey_seed = user.file })
    refuses("Authorization Violation", server.url, { nkey = user.public, nkey_seed = other.file })
    refuses("Authorization Violation", server.url, { nkey = other.public, nkey_seed = other.file })
    refuses("Authorization Violation", server.url)
    refuses("seed", server.url, { nkey = user.public, nkey_seed = server.set:write("empty", "nothing") })
  end)

  it("accepts a file of credentials, and its owner may do what the token says", function()
    if not nkeys.available then return pending "openssl is not installed" end
    local server <close> = nats_server.start { jetstream = false }
    local set = server.set
    local operator, account = nkeys.new(set, "operator"), nkeys.new(set, "account")
    local user, other = nkeys.new(set, "user"), nkeys.new(set, "user")
    local all = { subs = -1, data = -1, payload = -1 }
    local account_token = nkeys.token(operator, account, "account", { type = "account", version = 2, limits = {
      subs = -1, data = -1, payload = -1, conn = -1, leaf = -1, imports = -1, exports = -1, wildcards = true,
    } })
    local user_token = nkeys.token(account, user, "user", { type = "user", version = 2, subs = all.subs,
      data = all.data, payload = all.payload, pub = { deny = { "secret" } } })
    server:stop()
    server.options.config = ("operator: %s\nresolver: MEMORY\nresolver_preload: { %s: %s }"):format(
      nkeys.token(operator, operator, "operator", { type = "operator", version = 2 }), account.public, account_token)
    server:start()

    local file = set:write("user.creds", nkeys.credentials(user_token, user.seed))
    local conn <close> = assert(nats.connect(server.url, { credentials = file }))
    assert.is_true(conn:flush())
    local events = conn:events()
    conn:publish("secret", "")
    assert.matches('Permissions Violation for Publish to "secret"', events:take().error)
    accepts(server.url, { credentials = set:write("user.jwt", user_token), credentials_seed = user.file })
    -- The seed of somebody else; a token that somebody else has signed; no token.
    refuses("Authorization Violation", server.url, {
      credentials = set:write("stolen.creds", nkeys.credentials(user_token, other.seed)),
    })
    local forged = nkeys.token(nkeys.new(set, "account"), other, "user", { type = "user", version = 2 })
    refuses("Authorization Violation", server.url, {
      credentials = set:write("forged.creds", nkeys.credentials(forged, other.seed)),
    })
    refuses("seed", server.url, { credentials = set:write("empty.creds", "nothing") })
    refuses("Authorization Violation", server.url)
  end)

  it("accepts a certificate, and shows its own", function()
    if not nkeys.available then return pending "openssl is not installed" end
    local server <close> = nats_server.start { jetstream = false, tls = "both" }
    accepts(server.url, { tls_ca = server.cert, tls_cert = server.cert, tls_key = server.key })
    refuses("^cannot connect to tls://", server.url, { tls_ca = server.cert })
    refuses("certificate", server.url, { tls_cert = server.cert, tls_key = server.key }) -- who has signed the server's?
    refuses("^cannot connect to tls://", server.url, {
      tls_ca = server.cert, tls_cert = server.cert, tls_key = server.key, tls_host = "another.example",
    })
    raises("^connect: tls_ca: ", function()
      nats.connect(server.url, { tls_ca = server.set:write("not.pem", "nothing") })
    end)
  end)

  -- docs/machines.md, "In production".
  it("lets programs run remote stages and streams with the permissions that the manual names", function()
    local always = [[ "$JS.API.>", "$JS.ACK.>", "_INBOX.>" ]]
    local server <close> = nats_server.start { config = ([[
      authorization { users: [
        { user: submitter, password: s, permissions: {
            publish: [ %s, "runnel.jobs.>", "runnel.cancel.>" ], subscribe: "_INBOX.>" } }
        { user: worker, password: w, permissions: {
            publish: [ %s ], subscribe: [ "_INBOX.>", "runnel.cancel.>" ] } }
        { user: streams, password: s, permissions: { publish: [ %s, "orders" ], subscribe: "_INBOX.>" } }
      ] }]]):format(always, always, always) }
    local errors = {}
    local function connect(user)
      local conn = assert(nats.connect(server.url, { user = user, password = user:sub(1, 1) }))
      conn:on_event(function(event) errors[#errors + 1] = event.error end)
      return conn
    end
    local submitter <close> = connect "submitter"
    local worker <close> = connect "worker"
    local streams <close> = connect "streams"
    worker:serve("double", 2, function(v)
      if v == 0 then rn.sleep(1e6) end
      return 2 * v
    end, { drain_on_term = false })
    local double = submitter:remote "double"
    assert.same({ 2, 4, 6 }, stage.drain(rn.pmap(2, double, { 1, 2, 3 })))
    local _, err = rn.pmap(1, double, { 0 }, { timeout = 100 }):take() -- which cancels the job
    assert.is_true(rn.is_timeout(err))
    assert.equal(8, double(4))

    assert(streams:stream "orders")
    assert(assert(streams:sink "orders"):put "eggs")
    local orders = assert(streams:source("orders", { name = "shop" }))
    local m = orders:take()
    assert.equal("eggs", m.value)
    m:ack()
    orders:close()
    for _, conn in ipairs { submitter, worker, streams } do assert(conn:flush()) end
    rn.sleep(50)
    assert.same({}, errors)
    -- Others may not.
    streams:publish("runnel.jobs.double.x", "")
    assert(streams:flush())
    assert.is_true(background.wait_until(30000, function() return #errors > 0 end))
    assert.matches("Permissions Violation", errors[1])
  end)
end)
