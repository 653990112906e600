-- What the documents say of values: JSON, shared channels, threads, SQLite.

local rn = require "runnel"
local json = require "runnel.json"
local raises = require "spec.support.raises"
local claim = require "spec.support.docs.claims"(it)

local no_sqlite = require "spec.support.missing" "runnel.sqlite"
local sqlite = not no_sqlite and require "runnel.sqlite"
local claim_sqlite = require "spec.support.docs.claims"(no_sqlite and pending or it, no_sqlite)

-- A value in n tables, one in the other.
local function nested(n)
  local value = {}
  for _ = 2, n do value = { value } end
  return value
end

describe("the documents say of JSON", function()
  claim("arrays and objects nested more than 100 deep", function()
    assert.is_table(json.decode(("["):rep(100) .. ("]"):rep(100)))
    assert.is_nil((json.decode(("["):rep(101) .. ("]"):rep(101))))
    assert.is_string(json.encode(nested(100)))
    assert.is_nil((json.encode(nested(101))))
  end)

  claim("Not encoded are: nil, functions, userdata, coroutines; nan and infinity; strings that are not "
    .. "UTF-8; tables that contain themselves; tables with holes, or with other keys than strings", function()
    local itself = {}
    itself[1] = itself
    for _, case in ipairs { { print }, { io.stdout }, { coroutine.create(print) }, { 0 / 0 }, { math.huge }, { "\xff" },
      { itself }, { { [1] = 1, [3] = 3 } }, { { [true] = 1 } }, { { [1.5] = 1 } }, { { 1, a = 2 } }, { nil } } do
      local text, err = json.encode(case[1])
      assert.is_nil(text)
      assert.is_string(err)
    end
  end)

  claim("Not decoded are: comments, a byte order mark, bytes that are not UTF-8, half of a surrogate pair, "
    .. "numbers that are too large for a float", function()
    for _, text in ipairs { "/* */ 1", "1 // x", "\u{FEFF}1", '"\xff"', [["\ud800"]], [["\udc00"]], "1e999", "[1,]",
      "01", "+1", ".5", "1.", "NaN", "'a'", "{a:1}", "" } do
      local value, err = json.decode(text)
      assert.is_nil(value, text)
      assert.is_string(err)
    end
  end)

  claim("an integer; a float if it does not fit into 64 bits", function()
    assert.equal("integer", math.type((json.decode "9223372036854775807")))
    assert.equal(math.maxinteger, (json.decode "9223372036854775807"))
    assert.equal(math.mininteger, (json.decode "-9223372036854775808"))
    assert.equal("float", math.type((json.decode "9223372036854775808")))
    assert.equal("float", math.type((json.decode "1e2")))
  end)

  claim("It is written with the fewest digits that give the same float again, and never without `.` or `e`", function()
    for text, n in pairs { ["0.1"] = 0.1, ["1.0"] = 1.0, ["1e+100"] = 1e100, ["0.30000000000000004"] = 0.1 + 0.2 } do
      assert.equal(n, (json.decode(json.encode(n))))
      assert.equal(text, (json.encode(n)))
    end
    math.randomseed(1)
    for _ = 1, 1000 do
      local n = string.unpack("d", string.pack("i8", math.random(0)))
      if n == n and n - n == 0 then
        local text = json.encode(n)
        assert.equal(n, tonumber(text))
        assert.matches("[.e]", text)
        local digits = #text:gsub("e.*", ""):gsub("%D", ""):gsub("^0+", ""):gsub("0+$", "")
        local shorter = digits > 1 and tonumber(("%." .. digits - 1 .. "g"):format(n))
        assert.is_true(digits <= 17 and shorter ~= n, text)
      end
    end
  end)

  claim("Of fields with the same name the last one counts", function()
    assert.equal(2, json.decode('{"a":1,"a":2}').a)
  end)

  claim("a line for each element, indented by that number of spaces for each level", function()
    assert.equal('{\n  "a": [\n    1\n  ]\n}', (json.encode({ a = { 1 } }, { indent = 2 })))
    assert.is_true(pcall(json.encode, 1, { indent = 16 }))
    raises("indent", function() json.encode(1, { indent = 17 }) end)
  end)
end)

describe("the documents say of shared channels and threads", function()
  claim("Tables can be nested 100 deep", function()
    local ch = rn.shared_chan(1)
    assert.is_true(ch:put(nested(100)))
    ch:take()
    raises("nested more than 100 deep", function() ch:put(nested(101)) end)
  end)

  claim("A table that occurs twice in a value arrives as two tables; one that contains itself is an error.", function()
    local ch, twice = rn.shared_chan(1), {}
    ch:put { twice, twice }
    local got = ch:take()
    assert.not_equal(got[1], got[2])
    twice[1] = twice
    raises("", function() ch:put(twice) end)
  end)

  claim("It has no transducer and no buffer policy.", function()
    raises("", function() rn.shared_chan(1, rn.xf.map(tostring)) end)
    raises("", function() rn.shared_chan(rn.priority_buffer(1)) end)
  end)

  claim("Later jobs of the same thread see what a job leaves in global variables or in modules; jobs of "
    .. "other threads do not.", function()
    local pool <close> = rn.threads(1, function(v)
      seen = (seen or 0) + v -- luacheck: ignore
      return seen -- luacheck: ignore
    end)
    assert.same({ 1, 3, 6 }, rn.into({}, rn.pmap(1, pool, { 1, 2, 3 })):take())
    local other <close> = rn.threads(1, function() return seen == nil end) -- luacheck: ignore
    assert.is_true(rn.pmap(1, other, { 1 }):take())
  end)

  claim("Returns a shared channel that gets its first result, and closes.", function()
    local result = rn.thread(function() return 1, 2 end)
    assert.same({ 1, n = 1 }, table.pack(result:take()))
    assert.is_nil(result:take())
  end)

  claim("how many calls each thread runs at a time", function()
    local function most_of(n)
      local pool <close> = rn.threads(1, function()
        local yield = require "runnel".yield
        running = (running or 0) + 1 -- luacheck: ignore
        most = math.max(most or 0, running) -- luacheck: ignore
        for _ = 1, 50 do yield() end
        running = running - 1 -- luacheck: ignore
        return most -- luacheck: ignore
      end, n and { n = n })
      local most = 0
      for v in rn.pmap(8, pool, { 1, 2, 3, 4, 5, 6, 7, 8 }) do most = math.max(most, v) end
      return most
    end
    assert.equal(1, most_of(nil))
    local three = most_of(3)
    assert.is_true(three > 1 and three <= 3, three)
  end)
end)

