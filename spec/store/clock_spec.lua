-- A clock that is set, by hours or days, while a program runs and between its runs: the times of a store go on.

local patience = require "spec.support.patience"
local process = require "spec.support.process"
local skew = require "spec.support.queue.skew"

-- What both programs begin with.
local BEGIN <const> = [[
local rn = require "runnel"
local store <close> = require("runnel.store").open("work.db", { synchronous = "off" })
rn.on_error(function() end)
local function set_clock(seconds)
  local file <close> = io.open("skew", "w")
  file:write(seconds)
end
local jump = tonumber(arg[1])
local function check(what, ok) print(what .. ": " .. (ok and "right" or "WRONG")) end
for _, name in ipairs { "retries", "rated", "delayed", "leased", "ids", "aged", "done" } do
  assert(store:stream(name, name == "aged" and { max_age = 3000000 } or nil))
end
local function put(name, value, opts) return assert(store:sink(name)):put(value, opts) end
local calls = 0
local kept = store:once("kept", function() calls = calls + 1 return true end, { max_age = 3000000 })
local bucket = assert(store:kv("bucket", { max_age = 3000000 }))
]]

-- The clock is set while the program runs.
local ONE_RUN <const> = BEGIN .. [[
local tries, failed = 0, rn.chan(1)
local retries = assert(store:stage("retries", 1, function()
  tries = tries + 1
  if tries == 1 then failed:put(true) error "fails once" end
  return true
end, "done", { backoff = 200 }))
put("retries", 1)
failed:take()
local rated = rn.chan(10)
local stage = assert(store:stage("rated", 9, function(v) rated:put(v) end, nil, { name = "r", rate = { 2, 100 } }))
for i = 1, 4 do put("rated", i) end
local leased = assert(store:source("leased", { name = "s", ack_wait = 300 }))
put("leased", 1)
leased:take()
put("ids", 1, { id = "x" })
put("aged", 1)
kept(1)
local short = store:once("short", function() calls = calls + 1 return true end, { max_age = 300 })
short(1)
bucket:put("key", 1)
local since = rn.now()
put("delayed", 1, { delay = 400 })
local delayed = assert(store:source("delayed", { name = "d" }))

set_clock(100000 + jump)

check("ids", select(3, put("ids", 1, { id = "x" })) == true)
put("aged", 2)
check("max_age", assert(store:stream "aged":stats()).messages == 2)
kept(1)
check("expires later", calls == 2)
check("ttl", bucket:get "key" == 1)
delayed:take():ack()
check("delay", rn.now() - since >= 399)
put("delayed", 2, { at = os.time() * 1000 + 500 })
delayed:take():ack()
check("at", true)
check("lease", leased:take().deliveries == 2)
for _ = 1, 4 do rated:take() end
for i = 5, 6 do put("rated", i) rated:take() end
check("rate", true)
rn.sleep(math.max(0, since + 350 - rn.now()))
short(1)
check("expires", calls == 3)
assert(store:source "done"):take()
check("retry", true)
]]

-- Two runs, between which it is set.
local FIRST_RUN <const> = BEGIN .. [[
local failed = rn.chan(1)
local retries = assert(store:stage("retries", 1, function()
  failed:put(true)
  error "fails"
end, "done", { backoff = 1000 }))
put("retries", 1)
failed:take()
put("ids", 1, { id = "x" })
put("aged", 1)
kept(1)
bucket:put("key", 1)
put("delayed", 1, { delay = 1500 })
local stage = assert(store:stage("rated", 9, print, nil, { name = "r", rate = { 1, 500 } }))
rn.sleep(100)
retries:drain()
os.exit(true, true)
]]
local SECOND_RUN <const> = BEGIN .. [[
check("ids", select(3, put("ids", 1, { id = "x" })) == true)
put("aged", 2)
check("max_age", assert(store:stream "aged":stats()).messages == 2)
kept(1)
check("expires later", calls == 0)
check("ttl", bucket:get "key" == 1)
local delayed = assert(store:source("delayed", { name = "d" }))
delayed:take():ack()
check("delay", true)
local rated = rn.chan(10)
local stage = assert(store:stage("rated", 9, function(v) rated:put(v) end, nil, { name = "r", rate = { 1, 500 } }))
put("rated", 1)
rated:take()
check("rate", true)
local retries = assert(store:stage("retries", 1, function() return true end, "done", { backoff = 1000 }))
assert(store:source "done"):take()
check("retry", true)
]]

