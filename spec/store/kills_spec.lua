-- Processes that use a store and are killed at random moments: every message, job and key has its result once.

local rn = require "runnel"
local background = require "spec.support.background"
local patience = require "spec.support.patience"
local process = require "spec.support.process"

if not pcall(require, "runnel.sqlite") then
  describe("killed processes", function() pending "libsqlite3 is not installed" end)
  return
end

local stores = require "runnel.store"
local LUA = os.getenv "LUA" or "lua5.4"

-- Starts n times a program, which gets these arguments and says that it is ready. Returns the programs, and a function
-- that kills one of them at a random moment and starts it again.
local function start(set, n, text, ...)
  local programs, command = {}, { LUA, set:write("program.lua", text), ... }
  local function start_one(i)
    programs[i] = set:start(command)
    assert(programs[i]:says "ready", programs[i]:output())
  end
  for i = 1, n do start_one(i) end
  return programs, function()
    local i = math.random(n)
    rn.sleep(math.random() * 60)
    programs[i]:signal "KILL"
    programs[i]:wait()
    start_one(i)
  end
end

-- Moves messages from `a` through `b` to `c`; the second stage has effects in the same transaction. Some fail at first.
local PROGRAM <const> = [[
  local rn = require "runnel"
  local store = require("runnel.store").open(arg[1], { busy_timeout = 60000 })
  local tried = {}
  assert(store:stage("a", 8, function(v)
    rn.sleep(math.random() * 10)
    if v % 7 == 0 and not tried[v] then
      tried[v] = true
      error("not yet", 0)
    end
    return v, -v
  end, "b", { backoff = 1, tries = 1000, starts = 100000 }))
  local stage = assert(store:stage("b", 4, function(v, _, tx)
    tx:exec("insert into effects values (?)", v)
    return { v }
  end, "c", { tx = true, starts = 100000 }))
  print "ready"
  io.stdout:flush()
  stage:wait()
]]

-- Lets `processes` programs work on n messages. Kills them `kills` times in all, at random moments.
local function check(n, processes, kills)
  local dir <close> = process.directory()
  local set <close> = background.set()
  local path = dir.path .. "/work.db"
  local store <close> = stores.open(path, { busy_timeout = 60000 })
  store.db:exec "create table effects(v unique)" -- so that an effect that happens twice is an error
  for _, name in ipairs { "a", "b", "c" } do assert(store:stream(name)) end
  local sink, list = assert(store:sink "a"), {}
  for i = 1, n do list[i] = i end
  local filling = sink:from(rn.to_chan(list), 32)
  local _, kill_one = start(set, processes, PROGRAM, path)
  for _ = 1, kills do kill_one() end
  assert.equal(n, filling:take())
  local out, seen, sum = assert(store:source "c"), {}, 0
  for _ = 1, 2 * n do
    local m, port = rn.alts { out, rn.timeout(120000) }
    assert.equal(out, port, "results are missing")
    local v = m.value[1]
    assert.is_nil(seen[v], "a result came twice")
    seen[v], sum = true, sum + 1
  end
  assert.equal(2 * n, sum)
  local queues = function()
    for _, queue in ipairs(assert(store:queues())) do
      if queue.waiting + queue.running > 0 or queue.given_up > 0 then return false end
    end
    return true
  end
  assert.is_truthy(patience.wait_until(queues))
  assert.same({ n = 2 * n }, store.db:one "select count(*) as n from effects")
  assert.same({ n = 2 * n, last = 2 * n },
    store.db:one "select count(*) as n, max(seq) as last from runnel_message where stream = 'c'")
  assert.same({ messages = 2 * n }, store.db:one "select messages from runnel_stream where name = 'c'")
  assert.same({ integrity_check = "ok" }, store.db:one "pragma integrity_check")
end

local WORKER <const> = [[
  local rn = require "runnel"
  local store = require("runnel.store").open(arg[1], { busy_timeout = 60000 })
  local worker = store:serve("square", 4, function(v)
    rn.sleep(math.random() * 5)
    return v * v, "and more"
  end)
  print "ready"
  io.stdout:flush()
  worker:wait()
]]