describe("the documents say of SQLite", function()
  local db
  before_each(function() if sqlite then db = sqlite.open ":memory:" end end)
  after_each(function() if sqlite then db:close() end end)

  claim_sqlite("Several statements in one text are all done, or none; they share the values, in order", function()
    db:exec("create table t(a); insert into t values (?); insert into t values (?)", 1, 2)
    assert.same({ { a = 1 }, { a = 2 } }, db:rows "select a from t")
    assert.is_false(pcall(db.exec, db, "insert into t values (3); insert into nosuch values (4)"))
    assert.equal(2, #db:rows "select a from t")
  end)

  claim_sqlite("returns how many rows it has changed, and the id of the last inserted row", function()
    assert.same({ 0, 0 }, { db:exec "create table t(id integer primary key, a)" })
    assert.same({ 2, 2 }, { db:exec "insert into t(a) values (7), (8)" })
    assert.equal(2, (db:exec "update t set a = 0"))
  end)

  claim_sqlite("TEXT, also with zero bytes", function()
    db:exec "create table t(a, b, c, d, e)"
    db:exec("insert into t values (?, ?, ?, ?, ?)", "a\0b", sqlite.blob "\0\xff", 1, 1.0, true)
    local row = db:one "select *, typeof(a) ta, typeof(b) tb, typeof(c) tc, typeof(d) td from t"
    assert.same({ "a\0b", "\0\xff", 1 }, { row.a, row.b, row.e })
    assert.same({ "integer", "float" }, { math.type(row.c), math.type(row.d) })
    assert.same({ "text", "blob", "integer", "real" }, { row.ta, row.tb, row.tc, row.td })
    raises("nan", function() db:exec("insert into t(a) values (?)", 0 / 0) end)
  end)

  claim_sqlite("a name without a value is NULL", function()
    local row = db:one("select :a as a, @b as b, $c as c", { a = 1, c = 3 })
    assert.same({ a = 1, c = 3 }, row)
  end)

  claim_sqlite("In that go block, calling `db` instead of `tx` would wait for ever, so it is an error. The statements "
    .. "`begin`, `commit` and so on are errors, too.", function()
    db:transaction(function(tx)
      raises("", function() db:exec "select 1" end)
      for _, sql in ipairs { "begin", "commit", "rollback", "savepoint a", "release a", "end" } do
        assert.is_false(pcall(tx.exec, tx, sql), sql)
      end
    end)
    for _, sql in ipairs { "begin", "commit", "rollback", "savepoint a" } do
      assert.is_false(pcall(db.exec, db, sql), sql)
    end
  end)

  claim_sqlite("It is rolled back if its function raises an error, or its go block is cancelled.", function()
    db:exec "create table t(a)"
    assert.is_false(pcall(db.transaction, db, function(tx)
      tx:exec "insert into t values (1)"
      error "no"
    end))
    local ready = rn.chan(1)
    local block = rn.go(function()
      db:transaction(function(tx)
        tx:exec "insert into t values (2)"
        ready:put(true)
        rn.chan():take()
      end)
    end)
    ready:take()
    rn.cancel(block)
    block:take()
    assert.equal(0, #db:rows "select * from t")
  end)

  claim_sqlite("enforces foreign keys", function()
    db:exec "create table a(id integer primary key); create table b(a references a(id))"
    raises("FOREIGN KEY", function() db:exec "insert into b values (1)" end)
  end)

  claim_sqlite("The rows of `db:query` are from one moment.", function()
    db:exec "create table t(a)"
    for i = 1, 3 do db:exec("insert into t values (?)", i) end
    local rows = db:query "select a from t"
    assert.equal(1, rows:take().a)
    db:exec "delete from t"
    assert.equal(2, rows:take().a)
    assert.equal(3, rows:take().a)
    assert.is_nil(rows:take())
  end)

  claim_sqlite("Closes the database, after the waiting statements are done. Closing it again does nothing", function()
    local other = sqlite.open ":memory:"
    other:exec "create table t(a)"
    local blocks = {}
    for i = 1, 10 do blocks[i] = rn.go(other.exec, other, "insert into t values (?)", i) end
    rn.yield()
    other:close()
    for _, block in ipairs(blocks) do assert.equal(1, (block:take())) end
    other:close()
  end)
end)
