---Simulated worlds: hosts with programs, a network between them, and faults. sim.world makes one.

local coroutine, require = coroutine, require
local core = require "runnel.core"
local check = require "runnel.internal.check"
local current = require "runnel.internal.world"
local faults = require "runnel.sim.faults"
local guard = require "runnel.internal.guard"
local hosts = require "runnel.sim.host"
local later = require "runnel.sim.later"
local lua_files = require "runnel.sim.io"
local sign = require "runnel.internal.sign"
local stories = require "runnel.sim.sim_story"
local system = require "runnel.sim.system"

local internal = core.internal
local raise = internal.raise
local host_of = internal.host

---@class runnel.sim.World: runnel.sim.Story, runnel.sim.Later
---@field hosts runnel.sim.Host[] in the order in which they were made
---@field groups table<integer, runnel.sim.Host> hosts and processes, by the numbers of their go blocks
---@field names string[] their names
---@field last_pid integer of a process
---@field free integer[] numbers that were used and are free again
---@field programs table<string, function> what processes run, by command
---@field by_name table<string, runnel.sim.Host>
---@field by_address table<string, runnel.sim.Host>
---@field faults runnel.sim.Faults
---@field delays number[] by how many ms the fault delay may delay something
---@field ms number how long a message takes, by default
---@field latencies table<integer, number> that of two hosts
---@field cuts table<integer, runnel.Channel<any>> by pairs of hosts: closes when the two are connected again
---@field at_rest fun(is_over: boolean): boolean
---@field resting? runnel.Channel<any> closes when nothing is ready and no timer is pending
---@field failure? { host: runnel.sim.Host, err: any }
---@field ran boolean run has returned
---@field exchanges table<integer, table> HTTP requests under way, by numbers (sim/http.lua)
---@field kept table<string, boolean> whether a real host would have an HTTP connection to a server (sim/http.lua)
---@field last_exchange integer the number of the last one
---@field began number when it began, ms
---@field inboxes integer how many subjects NATS' clients have made (sim/nats.lua)
---@field nats_servers table<runnel.sim.Host, table> what they keep (sim/nats/server.lua)
---@field databases runnel.sim.Connection[] those of runnel.sqlite that are open
local World = {}
World.__index = World
World.__sign = "world"
World.__name = "runnel.sim.sim_world"
for _, part in ipairs { stories, later } do
  for name, f in pairs(part) do World[name] = f end
end

local OPTIONS = { faults = true, latency = check.kinds.ms(0), delays = true, probability = true }

-- ---- hosts ----

-- A new host's name. An address, and "localhost", would not lead to the host, and "" is every address.
local function check_name(world, name, what)
  check.string(name, "the name of a host", what)
  check.no_zero(name, what .. ": the name")
  if world.by_name[name] then raise(("%s: there is a host %q already"):format(what, name)) end
  if name == "" or name == "localhost" or name:find "^%d+%.%d+%.%d+%.%d+$" or name:find ":" then
    raise(("%s: the name of a host expected, got %q, which means another one; write a name such as \"server\"")
      :format(what, name))
  end
end

