-- runnel.driver.copas: threads of Copas', their timers and sockets, beside go blocks.

local rn = require "runnel"
local stage = require "spec.support.stage"
local starving = require "spec.support.starving"

-- Debian installs Copas and what it needs for earlier versions of Lua; they work with 5.4, too.
local path = package.path
package.path = path .. ";/usr/share/lua/5.2/?.lua;/usr/share/lua/5.3/?.lua"
local has_copas, copas = pcall(require, "copas")
package.path = path

describe("runnel.driver.copas", function()
  it("refuses a Copas older than version 2, at the line that requires it", function()
    local output = stage.script [[
      package.loaded.copas = { _VERSION = "Copas 1.1.7", step = function() end }
      print(pcall(function()
        require "runnel.driver.copas"
      end))
    ]]
    assert.matches("^false\t[^\n]+:3: the driver needs Copas 2 or newer, and this is Copas 1%.1%.7\n$", output)
  end)

  if not has_copas then return pending "Copas is not installed" end
  if not copas.finished then return pending "the installed Copas is older than version 2" end
  local socket = require "socket"
  local driver = require "runnel.driver.copas"
  local server, port

  before_each(function()
    stage.open()
    rn.driver(driver)
  end)
  after_each(stage.close)

  lazy_setup(function()
    server = assert(socket.bind("127.0.0.1", 0))
    port = select(2, server:getsockname())
    copas.addserver(server, function(peer)
      peer = copas.wrap(peer)
      local line = peer:receive "*l"
      while line do
        peer:send(line:upper() .. "\n")
        line = peer:receive "*l"
      end
    end)
  end)
  -- A channel of the answers to n lines, which a thread of Copas' sends one after the other.
  local function ask(n, what)
    local answers = rn.chan(n)
    copas.addthread(function()
      local client = socket.tcp()
      client:settimeout(0)
      copas.connect(client, "127.0.0.1", port)
      client = copas.wrap(client)
      for i = 1, n do
        client:send(("%s %d\n"):format(what, i))
        answers:put_async(client:receive "*l")
      end
      client.socket:close()
      answers:close()
    end)
    return answers
  end

  it("runs servers and clients while everybody is parked", function()
    local first, second = ask(3, "first"), ask(3, "second")
    assert.same({ "FIRST 1", "FIRST 2", "FIRST 3" }, stage.drain(first))
    assert.same({ "SECOND 1", "SECOND 2", "SECOND 3" }, stage.drain(second))
    rn.run(function() assert.same({ "THIRD 1" }, stage.drain(ask(1, "third"))) end)
  end)

  it("wakes for runnel's timers while no socket is ready", function()
    local start = rn.now()
    rn.sleep(5)
    local took = rn.now() - start
    assert.is_true(took >= 5 and took < 30000, took)
  end)

  it("sees Ctrl-C while nothing happens #slow", function()
    stage.check_interrupt [[
      package.path = package.path .. ";/usr/share/lua/5.2/?.lua;/usr/share/lua/5.3/?.lua"
      local copas = require "copas"
      require "runnel".driver(require "runnel.driver.copas")
      copas.addserver(assert(require "socket".bind("127.0.0.1", 0)), print)
    ]]
  end)

  it("and a busy go block: neither starves the other #slow", function()
    local rounds = rn.chan(100)
    local answers = ask(100, "line")
    rn.go(function()
      for line in answers do rounds:put(line:find "^LINE" ~= nil) end
    end)
    starving(rounds)
  end)

  it("runs threads that sleep, and ends with them", function()
    copas.removeserver(server) -- the last test that needs it is above
    local log = {}
    copas.addthread(function()
      copas.sleep(0.002)
      rn.go(function() log[1] = "started by a thread" end)
    end)
    rn.run()
    assert.same({ "started by a thread" }, log)
    assert.error_matches(function() rn.chan():take() end, "deadlock")
  end)
end)
