-- One statement of runnel.sqlite for many rows, of a list, of a channel, or of an iterator.

local patience = require "spec.support.patience"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local rn = require "runnel"
local sim = require "runnel.sim"

local has_luv = pcall(require, "luv")

local INSERT <const> = "insert into t values (?, ?)"
local NAMED <const> = "insert into t values (:a, :b)"

describe("runnel.sqlite, a statement for many rows", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local sqlite = require "runnel.sqlite"
  local dir, db

  before_each(function()
    dir = process.directory()
    db = sqlite.open(dir.path .. "/work.db")
    db:exec "create table t(a integer primary key, b)"
  end)
  after_each(function()
    db:close()
    dir:remove()
  end)

  local function count(what) return (what or db):one("select count(*) as n from t").n end

  -- A channel of the values of a list, which then closes, with an error if one is given.
  local function channel(list, err)
    local ch = rn.chan()
    rn.go(function()
      for _, row in ipairs(list) do ch:put(row) end
      ch:close(err)
    end)
    return ch
  end

  -- An iterator over the values of a list, which then fails with an error if one is given.
  local function iterator(list, err)
    local i = 0
    return function()
      i = i + 1
      if list[i] == nil then return nil, err end
      return list[i]
    end
  end

  -- The ways to give rows.
  local ways = { ["a list"] = function(list) return list end, ["a channel"] = channel, ["an iterator"] = iterator }

  -- n rows from the number `first` on.
  local function numbered(first, n, size)
    local list = {}
    for i = 1, n do list[i] = { first + i - 1, ("x"):rep(size or 10) } end
    return list
  end

  for way, given in pairs(ways) do
    describe("of " .. way, function()
      it("returns how many rows it has changed, and the id of the last one inserted", function()
        assert.same({ 2, 5 }, { db:exec(INSERT, { rows = given { { 4, "x" }, { 5, "y" } } }) })
        assert.same({ { a = 4, b = "x" }, { a = 5, b = "y" } }, db:rows "select * from t")
        assert.equal(3, (db:exec("update t set b = ? where a >= ?", { rows = given { { 1, 4 }, { 2, 5 } } })))
        assert.equal(0, (db:exec(INSERT, { rows = given {} })))
        assert.equal(2, count())
      end)

      it("stores what single statements store, of random values", function()
        math.randomseed(7)
        local random = math.random
        local kinds = {
          function() return nil end, function() return random(0) end, function() return random(9) / 4 end,
          function() return ("a\0b"):rep(random(0, 40)) end,
          function() return sqlite.blob(("\255"):rep(random(0, 9))) end,
          function() return random(2) == 1 end, function() return ("ä"):rep(random(0, 200)) end,
          function() return math.huge end, function() return math.mininteger end,
        }
        local SELECT <const> = "select a, b, c, typeof(a) ta, typeof(b) tb, typeof(c) tc from %s order by rowid"
        db:exec "create table single(a, b, c); create table many(a, b, c); create table named(a, b, c)"
        local lists, tables = {}, {}
        for i = 1, 300 do
          local a, b, c = kinds[random(#kinds)](), kinds[random(#kinds)](), kinds[random(#kinds)]()
          db:exec("insert into single values (?, ?, ?)", a, b, c)
          lists[i] = c == nil and { a, b, c, n = 3 } or { a, b, c }
          if random(3) == 1 then lists[i] = table.pack(a, b, c) end
          tables[i] = { a = a, b = b, c = c }
        end
        db:exec("insert into many values (?, ?, ?)", { rows = given(lists) })
        db:exec("insert into named values ($a, :b, @c)", { rows = given(tables) })
        local expected = db:rows(SELECT:format "single")
        assert.same(expected, db:rows(SELECT:format "many"))
        assert.same(expected, db:rows(SELECT:format "named"))
      end)

      it("takes rows with names of which each has its own", function()
        local rows = { { a = 1 }, { b = "two" }, {}, { b = "four", a = 4 } }
        db:exec("insert into t values (:a, coalesce(:b, :a, $b, 'none'))", { rows = given(rows) })
        assert.same({ { a = 1, b = 1 }, { a = 2, b = "two" }, { a = 3, b = "none" }, { a = 4, b = "four" } },
          db:rows "select * from t")
      end)

      it("has rows without a value, if its parameters have names", function()
        assert.equal(2, (db:exec("insert into t(b) values (:b)", { rows = given { {}, {} } })))
        assert.same({ { a = 1 }, { a = 2 } }, db:rows "select * from t")
        raises("row 1: 0 values for 1 parameter", function()
          db:exec("insert into t(b) values (?)", { rows = given { {}, {} } })
        end)
      end)

      it("has rows that table.pack makes of nils, also as the first ones, and those that have a name n", function()
        local pack = table.pack
        db:exec "create table p(a, b)"
        db:exec("insert into p values (?, ?)", { rows = given { pack(nil, nil), pack("Ada", 36), pack(nil, nil) } })
        db:exec("insert into p values (?, ?)", { rows = given { pack(nil, nil), pack(nil, nil) } })
        assert.same({ {}, { a = "Ada", b = 36 }, {}, {}, {} }, db:rows "select * from p")
        db:exec "delete from p"
        db:exec("insert into p values (:n, :b)", { rows = given { { n = 1 }, {}, { n = 2, b = 3 } } })
        assert.same({ { a = 1 }, {}, { a = 2, b = 3 } }, db:rows "select * from p")
        db:exec("insert into p values (:n, 7)", { rows = given { { n = 1 }, { n = 5 } } })
        assert.equal(6, db:one("select sum(a) as n from p where b = 7").n)
        raises("row 2: 1 value for 2 parameters", function()
          db:exec("insert into p values (?, ?)", { rows = given { pack(nil, nil), pack(nil), { 1, 2 } } })
        end)
        raises("row 2: 0 values for 2 parameters", function()
          db:exec("insert into p values (?, ?)", { rows = given { pack(nil, nil), {}, { 1, 2 } } })
        end)
      end)

      it("is refused for names beside a ?", function()
        raises("parameter 1 is a %?, but the values have names", function()
          db:exec("insert into t values (?, :b)", { rows = given { { b = 1 } } })
        end)
      end)

      it("takes more rows than fit into a piece", function()
        assert.same({ 5000, 5000 }, { db:exec(INSERT, { rows = given(numbered(1, 5000, 200)) }) })
        assert.same({ n = 5000, s = 12502500, l = 1000000 },
          db:one "select count(*) n, sum(a) s, sum(length(b)) l from t")
      end)

      for what, bad in pairs {
        ["that is no table"] = { "row 2: a list of values or a table of named values expected, got a number", 7 },
        ["that is a blob"] = { "row 2: a list of values or a table .* expected, got a table", sqlite.blob "x" },
        ["with a function"] = { "row 2: value 2: nil, a boolean, .* expected, got a function", { 2, print } },
        ["with a table"] = { "row 2: value 1: .* expected, got a table", { {}, 2 } },
        ["with a channel"] = { "row 2: value 1: .* expected, got a channel", { rn.chan(), 2 } },
        ["with nan"] = { "row 2: value 2: .* got nan", { 2, 0 / 0 } },
        ["with nan behind a nil"] = { "row 2: value 2: .* got nan", { nil, 0 / 0 } },
        ["with a key that is no name"] = { "row 2: its key \"x\": ", { 2, 3, x = 1 } },
        ["with names"] = { "row 2: its key \"a\": ", { a = 2 } },
        ["with a float as its key"] = { "row 2: its key 1.5: ", { 2, [1.5] = 3 } },
        ["with an index that is too large"] = { "row 2: its key 1000000000: ", { 2, [1000000000] = 3 } },
        ["with a value behind its end"] = { "row 2: its key 3: ", { 2, 3, 4, n = 2 } },
        ["that is too short"] = { "row 2: 1 value for 2 parameters %(a row that ends with nil", { 2 } },
        ["that is too long"] = { "row 2: 3 values for 2 parameters", { 2, 3, 4 } },
        ["without values"] = { "row 2: 0 values for 2 parameters", {} },
        ["that violates a constraint"] = { "work.db: row 2: UNIQUE constraint failed: t.a, in: insert", { 1, 1 } },
      } do
        it("is refused as a whole at the caller's line for a row " .. what, function()
          local rows = { { 1, 1 }, bad[2], { 3, 3 } }
          raises(bad[1], function() db:exec(INSERT, { rows = given(rows) }) end)
          assert.equal(0, count())
          raises(bad[1], function()
            db:transaction(function(tx) tx:exec(INSERT, { rows = given(rows) }) end)
          end)
          assert.equal(0, count())
        end)
      end

      for what, bad in pairs {
        ["with a number"] = { "row 2: its key 1: ", { 2 } },
        ["with a number beside names"] = { "row 2: its key 1: ", { 2, a = 1 } },
        ["with a function"] = { "row 2: value \"b\": .* got a function", { a = 2, b = print } },
        ["with a zero byte in a name"] = { "row 2: its key \"a\\0\": ", { ["a\0"] = 1 } },
        ["with a name that no parameter has"] = { "no parameter uses the named value \"c\", in", { c = 1 } },
      } do
        it("is refused as a whole at the caller's line for a row of names " .. what, function()
          raises(bad[1], function() db:exec(NAMED, { rows = given { { a = 1, b = 1 }, bad[2], { a = 3 } } }) end)
          assert.equal(0, count())
        end)
      end

      it("is refused for other than one statement that a transaction may have", function()
        raises("rows need a single statement, got several", function()
          db:exec(INSERT .. "; select 1", { rows = given { { 1, 1 } } })
        end)
        raises("rows need a statement that a transaction may have, in: pragma", function()
          db:exec("pragma foreign_keys", { rows = given { {} } })
        end)
        raises("rows need a statement, in: ", function() db:exec("-- nothing", { rows = given { {} } }) end)
        raises('near "selekt": syntax error', function() db:exec("selekt", { rows = given {} }) end)
        raises("db:transaction", function() db:exec("begin", { rows = given { {} } }) end)
        raises("a statement of SQL expected, got 1", function() db:exec(1, { rows = given { {} } }) end)
      end)

      it("fails where the database is closed", function()
        db:close()
        raises("exec: the database is closed", function() db:exec(INSERT, { rows = given { { 1, 1 } } }) end)
      end)

      it("that is cancelled while it runs has no effect", function()
        local other <close> = sqlite.open(dir.path .. "/work.db", { busy_timeout = 0 })
        local block = rn.go(function()
          local rows = numbered(1, 3)
          rows[4] = { -1, -1 } -- it does not end
          db:exec("insert into t select ?1, max(x) from (with recursive c(x) as (select 1 union all "
            .. "select x + 1 from c limit iif(?2 = -1, -1, 1)) select x from c)", { rows = given(rows) })
        end)
        assert.is_true(patience.wait_until(function() -- it writes
          rn.sleep(1)
          return not pcall(other.exec, other, "update t set a = 1 where a = 1")
        end))
        rn.cancel(block)
        block:poll()
        assert.equal(0, count())
        db:exec(INSERT, 1, 1)
      end)
    end)
  end

  it("needs only that option", function()
    raises('exec: unknown option "n"; known: rows', function() db:exec(INSERT, { rows = {}, n = 1 }) end)
    raises("exec: rows: a list, a channel or an iterator of rows expected, got a thread", function()
      db:exec(INSERT, { rows = coroutine.create(print) })
    end)
    for _, iterate in ipairs { pairs, ipairs } do
      raises("exec: rows: this iterator needs what pairs and ipairs return beside it: pass the list itself", function()
        db:exec(INSERT, { rows = iterate { { 1, 2 } } })
      end)
    end
    raises('rows: value "rows": got a table', function() db:rows("select :rows", { rows = {} }) end)
    assert.equal(1, (db:exec("insert into t(b) values (:rows)", { rows = "a value" })))
  end)

  it("takes the rows of a query", function()
    db:exec(INSERT, { rows = numbered(1, 3) })
    db:exec "create table u(b, a)"
    db:exec("insert into u values (:b, :a)", { rows = db:query "select a, b from t" })
    assert.same(db:rows "select a, b from t", db:rows "select a, b from u")
  end)

  it("of a list that fails leaves the transaction as it was before", function()
    db:transaction(function(tx)
      tx:exec(INSERT, 1, 1)
      raises("row 2: UNIQUE", function() tx:exec(INSERT, { rows = { { 2, 2 }, { 1, 1 } } }) end)
      raises("row 2: value 1", function() tx:exec(INSERT, { rows = { { 2, 2 }, { print, 1 } } }) end)
      assert.equal(1, count(tx))
      tx:exec(INSERT, { rows = { { 3, 3 } } })
    end)
    assert.same({ { a = 1 }, { a = 3 } }, db:rows "select a from t")
  end)

  it("may run beside others, which are kept when it fails", function()
    local blocks = {}
    for i = 1, 20 do
      blocks[i] = rn.go(function()
        if i % 5 == 0 then return db:exec(INSERT, { rows = { { 100 + i, 1 }, { 200 + i, 1 }, { 100 + i, 1 } } }) end
        return db:exec(INSERT, i, 1)
      end)
    end
    for i = 1, 20 do
      local ok, err = blocks[i]:take()
      if i % 5 == 0 then assert.matches("row 3: UNIQUE", err) else assert.equal(1, ok) end
    end
    assert.equal(16, count())
  end)

  it("of a channel fails with its error, and so does the transaction, although that is caught", function()
    raises("exec: .*work.db: the channel of rows has failed: no more, in: insert into t", function()
      db:exec(INSERT, { rows = channel({ { 1, 1 } }, "no more") })
    end)
    raises("transaction: .*work.db: the transaction was rolled back, because a statement for many", function()
      db:transaction(function(tx)
        tx:exec(INSERT, 5, 5)
        raises("the channel of rows has failed: no more", function()
          tx:exec(INSERT, { rows = channel(numbered(10, 3000, 200), "no more") })
        end)
        raises("one: .*the transaction was rolled back, because a statement for many", function()
          tx:one "select 1"
        end)
      end)
    end)
    assert.equal(0, count())
    db:exec(INSERT, 1, 1)
  end)

  it("of an iterator fails with its error, and so does the transaction, although that is caught", function()
    raises("exec: .*work.db: the iterator of rows has failed: no more, in: insert into t", function()
      db:exec(INSERT, { rows = iterator({ { 1, 1 } }, "no more") })
    end)
    local csv = require "runnel.csv"
    local text = "1,a\n2,b\n3,c,d\n"
    raises("transaction: .*work.db: the transaction was rolled back, because a statement for many rows has failed",
      function()
        db:transaction(function(tx)
          local ok, err = pcall(tx.exec, tx, INSERT, { rows = csv.rows(text) })
          assert.same({ false, "csv: line 3: 3 fields, but the first record has 2" }, { ok, err })
        end)
      end)
    assert.equal(0, count())
  end)

  it("of an iterator may use the same table for each row, and lets others run although the iterator never waits",
    function()
      local row, i, has_run = {}, 0, false
      db:exec(INSERT, { rows = function()
        i = i + 1
        if i == 2 then rn.go(function() has_run = true end) end
        if i == 3 then assert.is_true(has_run) end
        if i == 4 then return nil end
        row[1], row[2] = i, ("x"):rep(40 * 1024) -- two are above 64 KB, and all below the size of a piece
        return row
      end })
      assert.same({ { a = 1 }, { a = 2 }, { a = 3 } }, db:rows "select a from t")
    end)

  it("of a channel keeps the kind of its error, that of a time limit", function()
    local late = require("runnel.internal.timed_out").new "too late"
    local _, err = pcall(db.exec, db, INSERT, { rows = channel({}, late) })
    assert.is_true(rn.is_timeout(err))
  end)

  it("of a channel that has not ended when its transaction would be committed undoes that", function()
    local ch, begun = rn.chan(), rn.chan()
    local block
    raises("rolled back, because a statement for many rows has not ended", function()
      db:transaction(function(tx)
        block = rn.go(function()
          begun:close()
          tx:exec(INSERT, { rows = ch })
        end)
        begun:take()
        for i = 1, 2000 do ch:put { i, ("x"):rep(200) } end -- more than a piece
      end)
    end)
    ch:close()
    assert.matches("the transaction has ended", select(2, block:take()))
    assert.equal(0, count())
  end)

  it("of a channel that is cancelled in the middle undoes its transaction, also in a go block of its own", function()
    local ch, block = rn.chan(), nil
    raises("rolled back, because a statement for many rows has failed", function()
      db:transaction(function(tx)
        block = rn.go(function() tx:exec(INSERT, { rows = ch }) end)
        for i = 1, 2000 do ch:put { i, ("x"):rep(200) } end
        rn.cancel(block)
        block:take()
      end)
    end)
    assert.equal(0, count())
  end)

  it("of a channel lets other statements of its transaction run between its rows", function()
    db:exec(INSERT, 1, "x")
    db:transaction(function(tx)
      local ch = rn.chan()
      rn.go(function()
        for i = 2, 5 do ch:put { i, tx:one "select max(b) as b from t".b .. i } end
        ch:close()
      end)
      tx:exec(INSERT, { rows = ch })
    end)
    assert.equal(5, count())
  end)

  it("of a long list lets other go blocks run before it begins, and may be cancelled then", function()
    local turns, is_over, block = 0, false, nil
    local rows = numbered(1, 100, 64 * 1024)
    rn.go(function()
      while not is_over do
        turns = turns + 1
        if turns == 50 then rn.cancel(block) end
        rn.yield()
      end
    end)
    block = rn.go(function() db:exec(INSERT, { rows = rows }) end)
    local _, err = block:take()
    is_over = true
    assert.matches("cancel", tostring(err))
    assert.equal(50, turns)
    assert.equal(0, count())
  end)

  it("fails if the database is closed while a long list is read", function()
    local block = rn.go(function() db:exec(INSERT, { rows = numbered(1, 1000, 1000) }) end)
    rn.yield()
    db:close()
    assert.matches("exec: the database is closed", select(2, block:take()))
  end)

  it("of a slow channel is told of as a transaction that waits, with the line of the statement", function()
    dir:write("program.lua", [[
local rn = require "runnel"
local db <close> = require("runnel.sqlite").open ":memory:"
db:exec "create table t(a)"
local ch = rn.chan()
rn.go(function()
  rn.sleep(700)
  ch:put { 1 }
  ch:close()
end)
db:exec("insert into t values (?)", { rows = ch })
print(db:one "select count(*) as n from t".n)
]])
    local got = process.run(dir.path, process.runnel .. " program.lua")
    assert.same({ "1\n", 0 }, { got.out, got.status })
    assert.matches("^runnel: a transaction of :memory: waits for something .* at program.lua:10, [^\n]*\n$", got.err)
  end)

  -- What some statements return or raise.
  local function outcomes(folder)
    local list = {}
    local mine <close> = sqlite.open(folder .. "/twin.db")
    local function note(...)
      local all = table.pack(pcall(mine.exec, mine, ...))
      for i = 1, all.n do all[i] = tostring(all[i]):gsub("^[^:]+:%d+: ", ""):gsub("/%S*/", "") end
      all[#all + 1] = count(mine)
      list[#list + 1] = table.concat(all, " ")
    end
    mine:exec "create table t(a integer primary key, b)"
    for _, given in ipairs { ways["a list"], channel } do
      mine:exec "delete from t"
      note(INSERT, { rows = given(numbered(1, 2000, 200)) })
      note(INSERT, { rows = given { { 5000, 1 }, { 1, 1 } } })
      note(INSERT, { rows = given { { 5000, 1 }, { print, 1 } } })
      note(NAMED, { rows = given { { a = 5000 }, { b = 1 }, { c = 1 } } })
      note(NAMED, { rows = given { { a = 5000 }, { b = 1 } } })
      note("pragma foreign_keys", { rows = given { {} } })
    end
    note(INSERT, { rows = channel(numbered(9000, 2000, 200), "no more") })
    note(INSERT, { rows = iterator(numbered(9000, 2000, 200), "no more") })
    note("insert into nope values (?)", { rows = {} })
    return list
  end

  it("has the same outcomes in a simulated world", function()
    if not has_luv then return pending "luv is not installed" end
    local simulated
    sim.run(function()
      local world = sim.world()
      world:host("host", function() simulated = outcomes "/var" end)
      world:run()
    end)
    assert.equal(15, #simulated)
    assert.same(outcomes(dir.path), simulated)
  end)
end)
