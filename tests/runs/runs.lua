-- Processes continue the runs of a store, of all kinds, while they are killed, the clock is set, the disk is full, and
-- the program changes. Then each run must have ended, with one result; what its steps do in the file must have happened
-- exactly once, and its other effects at least once; the runs of a key must have come one at a time, in their order;
-- and the history of each step must be linearizable. First, faults are planted, which must be found.
--
--   lua5.4 tests/runs/runs.lua KILLS [SEED] [FAULT]
--
-- KILLS: how often a process is killed with kill -9, in rounds of 200 runs, with one process and with four in turn.
-- FAULT: only this fault is planted (tests/runs/worker.lua); none: only the rounds.

local background = require "spec.support.background"
local linearizable = require "spec.support.history.linearizable"
local models = require "spec.support.history.models"
local patience = require "spec.support.patience"
local recorder = require "spec.support.history.recorder"
local rn = require "runnel"
local skew = require "spec.support.queue.skew"

io.stdout:setvbuf "line"
local most_kills = math.tointeger(tonumber(arg[1])) or 60
local first_seed = math.tointeger(tonumber(arg[2])) or 0
if first_seed == 0 then first_seed = os.time() end

if not pcall(require, "runnel.sqlite.core") then return print "runs: skipped: libsqlite3 is not installed" end
local stores = require "runnel.store"

local LUA <const> = os.getenv "LUA" or "lua5.4"
local WORKER <const> = arg[0]:gsub("runs%.lua$", "worker.lua")
local KINDS <const> = {
  "steps", "blocks", "sleeps", "signals", "cancelled", "retries", "children", "chances", "restarted",
}
local DISK <const> = 32 -- MB of the disk that becomes full

---@class Round
---@field set table of programs
---@field path string of the store
---@field store runnel.store.Store
---@field logs string[]
---@field opts { runs: integer, processes: integer, kills: integer, changes?: boolean, fault?: string }
---@field kills integer
---@field version integer of the program
---@field counts table<string, integer>
---@field problems string[]
local Round = {}
Round.__index = Round

function Round:wrong(...) table.insert(self.problems, (string.format(...))) end

function Round:count(what) self.counts[what] = (self.counts[what] or 0) + 1 end

-- ---- the processes ----

-- Starts a process again and again, and kills it, until there were enough kills, and then until the round is over.
function Round:keep(i)
  local life = 0
  while not self.is_over do
    life = life + 1
    local name = ("w%d.%d"):format(i, life)
    local log = ("%s/log.%s"):format(self.set.dir, name)
    local program = self.set:start {
      "env", "SKEW=" .. self.set.dir .. "/skew", "LD_PRELOAD=" .. (self.library or ""),
      LUA, WORKER, self.path, log, name, tostring(math.random(1 << 30)), tostring(self.version),
      self.opts.fault,
    }
    table.insert(self.logs, log)
    if math.random(10) > 1 then program:says "ready" end -- others are killed while they start
    local version = self.version
    if self.kills < self.opts.kills then
      rn.sleep(math.random(0, 200))
      self.kills = self.kills + 1
    else
      while not self.is_over and not program:status() and version == self.version do rn.sleep(10) end
    end
    program:signal "KILL"
    program:wait()
    self.output = program:output():gsub("^ready\n", "") .. (self.output or ""):sub(1, 2000)
  end
end

-- Sets the clock, or fills the disk, now and then.
function Round:disturb()
  while not self.is_over do
    rn.sleep(math.random(50, 600))
    if self.library and math.random(4) > 1 then
      self:count "clocks"
      self.set:write("skew", tostring(math.random(-40000, 40000)))
    elseif self.has_disk then
      self:count "full disks"
      os.execute(("cat /dev/zero >'%s/filler' 2>/dev/null"):format(self.dir))
      rn.sleep(math.random(20, 200))
      os.remove(self.dir .. "/filler")
    end
  end
end

-- ---- what the runs get ----

-- Calls a method until its statement succeeds: a full disk comes to an end.
local function insist(f, ...)
  local is_late = patience.limit(patience.most)
  while true do
    local result, err = f(...)
    if result or not tostring(err):find "full" or is_late() then return result, err end
    rn.sleep(20)
  end
end

local function ended(r)
  local state = insist(r.state, r)
  return state and (state.state == "done" or state.state == "cancelled" or state.state == "failed") and state.state
end

