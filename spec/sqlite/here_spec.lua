-- Statements of a transaction that are so quick that they run in the calling thread.

local patience = require "spec.support.patience"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local rn = require "runnel"

describe("runnel.sqlite, a statement of a transaction", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local sqlite = require "runnel.sqlite"
  local dir, db, runs, is_over

  before_each(function()
    dir = process.directory()
    db = sqlite.open(dir.path .. "/work.db")
    db:exec "create table t(a integer primary key, b unique, c)"
    db:exec("insert into t values (?, ?, 1)", { rows = { { 1, 1 }, { 2, 2 }, { 3, 3 } } })
    runs, is_over = 0, false
    rn.go(function()
      while not is_over do
        runs = runs + 1
        rn.yield()
      end
    end)
  end)
  after_each(function()
    is_over = true
    db:close()
    dir:remove()
  end)

  -- Whether others have run meanwhile.
  local function waits(f, ...)
    local before = runs
    f(...)
    return runs > before
  end

  -- Whether some run of the statement waits for nothing. Each may take long on a busy machine.
  local function is_done_at_once(tx, ...)
    local args = table.pack(...)
    return patience.wait_until(function() return not waits(tx.exec, tx, table.unpack(args, 1, args.n)) end)
  end

  it("that has few steps and was quick is done at once", function()
    if patience.is_under_valgrind then return pending "under valgrind no statement is quick" end
    db:transaction(function(tx)
      for sql, value in pairs {
        ["insert or replace into t values (?, ?, ?)"] = { 1, 1, "x" }, ["update t set c = ? where a = 2"] = { 7 },
        ["insert into t values (3, ?, 3) on conflict do update set c = c + 1"] = { 3 },
        ["delete from t where b = ?"] = { 9.5 }, ["insert or ignore into t values (1, ?, ?)"] = { nil, true, n = 2 },
      } do
        assert.is_true(is_done_at_once(tx, sql, table.unpack(value, 1, value.n)), sql)
      end
    end)
    assert.same({ a = 1, b = 1, c = "x" }, db:one "select * from t")
  end)

  for what, sql in pairs {
    ["changes what it finds by no key"] = "update t set c = ? where c > 5",
    ["scans a table"] = "delete from t where c = ?",
    ["empties a table"] = "delete from t where ? = ?1",
    ["counts"] = "update t set c = (select count(*) from t) where a = ?",
    ["reads another table"] = "insert into u select a, ? from t",
    ["computes rows"] = "insert into u with recursive c(x) as (select ? union all select x + 1 from c limit 5) "
      .. "select x, x from c",
  } do
    it("that " .. what .. " runs in the database's thread, however quick it was", function()
      db:exec "create table u(a, b)"
      db:transaction(function(tx)
        for _ = 1, 20 do assert.is_true(waits(tx.exec, tx, sql, 1)) end
      end)
    end)
  end

  it("runs in the database's thread again when a trigger has made it longer", function()
    if patience.is_under_valgrind then return pending "under valgrind no statement is quick" end
    db:transaction(function(tx)
      assert.is_true(is_done_at_once(tx, "update t set c = ? where a = 1", 1))
      tx:exec "create trigger longer after update on t begin delete from t where c = 77; end"
      tx:exec("update t set c = ? where a = 1", 1) -- finds out
      for _ = 1, 20 do assert.is_true(waits(tx.exec, tx, "update t set c = ? where a = 1", 1)) end
    end)
  end)

  it("lets other go blocks run after 128 statements at the latest, also outside a go block", function()
    local function work(tx)
      local before = runs
      for i = 1, 1280 do tx:exec("update t set c = ? where a = 1", i) end
      assert.is_true(runs - before >= 10)
    end
    db:transaction(work)
    rn.go(function()
      db:transaction(work)
      return true
    end):take()
  end)

  it("stores the same values and returns the same, again and again", function()
    local values = { 1, -2.5, "a\0b", "", true, false, math.mininteger, math.huge, ("x"):rep(100000), n = 10 }
    db:exec "create table u(v)"
    for i = 1, values.n do db:exec("insert into u values (?)", values[i]) end
    local expected = db:rows "select v, typeof(v) t from u"
    for _ = 1, 5 do
      db:exec "delete from u"
      db:transaction(function(tx)
        for i = 1, values.n do assert.same({ 1, i }, { tx:exec("insert into u values (?)", values[i]) }) end
      end)
      assert.same(expected, db:rows "select v, typeof(v) t from u")
    end
  end)

  it("fails with the same message again and again, and leaves the transaction as it was", function()
    db:transaction(function(tx)
      for i = 1, 20 do
        raises("^exec: .*work.db: UNIQUE constraint failed: t.a, in: insert into t values %(1, %?, 1%)$", function()
          tx:exec("insert into t values (1, ?, 1)", 100 + i)
        end)
        raises("^exec: .*work.db: 2 values for 1 parameter, in: update t", function()
          tx:exec("update t set c = 1 where a = ?", 1, 2)
        end)
        raises("^exec: value 1: .* got nan", function() tx:exec("update t set c = 1 where a = ?", 0 / 0) end)
        raises("^exec: value 1: .* got a table", function() tx:exec("update t set c = 1 where a = ?", {}, 1) end)
        assert.equal(1, (tx:exec("update t set c = 1 where a = ?", 1)))
        assert.equal(1, (tx:exec("update t set c = ? where a = 1", sqlite.blob "x")))
        assert.equal(1, (tx:exec("update t set c = :c where a = 1", { c = i })))
      end
    end)
    assert.equal(20, db:one("select c from t where a = 1").c)
  end)

  it("that makes SQLite roll back fails, and so do all later ones", function()
    local sql = "insert or rollback into t values (?, 100, 1)"
    db:transaction(function(tx) -- they are quick from now on
      for i = 100, 110 do
        tx:exec(sql, i)
        tx:exec "delete from t where b = 100"
      end
    end)
    raises("transaction: .*rolled back, because of an earlier error", function()
      db:transaction(function(tx)
        tx:exec "delete from t where b = 100"
        raises("UNIQUE", function() tx:exec(sql, 1) end)
        raises("rolled back, because of an earlier error, in: delete", function()
          tx:exec "delete from t where b = 100"
        end)
      end)
    end)
    local kept
    db:transaction(function(tx) kept = tx end)
    raises("the transaction has ended, in: delete", function() kept:exec "delete from t where b = 100" end)
    assert.equal(3, db:one("select count(*) as n from t").n)
  end)

  it("waits for the lock of another connection, to another file that it changes", function()
    db:exec("attach ? as second", dir.path .. "/second.db")
    db:exec "create table second.u(a integer primary key, b); insert into u values (1, 1)"
    local sql = "update u set b = ? where a = 1"
    db:transaction(function(tx) assert.is_true(patience.is_under_valgrind or is_done_at_once(tx, sql, 2)) end)
    local other <close> = sqlite.open(dir.path .. "/second.db")
    local locked, gate = rn.chan(), rn.chan()
    local holder = rn.go(function()
      other:transaction(function(tx)
        tx:exec "update u set b = 5"
        locked:close()
        gate:take()
      end)
    end)
    locked:take()
    rn.go(function()
      rn.sleep(20)
      gate:close()
    end)
    db:transaction(function(tx) assert.equal(1, (tx:exec(sql, 3))) end)
    holder:take()
    assert.equal(3, db:one("select b from u").b)
  end)
end)
