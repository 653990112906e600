-- Databases of runnel.sqlite, used in every way: statements that succeed, fail, are cancelled or left at any moment,
-- databases that are closed or dropped meanwhile, and a state that is closed in the middle. To be run with sanitizers,
-- which look for races and for memory that is used after its end:
--
--     build/tsan/runner tests/sqlite/sqlite.lua ROUNDS [SEED]
--
-- What has returned must be in the table, and what was rolled back must not.

local rn = require "runnel"
local sqlite = require "runnel.sqlite"

local t = t -- luacheck: globals t
local rounds, seed = tonumber((...)), tonumber(select(2, ...) or os.time())
math.randomseed(seed)
local random = math.random
local path = os.tmpname()
local kept, done = 0, 0

local ENDLESS = "with recursive c(x) as (select 1 union all select x + 1 from c) select "

-- One database, with some go blocks that use it.
local function round(number)
  local db = sqlite.open(random(3) == 1 and path or ":memory:", { busy_timeout = random(200), synchronous = "off" })
  db:exec "create table if not exists t(a, b)"
  local committed, rolled_back, many = {}, {}, {}

  local ways = {
    function(key)
      db:exec("insert into t values (?, ?)", key, ("x"):rep(random(1000)))
      committed[key] = true
    end,
    function(key)
      db:transaction(function(tx)
        tx:exec("insert into t values (?, 1)", key)
        if random(2) == 1 then rn.sleep(random()) end
        tx:one("select count(*) from t")
      end)
      committed[key] = true
    end,
    function(key)
      pcall(db.transaction, db, function(tx)
        rolled_back[key] = true
        tx:exec("insert into t values (?, 1)", key)
        error "on purpose"
      end)
    end,
    function() pcall(db.exec, db, "insert into nope values (1)") end,
    function(key)
      local rows, ch = {}, random(2) == 1 and rn.chan(random(0, 3))
      for i = 1, random(2000) do rows[i] = { key, ("x"):rep(random(200)) } end
      if ch then
        rn.go(function()
          for _, row in ipairs(rows) do ch:put(row) end
          ch:close()
        end)
      end
      local i = 0
      local function iterator()
        i = i + 1
        return rows[i]
      end
      local given = ch or random(2) == 1 and iterator or rows
      assert(db:exec("insert into t values (?, ?)", { rows = given }) == #rows)
      many[key] = #rows
    end,
    function() db:one(ENDLESS .. "max(x) from c") end,
    function(key)
      rolled_back[key] = true
      db:exec("insert into t select ?, x from (" .. ENDLESS .. "x from c)", key)
    end,
    function()
      local rows = db:query(ENDLESS .. "x, zeroblob(1000) as b from c limit 2000")
      for _ = 1, random(100) do rows:take() end
      if random(2) == 1 then rows:close() end
    end,
  }

  local blocks = {}
  for i = 1, random(20) do
    local way, key = random(#ways), ("%d.%d"):format(number, i)
    local block = rn.go(function()
      ways[way](key)
      done = done + 1
    end)
    blocks[i] = block
    if way == 6 or way == 7 or random(4) == 1 then
      rn.go(function()
        rn.sleep(random() * 5)
        rn.cancel(block)
      end)
    end
  end
  if random(10) == 1 then return end -- leaves it to the collector, or to the end of the state
  for _, block in ipairs(blocks) do block:take() end
  for key in pairs(committed) do
    assert(db:one("select 1 from t where a = ?", key), "a row is missing")
    kept = kept + 1
  end
  for i = 1, #blocks do
    local key = ("%d.%d"):format(number, i)
    local n = db:one("select count(*) as n from t where a = ?", key).n
    assert(not many[key] or n == many[key], "some rows are missing")
  end
  for key in pairs(rolled_back) do
    assert(not db:one("select 1 from t where a = ?", key), "a row is there")
  end
  if random(3) > 1 then db:close() end
end

for number = 1, rounds do
  t.limit(300)
  local ok, err = pcall(round, number)
  if not ok and not tostring(err):find "busy_timeout" then error(("seed %d: %s"):format(seed, err), 0) end
  if random(5) == 1 then collectgarbage() end
  t.invariants()
end
os.remove(path)
print(("%d statements, %d rows that were checked"):format(done, kept))