-- Starts all runs, signals and cancels them, and starts some again. Returns what is known of them, by their ids.
function Round:start()
  local runs, all = self.store:runs "order", {}
  for i = 1, self.opts.runs do
    local kind = KINDS[i % #KINDS + 1]
    local one = { id = "run " .. i, kind = kind, number = i }
    one.key = kind == "restarted" and one.id or "key " .. (i // #KINDS) % (self.opts.runs // 20)
    one.r = assert(insist(runs.start, runs, one.id, { kind = kind, number = i, key = one.key }))
    all[i] = one
    if kind == "signals" then assert(insist(one.r.signal, one.r, "go", 1)) end
    if math.random(4) == 1 then rn.sleep(math.random(0, 20)) end
  end
  for _, one in ipairs(all) do
    if one.kind == "signals" then assert(insist(one.r.signal, one.r, "go", 2))
    elseif one.kind == "cancelled" then assert(insist(one.r.cancel, one.r, "no stock")) end
    if math.random(10) == 1 then rn.sleep(math.random(0, 10)) end
  end
  self.all = all
end

-- Waits until all have ended; those that are restarted, twice. After one that does not end it waits for no other. With
-- the fault "stolen", processes take over some runs from each other for ever.
function Round:finish()
  for _, one in ipairs(self.all) do
    local is_late = patience.limit(self.opts.fault and 10000 or patience.most)
    while not ended(one.r) and not is_late() do rn.sleep(20) end
    if one.kind == "restarted" and ended(one.r) then
      local again, err = insist(one.r.restart, one.r, { from = "note" })
      if not again then self:wrong("%s cannot be restarted: %s", one.id, err) end
      while not ended(one.r) and not is_late() do rn.sleep(20) end
    end
    if not ended(one.r) then
      local state = one.r:state()
      self:wrong("%s has not ended: it is %s at %s, %s", one.id, state and state.state, state and state.step,
        state and state.error)
      return
    end
  end
end

-- ---- what must be so ----

-- How often each effect of each run has happened, and the order of the begins and ends of each key.
function Round:effects()
  local counts, orders, by_id = {}, {}, {}
  for _, one in ipairs(self.all) do by_id[one.id], counts[one.id], orders[one.key] = one, {}, orders[one.key] or {} end
  for _, row in ipairs(self.store.db:rows "select what, run from effects order by rowid") do
    local count, order = counts[row.run], orders[by_id[row.run].key]
    count[row.what] = (count[row.what] or 0) + 1
    if row.what ~= "charged" then order[#order + 1] = by_id[row.run].number end
  end
  return counts, orders
end

-- The effects of a kind, but for those that each run has.
local MORE <const> = {
  blocks = { "ship 1", "ship 2", "ship 3", "pack 1", "pack 2", "pack 3" }, restarted = { "mailed" },
  children = { "child" },
}

function Round:check_effects(one, count)
  if one.kind == "cancelled" then
    for what, n in pairs(count) do
      if n > 1 and what ~= "charged" then self:wrong("%s: %s happened %d times", one.id, what, n) end
    end
    if count.ended then self:wrong("%s was cancelled, and has ended", one.id) end
    return
  end
  local times = one.kind == "restarted" and 2 or 1
  local wanted = { "begun", "ended" }
  for _, what in ipairs(MORE[one.kind] or {}) do wanted[#wanted + 1] = what end
  for _, what in ipairs(wanted) do
    if count[what] ~= times then self:wrong("%s: %s happened %s times", one.id, what, count[what] or "no") end
  end
  if (count.charged or 0) < times then self:wrong("%s: its charge never happened", one.id) end
  if (count["second mail"] or 0) > times then self:wrong("%s: its second mail happened twice", one.id) end
end

function Round:check_results()
  local kept = {}
  for _, one in ipairs(self.all) do
    local result, err = one.r:result { timeout = 0 }
    kept[one.id] = result
    if one.kind == "cancelled" then
      if err ~= "no stock" then self:wrong("%s was cancelled, and has %s, %s", one.id, result, err) end
    elseif one.kind == "signals" then
      if not tostring(result):find ": 1, 2, nil$" then self:wrong("%s has the signals %s", one.id, result) end
    elseif type(result) ~= "string" then
      self:wrong("%s has no result: %s", one.id, err)
    end
  end
  return kept
end

-- The records of the processes: steps have one value each, results stay the same, and there was no problem.
function Round:check_logs(results)
  local steps, is_restarted = {}, {}
  for _, one in ipairs(self.all) do is_restarted[one.id] = one.kind == "restarted" end
  for _, path in ipairs(self.logs) do
    local by_number = {}
    local file <close> = io.open(path) -- none of a process that was killed while it started
    for _, operation in ipairs(file and recorder.read(path) or {}) do
      by_number[operation.number] = operation
      if operation.what == "problem" then
        self:wrong("%s: %s", operation.process, operation.text)
      elseif operation.what == "result" then
        self:count "results seen"
        if operation.value ~= results[operation.key] and not is_restarted[operation.key] then
          self:wrong("%s had the result %s, and has %s", operation.key, operation.value, results[operation.key])
        end
      elseif not is_restarted[operation.key] then
        local of = operation.what == "begin" and by_number[operation.of]
        if of then of.computed = operation.computed end
        steps[operation.key] = steps[operation.key] or {}
        table.insert(steps[operation.key], operation)
        self:count "calls of steps"
      end
    end
  end
  for id, operations in pairs(steps) do
    local ok, why = linearizable(operations, models.once(operations))
    if not ok then self:wrong("the step of %s: %s", id, why) end
  end
end

-- A run has the second mail exactly if run:version has said so. Both must have happened after the program has changed.
function Round:check_versions(counts)
  local said = {}
  local sql = "select scope from runnel_once where name = 'two mails' and value = 'true'"
  for _, row in ipairs(self.store.db:rows(sql)) do
    said[row.scope:match 'order%["(.-)"%]'] = true
  end
  local with, without = 0, 0
  for _, one in ipairs(self.all) do
    local has = counts[one.id]["second mail"] ~= nil
    if one.kind ~= "cancelled" and has ~= (said[one.id] or false) then
      self:wrong("%s: run:version is %s, and the second mail was %s", one.id, said[one.id], has)
    end
    if has then with = with + 1 else without = without + 1 end
  end
  if self.opts.changes then
    self.counts["with the change"], self.counts["without it"] = with, without
    if with == 0 or without == 0 then self:wrong("the program changed too early or too late") end
  end
end

function Round:check_rest()
  for _, what in ipairs { "runnel_delivery", "runnel_message", "runnel_signal", "runnel_dead" } do
    local left = self.store.db:one("select count(*) as n from " .. what).n
    if left > 0 then
      local fields = {}
      for name, value in pairs(self.store.db:one("select * from " .. what)) do
        fields[#fields + 1] = name .. "=" .. tostring(value)
      end
      self:wrong("%d rows are left in %s, as %q", left, what, table.concat(fields, " "))
    end
  end
  local integrity = self.store.db:one("pragma integrity_check").integrity_check
  if integrity ~= "ok" then self:wrong("the file is damaged: %s", integrity) end
end

function Round:check()
  local counts, orders = self:effects()
  for _, one in ipairs(self.all) do self:check_effects(one, counts[one.id]) end
  for key, order in pairs(orders) do
    for i = 2, #order do
      if order[i] < order[i - 1] then
        self:wrong("%s: run %d was done after run %d had begun", key, order[i], order[i - 1])
        break
      end
    end
  end
  self:check_versions(counts)
  self:check_logs(self:check_results())
  self:check_rest()
end

-- ---- a round ----

local function round_of(opts)
  local set <close> = background.set()
  local self = setmetatable({
    set = set, opts = opts, logs = {}, kills = 0, counts = {}, problems = {}, version = 1, dir = set.dir .. "/disk",
    library = skew.works and skew.build(set.dir) or nil,
  }, Round)
  assert(os.execute(("mkdir '%s'"):format(self.dir)))
  self.has_disk = os.execute(("mount -t tmpfs -o size=%dm none '%s' 2>/dev/null"):format(DISK, self.dir)) == true
  local unmount <close> = setmetatable({}, { __close = function() -- luacheck: ignore 211
    if self.has_disk then os.execute(("umount -l '%s'"):format(self.dir)) end
  end })
  self.path = self.dir .. "/work.db"
  local store <close> = stores.open(self.path, { busy_timeout = 60000 })
  self.store = store
  store:runs "order"
  store.db:exec "create table effects(what, run)"
  local blocks = {}
  for i = 1, opts.processes do blocks[i] = rn.go(self.keep, self, i) end
  blocks[#blocks + 1] = rn.go(self.disturb, self)
  self:start()
  if opts.changes then self.version = 2 end
  patience.wait_for(function() return self.kills >= opts.kills or #self.problems > 0 end)
  self:finish()
  self.is_over = true
  for _, block in ipairs(blocks) do
    local _, err = block:take()
    assert(not err, err)
  end
  self:check()
  return self
end

local total, has_failed = 0, false

local function check(seed, opts)
  math.randomseed(seed)
  local round = round_of(opts)
  total = total + round.kills
  local parts = {}
  for what, n in pairs(round.counts) do parts[#parts + 1] = ("%s %d"):format(what, n) end
  table.sort(parts)
  print(("seed %d, %d runs, %d processes: kills %d, %s%s"):format(seed, opts.runs, opts.processes, round.kills,
    table.concat(parts, ", "), opts.changes and ", the program changes" or ""))
  for i, problem in ipairs(round.problems) do
    has_failed = true
    if i <= 20 then print("WRONG: " .. problem) end
  end
  if #round.problems > 0 then print(round.output) end
end

local function check_planted(fault, seed)
  for try = 1, 10 do
    math.randomseed(seed + try)
    local problems = round_of({ runs = 80, processes = 3, kills = 10, fault = fault }).problems
    if #problems > 0 then
      return print(("the planted fault %q is found: %s"):format(fault, problems[1]:match "[^\n]*"))
    end
  end
  has_failed = true
  print(("WRONG: the planted fault %q is not found"):format(fault))
end

for _, fault in ipairs { "early", "again", "stolen", "keyless" } do
  if not arg[3] or arg[3] == fault then check_planted(fault, first_seed) end
end
local round = 0
local is_whole = not arg[3] or arg[3] == "none"
while is_whole and total < most_kills do
  round = round + 1
  check(first_seed + round, {
    runs = math.min(200, most_kills), processes = round % 2 == 1 and 4 or 1, kills = math.min(100, most_kills // 2),
  })
end
if is_whole and most_kills >= 1000 then
  check(first_seed, { runs = 1000, processes = 4, kills = 100, changes = true })
end
print(("together: %d kills"):format(total))
if has_failed then
  print "runs: FAILED"
  os.exit(1)
end
