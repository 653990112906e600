-- proxy.lua PORT TO CONTROL: forwards TCP connections from one loopback port to another. Does what the lines of the
-- file CONTROL say, and prints "done N" after the Nth:
--   stall   hold back all data in both directions; nothing is lost
--   drop    lose all data of the connections that there are, in both directions, and keep them open; as a router does
--           that has forgotten them. New connections work
--   deafen  forward to the server only: what it sends is lost
--   slow    forward each piece of data 100 ms later, and one piece of a connection at a time
--   flow    forward again, also new connections
--   cut     close all connections; accept new ones
--   refuse  close all connections and each new one
-- spec/support/queue/nats_server.lua starts it, with luv alone so that it does not depend on what is under test.

local uv = require "luv"

local port, to, control = tonumber(arg[1]), tonumber(arg[2]), arg[3]
local links, stalled, deaf, slow, refusing = {}, false, false, false, false -- links: set of pairs of connections

local function close(handle)
  if not handle:is_closing() then handle:close() end
end

local function cut(link)
  links[link] = nil
  close(link.near)
  close(link.far)
end

local forward

-- Reads again when the other side has taken the data, so that a slow side slows down the other one.
local function written(link, from, target, err)
  if err then cut(link) end
  if links[link] and not stalled then forward(link, from, target) end
end

function forward(link, from, target)
  from:read_start(function(err, data)
    if (err or not data) and not link.is_dropped then return cut(link) end
    if link.is_dropped or deaf and from == link.far then return end
    from:read_stop()
    local function pass()
      if not links[link] then return end
      target:write(data, function(failure) written(link, from, target, failure) end)
    end
    if not slow then return pass() end
    local timer = uv.new_timer()
    timer:start(100, 0, function()
      timer:close()
      pass()
    end)
  end)
end

local function flow(link)
  if not link.connected then return end
  forward(link, link.near, link.far)
  forward(link, link.far, link.near)
end

local function stall(link)
  link.near:read_stop()
  link.far:read_stop()
end

local listener = uv.new_tcp()
assert(listener:bind("127.0.0.1", port))
local listening, problem = listener:listen(64, function()
  local link = { near = uv.new_tcp(), far = uv.new_tcp() }
  listener:accept(link.near)
  if refusing then return close(link.near), close(link.far) end
  links[link] = true
  link.near:nodelay(true)
  link.far:connect("127.0.0.1", to, function(err)
    if err then return cut(link) end
    link.connected = true
    link.far:nodelay(true)
    if links[link] and not stalled then flow(link) end
  end)
end)
if not listening then error(problem) end

local orders = {}
function orders.stall()
  stalled = true
  for link in pairs(links) do stall(link) end
end
function orders.drop()
  for link in pairs(links) do link.is_dropped = true end
end
function orders.deafen() deaf = true end
function orders.slow() slow = true end
function orders.flow()
  stalled, deaf, slow, refusing = false, false, false, false
  for link in pairs(links) do flow(link) end
end
function orders.cut()
  local all = {}
  for link in pairs(links) do all[#all + 1] = link end
  for _, link in ipairs(all) do cut(link) end
end
function orders.refuse()
  refusing = true
  orders.cut()
end

assert(io.open(control, "w")):close()
local done = 0
uv.new_timer():start(0, 5, function()
  local n = 0
  for line in io.lines(control) do
    n = n + 1
    if n > done then
      orders[line]()
      done = n
      print("done " .. n)
      io.stdout:flush()
    end
  end
end)
print "ready"
io.stdout:flush()
uv.run()
