-- What the specs of runnel.nats use: real servers that start, stop, are killed and always end, and a network that
-- fails. A client in shell commands is enough here.

local background = require "spec.support.background"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local shell = require "spec.support.shell"

describe("programs for specs", function()
  it("have a status however soon they end", function()
    local set <close> = background.set()
    for _ = 1, 20 do assert.equal(3, set:start({ "sh", "-c", "exit 3" }):wait()) end
  end)
end)

describe("a nats-server for specs", function()
  if not nats_server.installed then return pending(nats_server.MISSING) end

  local function exists(path) return os.execute("test -e " .. path) == true end

  -- What a server sends to a client that has connected within some seconds; else an empty string.
  local function first_line(port, seconds)
    local client = [[timeout %g bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d; read -r line <&3 && echo "$line"']]
    return (shell.run(client:format(seconds, port)))
  end

  -- On a busy machine a server may close a connection before it has written to it.
  local function greeting(port)
    return patience.wait_until(function()
      local line = first_line(port, patience.seconds(5))
      return line ~= "" and line
    end)
  end

  local function does_not_greet(port) return first_line(port, 0.5) == "" end

  it("greets clients, keeps its port and its store when it starts again, and is gone in the end", function()
    local server <close> = nats_server.start()
    assert.matches("^INFO ", greeting(server.port))
    local store = server.set.dir .. "/server-store"
    assert.is_true(exists(store))
    server:kill()
    assert.equal(137, server.program:status())
    assert.is_true(does_not_greet(server.port))
    server:start()
    assert.matches("^INFO ", greeting(server.port))
    server:stop()
    assert.is_not_nil(server.program:status())
    server:start()
    local pid = server.program.pid
    server:close()
    assert.is_false(exists(server.set.dir))
    assert.is_nil((os.execute(("kill -0 %d 2>/dev/null"):format(pid))))
  end)

  it("does not answer while it is paused", function()
    local server <close> = nats_server.start()
    server:pause()
    assert.is_true(does_not_greet(server.port))
    server:resume()
    assert.matches("^INFO ", greeting(server.port))
  end)

  it("runs as a cluster, with passwords, with a limit of its messages, and with TLS #ci", function()
    local cluster <close> = nats_server.cluster()
    assert.matches('"cluster":"spec"', greeting(cluster.servers[3].port))
    cluster.servers[1]:kill()
    cluster.servers[1]:start()
    local other <close> = nats_server.start { user = "me", password = "secret", max_payload = 1000 }
    assert.matches('"auth_required":true', greeting(other.port))
    assert.matches('"max_payload":1000,', greeting(other.port))
    if background.has_command "openssl" then
      local secure <close> = nats_server.start { tls = true }
      assert.matches('"tls_required":true', greeting(secure.port))
      assert.is_true(exists(secure.cert))
    end
  end)

  it("says what a server that does not start has logged", function()
    assert.has_error.matches(function() nats_server.start { config = "cluster {" } end, "did not start.*Parse error")
  end)

  it("leaves nothing behind when the process of the spec is killed", function()
    local out = shell.run [[
      lua -e '
        local server = require("spec.support.queue.nats_server").start()
        print(server.program.pid, server.set.dir)
        os.execute "kill -KILL $PPID"']]
    local pid, dir = out:match "^(%d+)%s+(%S+)"
    assert.is_truthy(pid, out)
    assert.is_truthy(patience.wait_until(function() return not exists(dir) end))
    assert.is_nil((os.execute(("kill -0 %s 2>/dev/null"):format(pid))))
  end)

  it("is reached through a proxy that stalls, cuts and refuses connections", function()
    if not nats_server.has_proxy then return pending "luv is not installed" end
    local server <close> = nats_server.start()
    local proxy = nats_server.proxy(server)
    assert.equal(("nats://127.0.0.1:%d"):format(proxy.port), proxy.url)
    assert.matches("^INFO ", greeting(proxy.port))
    proxy:stall()
    assert.is_true(does_not_greet(proxy.port))
    proxy:flow()
    assert.matches("^INFO ", greeting(proxy.port))
    proxy:refuse()
    assert.is_true(does_not_greet(proxy.port))
    proxy:flow()
    assert.matches("^INFO ", greeting(proxy.port))

    -- A client that waits for a second line, and tells when its connection ends.
    local client = server.set:start { "bash", "-c", ([[
      exec 3<>/dev/tcp/127.0.0.1/%d
      read -r line <&3
      echo greeted
      read -r line <&3 || echo cut]]):format(proxy.port) }
    assert.is_true(client:says "greeted")
    proxy:cut()
    assert.is_true(client:says "cut")
  end)
end)