-- Has two workers do n jobs, and kills one of them `kills` times, at random moments. Each call has its result once.
local function check_remote(n, kills)
  local dir <close> = process.directory()
  local set <close> = background.set()
  local path = dir.path .. "/work.db"
  local store <close> = stores.open(path, { busy_timeout = 60000 })
  local remote, list = store:remote("square", { starts = 100000 }), {}
  local _, kill_one = start(set, 2, WORKER, path)
  for i = 1, n do list[i] = i end
  local results, is_over = rn.pmap(16, remote, list), false
  local killing = rn.go(function()
    for _ = 1, kills do
      if is_over then break end
      kill_one()
    end
  end)
  for i = 1, n do
    local v, port = rn.alts { results, rn.timeout(120000) }
    assert.equal(results, port, "results are missing")
    assert.equal(i * i, v)
  end
  is_over = true
  killing:take()
  assert.is_nil((results:take()))
  remote:close()
  assert.is_truthy(patience.wait_until(function()
    local sql = "select (select count(*) from runnel_message) + (select count(*) from runnel_result) as left"
    return store.db:one(sql).left == 0
  end))
  assert.same({ integrity_check = "ok" }, store.db:one "pragma integrity_check")
end

local ONCE <const> = [[
  local rn = require "runnel"
  local store = require("runnel.store").open(arg[1], { busy_timeout = 60000 })
  print "ready"
  io.stdout:flush()
  local pay = store:once("pay", function(i, tx)
    tx:exec("insert into effects values (?)", i)
    return { i }
  end, { tx = true })
  local double = store:once("double", function(i) return 2 * i end)
  local list = {}
  for i = 1, tonumber(arg[2]) do list[i] = i end
  for v in rn.pmap_unordered(16, function(i) return pay(i)[1] + double(i) end, list) do assert(v % 3 == 0) end
  print "done"
]]

-- Lets `processes` programs call functions of `once` with n keys. Kills them `kills` times in all, at random moments.
local function check_once(n, processes, kills)
  local dir <close> = process.directory()
  local set <close> = background.set()
  local path = dir.path .. "/work.db"
  local store <close> = stores.open(path, { busy_timeout = 60000 })
  store.db:exec "create table effects(v unique)"
  local programs, kill_one = start(set, processes, ONCE, path, n)
  for _ = 1, kills do kill_one() end
  for _, program in ipairs(programs) do
    assert.equal(0, program:wait(), program:output())
    assert.equal("ready\ndone\n", program:output())
  end
  assert.same({ n = n, sum = n * (n + 1) // 2 }, store.db:one "select count(*) as n, sum(v) as sum from effects")
  assert.same({ n = 2 * n }, store.db:one "select count(*) as n from runnel_once")
  assert.same({ integrity_check = "ok" }, store.db:one "pragma integrity_check")
end

describe("calls of once #ci", function()
  it("lose nothing and do nothing twice when one of one or four processes is killed at random moments", function()
    check_once(200, 1, 3)
    check_once(300, 4, 4)
  end)

  it("lose nothing and do nothing twice after 300 kills #long", function()
    check_once(6000, 1, 150)
    check_once(6000, 4, 150)
  end)
end)

describe("remote stages of a store #ci", function()
  it("have each result once when workers are killed at random moments", function()
    check_remote(300, 3)
  end)

  it("have each result once after 300 kills of workers #long", function()
    check_remote(36000, 300)
  end)
end)

describe("stages of a store #ci", function()
  it("lose nothing and do nothing twice when one process is killed at random moments", function()
    check(200, 1, 3)
  end)

  it("lose nothing and do nothing twice when one of four processes is killed at random moments", function()
    check(300, 4, 4)
  end)

  it("lose nothing and do nothing twice after 300 kills #long", function()
    check(6000, 1, 150)
    check(6000, 4, 150)
  end)
end)