describe("the times of a store", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local dir

  setup(function()
    dir = process.directory()
    if skew.works then assert(skew.build(dir.path)) end
  end)
  teardown(function() dir:remove() end)
  before_each(function()
    os.execute(("rm -f '%s'/work.db*"):format(dir.path))
    dir:write("skew", "100000")
  end)

  -- A test that needs another clock.
  local function with_skew(name, f)
    it(name, skew.works and f or function() pending "no library can be put before the system's here" end)
  end

  -- Runs a program; what it says of the times has to be right.
  local function run(program, jump, n)
    dir:write("program.lua", program)
    local command = "LD_PRELOAD=./skew.so " .. process.runnel .. " program.lua " .. jump
    local got = process.run(dir.path, command)
    assert.same({ 0, "" }, { got.status, got.err })
    assert.is_nil(got.out:find "WRONG", got.out)
    assert.equal(n, select(2, got.out:gsub("right", "")), got.out)
  end

  for what, jump in pairs {
    ["back by an hour"] = -3600, ["back by a day"] = -86400, ["ahead by an hour"] = 3600, ["ahead by a day"] = 86400,
  } do
    with_skew("go on when the clock is set " .. what .. ": retries, rates, delays, leases, ids and expiries", function()
      run(ONE_RUN, jump, 10)
    end)

    with_skew("go on in the next run when the clock was set " .. what .. " before it", function()
      run(FIRST_RUN, jump, 0)
      dir:write("skew", tostring(100000 + jump))
      run(SECOND_RUN, jump, 7)
    end)
  end

  -- A schedule goes by the clock: it has a start when that is set over one, and none when it is set back over it.
  local SCHEDULE <const> = BEGIN .. [[
local starts = rn.chan(10)
local tick = store:schedule("tick", "0 * * * *", function(_, time) starts:put(time // 1000) end)
local hour = os.time() // 3600 * 3600
set_clock(100000 + 3 * 3600)
local first = starts:take()
check("the last one that was missed", first % 3600 == 0 and first >= hour + 3 * 3600)
set_clock(100000)
rn.sleep(1500)
set_clock(100000 + 4 * 3600)
check("not again", starts:take() > first)
]]

  with_skew("count for a schedule as the clock of the machine says, and none of its starts happens again", function()
    run(SCHEDULE, 0, 2)
  end)

  with_skew("are moved back when the machine has started again with a clock that is behind", function()
    run(FIRST_RUN, 0, 0)
    local sqlite = require "runnel.sqlite"
    do
      local db <close> = sqlite.open(dir.path .. "/work.db")
      db:exec "update runnel_clock set boot = 'another start'"
    end
    dir:write("skew", "10000")
    run(SECOND_RUN, 0, 7)
  end)

  -- Opens the store as if the machine had started again since, with a clock that is behind by some days.
  local function open_later(days)
    local ms, db = days * 86400000, require("runnel.sqlite").open(dir.path .. "/work.db")
    db:exec("update runnel_message set made = made + ?1", ms)
    db:exec("update runnel_delivery set due = due + ?1", ms)
    db:exec("update runnel_schedule set made = made + ?1", ms)
    db:exec("update runnel_clock set boot = 'another start', seen = seen + ?1", ms)
    db:close()
    return require("runnel.store").open(dir.path .. "/work.db")
  end

  it("are moved back by the latest time that was seen, also if the store has no results", function()
    local before <close> = require("runnel.store").open(dir.path .. "/work.db")
    assert(before:stream "words")
    assert(before:sink "words":put "a word")
    before:schedule("nightly", "0 3 * * *"):pause()
    local words = assert(before:source("words", { name = "reader" }))
    words:take():nak(1000000)
    patience.wait_for(function() return before.db:one "select 1 from runnel_delivery where holder is null" ~= nil end)
    before.db:exec "update runnel_message set made = made - 7 * 86400000" -- it was stored a week ago
    before:close()
    local after <close> = open_later(30)
    local due = after.db:one("select due from runnel_delivery").due
    assert.is_true(due - after:time() < 86400000, due - after:time())
    local state = after:schedule("nightly"):state()
    assert.same({ true, nil, nil }, { state.paused, state.resumes, state.next })
  end)
end)