---@return string
function World:new_address()
  self.addresses = self.addresses + 1
  return ("10.0.%d.%d"):format(self.addresses // 250, self.addresses % 250)
end

---@param host runnel.sim.Host
---@param address string
function World:moved(host, address)
  self.by_address[host.address] = nil
  host.address = address
  self.by_address[address] = host
end

local HOST_OPTIONS = { restart = check.kinds.ms(0), skew = check.kinds.ms(-system.BEGIN_MS) }

---Adds a host, and starts its program in a go block of it. What the program starts belongs to the host, too.
---@param name string other hosts connect to that name
---@param f fun()|string its program, or the path of a Lua file, which is loaded anew at each start, with globals and
---modules of its own. World:run waits until it returns, unless it listens for connections or subscribes to
---messages of NATS
---@param opts? { restart?: number, skew?: number } `restart`: the fault crash may end the host, which starts again
---after that many ms. `skew`: by how many ms its clock (os.time, os.date) is ahead; negative: it is behind
---@return runnel.sim.Host host
function World:host(name, f, opts)
  sign.own(self, "world", "host")
  check_name(self, name, "host")
  if type(f) == "string" then check.no_zero(f, "host: the path of the program") else check.callable(f, "host") end
  check.options(opts, HOST_OPTIONS, "host")
  local number = self:new_number(name)
  local host = hosts.new(self, name, number, f, opts and opts.restart, opts and opts.skew or 0)
  self.hosts[#self.hosts + 1], self.groups[number] = host, host
  self.by_name[name], self.by_address[host.address] = host, host
  return host
end

---Adds a command, which uv.spawn and uv.run start on each host. It is a function in place of a program.
---@param name string the command
---@param f fun(args: string[], stdin: runnel.Channel<any>, ...: runnel.Channel<any>): integer? gets stdout and stderr,
---too; returns its exit status, by default 0; an error is status 1, and is written to stderr
function World:program(name, f)
  sign.own(self, "world", "program")
  check.string(name, "the name of a command", "program")
  check.no_zero(name, "program: the name")
  check.callable(f, "program")
  self.programs[name] = f
end

local NATS_OPTIONS = { restart = check.kinds.ms(0), max_payload = check.kinds.integer(1),
  sync_interval = check.kinds.ms(0), intercept = check.kinds.callable }

---Adds a host on which a NATS server with JetStream runs: nats.connect(name) on other hosts connects to it. After its
---end it has the streams that are files, but perhaps not the acknowledgements of the last 100 ms.
---@param name string
---@param opts? { restart?: number, max_payload?: integer, sync_interval?: number, intercept?: fun(subject: string,
---data: string): nil|false|number|table } `restart`: as for World:host. `max_payload`: bytes of a message, default
---1048576. `sync_interval`: by a choice, a crash loses what it has stored in the last so many ms, as a power cut;
---default 0. `intercept`: is called with each message that comes, and must not park. It returns nil: the message goes
---its way; false: it is lost; a number: it goes on after so many ms, and others may overtake it; or a table, the error
---that JetStream answers, as { code = 503, description = "insufficient resources" }
---@return runnel.sim.Host host
function World:nats(name, opts)
  sign.own(self, "world", "nats")
  check_name(self, name, "nats")
  check.options(opts, NATS_OPTIONS, "nats")
  opts = opts or {}
  local max_payload = opts.max_payload or 1 << 20
  local servers = require "runnel.sim.nats.nats_server"
  local kept = servers.disk(self, opts.sync_interval or 0)
  local function start() servers.start(self, kept, max_payload, opts.intercept) end
  local host = self:host(name, start, { restart = opts.restart })
  self.nats_servers[host] = kept
  return host
end

---JetStream of a NATS server has no leader for some ms, as in a cluster that has lost one: it forgets who waits for
---messages, and does not answer.
---@param host runnel.sim.Host|string
---@param ms number
function World:elect(host, ms)
  sign.own(self, "world", "elect")
  local found = self.by_name[host.name or host]
  local kept = found and self.nats_servers[found]
  if not kept then raise("elect: a host with a NATS server, or its name, expected, got " .. tostring(host)) end
  check.ms(ms, 1, "elect: ms")
  require("runnel.sim.nats.nats_jetstream").elect(kept, ms)
end

---ms since 1970, by a clock without skew.
---@param now? number the time in ms; default: now
---@return number
function World:time(now) return system.BEGIN_MS + (now or core.now()) - self.began end

---A number for a group of go blocks.
---@param name string the name of the group
---@return integer
function World:new_number(name)
  local number = table.remove(self.free) or #self.names + 1
  self.names[number] = name
  return number
end

---A number for a process, as no other has had.
---@return integer
function World:new_pid()
  self.last_pid = self.last_pid + 1
  return self.last_pid
end

---The group has ended.
---@param number integer
function World:free_number(number)
  self.groups[number] = nil
  table.insert(self.free, number)
end

---The host of the running go block; of a go block of a process, that process.
---@return runnel.sim.Host?
function World:here() return self.groups[host_of()] end

---@param host runnel.sim.Host
---@param err any
function World:failed(host, err)
  self.failure = self.failure or { host = host, err = err }
  if self.resting then self.resting:close() end
end

-- ---- the network ----

-- A number for two hosts.
local function pair(a, b)
  local m, n = a.machine.number, b.machine.number
  return m < n and m << 12 | n or n << 12 | m
end

local function check_hosts(world, a, b, what)
  local x, y = world.by_name[a.name or a], world.by_name[b.name or b]
  for i, host in ipairs { x or false, y or false } do
    if not host then raise(("%s: a host, or its name, expected, got %s"):format(what, tostring(i == 1 and a or b))) end
  end
  return x, y
end

---Cuts the connection between two hosts: what they send each other arrives after World:heal.
---@param a runnel.sim.Host|string
---@param b runnel.sim.Host|string
function World:partition(a, b)
  sign.own(self, "world", "partition")
  local x, y = check_hosts(self, a, b, "partition")
  if x == y then raise(("partition: two hosts expected, got %s twice"):format(x.name)) end
  self.cuts[pair(x, y)] = self.cuts[pair(x, y)] or core.chan()
  self:tell { what = ("%s and %s: cut off from each other"):format(x.name, y.name) }
  for _, handle in ipairs(x.handles) do
    local stream = handle.stream
    if stream and stream.other.host.machine == y then
      stream:cut()
      stream.other:cut()
    end
  end
end

---Connects two hosts again; without hosts, all.
---@param a? runnel.sim.Host|string
---@param b? runnel.sim.Host|string
function World:heal(a, b)
  sign.own(self, "world", "heal")
  local x, y
  if a ~= nil or b ~= nil then x, y = check_hosts(self, a, b, "heal") end
  for i = 1, #self.hosts do
    for k = i + 1, #self.hosts do
      local key = pair(self.hosts[i], self.hosts[k])
      if self.cuts[key] and (not x or key == pair(x, y)) then
        self.cuts[key]:close()
        self.cuts[key] = nil
        self:tell { what = ("%s and %s: connected again"):format(self.hosts[i].name, self.hosts[k].name) }
      end
    end
  end
end

---Sets how long a message between two hosts takes.
---@param a runnel.sim.Host|string
---@param b runnel.sim.Host|string
---@param ms number
function World:latency(a, b, ms)
  sign.own(self, "world", "latency")
  local x, y = check_hosts(self, a, b, "latency")
  check.ms(ms, 0, "latency: ms")
  self.latencies[pair(x, y)] = ms
end

---How long a message from one host to another takes, in ms.
---@param a runnel.sim.Host
---@param b runnel.sim.Host
---@return number
function World:time_between(a, b)
  if a.machine == b.machine then return 0 end
  return self.latencies[pair(a, b)] or self.ms
end

---The channel that closes when two hosts are connected again; nil if they are.
---@param a runnel.sim.Host
---@param b runnel.sim.Host
---@return runnel.Channel<any>?
function World:cut(a, b)
  if not next(self.cuts) then return nil end
  return self.cuts[pair(a, b)]
end

-- ---- crashes as faults ----

local CRASH = { "crash" }

---A place at which the host may crash: by a choice, it does. If the running go block belongs to it, this never returns.
---@param host runnel.sim.Host
function World:may_crash(host)
  host = host.machine
  if not host.restarts or not host.alive then return end
  local running = self:here()
  local stops = coroutine.isyieldable() or current.unwinds
  if running and running.machine == host and not stops then return end -- it could not stop here
  if not self.faults:choose(CRASH) then return end
  self:later(host.restarts, nil, host.restart, host)
  host:crash()
end

---Ends the running go block, whose host has ended: it never goes on. In a call from C, where it cannot wait, this ends
---the call by an error.
function World:end_running() -- luacheck: ignore 212
  if current.unwinds then error("the host has ended", 0) end
  local never = core.chan()
  pcall(never.take, never)
  error("the host has ended", 0) -- in a coroutine of the program's own, or in a call from C, it cannot wait
end

-- ---- a run ----

-- The error for a program that waits for ever, or nil.
local function stuck(self)
  for _, host in ipairs(self.hosts) do
    if host.alive and not host:listens() and not internal.has_ended(host.main) then
      local entry = internal.state(host.main)
      return ("leak: the program of host %s waits for ever%s%s"):format(host.name,
        entry.operation and " in " .. entry.operation or "", entry.where and (" (%s)"):format(entry.where) or "")
    end
  end
end

---Waits until nothing is ready and no timer is pending on any host. By then the program of each host must have
---returned, unless the host has crashed, or serves others: it listens for connections, or subscribes to messages of
---NATS. An error of a program is raised.
---@param ms? number wait for this time instead, and do not ask whether the programs have returned; for programs that
---go on for ever, such as one with a ticker
function World:run(ms)
  sign.own(self, "world", "run")
  if ms ~= nil then check.ms(ms, 0, "run: ms") end
  if current.world ~= self then raise("run: this world's simulation is over") end
  if host_of() ~= 0 then
    raise("run: a program of a host cannot wait for itself: call it in the function of the simulation")
  end
  local problem
  if not self.failure then
    self.resting = core.chan()
    local alarm <close> = guard.alarm(ms)
    core.alts { self.resting, alarm.over }
    self.resting = nil
    problem = not self.failure and not ms and stuck(self)
  end
  self.ran = true
  if self.failure then
    local failure = self.failure
    self.failure = nil
    local text = internal.error_text(failure.err)
    error(type(failure.err) == "string" and ("%s: %s"):format(failure.host.name, text) or failure.err, 0)
  end
  if problem then error(problem, 0) end
end

-- The programs that serve others may wait for ever; before the search for leaks they are ended.
local function end_servers(self)
  for number, program in pairs(self.groups) do -- hosts, and their processes
    if program.alive and program:listens() then internal.crash(number) end
  end
end

local function at_rest(self, is_over)
  if is_over then
    if self.ran then end_servers(self) end
    self.ran = true
    return false
  end
  local resting = self.resting
  if not resting or resting:closed() then return false end
  for _, host in ipairs(self.hosts) do
    if host.alive and not host:listens() then lua_files.has_exited(host) end
  end
  resting:close()
  return true
end

---The simulation is over: frees what the collector does not know of.
function World:ended()
  local databases = self.databases
  self.databases = {}
  for _, connection in ipairs(databases) do connection:stopped() end
end

-- ---- making one ----

local function check_delays(delays)
  if type(delays) ~= "table" or #delays == 0 then
    raise("sim.world: delays: a list of ms expected, got " .. check.describe(delays))
  end
  for _, ms in ipairs(delays) do check.ms(ms, 0, "sim.world: delays") end
  return delays
end

local world = {}

---Makes the world of the running simulation.
---@param opts? table
---@return runnel.sim.World
function world.new(opts)
  check.options(opts, OPTIONS, "sim.world")
  opts = opts or {}
  if not internal.is_simulation() then
    raise("sim.world: it is for simulations: call it in the function of sim.run or sim.explore")
  end
  if current.world then raise("sim.world: this simulation has a world already") end
  local likely = opts.probability
  if likely ~= nil and (type(likely) ~= "number" or not (likely > 0 and likely <= 1)) then
    raise("sim.world: probability: a number above 0 and up to 1 expected, got " .. check.describe(likely))
  end
  local self = setmetatable({
    hosts = {}, groups = {}, free = {}, programs = {}, names = {},
    by_name = {}, by_address = {}, addresses = 0, last_exchange = 0, exchanges = {}, kept = {}, inboxes = 0,
    nats_servers = {}, latencies = {}, cuts = {},
    databases = {}, ran = false, last_pid = 1000,
    ms = opts.latency or 1, delays = opts.delays and check_delays(opts.delays) or { 10, 5000 },
    faults = faults.new(opts.faults, opts.probability),
  }, World)
  function self.at_rest(is_over) return at_rest(self, is_over) end
  current.world, current.luv = self, require "runnel.sim.sim_luv"
  system.replace()
  internal.at_rest(self.at_rest)
  internal.hosts(self.names)
  return self
end

current.twin = function(name) return require("runnel.sim." .. name) end

return world
