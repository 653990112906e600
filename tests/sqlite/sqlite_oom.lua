-- The scenarios of sqlite_oom.c: statements while allocations fail. Called with the number of a scenario; returns
-- its name and a function that runs it, or nil if there is no such scenario.

local number = ...
local rn = require "runnel"
local sim = require "runnel.sim"
local sqlite = require "runnel.sqlite"
local stores = require "runnel.store"
local arm = arm -- luacheck: globals arm
local _ = { rn.pmap, rn.retry } -- loads their modules, before allocations fail
package.preload.luv = function() error "a state that loads it keeps a key of the system for ever" end
for _, name in ipairs { "sim_world", "sim_luv", "database" } do require("runnel.sim." .. name) end

rn.on_error(function() end)

-- Set while allocations fail. Work may then fail, too; but what it returns as a success must be one.
local may_fail

local function check(ok, ...)
  if not ok then assert(may_fail, ...) end
  return ok, ...
end

local SCHEMA = "create table t(a integer primary key, b); create table u(a)"
local INSERT = "insert into t values (?, ?)"

-- How many rows a table has; nil if that fails.
local function count(db, name)
  local ok, row = check(pcall(db.one, db, "select count(*) as n from " .. name))
  return ok and row.n
end

-- Calls f with an open database, and closes that.
local function with_database(f)
  local ok, db = check(pcall(sqlite.open, ":memory:"))
  if not ok then return end
  check(pcall(db.exec, db, SCHEMA))
  f(db)
  check(pcall(db.close, db))
end

