-- Who may connect to a server, and what they may do: passwords, tokens, NKeys, files of credentials, certificates.

local long = require "spec.support.long"
local rn = require "runnel"
local nats_server = require "spec.support.queue.nats_server"
local nkeys = require "spec.support.queue.nkeys"
local pages = require "spec.support.docs.pages"
local patience = require "spec.support.patience"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"

local nats, missing = nats_server.library()
if not nats then
  describe("credentials", function() pending(missing) end)
  return
end

describe("a server that knows its clients", function()
  -- Asserts that one can connect. On a busy machine the server may have no processor for a while.
  local function accepts(url, opts)
    local patient = { connect_timeout = patience.most }
    for name, value in pairs(opts or {}) do patient[name] = value end
    local conn <close> = assert(nats.connect(url, patient))
    assert.is_true(conn:flush(patience.most))
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
    -- About one in 150 signatures of libnats is wrong.
    for _ = 1, long.times(5, 1000) do accepts(server.url, { nkey = user.public, nkey_seed = user.file }) end
    refuses("Authorization Violation", server.url, { nkey = user.public, nkey_seed = other.file })
    refuses("Authorization Violation", server.url, { nkey = other.public, nkey_seed = other.file })
    refuses("Authorization Violation", server.url)
    refuses("seed", server.url, { nkey = user.public, nkey_seed = server.set:write("empty", "nothing") })
  end)

  it("accepts a file of credentials, and its owner may do what the token says #ci", function()
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

  it("accepts a certificate, and shows its own #ci", function()
    if not nkeys.available then return pending "openssl is not installed" end
    local server <close> = nats_server.start { jetstream = false, tls = "both" }
    accepts(server.url, { tls = { ca = server.cert, cert = server.cert, key = server.key } })
    local function text_of(path)
      local file <close> = assert(io.open(path))
      return file:read "a"
    end
    local cert, key = text_of(server.cert), text_of(server.key)
    accepts(server.url, { tls = { ca = cert, cert = cert, key = key } })
    accepts(server.url, { tls = { ca = cert, cert = cert, key = server.key } })
    accepts(server.url, { tls = { ca = server.cert, cert = cert .. key } })
    accepts(server.url, { tls = { ca = server.cert, cert = server.set:write("both.pem", cert .. key) } })
    refuses("^cannot connect to tls://[^ ]+ the server has closed the connection after the TLS handshake; it may "
      .. "demand a certificate of the client %(tls = { cert =, key = }%)$", server.url, { tls = { ca = server.cert } })
    -- Who has signed the server's?
    refuses("certificate", server.url, { tls = { cert = server.cert, key = server.key } })
    refuses("^cannot connect to tls://", server.url, {
      tls = { ca = server.cert, cert = server.cert, key = server.key, name = "another.example" },
    })
    raises("^connect: tls: ca: ", function()
      nats.connect(server.url, { tls = { ca = server.set:write("not.pem", "nothing") } })
    end)
  end)

  -- docs/machines.md, "Who may do what".
  it("lets programs run remote stages and streams with the rights that the manual names, and names others",
    function()
    local config = ("\n" .. pages.read "docs/machines.md"):match "\n    (authorization {\n.-\n    })\n"
    config = config:gsub("NAME", "double"):gsub("FROM", "orders"):gsub("%f[%w]TO%f[%W]", "invoices")
      :gsub("password: %$%u+", "password: x")
    local server <close> = nats_server.start { config = config }
    local errors = {}
    local function connect(user)
      local conn = assert(nats.connect(server.url, { user = user, password = "x" }))
      conn:on_event(function(event) errors[#errors + 1] = event.error end)
      return conn
    end
    local submitter <close> = connect "submitter"
    local worker <close> = connect "worker"
    local operator <close> = connect "operator"
    local stages <close> = connect "stage"
    local shop <close> = connect "source"
    worker:serve("double", 2, function(v)
      if v == 0 then rn.sleep(1e6) end
      if v < 0 then error("negative", 0) end
      return 2 * v
    end, { drain_on_term = false })
    local double = submitter:remote("double", { tries = 2, backoff = 10 })
    assert.same({ 2, 4, 6 }, stage.drain(rn.pmap(2, double, { 1, 2, 3 })))
    local _, err = rn.pmap(1, double, { 0 }, { timeout = 100 }):take() -- which cancels the job
    assert.is_true(rn.is_timeout(err))
    assert.equal(8, double(4))
    assert.is_false(pcall(double, -1))

    assert(operator:stream "orders")
    assert(operator:stream "invoices")
    local done = {}
    local invoices <close> = assert(stages:stage("orders", 1, function(v, m)
      if v == "bad" or m.deliveries < 2 then error("no", 0) end
      done[#done + 1] = v
      return v
    end, "invoices", { tries = 2, backoff = 10, drain_on_term = false, ex_handler = nil }))
    local orders = assert(shop:sink "orders")
    local report = rn.on_error(function() end)
    assert(orders:put "eggs")
    assert(orders:put "bad")
    assert.is_true(patience.wait_until(function() return #done == 1 and invoices:stats().given_up == 1 end))
    rn.on_error(report)
    local names = {}
    for i, queue in ipairs(assert(operator:queues())) do
      names[i] = ("%s %d %d"):format(queue.name, queue.given_up, #queue.workers)
    end
    assert.same({ "double 1 1", "orders/invoices 1 1" }, names)
    for _, conn in ipairs { submitter, worker, stages, shop, operator } do assert(conn:flush()) end
    rn.sleep(50)
    assert.same({}, errors)

    -- Others may not: the error names the right.
    local made, problem = shop:stream "orders"
    assert(made, problem)
    made, problem = shop:stream("more")
    assert.is_nil(made)
    assert.equal('stream "more": the server does not permit to publish to "$JS.API.STREAM.INFO.more"', problem)
    raises('^serve: the server does not permit to publish to "%$JS.API.STREAM.INFO.runnel%-jobs%-double"$', function()
      shop:serve("double", 1, print)
    end)
    local denied, reported = shop:events(), rn.chan(8)
    report = rn.on_error(function(problem_text) reported:offer(problem_text) end)
    for _ = 1, 2 do -- reported once
      shop:publish("runnel.jobs.double.x", "")
      local event = denied:take()
      assert.same({ "error", "publish", "runnel.jobs.double.x" }, { event.event, event.denied, event.subject })
    end
    rn.on_error(report)
    assert.equal('nats: the server does not permit to publish to "runnel.jobs.double.x"', reported:poll())
    assert.is_nil(reported:poll())
  end)

  it("whose users may not subscribe to replies says so", function()
    local server <close> = nats_server.start { config = [[
      authorization { users: [ { user: me, password: x, permissions: { publish: ">", subscribe: "a" } } ] }]] }
    local conn <close> = assert(nats.connect(server.url, { user = "me", password = "x" }))
    for _ = 1, 2 do
      local made, problem = conn:stream "more"
      assert.is_nil(made)
      assert.matches('^stream "more": the server does not permit to subscribe to "_INBOX%.', problem)
    end
  end)

  it("has users and passwords with %-escapes, which nobody sees", function()
    local server <close> = nats_server.start { jetstream = false, user = "m:e", password = "p@ss w/rd,%" }
    local plain = server.url:gsub("//.*@", "//")
    local url = plain:gsub("//", "//m%%3Ae:p%%40ss%%20w%%2Frd%%2C%%25@")
    local conn <close> = assert(nats.connect(url))
    assert.equal(plain, conn.url)
    assert.equal(("nats connection: %s (connected)"):format(plain), tostring(conn))
    refuses("^cannot connect to nats://127.0.0.1:%d+: Authorization Violation$", (url:gsub("%%25", "")))
    for wrong, message in pairs {
      ["nats://me:sec ret@host"] = '^connect: a URL has no spaces %(in a password, write %%20%): "nats://host"$',
      ["nats://me:sec/ret@host:x"] = '^connect: a port is a number from 1 to 65535: "nats://host:x"$',
      ["nats://me:sec,ret@host"] = "^connect: a port is a number from 1 to 65535: server 1$",
    } do
      assert.not_matches("sec", raises(message, function() nats.connect(wrong) end))
    end
    assert.not_matches("secret", raises("user", function() nats.connect(plain, { password = "secret" }) end))
  end)

  it("is found by the environment #ci", function()
    local server <close> = nats_server.start { jetstream = false, tls = "both", user = "me", password = "secret" }
    local function run(variables, code)
      local command = { "env" }
      for name, value in pairs(variables) do command[#command + 1] = ("RUNNEL_NATS_%s=%s"):format(name, value) end
      table.move({ os.getenv "LUA" or "lua5.4", "-e",
        code or 'print(assert(require("runnel.nats").connect()):flush() == true)' }, 1, 3, #command + 1, command)
      local program = server.set:start(command)
      return program:wait(), program:output()
    end
    local all = { URL = server.url:gsub("//.*@", "//"), USER = "me", PASSWORD = "secret", TLS_CA = server.cert,
      TLS_CERT = server.cert, TLS_KEY = server.key }
    assert.same({ 0, "true\n" }, { run(all) })
    all.TLS_CERT, all.TLS_KEY = "", ""
    local status, text = run(all)
    assert.equal(1, status)
    assert.matches("it may demand a certificate of the client %(tls = { cert =, key = }%)", text)
    all.TLS_CA = "/not/there.pem"
    assert.matches("connect: RUNNEL_NATS_TLS_CA: /not/there.pem: No such file", select(2, run(all)))
    assert.matches("cannot connect to nats://127.0.0.1:1: ", select(2, run(all,
      'print(require("runnel.nats").connect "nats://127.0.0.1:1")')))
    assert.matches("connect: RUNNEL_NATS_URL: a URL begins with nats:// or tls://: \"http://x\"",
      select(2, run { URL = "http://me:secret@x" }))
  end)
end)
