-- Processes use the buckets, streams and results of a store, or of a nats-server, while they are killed and stopped,
-- the disk is full, the clock is set, and the server is killed or stopped. Each records its calls and returns. Then the
-- history of each key, message and result must be right: linearizable by a model of it (spec/support/history), so that
-- it could have come from one process that does one thing after the other. Last, faults are planted in the processes,
-- which must be found.
--
--   lua5.4 tests/histories/histories.lua [ROUNDS] [SEED] [PLACE]
--
-- ROUNDS: how many, or for how long, as 60m. PLACE: store, nats or cluster (three servers); by default the first two,
-- and the third in each tenth round.

local background = require "spec.support.background"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local places = require "tests.histories.places"
local read_all = require "tests.histories.sorted"
local recorder = require "spec.support.history.recorder"
local rn = require "runnel"
local skew = require "spec.support.queue.skew"

io.stdout:setvbuf "line"
local minutes = math.tointeger(tonumber((arg[1] or ""):match "^(%d+)m$"))
local rounds = minutes and math.huge or math.tointeger(tonumber(arg[1])) or 1
local ends_at = minutes and os.time() + 60 * minutes or math.huge
local first_seed = math.tointeger(tonumber(arg[2])) or 0
if first_seed == 0 then first_seed = os.time() end

local LUA <const>, WORKERS <const> = os.getenv "LUA" or "lua5.4", 4
local WORKER <const> = arg[0]:gsub("histories%.lua$", "worker.lua")

-- ---- the processes ----