local SCENARIOS = {
  { "statements", function()
    with_database(function(db)
      local done = 0
      for i = 1, 3 do
        if check(pcall(db.exec, db, INSERT, i, ("text %d"):format(i))) then done = done + 1 end
      end
      check(pcall(db.exec, db, "insert into u values (:a)", { a = sqlite.blob "x" }))
      local n = count(db, "t")
      assert(not n or n == done or may_fail and n >= done, "rows are missing")
    end)
  end },

  { "statements that are committed together", function()
    with_database(function(db)
      local blocks, done = {}, 0
      for i = 1, 4 do blocks[i] = rn.go(function() return db:exec(INSERT, i, i) end) end
      for i = 1, 4 do
        if check(blocks[i]:take()) then done = done + 1 end
      end
      local n = count(db, "t")
      assert(not n or n >= done, "rows are missing")
    end)
  end },

  { "a statement for many rows", function()
    with_database(function(db)
      local list, tables = {}, {}
      for i = 1, 20 do
        list[i] = i % 3 == 0 and table.pack(i, nil) or { i, ("text"):rep(i) }
        tables[i] = { a = 100 + i, b = sqlite.blob "x" }
      end
      local done = 0
      local function note(ok, changes)
        assert(not ok or changes == 20)
        if ok then done = done + 20 end
      end
      note(check(pcall(db.exec, db, INSERT, { rows = list })))
      note(check(pcall(db.exec, db, "insert into t values (:a, :b)", { rows = tables })))
      check(pcall(db.transaction, db, function(tx)
        local ch = rn.chan(20)
        for i = 1, 20 do ch:put { 200 + i, ("x"):rep(10000) } end
        ch:close()
        note(true, tx:exec(INSERT, { rows = ch }))
      end))
      local at = 300
      note(check(pcall(db.exec, db, INSERT, { rows = function()
        at = at + 1
        if at <= 320 then return { at, ("x"):rep(10000) } end
      end })))
      local n = count(db, "t")
      assert(not n or n == done or may_fail and n % 20 == 0, "some rows are missing")
    end)
  end },

  { "rows in a temporary file", function()
    with_database(function(db)
      local ok, rows = check(pcall(db.query, db,
        "with recursive c(x) as (select 1 union all select x + 1 from c limit 4) select x, zeroblob(150000) b from c"))
      if not ok then return end
      local sum = 0
      while true do
        local row, err = rows:take()
        if row == nil then
          assert(err == nil and sum == 10 or may_fail, err or "rows are missing")
          break
        end
        sum = sum + row.x
      end
      rows:close()
    end)
  end },

  { "transactions", function()
    with_database(function(db)
      local ok = check(pcall(db.transaction, db, function(tx)
        tx:exec("insert into u values (1)")
        tx:exec("insert into u values (2)")
      end))
      local failed = pcall(db.transaction, db, function(tx)
        tx:exec("insert into u values (3)")
        error "no"
      end)
      assert(not failed)
      local n = count(db, "u")
      assert(not n or n == (ok and 2 or 0) or may_fail and n == 2, "half a transaction")
    end)
  end },

  { "a statement that is cancelled", function()
    with_database(function(db)
      local ok, block = check(pcall(rn.go, function()
        return db:one "with recursive c(x) as (select 1 union all select x + 1 from c) select max(x) from c"
      end))
      if not ok then return end
      check(pcall(rn.sleep, 1))
      rn.cancel(block)
      pcall(block.take, block)
      check(pcall(db.one, db, "select 1"))
    end)
  end },

  { "a stream of a store", function()
    local ok, store = check(pcall(stores.open, ":memory:"))
    if not ok then return end
    local made, stream = check(pcall(store.stream, store, "words"))
    local found, sink = pcall(function() return assert(store:sink "words") end)
    check(found, sink)
    local put = 0
    for i = 1, found and 3 or 0 do
      local well, stored = check(pcall(sink.put, sink, { i }, { id = i > 1 and "id" or nil, priority = i }))
      if well and stored then put = put + 1 end
    end
    local limited, limit = check(pcall(store.db.handle.limit, store.db.handle, 1e6, "select ?", "text", 1))
    if limited then limit:close() end
    local told, state = pcall(function() return assert(made and stream:stats()) end)
    assert(not told or may_fail or put == 3 and state.messages == 2, "messages are missing")
    check(pcall(store.close, store))
  end },

  { "once", function()
    local ok, store = check(pcall(stores.open, ":memory:"))
    if not ok then return end
    local calls = 0
    local made, get = check(pcall(store.once, store, "get", function(i)
      calls = calls + 1
      return { i, "text" }
    end, { tries = 2, backoff = 0 }))
    for i = 1, made and 2 or 0 do
      for _ = 1, 2 do
        local got, value = check(pcall(get, i))
        assert(not got or value[1] == i and value[2] == "text", "a wrong result")
      end
    end
    assert(may_fail or calls == 2)
    check(pcall(store.close, store))
  end },

  { "a file on the disk of a simulated host", function()
    local function program()
      local ok, db = check(pcall(sqlite.open, "work.db"))
      if not ok then return end
      check(pcall(db.exec, db, "create table if not exists t(a integer primary key, b)"))
      check(pcall(db.exec, db, "create table if not exists u(a)"))
      local done = 0
      for i = 1, 2 do
        if check(pcall(db.exec, db, "insert or replace into t values (?, ?)", i, ("x"):rep(5000))) then
          done = done + 1
        end
      end
      check(pcall(db.transaction, db, function(tx)
        tx:exec "insert into u values (1)"
        rn.sleep(1)
        tx:exec "insert into u values (2)"
      end))
      local n = count(db, "t")
      assert(not n or n >= done, "rows are missing")
      check(pcall(db.close, db))
    end
    check(pcall(sim.run, function()
      local world = sim.world()
      local host = world:host("host", program)
      rn.sleep(0.5)
      host:crash()
      host:restart()
      world:run()
    end))
  end },
}

local scenario = SCENARIOS[number]
if not scenario then return nil end

return scenario[1], function()
  may_fail = true
  arm(true)
  local ok, err = pcall(scenario[2])
  arm(false)
  may_fail = false
  collectgarbage()
  assert(ok or tostring(err):find "memory", err)
  scenario[2]()
end
