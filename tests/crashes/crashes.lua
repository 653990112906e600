-- Crashes of a machine while a store works, simulated below the real SQLite: what it writes is recorded, and each disk
-- that a crash may leave is opened again. The database must be one that a kill of the process might have left since the
-- last call that has returned; and these are checked: nothing is done by half, and what was promised is there.
--
--   lua5.4 tests/crashes/crashes.lua [CRASHES] [SEED] [ROUNDS]     CRASHES: how many different ones

local crashes = require "crashes"
local rn = require "runnel"
local sqlite = require "runnel.sqlite"
local workload = require "tests.crashes.workload"

io.stdout:setvbuf "line"
local wanted, seed = math.tointeger(tonumber(arg[1])) or 100000, math.tointeger(tonumber(arg[2])) or 0
local rounds = math.tointeger(tonumber(arg[3])) or 6
if seed == 0 then seed = os.time() end

-- A disk in memory is quicker, and is synced by nobody.
local dir = (io.popen "mktemp -d -p /dev/shm 2>/dev/null || mktemp -d":read "l")
local is_failed = false
local function wrong(...)
  is_failed = true
  print("WRONG: " .. string.format(...))
end

-- ---- a record ----

local function remove(path)
  for _, ending in ipairs { "", "-wal", "-shm", "-journal", "-locks" } do os.remove(path .. ending) end
end

