-- Calls of a UDP socket of a simulated host, in which memory runs out: they raise that, and leave the socket as it was.
local t = ...
local rn = require "runnel"
local sim = require "runnel.sim"
local uv = require "runnel.uv"

local kind = t.variant("open", "use")
local PORT <const> = 9
local outcome, socks = nil, { false, false } -- with room: an assignment that fails would lose the socket

local calls = {
  open = function() socks[2] = uv.udp { port = PORT + 1, loopback = false } end,
  use = function()
    socks[1]:read()
    assert(socks[1]:send("hello", "127.0.0.1", PORT))
    assert(socks[1]:join "239.1.2.3")
    assert(socks[1]:connect("127.0.0.1", PORT))
  end,
}

-- With memory again, the socket works, and the ports are free when it is closed.
local function check_socket()
  local sock = socks[1]
  if not sock.peer then assert(sock:connect("127.0.0.1", PORT)) end
  local input = sock:read()
  assert(sock:send "after that")
  local datagram = input:take()
  if datagram.data == "hello" then datagram = input:take() end
  assert(datagram.data == "after that")
  sock:close()
  if socks[2] then socks[2]:close() end
  for port = PORT, PORT + 1 do
    local again = assert(uv.udp { port = port })
    again:close()
  end
end

local function attempt()
  t.arm(false)
  collectgarbage "stop" -- it would take most of the time
  sim.run(function()
    local world = sim.world()
    world:host("a", function()
      socks[1] = assert(uv.udp { port = PORT, host = "127.0.0.1" })
      collectgarbage "restart"
      t.arm(true)
      local ok, err = pcall(calls[kind])
      t.arm(false)
      collectgarbage "stop"
      outcome = ok and "done" or err
      check_socket()
    end)
    world:run(10000)
  end)
  collectgarbage "restart"
  t.arm(true)
end

local function check()
  assert(outcome, "the host has not ended")
  if outcome ~= "done" then t.expected(outcome) end
  rn.run()
end

return attempt, check
