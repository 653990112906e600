-- runnel.sqlite: statements, transactions, what is committed together, and what goes wrong.

local patience = require "spec.support.patience"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local shell = require "spec.support.shell"
local rn = require "runnel"
local sim = require "runnel.sim"

local ENDLESS = "with recursive c(x) as (select 1 union all select x + 1 from c) select "

describe("runnel.sqlite", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local sqlite = require "runnel.sqlite"
  local dir, db

  -- Opens the file of the test.
  local function open(opts) return sqlite.open(dir.path .. "/work.db", opts) end

  before_each(function()
    dir = process.directory()
    db = open()
    db:exec "create table t(a integer primary key, b)"
  end)
  after_each(function()
    db:close()
    dir:remove()
  end)

  local function count(what) return (what or db):one("select count(*) as n from t").n end

  -- Starts go blocks that each run f(i), and waits for all. Returns the errors by i.
  local function together(n, f)
    local blocks, errors = {}, {}
    for i = 1, n do blocks[i] = rn.go(function() f(i) return true end) end
    for i = 1, n do errors[i] = select(2, blocks[i]:take()) end
    return errors
  end

  describe("values", function()
    it("come back as they were given: integers, floats, strings with zero bytes, blobs, nil", function()
      local values = { math.maxinteger, math.mininteger, 2.0, -0.1, math.huge, "", "a\0b", "ä", ("x"):rep(1000000) }
      for i, value in ipairs(values) do db:exec("insert into t values (?, ?)", i, value) end
      for i, value in ipairs(values) do
        local found = db:one("select b from t where a = ?", i).b
        assert.equal(value, found)
        assert.equal(math.type(value), math.type(found))
      end
      db:exec("insert into t values (?, ?), (?, ?), (?, ?)", 100, nil, 101, sqlite.blob "\0\255", 102, true)
      local expected = { { a = 100, kind = "null" }, { a = 101, b = "\0\255", kind = "blob" } }
      expected[3] = { a = 102, b = 1, kind = "integer" }
      assert.same(expected, db:rows "select a, b, typeof(b) as kind from t where a >= 100")
    end)

    it("are given by name in a table", function()
      db:exec("insert into t values (:a, $b)", { a = 7, b = "seven" })
      assert.same({ a = 7, b = "seven" }, db:one("select * from t where a = @a", { a = 7 }))
      assert.same({ a = 1, b = 1 }, db:one("select :a as a, @a as b", { a = 1 }))
      local unused = 'no parameter uses the named value "b", in'
      raises(unused, function() db:one("select :a", { a = 1, b = 2 }) end)
      raises(unused, function() db:one("select :a, @a", { a = 1, b = 2 }) end)
      for _, nameless in ipairs { "?", "?2" } do
        raises("parameter 2 is a %?, but the values have names: write :name", function()
          db:exec("insert into t values (:a, " .. nameless .. ")", { a = 1 })
        end)
      end
      assert.equal(1, count())
    end)

    it("that a table of named values lacks are NULL", function()
      assert.same({ a = 1, kind = "null" }, db:one("select :a as a, typeof(:b) as kind", { a = 1 }))
      assert.same({ kind = "null" }, db:one("select typeof(:b) as kind", {}))
      assert.same({ a = 1 }, db:one("select 1 as a", {}))
      db:exec "insert into t values (1, 'old')"
      assert.equal(1, (db:exec("update t set b = :b", { b = nil })))
      assert.same({ a = 1 }, db:one "select * from t")
      raises("parameter 1 is a %?", function() db:exec("update t set b = ?", {}) end)
      assert.equal(1, (db:exec("update t set b = 1; delete from t where a = 2", {})))
      raises("0 values for 1 parameter", function() db:exec("select 1; update t set b = :b", {}) end)
    end)

    it("that SQLite cannot keep are refused at the caller's line", function()
      raises("value 2: .*expected, got a table", function() db:exec("insert into t values (?, ?)", 1, {}) end)
      raises("nan", function() db:exec("insert into t values (?, ?)", 1, 0 / 0) end)
      raises("1 value for 2 parameters", function() db:exec("insert into t values (?, ?)", 1) end)
      raises("value \"b\": got a function", function() db:exec("insert into t values (1, :b)", { b = print }) end)
    end)
  end)

  describe("statements", function()
    it("tell how many rows they have changed, and the id of the last one inserted", function()
      assert.same({ 2, 2 }, { db:exec "insert into t(b) values ('x'), ('y')" })
      assert.same({ 2, 2 }, { db:exec "update t set b = 'z'" })
      assert.equal(0, (db:exec "create table u(a)"))
    end)

    it("whose first row is wanted end with it if they only read, and else do all", function()
      local first = rn.go(function() return db:one(ENDLESS .. "x from c").x end)
      local alarm = rn.after(60000, rn.cancel, first)
      assert.equal(1, first:take())
      alarm:stop()
      assert.is_nil(db:one "select 1 where false")
      assert.same({ a = 1 }, db:one("insert into t " .. ENDLESS .. "x, x from c limit 3 returning a"))
      assert.equal(3, count())
      raises("one statement expected", function() db:one "select 1; select 2" end)
    end)

    it("with many rows let others run between these", function()
      local function turns(n)
        return sim.run(function()
          local own <close>, over, count_of = sqlite.open ":memory:", false, 0
          rn.go(function()
            while not over do
              count_of = count_of + 1
              rn.yield()
            end
          end)
          local list = own:rows(ENDLESS .. "x, zeroblob(1000) as b from c limit ?", n)
          over = true
          assert.equal(n, #list)
          for i, row in ipairs(list) do assert.equal(i, row.x) end
          return count_of
        end)
      end
      assert.is_true(turns(3000) >= turns(1) + 10) -- 256 KB at a time
    end)

    it("that are several in a text are all done, or none", function()
      db:exec "insert into t values (1, 1); -- a comment\n insert into t values (2, 2);"
      raises("UNIQUE constraint failed: t.a, in: insert into t values %(3, 3%); insert", function()
        db:exec "insert into t values (3, 3); insert into t values (1, 1)"
      end)
      assert.equal(2, count())
      assert.equal(3, (db:exec("insert into t values (?, ?); update t set b = ? where a < 3", 7, "x", "y")))
      assert.same({ { a = 1, b = "y" }, { a = 2, b = "y" }, { a = 7, b = "x" } }, db:rows "select * from t")
      raises("1 value for 2 parameters", function()
        db:exec("delete from t where a = ?; delete from t where a = ?", 1)
      end)
      raises("3 values for 1 parameter", function() db:exec("delete from t; delete from t where a = ?", 1, 2, 3) end)
      assert.equal(3, count())
      db:exec "delete from t where a = 7"
      raises("named values need a single", function() db:exec("select :a; select :a", { a = 1 }) end)
      for _, word in ipairs { "begins", "BEGINS", "begin_now" } do -- no words about transactions
        raises('near "' .. word .. '": syntax error', function() db:exec(word) end)
      end
      raises("one statement expected", function() db:rows "select 1; select 2" end)
    end)

    it("raise their error at the caller's line, with the file and the statement", function()
      local message = raises("no such table: nope, in: select %* from nope$", function()
        db:rows "select * from\n nope"
      end)
      assert.truthy(message:find(dir.path .. "/work.db", 1, true))
      raises("a statement of SQL expected, got nothing", function() db:exec() end)
      raises("near \"selekt\": syntax error", function() db:one "selekt 1" end)
      raises("db:transaction", function() db:exec "/* no */ BEGIN" end)
      assert.is_true(#raises("near .*%.%.%., in: ", function() db:exec(("x"):rep(100000)) end) < 1500)
      assert.is_true(#raises("near .*%.%.%., in: ", function() db:exec(("ä"):rep(100000)) end) < 1500)
    end)

    it("return rows of their own from insert ... returning", function()
      assert.same({ a = 5, b = "x" }, db:one("insert into t values (5, ?) returning a, b", "x"))
      assert.is_nil(db:one "select * from t where a = 6")
    end)

    it("have the columns that the table has when they run, also when it has changed since they ran last", function()
      db:exec "insert into t values (1, 'one')"
      local all = "select * from t"
      assert.same({ { a = 1, b = "one" } }, db:rows(all))
      db:exec "alter table t add column c default 3"
      assert.same({ { a = 1, b = "one", c = 3 } }, db:rows(all))
      db:exec "alter table t rename column b to name"
      assert.same({ { a = 1, name = "one", c = 3 } }, db:query(all):list())
      local other <close> = open()
      other:exec "drop table t; create table t(name, a); insert into t values ('name', 'a')"
      assert.same({ { name = "name", a = "a" } }, db:rows(all))
      other:exec "delete from t; alter table t drop column name"
      assert.same({}, db:rows(all))
      assert.same({ { a = "new" } }, db:rows "insert into t values ('new') returning *")
      db:exec "alter table t add column b default 'b'"
      assert.same({ { a = "x", b = "b" } }, db:rows "insert into t(a) values ('x') returning *")
    end)

    it("that write and return rows have written nothing if there is no temporary file for the rows", function()
      dir:write("full.lua", [[
        local db = require "runnel.sqlite".open "full.db"
        db:exec "create table t(a)"
        local files = {}
        repeat
          local file = io.open "/dev/null"
          files[#files + 1] = file
        until not file
        local long = ("x"):rep(300000)
        print(pcall(db.rows, db, "insert into t values (?) returning 1, a", long))
        print(pcall(db.transaction, db, function(tx)
          tx:exec "insert into t values ('kept')"
          print(pcall(tx.rows, tx, "insert into t values (?) returning 2, a", long))
        end))
        for _, file in ipairs(files) do file:close() end
        for _, row in ipairs(db:rows "select a from t") do print(row.a) end
      ]])
      local got = process.run(dir.path, "ulimit -n 40; TMPDIR=. " .. (os.getenv "LUA" or "lua5.4") .. " full.lua")
      local problem = "false\trows: full.db: cannot write a temporary file in .: Too many open files, in: "
        .. "insert into t values (?) returning %d, a\n"
      assert.same({ out = problem:format(1) .. problem:format(2) .. "true\nkept\n", err = "", status = 0 }, got)
    end)

    it("write their rows into a temporary file in the folder TMPDIR, of which nothing is left", function()
      dir:write("rows.lua", [[
        require "runnel"
        local db = require "runnel.sqlite".open ":memory:"
        local many = "with recursive c(x) as (select 1 union all select x + 1 from c limit 9) "
          .. "select zeroblob(100000) from c"
        print(pcall(function() return #db:rows(many) end))
        local list, err = db:query(many):list()
        print(list and #list, err)
      ]])
      local function run(folder)
        return process.run(dir.path, ("TMPDIR=%s %s rows.lua; ls -A tmp"):format(folder, process.runnel))
      end
      os.execute("mkdir " .. dir.path .. "/tmp")
      assert.same({ out = "true\t9\n9\tnil\n", err = "", status = 0 }, run "tmp")
      local got = run "none"
      for _, what in ipairs { "rows", "query" } do
        local why = what .. ": :memory:: cannot write a temporary file in none: No such file or directory, in: "
        assert.truthy(got.out:find(why, 1, true), got.out .. got.err)
      end
    end)

    it("may be pragmas between others that write", function()
      local errors = together(20, function(i)
        if i % 2 == 0 then db:exec "pragma wal_checkpoint" else db:exec("insert into t values (?, 1)", i) end
      end)
      assert.same({}, errors)
      assert.equal(10, count())
    end)
  end)

  describe("statements that wait at the same time", function()
    it("are committed together", function()
      together(500, function(i) db:exec("insert into t values (?, ?)", i, i) end)
      assert.equal(500, count())
      local log = assert(io.open(dir.path .. "/work.db-wal", "rb"))
      assert.is_true(log:seek "end" < 250 * 4096) -- alone, each would write a page
      log:close()
    end)

    it("succeed or fail one by one", function()
      local errors = together(100, function(i) db:exec("insert into t values (?, ?)", i // 2, i) end)
      for i = 2, 99, 2 do assert.matches("UNIQUE", errors[i + 1] or errors[i]) end
      assert.equal(51, count())
    end)

    it("are kept when one of them is interrupted, although SQLite rolls all back", function()
      local asked, long = 0, nil
      for i = 1, 20 do
        rn.go(function()
          asked = asked + 1
          db:exec("insert into t values (?, 0)", i)
        end)
        if i == 10 then long = rn.go(function() db:exec("insert into t(b) " .. ENDLESS .. "x from c") end) end
      end
      repeat rn.sleep(30) until asked == 20
      rn.cancel(long)
      long:poll()
      assert.equal(20, count())
    end)

    it("are kept when one of them violates a foreign key, which SQLite finds at the commit", function()
      db:exec "create table child(a references t(a) deferrable initially deferred)"
      local errors = together(20, function(i)
        if i == 10 then db:exec "insert into child values (100)" end
        db:exec("insert into t values (?, 0)", i)
      end)
      assert.matches("FOREIGN KEY constraint failed, in: insert into child", errors[10])
      errors[10] = nil
      assert.same({}, errors)
      assert.equal(19, count())
      assert.equal(0, db:one("select count(*) as n from child").n)
    end)

    for what, behind in pairs {
      ["a transaction"] = function()
        return db:transaction(function(tx) return tx:exec "insert into t values (99, 9)" end)
      end,
      ["a statement outside of any transaction"] = function() return #db:rows "pragma foreign_keys" end,
      ["the end of the database"] = function()
        db:close()
        return 1
      end,
    } do
      it("are kept when the commit fails because of one of them, with " .. what .. " behind them", function()
        db:exec "create table child(a references t(a) deferrable initially deferred)"
        local behind_them
        local errors = together(21, function(i)
          if i == 21 then behind_them = behind() return end
          if i == 10 then db:exec "insert into child values (100)" end
          db:exec("insert into t values (?, 0)", i)
        end)
        assert.matches("FOREIGN KEY constraint failed, in: insert into child", errors[10])
        errors[10] = nil
        assert.same({}, errors)
        assert.equal(1, behind_them)
        local again <close> = open()
        assert.equal(what == "a transaction" and 20 or 19, count(again))
      end)
    end

    it("are kept when one of them fills the disk", function()
      db:exec "pragma max_page_count = 20"
      local errors = together(20, function(i)
        db:exec("insert into t values (?, zeroblob(?))", i, i == 10 and 1000000 or 10)
      end)
      assert.matches("database or disk is full, in: insert into t", errors[10])
      errors[10] = nil
      assert.same({}, errors)
      assert.equal(19, count())
    end)
  end)

  describe("a transaction", function()
    it("that waits for something other than its statements is told once for each line, on stderr", function()
      dir:write("program.lua", [[
local rn = require "runnel"
local db <close> = require("runnel.sqlite").open ":memory:"
local told = rn.timeout(60000)
local function wait_in(tx)
  tx:exec "select 1"
  rn.sleep(700)
end
for _ = 1, 2 do
  rn.go(function() db:transaction(wait_in) end):take()
  db:transaction(wait_in)
end
db:transaction(function(tx)
  for i = 1, 50 do
    tx:exec "create table if not exists t(x)"
    for _ in tx:query "with recursive c(x) as (select 1 union all select x + 1 from c limit 100) select x from c" do end
    rn.sleep(1)
  end
end)
rn.go(function() db:transaction(function() rn.chan():take() end) end)
rn.sleep(700)
os.exit(0)
]])
      local got = process.run(dir.path, process.runnel .. " program.lua")
      assert.same({ "", 0 }, { got.out, got.status })
      assert.equal("runnel: a transaction of :memory: waits for something other than its statements at program.lua:6, "
        .. "and all other statements wait for it: do that before the transaction, or after it\n"
        .. "runnel: a transaction of :memory: waits for something other than its statements at program.lua:19, "
        .. "and all other statements wait for it: do that before the transaction, or after it\n", got.err)
    end)

    it("is committed when its function returns, with its results", function()
      assert.same({ 1, n = 3 }, table.pack(db:transaction(function(tx)
        tx:exec "insert into t values (1, 'x')"
        assert.equal(1, count(tx))
        return 1, nil, nil
      end)))
      assert.equal(1, count(open()))
    end)

    it("is rolled back when its function raises, or its go block is cancelled", function()
      assert.error_matches(function()
        db:transaction(function(tx)
          tx:exec "insert into t values (1, 'x')"
          error "no"
        end)
      end, "no")
      local begun = rn.chan()
      local block = rn.go(function()
        db:transaction(function(tx)
          tx:exec "insert into t values (2, 'x')"
          begun:put(true)
          rn.sleep(1e6)
        end)
      end)
      begun:take()
      rn.cancel(block)
      block:poll()
      assert.equal(0, count())
    end)

    it("is alone: other statements and transactions wait until it has ended", function()
      local gate, seen, other = rn.chan(), nil, nil
      local block = rn.go(function()
        db:transaction(function(tx)
          tx:exec "insert into t values (1, 'x')"
          gate:take()
          tx:exec "delete from t"
        end)
      end)
      local reader = rn.go(function() seen = count() end)
      local writer = rn.go(function() other = db:transaction(count) end)
      rn.sleep(20)
      assert.is_nil(seen)
      gate:put(true)
      block:take()
      reader:take()
      writer:take()
      assert.same({ 0, 0 }, { seen, other })
    end)

    it("that is cancelled while it waits for another one never begins", function()
      local gate = rn.chan()
      local first = rn.go(function() db:transaction(function() gate:take() end) end)
      local second = rn.go(function() db:transaction(function(tx) tx:exec "insert into t values (1, 1)" end) end)
      rn.sleep(10)
      rn.cancel(second)
      second:poll()
      gate:put(true)
      first:take()
      assert.equal(0, count())
    end)

    it("that is cancelled when it has begun, before its function runs, is rolled back", function()
      local block = rn.go(function() db:transaction(function() end) end)
      rn.sleep(0) -- it asks
      os.execute "sleep 0.05" -- the thread begins, while nothing else runs here
      rn.cancel(block)
      block:poll()
      db:exec "insert into t values (1, 1)" -- waits for the end of that transaction
      assert.equal(1, count())
    end)

    it("that is cancelled just as it begins repeats no statement that ran before it #ci", function()
      local is_instrumented = os.getenv "LD_PRELOAD" or os.getenv "ASAN_OPTIONS" -- by valgrind, or a sanitizer
      if is_instrumented or not shell.run("uname"):find "Linux" then return pending "needs LD_PRELOAD" end
      -- The thread pauses once it has unlocked something for the n-th time, and Lua cancels meanwhile.
      dir:write("pause.c", [[
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <pthread.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        int pthread_mutex_unlock(pthread_mutex_t *mutex) {
          static int count;
          int (*real)(pthread_mutex_t *), result;
          char name[16] = "";
          Dl_info from;
          *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
          result = real(mutex);
          (void)pthread_getname_np(pthread_self(), name, sizeof name);
          if (strcmp(name, "runnel-sqlite") == 0 && dladdr(__builtin_return_address(0), &from) &&
              strstr(from.dli_fname, "sqlite/core") && ++count == atoi(getenv("PAUSE_AT")))
            usleep(100000);
          return result;
        }
      ]])
      dir:write("cancel.lua", [[
        local rn = require "runnel"
        local db = require "runnel.sqlite".open ":memory:"
        db:exec "create table t(a)"
        local insert = rn.go(function() return db:exec "insert into t values (1)" end)
        local block = rn.go(function() db:transaction(function() end) end)
        rn.sleep(1) -- they ask
        os.execute "sleep 0.05" -- the thread begins the transaction meanwhile, but Lua hears nothing
        rn.cancel(block)
        block:poll()
        insert:take()
        io.write(db:one "select count(*) as n from t".n)
      ]])
      local got = process.run(dir.path, "cc -shared -fPIC -o pause.so pause.c -ldl || exit; for n in $(seq 10 30); do "
        .. "PAUSE_AT=$n LD_PRELOAD=./pause.so " .. (os.getenv "LUA" or "lua5.4") .. " cancel.lua || exit; done")
      assert.same({ out = ("1"):rep(21), err = "", status = 0 }, got)
    end)

    it("refuses statements that would wait for its own end", function()
      raises("call the method of tx", function() db:transaction(function() db:exec "delete from t" end) end)
      raises("in a transaction", function() db:transaction(function() db:transaction(function() end) end) end)
      local kept
      db:transaction(function(tx) kept = tx end)
      raises("the transaction has ended, in: select 1", function() kept:one "select 1" end)
    end)

    it("fails as a whole once SQLite has rolled it back", function()
      db:exec "pragma max_page_count = 20"
      raises("rolled back, because of an earlier error", function()
        db:transaction(function(tx)
          tx:exec "insert into t values (1, 1)"
          pcall(tx.exec, tx, "insert or rollback into t values (1, 1)")
        end)
      end)
      assert.equal(0, count())
      db:exec "insert into t values (1, 1)"
    end)
  end)

  describe("a query", function()
    it("is a channel of rows, as they were when it ran, and holds no lock while its reader is slow", function()
      db:close()
      db = open { wal = false } -- there a reader's lock stops writers
      db:exec("insert into t " .. ENDLESS .. "x, 'some text' from c limit 50000")
      local rows, n = db:query "select * from t order by a", 0
      assert.equal(1, rows:take().a)
      local other <close> = open { wal = false, busy_timeout = 0 }
      other:exec "delete from t"
      for row in rows do
        n = n + 1
        if row.a ~= n + 1 or row.b ~= "some text" then error "a wrong row" end
      end
      assert.equal(49999, n)
    end)

    it("closes its channel with the error, which names the line of the call", function()
      local rows = db:query "select * from nope"
      local row, err = rows:take()
      assert.is_nil(row)
      assert.matches("^[^\n]*sqlite_spec.lua:%d+: query: .*no such table: nope, in: select %* from nope", err)
    end)

    it("ends when its channel is closed, and when it is cancelled", function()
      local rows = db:query(ENDLESS .. "x from c where x < 0")
      rn.sleep(5)
      rows:close()
      local block = rn.go(function() db:one(ENDLESS .. "max(x) from c") end)
      rn.sleep(5)
      rn.cancel(block)
      block:poll()
      assert.equal(0, count())
    end)
  end)

  describe("a file", function()
    it("that cannot be opened is an error that says why", function()
      for path, why in pairs {
        ["/nosuch/x.db"] = "^open: /nosuch/x.db: .*; there is no folder /nosuch: make it first$",
        ["/"] = "; it is a folder: give the path of a file$",
      } do
        raises(why, function() local _ = sqlite.open(path) end)
      end
      raises('open: the path of a file expected, got an empty string %(in memory: ":memory:"%)', function()
        local _ = sqlite.open "" -- such a database would be gone once it is closed
      end)
      raises("; there is no such file, and the option create = false lets none be made$", function()
        local _ = sqlite.open("/tmp/no-such-file.db", { create = false })
      end)
    end)

    it("that cannot be opened leaves no thread and no descriptor; where there are too many, it says so", function()
      dir:write("open.lua", [[
        collectgarbage "stop"
        local rn = require "runnel"
        local sqlite, stores = require "runnel.sqlite", require "runnel.store"
        local pid = io.open("/proc/self/stat"):read "n"
        local function count(what)
          local list <close> = io.popen(("ls /proc/%d/%s | wc -l"):format(pid, what))
          return list:read "n"
        end
        local db <close> = sqlite.open "work.db" -- what the program opens once
        db:exec "select 1"
        local fds, tasks = count "fd", count "task"
        for i = 1, 5 do
          assert(not pcall(sqlite.open, "none/x.db") and not pcall(stores.open, "none/x.db"))
          local block = rn.go(sqlite.open, "work.db", { busy_timeout = 1 })
          rn.yield()
          rn.cancel(block)
          block:poll()
        end
        db:transaction(function(tx)
          tx:exec "create table u(a)"
          for i = 1, 5 do assert(not pcall(stores.open, "work.db", { busy_timeout = 1 })) end
        end)
        local tries = 0
        repeat -- until the threads have ended
          tries = tries + 1
          rn.sleep(20)
          local fds_now, tasks_now = count "fd", count "task"
          local are_gone = fds_now < fds + 5 and tasks_now == tasks -- SQLite opens the log later, and may keep the file
          assert(are_gone or tries < 500, ("left: %d descriptors, %d threads"):format(fds_now - fds, tasks_now - tasks))
        until are_gone
        local held, opened = {}, {}
        while true do
          local file = io.open "/dev/null"
          if not file then break end
          held[#held + 1] = file
        end
        for n = 1, 12 do
          local ok, err = pcall(function() local _ <close> = sqlite.open "second.db" end)
          if ok then return print(n) end
          assert(err:find "^open.lua:%d+: open: second.db: .*[Tt]oo many open files", err)
          table.remove(held):close()
        end
      ]])
      local got = process.run(dir.path, "ulimit -n 60; " .. process.runnel .. " open.lua")
      local errors = got.err:gsub("runnel: a transaction of work.db waits [^\n]*\n", "") -- on a busy machine
      assert.same({ "", 0 }, { errors, got.status })
      assert.is_true(tonumber(got.out) <= 10)
    end)

    it("that another connection has locked is waited for, at most busy_timeout", function()
      local other <close> = open { busy_timeout = 50 }
      local gate, locked = rn.chan(), rn.chan()
      local block = rn.go(function()
        db:transaction(function(tx)
          tx:exec "insert into t values (1, 1)"
          locked:put(true)
          gate:take()
        end)
      end)
      locked:take()
      local started = rn.now()
      local errors = together(100, function(i) other:exec("insert into t values (?, 1)", 100 + i) end)
      for i = 1, 100 do assert.matches("another connection has held a lock for more than 50 ms", errors[i]) end
      assert.is_true(rn.now() - started < 50 * 50 * patience.factor()) -- they wait at the same time
      local writer = rn.go(function() return open():exec "insert into t values (2, 2)" end)
      rn.sleep(20)
      gate:put(true)
      block:take()
      assert.equal(1, writer:take())
      other:exec "insert into t values (3, 3)"
    end)

    it("is opened for reading only, and must exist, where the options say so", function()
      local reader <close> = open { readonly = true }
      assert.equal(0, count(reader))
      raises("attempt to write a readonly database, in: insert", function()
        reader:exec "insert into t values (1, 1)"
      end)
      raises("unable to open database file", function() sqlite.open(dir.path .. "/none.db", { create = false }) end)
      raises("unable to open database file", function() sqlite.open(dir.path) end)
    end)

    it("that is no database, or is damaged, is an error that says so", function()
      dir:write("text.db", ("no database\n"):rep(1000))
      raises("text.db: file is not a database", function() sqlite.open(dir.path .. "/text.db") end)
      together(100, function(i) db:exec("insert into t values (?, zeroblob(1000))", i) end)
      db:close()
      local bytes = dir:read "work.db"
      dir:write("work.db", bytes:sub(1, 8192) .. ("\255"):rep(#bytes - 8192))
      db = open()
      raises("database disk image is malformed, in: select", function() db:rows "select b from t" end)
    end)

    it("has the settings of the options, by default foreign keys, a log, and full synchronization", function()
      assert.equal(1, db:one("pragma foreign_keys").foreign_keys)
      assert.equal("wal", db:one("pragma journal_mode").journal_mode)
      assert.equal(2, db:one("pragma synchronous").synchronous)
      local other <close> = sqlite.open(":memory:", { foreign_keys = false, synchronous = "off" })
      assert.equal(0, other:one("pragma foreign_keys").foreign_keys)
      assert.equal(0, other:one("pragma synchronous").synchronous)
      raises("unknown option \"mode\"", function() open { mode = 1 } end)
      raises("synchronous: .* expected, got \"no\"", function() open { synchronous = "no" } end)
      raises("the path of a file expected", function() sqlite.open() end)
    end)

    it("is closed when nothing uses it any more", function()
      local function descriptors()
        local list = io.popen "ls /proc/$PPID/fd 2>/dev/null | wc -l"
        local n = list:read "n"
        list:close()
        return n
      end
      collectgarbage()
      local before = descriptors()
      -- Of a file that is open elsewhere in the process SQLite may keep descriptors: each has a file of its own.
      for i = 1, 20 do sqlite.open(("%s/%d.db"):format(dir.path, i)):one("select ?", i) end
      assert.is_true(patience.wait_until(function() -- the scheduler drops the last messages of their ports
        collectgarbage()
        return descriptors() <= before
      end))
    end)

    it("that was closed refuses further statements, and has run the earlier ones", function()
      local blocks = {}
      for i = 1, 50 do blocks[i] = rn.go(function() return db:exec("insert into t values (?, 1)", i) end) end
      rn.go(function() db:close() end):take()
      for i = 1, 50 do assert.equal(1, blocks[i]:take()) end
      raises("the database is closed", function() db:exec "select 1" end)
      raises("the database is closed", function() db:transaction(function() end) end)
      db:close()
      db = open()
      assert.equal(50, count())
    end)

    it("cannot be closed within a transaction, which goes on", function()
      local other
      db:transaction(function(tx)
        tx:exec "insert into t values (1, 1)"
        raises("^close: this go block is in a transaction, so this would wait for itself", function() db:close() end)
        other = rn.go(function() return db:close() or "closed" end) -- another one waits
        rn.yield()
        assert.is_nil(other:poll())
        tx:exec "insert into t values (2, 2)"
      end)
      assert.equal("closed", other:take())
      db = open()
      assert.equal(2, count())
      raises("^the first error$", function()
        db:transaction(function(tx)
          tx:exec "insert into t values (3, 3)"
          local closing <close> = db -- luacheck: ignore 211
          error "the first error"
        end)
      end)
      assert.equal(2, count())
    end)

    it("waits for a transaction that has begun before it is closed, and refuses others", function()
      local begun, gate = rn.chan(), rn.chan()
      local transaction = rn.go(function()
        return db:transaction(function(tx)
          begun:put(true)
          gate:take()
          tx:exec "insert into t values (1, 1)"
          return "committed"
        end)
      end)
      begun:take()
      local closer = rn.go(function() db:close() return true end)
      rn.yield()
      raises("the database is closed", function() db:exec "select 1" end)
      raises("the database is closed", function() db:transaction(function() end) end)
      assert.is_nil(closer:poll())
      gate:put(true)
      assert.equal("committed", transaction:take())
      assert.is_true(closer:take())
      db = open()
      assert.equal(1, count())
    end)
  end)

  it("works in a simulation, on the calling thread", function()
    sim.run(function()
      local mine <close> = sqlite.open ":memory:"
      mine:exec "create table t(a integer primary key, b)"
      together(20, function(i)
        if i % 2 == 0 then
          mine:transaction(function(tx)
            tx:exec("insert into t values (?, 1)", i)
            rn.sleep(10)
          end)
        else
          mine:exec("insert into t values (?, 1)", i)
        end
      end)
      assert.equal(20, count(mine))
      local n = 0
      for _ in mine:query "select * from t" do n = n + 1 end
      assert.equal(20, n)
    end)
  end)

  it("works under each driver, and leaves a program that ends", function()
    for _, driver in ipairs { "", "luv", "cqueues", "copas", "luasocket" } do
      dir:write("main.lua", ([[
        package.path = package.path .. ";/usr/share/lua/5.2/?.lua;/usr/share/lua/5.3/?.lua"
        local rn = require "runnel"
        local driver = %q
        if driver ~= "" then
          local ok, found = pcall(require, "runnel.driver." .. driver)
          if not ok then return print(200) end
          rn.driver(found)
        end
        local db = require("runnel.sqlite").open(":memory:")
        db:exec "create table t(a)"
        for i = 1, 200 do rn.go(function() db:exec("insert into t values (?)", i) end) end
        rn.run()
        print(db:one("select count(*) as n from t").n)
      ]]):format(driver))
      local got = process.run(dir.path, (os.getenv "LUA" or "lua5.4") .. " main.lua")
      assert.same({ out = "200\n", err = "", status = 0 }, got, driver)
    end
  end)

  it("works in threads, each with connections of its own", function()
    local threads = {}
    for i = 1, 3 do
      threads[i] = rn.thread(function(path, from)
        local mine <close> = require("runnel.sqlite").open(path)
        for n = from, from + 9 do mine:exec("insert into t values (?, 1)", n) end
        return mine.path
      end, db.path, 100 * i)
    end
    for i = 1, 3 do assert.equal(db.path, threads[i]:take()) end
    assert.equal(30, count())
  end)

  it("does not hide a deadlock", function()
    assert.error_matches(function()
      db:exec "select 1"
      rn.chan():take()
    end, "deadlock")
  end)
end)
