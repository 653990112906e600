-- UDP sockets of simulated hosts, misused: go blocks of two hosts send and take, with wrong arguments too, close
-- sockets and channels that others use, cancel each other, and go on with what is closed.
--
-- Wrong arguments must be raised, with the function's name; all else must be returned. Each datagram that comes must
-- have been sent, as a whole, and comes once. In the end all ports are free, and nothing is left. See
-- tests/adversary_support.lua for the arguments.

if not pcall(require, "luv") then return print "udp: skipped: luv is not installed" end
local rn = require "runnel"
local sim = require "runnel.sim"
local support = require "tests.adversary_support"
local uv = require "runnel.uv"

local HOSTS <const>, PORTS <const>, GROUP <const> = { "a", "b" }, { 7, 8 }, "239.1.2.3"
local LONGEST <const> = 65507

local PLACES = { "a", "b", "127.0.0.1", GROUP, "255.255.255.255", "::1", "no.such.host.invalid" }
local WRONG = { 5, "", true, {} }

local function any(list) return list[math.random(#list)] end

-- ---- one step ----

-- The state of a host: `socks`, which its go blocks share; `blocks`, their result channels.

-- Calls a method with arguments that may be wrong. Returns its results, unless it has raised.
local function try(what, is_wrong, method, ...)
  local results = table.pack(pcall(method, ...))
  if results[1] then
    assert(not is_wrong, what .. ": wrong arguments were accepted")
    return table.unpack(results, 2, results.n)
  end
  local err = results[2]
  if err == "cancelled" then error(err, 0) end
  local is_told = is_wrong and type(err) == "string" and err:find(what .. ": ", 1, true)
  assert(is_told, what .. " has raised: " .. tostring(err))
end

local ops = {}

function ops.open(state, step)
  local sock, err = try("udp", step.is_wrong, uv.udp, {
    port = step.is_wrong and any { -1, 70000, "7", 1.5 } or step.port, reuse = step.reuse, buffer = step.buffer,
  })
  if sock then table.insert(state.socks, sock) else assert(err == nil or err:find "EADDRINUSE", err) end
end

local function send(state, step, sock)
  state.sent = state.sent + 1
  local data = ("%s%d."):format(state.name, state.sent) .. ("x"):rep(step.size)
  local port, place = step.port, step.place
  local is_wrong = step.is_wrong and (step.reuse or not sock.peer)
  if is_wrong and step.reuse then data = any { true, {} } elseif is_wrong then place = any(WRONG) end
  local address = not sock.peer and { place, port } or {}
  local ok, err = try("send", is_wrong, sock.send, sock, data, table.unpack(address))
  assert(ok or err == nil or type(err) == "string")
  assert(not ok or #data <= LONGEST, "a datagram was sent that is too long")
  if ok then state.all[data] = true end
end

local function receive(state, _, sock)
  local datagram, err = rn.alts({ sock:read(), rn.timeout(5) }, { priority = true })
  if datagram == nil then return assert(err == nil or type(err) ~= "number") end
  assert(state.all[datagram.data], "a datagram has come that nobody has sent")
  assert(datagram.host:find "^[%d.]+$" and datagram.port > 0, "a datagram has no sender")
  local times = state.got[sock] or {}
  state.got[sock] = times
  times[datagram.data] = (times[datagram.data] or 0) + 1
  assert(times[datagram.data] <= 1, "a datagram has come twice")
end

local function with_sock(f)
  return function(state, step)
    local sock = state.socks[step.which % math.max(#state.socks, 1) + 1]
    if sock then f(state, step, sock) end
  end
end

ops.send, ops.receive = with_sock(send), with_sock(receive)
ops.stop = with_sock(function(_, _, sock) sock:read():close() end)
ops.close = with_sock(function(_, step, sock) sock:close(step.is_wrong and "harmed" or nil) end)
ops.connect = with_sock(function(_, step, sock)
  local place = step.is_wrong and any(WRONG) or step.place
  local ok, err = try("connect", step.is_wrong, sock.connect, sock, place, step.port)
  assert(ok ~= false or type(err) == "string")
end)
ops.group = with_sock(function(_, step, sock)
  local what = step.reuse and "join" or "leave"
  local ok, err = try(what, step.is_wrong, sock[what], sock, step.is_wrong and 5 or any { GROUP, "a", "127.0.0.1" })
  assert(ok ~= false or type(err) == "string")
end)
function ops.cancel(state, step) rn.cancel(state.blocks[step.which % #state.blocks + 1]) end
function ops.sleep(_, step) rn.sleep(step.size % 7) end
function ops.collect() collectgarbage() end

local NAMES = {}
for name in pairs(ops) do NAMES[#NAMES + 1] = name end
table.sort(NAMES)
table.move({ "open", "send", "send", "send", "receive", "receive" }, 1, 6, #NAMES + 1, NAMES)

-- ---- programs ----

local function perform(state, steps)
  for _, step in ipairs(steps) do ops[step.op](state, step) end
end

local function run_host(name, blocks, all)
  return function()
    local state = { name = name, socks = {}, blocks = {}, sent = 0, all = all }
    state.got = setmetatable({}, { __mode = "k" })
    local problem
    for i, steps in ipairs(blocks) do
      state.blocks[i] = rn.go(function()
        local ok, err = xpcall(perform, debug.traceback, state, steps)
        if not ok and not tostring(err):find "^cancelled" then problem = problem or err end
      end)
    end
    for _, block in ipairs(state.blocks) do block:take() end
    rn.sleep(100)
    assert(not problem, problem)
    for _, sock in ipairs(state.socks) do sock:close() end
    for _, port in ipairs(PORTS) do assert(uv.udp { port = port }):close() end
  end
end

support.main({
  name = "udp",
  generate = function()
    local program = {}
    for i = 1, 4 do
      local steps = {}
      for j = 1, math.random(15) do
        steps[j] = {
          op = j == 1 and "open" or any(NAMES), is_wrong = math.random(8) == 1, place = any(PLACES), port = any(PORTS),
          size = any { 0, 1, 3, 65500, 65510 }, which = math.random(0, 9), reuse = math.random(3) > 1,
          buffer = math.random(3),
        }
      end
      program[i] = steps
    end
    program.seed, program.shuffle = math.random(1 << 30), math.random(2) == 1
    return program
  end,
  play = function(program)
    sim.run(function()
      math.randomseed(program.seed)
      local world, all, reported = sim.world(), {}, nil
      local previous = rn.on_error(function(err) if err ~= "harmed" then reported = reported or err end end)
      for i, name in ipairs(HOSTS) do
        world:host(name, run_host(name, { program[2 * i - 1], program[2 * i] }, all))
      end
      world:run(100000)
      rn.on_error(previous)
      assert(not reported, reported)
    end, { seed = program.seed, shuffle = program.shuffle, leaks = true })
  end,
}, ...)
