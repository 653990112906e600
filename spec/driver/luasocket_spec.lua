-- runnel.driver.luasocket: go blocks that wait for LuaSocket's sockets.

local rn = require "runnel"
local stage = require "spec.support.stage"
local starving = require "spec.support.starving"
local has_socket, socket = pcall(require, "socket")

describe("runnel.driver.luasocket", function()
  if not has_socket then return pending "LuaSocket is not installed" end
  local sockets = require "runnel.driver.luasocket"
  local server, port, open

  -- Keeps a socket, to be closed after the test.
  local function kept(sock)
    open[#open + 1] = sock
    sock:settimeout(0)
    return sock
  end

  before_each(function()
    stage.open()
    rn.driver(sockets)
    open = {}
    server = kept(assert(socket.bind("127.0.0.1", 0)))
    port = select(2, server:getsockname())
  end)
  after_each(function()
    for _, sock in ipairs(open) do sock:close() end
    rn.run() -- it forgets them
    assert.is_false(sockets:alive())
    stage.close()
  end)

  local function connect()
    local client = kept(socket.tcp())
    client:connect("127.0.0.1", port)
    assert.is_nil(sockets.writable(client):take())
    return client
  end

  local function accept()
    assert.is_nil(sockets.readable(server):take())
    return kept(assert(server:accept()))
  end

  local function line(sock)
    local text, err, rest
    repeat
      text, err, rest = sock:receive("*l", rest)
      if err == "timeout" then sockets.readable(sock):take() end
    until err ~= "timeout"
    return text, err
  end

  it("carries lines between go blocks", function()
    rn.go(function()
      for _ = 1, 3 do
        local peer = accept()
        rn.go(function()
          for text in line, peer do
            rn.sleep(1)
            peer:send(text:upper() .. "\n")
          end
          peer:close()
        end)
      end
    end)
    local clients = {}
    for i = 1, 3 do
      clients[i] = rn.go(function()
        local client = connect()
        local answers = {}
        for k = 1, 5 do
          client:send(("client %d, line %d\n"):format(i, k))
          answers[k] = line(client)
        end
        client:close()
        return table.concat(answers, "; ")
      end)
    end
    for i = 1, 3 do
      assert.matches(("^CLIENT %d, LINE 1; .*CLIENT %d, LINE 5$"):format(i, i), (clients[i]:take()))
    end
  end)

  it("wakes for runnel's timers while no socket is ready", function()
    local start = rn.now()
    local readable = sockets.readable(server)
    local _, port_of_alts = rn.alts { readable, rn.timeout(5) }
    assert.not_equal(readable, port_of_alts)
    assert.is_true(rn.now() - start < 30000)
    assert.equal(readable, sockets.readable(server)) -- it is still being watched
    connect()
    assert.is_nil(readable:take())
    assert.not_equal(readable, sockets.readable(server))
  end)

  it("closes the channels of a socket that is closed, with that error", function()
    local client = connect()
    local readable = sockets.readable(client)
    rn.go(function()
      rn.sleep(1)
      client:close()
    end)
    assert.same({ nil, "closed" }, { readable:take() })
  end)

  it("is not alive without sockets", function()
    assert.is_false(sockets:alive())
    assert.error_matches(function() rn.chan():take() end, "deadlock")
    rn.sleep(1)
  end)

  it("reports what it expects", function()
    for _, bad in ipairs { 42, "socket", {} } do
      local ok, err = pcall(function() sockets.readable(bad) end)
      assert.is_false(ok)
      assert.equal(stage.here(-2) .. ": readable: a socket of LuaSocket expected, got a " .. type(bad), err)
    end
    assert.error_matches(function() sockets.writable(nil) end, "writable: a socket of LuaSocket expected, got a nil")
  end)

  it("sees Ctrl-C while nothing happens #slow", function()
    stage.check_interrupt [[
      local sockets = require "runnel.driver.luasocket"
      require "runnel".driver(sockets)
      readable = sockets.readable(assert(require "socket".bind("127.0.0.1", 0)))
    ]]
  end)

  it("and a busy go block: neither starves the other #slow", function()
    local rounds = rn.chan(100)
    local peer = rn.go(accept)
    local client = connect()
    peer = peer:take()
    rn.go(function()
      for text in line, peer do peer:send(text .. "\n") end
    end)
    rn.go(function()
      for _ = 1, 100 do
        client:send "there and back\n"
        rounds:put(line(client) == "there and back")
      end
      client:close()
    end)
    starving(rounds)
  end)
end)