-- What comes before a worker: a clock that can be set, and for some a limit for the size of files, as of a full disk.
local function environment(set, library)
  local limit = math.random(4) == 1 and ("trap '' XFSZ; ulimit -f %d; "):format(math.random(1000, 10000)) or ""
  local words = { "env", "SKEW=" .. set.dir .. "/skew" }
  if library then words[#words + 1] = "LD_PRELOAD=" .. library end
  table.move({ "sh", "-c", limit .. 'exec "$@"', "sh" }, 1, 4, #words + 1, words)
  return words, limit ~= ""
end

---@class Processes
local Processes = {}
Processes.__index = Processes

-- Starts the worker of a number, and again whenever it ends.
function Processes:keep(i)
  local life = 0
  while not self.is_over do
    life = life + 1
    local name = ("w%d.%d"):format(i, life)
    local path = ("%s/log.%s"):format(self.set.dir, name)
    local command, is_limited = environment(self.set, self.library)
    table.move({ LUA, WORKER, self.place, path, name, math.random(1 << 30), self.fault }, 1, 7, #command + 1, command)
    if is_limited then self.counts.limited = self.counts.limited + 1 end
    local program = self.set:start(command)
    self.programs[i] = program
    while not program:status() and not self.is_over do rn.sleep(10) end
    if self.is_over then program:signal "KILL" end
    program:wait()
    if not program:output():find "^ready" then self.counts.not_ready = self.counts.not_ready + 1 end
    local log = io.open(path)
    if log then
      self.logs[#self.logs + 1] = path
      log:close()
    end
  end
end

function Processes:disturb(place)
  local choice, program = math.random(10), self.programs[math.random(WORKERS)]
  if choice <= 4 then
    program:signal "KILL"
    self.counts.killed = self.counts.killed + 1
  elseif choice <= 7 then
    self.counts.stopped = self.counts.stopped + 1
    program:signal "STOP"
    rn.go(function()
      rn.sleep(math.random(20, 800))
      program:signal "CONT"
    end)
  elseif choice == 8 and self.library then
    self.counts.clocks = self.counts.clocks + 1
    self.set:write("skew", tostring(math.random(-4000, 4000)))
  elseif #place.faults > 0 then
    place.faults[math.random(#place.faults)]()
  end
end

-- ---- a round ----

-- Reads what is there at the end, and records it, too. Returns the messages of the stream "log".
local function finish(place, owner, path)
  local record, log = recorder.open(path), {}
  local bucket = assert(owner:kv "bucket")
  for i = 1, 6 do
    local key = "k" .. i
    local back = record:call("end", "get", { key = key })
    local value, revision, err = bucket:get(key)
    assert(not err, err)
    back { value = value, seen_revision = revision }
  end
  local work, is_over = assert(owner:source("work", { name = "work" })), patience.limit(patience.most)
  while true do
    local m = rn.alts { work, rn.timeout(200) }
    if m then
      record:moment("end", "take", { id = m.value })
      local back = record:call("end", "ack", { id = m.value })
      m:ack()
      back()
    elseif place.is_idle(owner) then
      break
    end
    if is_over() then error("the work queue does not become empty: " .. place.state(owner), 0) end
  end
  local left = assert(assert(owner:stream "log"):stats()).messages
  local source = left > 0 and assert(owner:source "log")
  for i = 1, left do
    local m = source:take()
    log[i] = { sequence = m.sequence, value = m.value }
  end
  return log
end

-- Lets processes work for some disturbances. Returns what is wrong in their histories, and how it was.
local function run(kind, fault, disturbances)
  local set <close> = background.set()
  local place <close> = places[kind](set)
  place:prepare()
  local processes = setmetatable({
    set = set, place = place.place, fault = fault, programs = {}, logs = {},
    counts = { killed = 0, stopped = 0, clocks = 0, limited = 0, not_ready = 0 },
    library = skew.works and not fault and skew.build(set.dir) or nil,
  }, Processes)
  local kept = {}
  for i = 1, WORKERS do kept[i] = rn.go(processes.keep, processes, i) end
  patience.wait_for(function() return #processes.programs == WORKERS end)
  for _, program in ipairs(processes.programs) do assert(program:says "ready", program:output()) end
  for _ = 1, disturbances do
    rn.sleep(math.random(50, 300))
    processes:disturb(place)
  end
  rn.sleep(200)
  processes.is_over = true
  for _, block in ipairs(kept) do
    local _, err = block:take()
    assert(not err, err)
  end
  local path = set.dir .. "/log.end"
  local owner = place:open()
  local log = finish(place, owner, path)
  owner:close()
  processes.logs[#processes.logs + 1] = path
  local sorted = read_all(processes.logs)
  local counts = processes.counts
  counts.operations, counts.lives = sorted.count, #processes.logs - 1
  for name, n in pairs(place.counts) do counts[name] = n end
  local problems, forgot = sorted:check(log, rn.now(), place.is_strict, not nats_server.is_since "2.11")
  if forgot then counts.numbers_forgotten = 1 end
  return problems, counts
end

local function shown(counts)
  local names, parts = {}, {}
  for name in pairs(counts) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do parts[i] = ("%s %d"):format(name:gsub("_", " "), counts[name]) end
  return table.concat(parts, ", ")
end

local total, has_failed = {}, false

local function check_round(kind, seed)
  math.randomseed(seed)
  local problems, counts = run(kind, nil, 24)
  print(("%s, seed %d: %s"):format(kind, seed, shown(counts)))
  for name, n in pairs(counts) do total[name] = (total[name] or 0) + n end
  for _, problem in ipairs(problems) do
    has_failed = true
    print("WRONG: " .. problem)
  end
end

-- ---- faults that are planted ----

-- A short round shows each of them, unless the machine was too busy.
local function check_planted(kind, fault, seed)
  for try = 1, 20 do
    math.randomseed(seed + try)
    local problems = run(kind, fault, 4)
    if #problems > 0 then
      return print(("%s: the planted fault %q is found: %s"):format(kind, fault, problems[1]:match "[^\n]*"))
    end
  end
  has_failed = true
  print(("WRONG: %s: the planted fault %q is not found"):format(kind, fault))
end

-- Each place, and the faults that are planted there.
local kinds, faults = {}, {
  store = { "early", "blind", "stale", "gaps", "again" }, nats = { "early", "blind", "stale", "gaps" }, cluster = {},
}
local function use(kind) if not arg[3] or arg[3] == kind then kinds[#kinds + 1] = kind end end
if pcall(require, "runnel.sqlite.core") then use "store" else print "stores: skipped: libsqlite3 is not installed" end
local nats, missing = nats_server.library()
if nats then
  use "nats"
  if nats_server.is_since "2.11" then use "cluster" else print "clusters: skipped: nats-server is older than 2.11" end
else
  print("nats: skipped: " .. missing)
end
if not skew.works then print "clocks are not set: no library can be put before the system's functions here" end

for _, kind in ipairs(kinds) do
  for _, fault in ipairs(faults[kind]) do check_planted(kind, fault, first_seed) end
end
local round = 0
while round < rounds and os.time() < ends_at do
  round = round + 1
  for _, kind in ipairs(kinds) do
    if kind ~= "cluster" or arg[3] or round % 10 == 0 then check_round(kind, first_seed + round) end
  end
end
print("together: " .. shown(total))
if has_failed then
  print "histories: FAILED"
  os.exit(1)
end
