-- runnel.store: what is done once, in one process and in several, whatever ends them.

local patience = require "spec.support.patience"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local rn = require "runnel"
local sim = require "runnel.sim"

describe("runnel.store", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local http_response = require "runnel.http.response"
  local json = require "runnel.json"
  local sqlite = require "runnel.sqlite"
  local stores = require "runnel.store"
  local dir, store, calls

  local function open() return stores.open(dir.path .. "/work.db") end

  -- Closes the store, and opens it again, as the next run of the program does.
  local function restart()
    store:close()
    store = open()
  end

  before_each(function()
    dir = process.directory()
    store = open()
    calls = 0
  end)
  after_each(function()
    store:close()
    dir:remove()
  end)

  it("leaves no timer behind when it is drained", function()
    sim.run(function()
      local drained = stores.open ":memory:"
      assert.is_true(drained:drain())
    end, { leaks = true }) -- which runs until no timer is pending
    assert.equal(0, sim.elapsed())
  end)

  -- A function of `once` that counts its calls.
  local function counted(name, f, opts)
    return store:once(name, function(...)
      calls = calls + 1
      return f(...)
    end, opts)
  end

  -- The results of a go block, or nil and its error.
  local function go(f, ...) return rn.go(f, ...) end

  describe("once", function()
    it("calls the function once for each key, also when the program is started again", function()
      for run = 1, 3 do
        local double = counted("double", function(n) return 2 * n end)
        for _ = 1, 2 do
          for i = 1, 50 do assert.equal(2 * i, double(i)) end
        end
        assert.equal(50, calls, run)
        restart()
      end
    end)

    it("gives back what the function has returned, of every kind, from memory and from the file", function()
      local list = { 1, 2, { x = "ä", deep = { true, false } } }
      local results = {
        1, -0.5, 2.0, math.maxinteger, 1 / 0, "", "a\0b", "\255", ("x"):rep(2000000), true, false, {}, list,
        { [1] = "a", [5] = "b" }, { [2.5] = 1, name = "mixed", 7 }, { ["\0"] = "\255" }, { 1 / 0 },
      }
      local function kind(value) return math.type(value) or type(value) end
      for run = 1, 2 do
        local get = counted("values", function(i) return results[i] end)
        for i, expected in ipairs(results) do
          for _ = 1, 2 do
            local got = get(i)
            assert.same(expected, got)
            assert.equal(kind(expected), kind(got))
          end
        end
        assert.is_nil(get(1000))
        assert.equal(#results + 1, calls, run)
        restart()
      end
    end)

    it("gives each caller a table of its own", function()
      local get = counted("table", function() return { list = {} } end)
      get(1).list[1] = "changed"
      assert.same({ list = {} }, get(1))
      get(1).list[1] = "changed"
      assert.same({ list = {} }, get(1))
    end)

    it("keeps responses of runnel.http, and what comes from JSON", function()
      local function make(i)
        if i == 1 then return http_response.new(200, { ["x-a"] = { "1", "2" } }, '{"a":[]}', "http://a/") end
        return json.decode '{"none":null,"list":[],"n":1}'
      end
      for _ = 1, 2 do
        local get = counted("responses", make)
        for _ = 1, 2 do
          local page = get(1)
          assert.same({ 200, "1", "http://a/" }, { page.status, page.headers["x-a"][1], page.url })
          assert.equal('{"a":[]}', json.encode(page:json()))
          assert.equal(json.null, get(2).none)
          assert.equal("[]", json.encode(get(2).list))
        end
        assert.equal(2, calls)
        restart()
      end
    end)

    it("writes JSON where it can, so that the table can be read", function()
      counted("orders", function(id) return { id = id, note = "ä" } end)("o-1")
      local row = store.db:one "select name, key, form, value from runnel_once"
      assert.same({ "orders", "o-1", "json" }, { row.name, row.key, row.form })
      assert.same({ id = "o-1", note = "ä" }, json.decode(row.value))
    end)

    it("refuses a result that it cannot keep, and says which part of it", function()
      local cycle = {}
      cycle.inner = { cycle }
      local bad = { { a = { print } }, cycle, setmetatable({}, {}) }
      local get = counted("bad", function(i) return bad[i] end)
      raises("once bad: the result.a%[1%]: a function cannot be kept", function() get(1) end)
      raises("a table that contains itself cannot be kept", function() get(2) end)
      raises("a table with a metatable cannot be kept", function() get(3) end)
    end)

    it("has keys that are strings, numbers and lists, each its own, from the first argument or the option", function()
      local get = counted("keys", function(v) return { v } end)
      for _, key in ipairs { "1", 1, { 1 }, { "1" }, "[1]", "", 1.5, { "a", 2 }, "a\0b", "a\0c" } do
        assert.same({ key }, get(key))
        assert.same({ key }, get(key))
      end
      assert.equal(10, calls)
      assert.same({ 1 }, get(1.0))
      assert.same({}, get()) -- a key of its own
      local by_id = counted("by id", function(order) return order.n end, { key = function(order) return order.id end })
      assert.same({ 5, 5 }, { by_id { id = "a", n = 5 }, by_id { id = "a", n = 6 } })
      raises("once keys: the key is .* got a table that is no list; set the option key", function() get { a = 1 } end)
      raises("got nan", function() get(0 / 0) end)
      raises("got a boolean", function() get(true) end)
    end)

    it("lets the second call with a key wait for the first", function()
      local gate = rn.chan()
      local get = counted("slow", function(v)
        gate:take()
        return v
      end)
      local blocks = {}
      for i = 1, 5 do blocks[i] = go(get, "a") end
      local other = go(get, "b")
      gate:put(true)
      gate:put(true)
      for i = 1, 5 do assert.equal("a", blocks[i]:take()) end
      assert.equal("b", other:take())
      assert.equal(2, calls)
    end)

    it("lets one that waits call instead, when the first is cancelled", function()
      local begun, gate = rn.chan(), rn.chan()
      local get = counted("slow", function(v)
        begun:put(true)
        gate:take()
        return v
      end)
      local first, second = go(get, "a"), go(get, "a")
      begun:take()
      rn.cancel(first)
      begun:take()
      gate:put(true)
      assert.equal("a", second:take())
      first:poll()
      assert.equal(2, calls)
    end)

    it("raises the function's error, keeps none, and calls again the next time", function()
      local fails = true
      local get = counted("errors", function(v)
        if fails and v == 1 then error({ code = 7 }, 0) end
        if fails then return nil, "no page" end
        return v
      end)
      local _, err = pcall(get, 1)
      assert.same({ code = 7 }, err)
      assert.same({ false, "no page" }, { pcall(get, 2) })
      fails = false
      assert.same({ 1, 2 }, { get(1), get(2) })
      assert.equal(4, calls)
    end)

    it("keeps errors where the option says so", function()
      local function fail(v)
        if v == 1 then error({ code = 7 }, 0) end
        error(setmetatable({}, { __tostring = function() return "an object" end }))
      end
      for _ = 1, 2 do
        local get = counted("errors", fail, { errors = true })
        for _ = 1, 2 do
          local _, err = pcall(get, 1)
          assert.same({ code = 7 }, err)
          assert.same({ false, "an object" }, { pcall(get, 2) })
        end
        assert.equal(2, calls)
        restart()
      end
    end)

    it("tries again, with a limit for each try", function()
      local get = counted("tries", function(v)
        if calls == 1 then error "once" end
        if calls == 2 then rn.sleep(1e6) end
        return v
      end, { tries = 3, backoff = 1, timeout = math.ceil(20 * patience.factor()) })
      assert.equal("a", get "a")
      assert.equal(3, calls)
    end)

    it("calls again after `max_age` ms, and after forget", function()
      local get = counted("brief", function(v) return { v, calls } end, { max_age = 40 })
      local key, first, second = 0
      local began
      repeat
        key, began = key + 1, rn.now()
        first, second = get(key), get(key)
      until rn.now() - began < 40
      assert.same({ key, calls }, first)
      assert.same(first, second)
      rn.sleep(60)
      assert.same({ key, calls + 1 }, get(key))
      local kept = counted("kept", function(v) return { v, calls } end)
      calls = 0
      for i = 1, 3 do assert.same({ i, i }, kept(i)) end
      assert.same({ 1, 0 }, { store:forget("kept", 2), store:forget("kept", 2) })
      assert.same({ 2, 4 }, kept(2))
      assert.equal(3, store:forget "kept")
      assert.same({ 2, 5 }, kept(2))
    end)

    it("refuses wrong arguments at the caller's line", function()
      raises("once: name: a name .* expected, got nothing", function() store:once() end)
      raises("once: f: a function expected, got nothing", function() store:once "a" end)
      raises("unknown option \"retries\"", function() store:once("a", print, { retries = 1 }) end)
      raises("once: tries: an integer of at least 1 expected", function() store:once("a", print, { tries = 0 }) end)
      raises("once: max_age: ", function() store:once("a", print, { max_age = "1" }) end)
      raises("once: key: a function expected", function() store:once("a", print, { key = "id" }) end)
      raises("once: tx: true or false", function() store:once("a", print, { tx = 1 }) end)
      local get = counted("closed", function() end)
      store:close()
      raises("once closed: the store is closed", function() get(1) end)
      raises("once: the store is closed", function() store:once("a", print) end)
    end)
  end)

  describe("steps, which are calls within a call,", function()
    -- A function with two steps, which fails behind the first one while `fails`.
    local fails
    local function import(second)
      local step = counted("step", function(v) return v end)
      local other = counted("other", function(v) return v end)
      return store:once("import", function(id)
        local sum = step "a"
        if fails then error "a crash" end
        return sum .. (second == "other" and other or step)(second == "other" and "b" or second) .. id
      end)
    end

    it("are done once for each outer call, which continues where it was", function()
      fails = true
      for _ = 1, 2 do assert.is_false(pcall(import "b", "1")) end
      assert.equal(1, calls)
      restart()
      fails = false
      assert.equal("ab1", import "b" "1")
      assert.equal(2, calls)
      assert.equal("ab2", import "b" "2")
      assert.equal(4, calls)
      assert.same({ { name = "import" }, { name = "import" } }, store.db:rows "select name from runnel_once")
    end)

    it("must stay the same; otherwise the error names the old and the new one", function()
      fails = true
      pcall(import "b", "1")
      restart()
      local new = counted("new", function() return 1 end)
      local changed = store:once("import", function(id)
        raises('once: step 1 of import%["1"%] is new%["x"%]; the first time it was step%["a"%]', function()
          new "x"
        end)
        return id
      end)
      assert.equal("1", changed "1")
      assert.equal(1, store:forget("import", "1"))
      restart()
      assert.equal("ab1", (function()
        fails = false
        return import "b" "1"
      end)())
    end)

    it("that have moved are an error, too", function()
      local crash = true
      local step = counted("step", function(v) return v end)
      local function run(order)
        return store:once("import", function()
          for _, v in ipairs(order) do step(v) end
          if crash then error "a crash" end
        end)
      end
      pcall(run { "a", "b" }, 1)
      local _, err = pcall(run { "b", "a" }, 1)
      assert.matches('step 1 of import%[1%] is step%["b"%]; the first time this was step 2', err)
      crash = false
      run { "a", "b" }(1)
      assert.equal(2, calls)
    end)
  end)

  describe("effects in the same file", function()
    it("are committed with the result, or not at all", function()
      store.db:exec "create table orders(id primary key)"
      local fails = true
      local insert = counted("insert", function(id, extra, tx)
        tx:exec("insert into orders values (?)", id)
        if fails then error "no" end
        return extra
      end, { tx = true })
      assert.is_false(pcall(insert, 1, "x"))
      assert.same({}, store.db:rows "select * from orders")
      fails = false
      assert.same({ "x", "x" }, { insert(1, "x"), insert(1, "y") })
      assert.same({ { id = 1 } }, store.db:rows "select * from orders")
      local nested = store:once("nested", function(_, tx) return insert(tx and 2) end, { tx = true })
      raises("in a transaction", function() nested(1) end)
    end)
  end)

  describe("a file", function()
    it("with tables of a newer release is refused", function()
      store.db:exec "update runnel_schema set version = 7"
      store:close()
      raises("open: .*work.db: its tables of runnel.store have version 7, .* supports version 4", function()
        local _ = stores.open(dir.path .. "/work.db")
      end)
      local db <close> = sqlite.open(dir.path .. "/work.db")
      db:exec "update runnel_schema set version = 1"
    end)

    it("is the same by its path and by a link: each process sees that the others are alive", function()
      assert.equal(0, process.run(dir.path, "ln -s work.db link.db && ln -s . folder").status)
      for _, path in ipairs { "link.db", "folder/work.db", "folder/link.db" } do
        local name = "charge " .. path
        calls = 0
        local linked <close> = stores.open(dir.path .. "/" .. path)
        local began, goes_on = rn.chan(), rn.chan()
        local function charge(of)
          return of:once(name, function(of_whom)
            calls = calls + 1
            began:put(true)
            goes_on:take()
            return of_whom
          end)
        end
        local first = rn.go(charge(store), "customer")
        began:take()
        local second = rn.go(charge(linked), "customer")
        assert(store:stream "s")
        assert(assert(store:sink "s"):put(path))
        local source = assert(store:source("s", { name = "n" }))
        assert.equal(path, source:take().value)
        assert(linked:queues(1)) -- gives back the messages of processes that have ended
        assert.equal(1, store.db:one("select count(*) as n from runnel_delivery where holder = ?", store.holder).n)
        source:close()
        goes_on:close()
        assert.same({ "customer", "customer", 1 }, { first:take(), second:take(), calls })
        assert(assert(store:stream "s"):delete())
      end
      assert.equal("folder\nlink.db\nwork.db\nwork.db-locks\nwork.db-shm\nwork.db-wal\n",
        process.run(dir.path, "ls").out)
    end)

    it("has locks for all who may use it, whoever opens it first", function()
      store:close()
      local is_root = process.run(dir.path, "id -u").out == "0\n"
      local owner = is_root and "65534 +65534" or "%d+ +%d+"
      assert.equal(0, process.run(dir.path, "rm -f work.db-* && chmod 660 work.db"
        .. (is_root and " && chown 65534:65534 work.db" or "")).status)
      store = open()
      assert.matches("^%-rw%-rw%-%-%-%-%S* +1 +" .. owner .. " ", process.run(dir.path, "ls -ln work.db-locks").out)
      store:close()
      assert.equal(0, process.run(dir.path, "chmod 600 work.db && ln -sf nowhere work.db-locks").status)
      store = open() -- through a link to a file that does not exist yet
      assert.equal(0, process.run(dir.path, "rm work.db-locks && test -f nowhere").status)
    end)

    it("has locks for all of the database's group, whoever of them opens it first", function()
      store:close()
      local result = process.run(dir.path, ([[
        as() { setpriv --reuid $1 --regid $1 --groups 4000 "$2" -e "$3"; }
        open() { as $1 '%s' 'require("runnel.store").open "work.db":close()'; }
        chmod 770 . && chmod 660 work.db && chgrp 4000 . work.db && rm -f work.db-* &&
          as 4001 '%s' 'require "runnel.sqlite"' || echo impossible
        open 4001 && open 4002 && echo both
        chgrp 4001 work.db-locks; open 4002
      ]]):format(process.runnel, process.runnel))
      if result.out:find "impossible" then return pending "no other users here" end
      assert.equal("both\n", result.out)
      assert.matches("work.db%-locks: Permission denied: all who use the database must be able to write this file; "
        .. "delete it when no program uses the store\n", result.err)
    end)

    it("gets the tables of streams when they are needed, and keeps its results", function()
      counted("work", function() return "kept" end) "a"
      assert.same({ version = 1 }, store.db:one "select version from runnel_schema")
      assert(store:stream "orders")
      restart()
      assert.equal("kept", counted("work", error) "a")
      assert.same({ version = 2 }, store.db:one "select version from runnel_schema")
      assert(store:stream "orders")
    end)

    it("that is damaged, or no database, is refused", function()
      dir:write("text.db", ("no database\n"):rep(1000))
      raises("text.db: file is not a database", function() stores.open(dir.path .. "/text.db") end)
      raises("unable to open database file", function() stores.open(dir.path .. "/none/work.db") end)
      raises("open: the path of a file expected, got an empty string", function() stores.open "" end)
    end)

    it("that is full is an error of the call, and the result is not lost: the next call computes it again", function()
      store.db:exec "pragma max_page_count = 30"
      local get = counted("large", function(size) return ("x"):rep(size) end)
      raises("once large: .*database or disk is full", function() get(1000000) end)
      assert.equal(10, #get(10))
      store.db:exec "pragma max_page_count = 10000"
      assert.equal(1000000, #get(1000000))
    end)
  end)

  describe("several processes", function()
    -- Starts a program that uses the file, in the background; returns a function that waits for what it prints.
    local function start(name, text)
      dir:write(name .. ".lua", ([[
        local rn = require "runnel"
        local store = require("runnel.store").open("work.db")
      ]]) .. text)
      local lua = os.getenv "LUA" or "lua5.4"
      return io.popen(("cd '%s' && exec %s %s.lua 2>&1"):format(dir.path, lua, name))
    end

    it("call once together", function()
      local text = [[
        local calls = 0
        local f = store:once("work", function(i) calls = calls + 1 return i end)
        local list = {}
        for i = 1, 300 do list[i] = i end
        for v in rn.pmap(10, f, list) do assert(v) end
        print(calls)
      ]]
      local pipes, sum = {}, 0
      for i = 1, 3 do pipes[i] = start("p" .. i, text) end
      for i = 1, 3 do
        sum = sum + (assert(pipes[i]:read "n"))
        pipes[i]:close()
      end
      assert.equal(300, sum)
    end)

    it("wait for each other, and take over at once the call of a killed one", function()
      local pipe = start("killed", [[
        store:once("work", function()
          io.stdout:write("begun ", io.open("/proc/self/stat"):read "n", "\n")
          io.stdout:flush()
          rn.sleep(1e6)
        end) "a"
      ]])
      local pid = pipe:read("l"):match "%d+"
      local ending <close> = setmetatable({}, { __close = function() -- luacheck: ignore 211
        os.execute(("kill -9 %s 2>/dev/null"):format(pid))
        pipe:close()
      end })
      local get = counted("work", function() return "mine" end)
      local block = go(get, "a")
      rn.sleep(20)
      assert.equal(0, calls)
      os.execute("kill -9 " .. pid)
      assert.equal("mine", block:take())
    end)

    it("lose nothing and do nothing twice, when they are killed at any moment #ci", function()
      -- Each job writes a line to a file of its own process before its result is kept: so every result has a line, and
      -- more lines than one only if the process was killed between the two.
      dir:write("job.lua", [[
        local rn = require "runnel"
        local store = require("runnel.store").open "work.db"
        store.db:exec "create table if not exists effects(id primary key, n)"
        local f = store:once("work", function(i, tx)
          tx:exec("insert into effects values (?, 1)", i)
          return { i }
        end, { tx = true })
        local g = store:once("plain", function(i) return i * 2 end)
        local list = {}
        for i = 1, 400 do list[i] = i end
        for v in rn.pmap(16, function(i) return f(i)[1] + g(i) end, list) do assert(v) end
        print "done"
      ]])
      local lua, limit = os.getenv "LUA" or "lua5.4", process.run
      local got = limit(dir.path, ([[
        n=0
        while [ $n -lt 12 ]; do
          n=$((n + 1))
          for i in 1 2; do %s job.lua >/dev/null 2>errors & pids="$pids $!"; done
          sleep 0.0$n
          kill -9 $pids 2>/dev/null
          wait 2>/dev/null
          pids=
        done
        cat errors
        %s job.lua
      ]]):format(lua, lua))
      assert.equal("done\n", got.out)
      restart()
      assert.same({ n = 400, s = 400 }, store.db:one "select count(*) as n, sum(n) as s from effects")
      assert.same({ n = 800 }, store.db:one "select count(*) as n from runnel_once")
      assert.same({ integrity_check = "ok" }, store.db:one "pragma integrity_check")
    end)
  end)

  it("cannot be closed or drained within a transaction of its own", function()
    local set = store:once("set", function(v, tx)
      raises("^close: this go block is in a transaction, so this would wait for itself", function() store:close() end)
      raises("^drain: this go block is in a transaction", function() store:drain() end)
      tx:exec("create table effects(v)")
      return v
    end, { tx = true })
    assert.equal(1, set(1))
    assert.equal(1, set(1))
    assert.is_true(store:drain())
  end)

  it("works in a simulation", function()
    require("runnel.sim").run(function()
      local mine <close> = stores.open ":memory:"
      local n = 0
      local get = mine:once("slow", function(v)
        n = n + 1
        rn.sleep(1000)
        return v
      end, { max_age = 10000 })
      local a, b = rn.go(get, 1), rn.go(get, 1)
      assert.same({ 1, 1, 1 }, { a:take(), b:take(), n })
      rn.sleep(20000)
      get(1)
      assert.equal(2, n)
    end)
  end)
end)