---What a store has written while it worked, and what it has promised by then.
---@param scenario { fill?: integer, fail_sync?: integer, synchronous?: string, early?: boolean }
local function record(scenario)
  local path, facts = dir .. "/record.db", {}
  remove(path)
  local recorder = crashes.record()
  if scenario.fill then recorder:fill(scenario.fill, 4) end
  if scenario.fail_sync then recorder:fail_sync(scenario.fail_sync) end
  local function mark(fact)
    facts[#facts + 1] = fact
    recorder:mark(#facts)
  end
  rn.on_error(function() end) -- a disk that is full is told, too
  local early = scenario.early and function(sequence) mark { what = "put", stream = "log", sequence = sequence } end
  if early then for sequence = 1, 3 do early(sequence) end end
  workload.run(path, mark, rounds, scenario.synchronous or "full")
  local writes, syncs = recorder:counts()
  local log = recorder:stop()
  remove(path)
  return log, facts, writes, syncs
end

-- ---- the databases that are right ----

local function open_image(bytes)
  local path = dir .. "/image.db"
  remove(path)
  local file <close> = assert(io.open(path, "wb"))
  assert(file:write(bytes))
  file:flush()
  return path
end

-- The states of the database in a record, in order: what a kill leaves. Returns their hashes, and what each has.
local function states_of(log, goes_on)
  local hashes, states, number = {}, {}, {}
  log:kept(function(operation, hash, bytes)
    if not hash then return wrong("after operation %d, a kill leaves a database that fails: %d", operation, bytes) end
    if number[hash] == nil then
      local path = open_image(bytes)
      local db = sqlite.open(path)
      local found, problem = workload.contents(db)
      db:close()
      if problem then wrong("after operation %d: %s", operation, problem) end
      if goes_on then
        problem = workload.go_on(path, found)
        if problem then wrong("after operation %d, a store does not go on: %s", operation, problem) end
      end
      states[#states + 1], hashes[#hashes + 1] = found, hash
    elseif number[hash] < #states then -- the same as an earlier one
      states[#states + 1], hashes[#hashes + 1] = states[number[hash]], hash
    end
    number[hash] = #states
  end)
  return hashes, states
end

-- From which operation on which state is needed: after each promise, the first that has what was promised, as all later
-- ones have. (A transaction that has failed may be seen after a kill until the next one takes its place.)
local function needed_of(log, facts, states)
  local needed, marks = {}, log:marks()
  for i = 1, #marks, 2 do
    local fact, first = facts[marks[i + 1]], #states + 1
    while first > 1 and workload.has(states[first - 1], fact) do first = first - 1 end
    needed[i], needed[i + 1] = marks[i], first
  end
  return needed
end

-- ---- crashes ----

local seen, total = crashes.seen(), {}

local function add(counts)
  for name, n in pairs(counts) do total[name] = (total[name] or 0) + n end
end

local function tell(scenario, failures)
  for _, one in ipairs(failures) do
    wrong("%s: a crash before operation %d leaves %s (state %d is needed; %d changes of names; parts of writes: %s)",
      scenario.name, one.operation, one.code ~= 0 and "an error " .. one.code or "state " .. one.state, one.needed,
      one.names, one.fates)
  end
end

local TIMES <const> = 20

-- Crashes at each place of a record, until there were so many that are different, or all. Returns how many were wrong.
local function crash(scenario, most)
  local log, facts, writes, syncs = record(scenario)
  local hashes, states = states_of(log, scenario.goes_on)
  local needed = scenario.promises_nothing and {} or needed_of(log, facts, states)
  local before, failures, share, last, result = #seen, 0, 40, 0, nil
  for try = 1, TIMES do
    result = log:crash(hashes, needed, seed + try, share, last, seen)
    failures = failures + result.failures
    if not scenario.planted then tell(scenario, result.shown) end
    add { tried = result.tried, lost = result.lost, kept = result.kept, garbage = result.garbage }
    local done = #seen - before
    if failures > 0 or done >= most or result.complete == result.places then break end
    -- As many more as this time has shown to be needed.
    last, share = share, math.min(1 << 30, math.max(2 * share, share * (most - done) // math.max(1, done)))
  end
  add { records = 1, states = #states, places = result.places, complete = result.complete }
  add(log:counts())
  return failures, writes, syncs
end

-- Without the planted faults the check would say nothing.
local function check_planted()
  for _, planted in ipairs {
    { name = "a store that does not wait for the disk", synchronous = "off", planted = true },
    { name = "a promise before the commit", early = true, planted = true },
  } do
    local failures = crash(planted, 2000)
    if failures > 0 then print(("planted, and found: %s (%d crashes are wrong)"):format(planted.name, failures))
    else wrong("planted, and not found: %s", planted.name) end
  end
  seen, total = crashes.seen(), {}
end

local function check_all()
  local _, writes, syncs = crash({ name = "a store", goes_on = true }, wanted // 3)
  local n = wanted >= 1000000 and 40 or 5 -- of each kind of fault
  local scenarios = { { name = "a store that waits at times", synchronous = "normal", promises_nothing = true } }
  for i = 0, n - 1 do
    scenarios[#scenarios + 1] = { name = "a full disk", fill = i * writes // n }
    scenarios[#scenarios + 1] = { name = "a sync that fails", fail_sync = i * syncs // n }
  end
  for i, scenario in ipairs(scenarios) do
    crash(scenario, math.max(100, (wanted - #seen) // (#scenarios - i + 1)))
  end
end

local COVERED <const> = [[
%d different crashes of a store, of %d that were tried, in %d s, seed %d
  of %d records: the store works as usual; without a sync at each commit; the disk is full, or a sync fails, at %d
    moments
  their writes: %d of the database, %d of its log, %d of its journal, each in parts of at most 512 bytes;
    %d changes of sizes, %d files made, %d deleted; %d syncs, %d that fail, %d of the directory; %d promises
  at %d places, which are before each sync and after each promise: at %d of them, all ways of losing parts of
    what is not synced; at the others all ways of losing whole writes, if they are few; what is written in order, in
    the other order, all but one part, only one part; and random ones
  of the parts: %d lost, %d kept, %d with random bytes
  the databases that were left: one of %d states, each checked and, for the first record, used by a store]]

local function main()
  local began = os.time()
  check_planted()
  check_all()
  local function of(name) return total[name] or 0 end
  print(COVERED:format(#seen, of "tried", os.time() - began, seed, of "records", of "records" - 2,
    of "writes of the database", of "writes of the log", of "writes of the journal", of "truncations", of "creations",
    of "deletions", of "syncs", of "failed syncs", of "syncs of the directory", of "acknowledgements", of "places",
    of "complete", of "lost", of "kept", of "garbage", of "states"))
end

local ok, err = xpcall(main, debug.traceback)
os.execute("rm -rf " .. dir)
if not ok then error(err, 0) end
if is_failed then
  print "crashes: FAILED"
  os.exit(1)
end
