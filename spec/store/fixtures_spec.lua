-- Files that programs of released versions have left behind (spec/fixtures), when they were killed: this version reads
-- them, and goes on with what is in them. And what happens if programs of two versions use one file.

local background = require "spec.support.background"
local fixtures = require "spec.support.fixtures"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"
local work_store = require "spec.support.work_store"

local function sorted(list)
  table.sort(list)
  return list
end

for _, version in ipairs(fixtures()) do
  describe("a store of version " .. version, function()
    if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
    local stores = require "runnel.store"
    local new_program = dofile(("spec/fixtures/%s/program.lua"):format(version))
    local dir, store, done

    -- A copy of the file in this program.
    local function open(name)
      local file <close> = assert(io.open(("spec/fixtures/%s/%s.db"):format(version, name), "rb"))
      dir:write("work.db", file:read "a")
      store = stores.open(dir.path .. "/work.db", { synchronous = "off" })
    end

    local function tables() return store.db:one("select version from runnel_schema").version end

    before_each(function() dir, done = process.directory(), {} end)
    after_each(function()
      rn.on_error(nil)
      store:close()
      dir:remove()
    end)

    local function never() error "it has a result" end

    local function check_results()
      local get = store:once("values", never)
      local values = { yes = true, no = false, integer = 42, float = 2.5, text = "a b", binary = "\0\255",
        list = { 1, 2, { 3 } }, map = { a = { b = "c" } }, keys = { [1] = "one", [true] = "yes", [2.5] = "more" },
        empty = {} }
      for name, value in pairs(values) do assert.same(value, get(name), name) end
      assert.equal("integer", math.type(get "integer"))
      assert.is_nil(get "nothing")
      local response = get "response"
      assert.same({ 201, "made", "text/plain" }, { response.status, response.body, response.headers["content-type"] })
      local ok, err = pcall(store:once("fails", never, { errors = true }), 7)
      assert.is_false(ok)
      assert.equal(7, err.code)
      ok, err = pcall(store:once("slow", never, { errors = true }), 1)
      assert.is_false(ok)
      assert.is_true(rn.is_timeout(err))
      assert.equal("of a day", store:once("limited", never, { max_age = 1000 })())
    end

    it("has the results of once, and continues a call after its last step", function()
      open "results"
      check_results()
      local step = store:once("step", never)
      local whole = store:once("whole", function(n) return { step(n), step(n + 1), "now" } end)
      assert.same({ 10, 20, "now" }, whole(1))
      assert.equal(1, tables())
    end)

    it("has streams: what was not acknowledged comes again, to sources, to stages and from dead letters", function()
      open "streams"
      local source = assert(store:source("orders", { name = "printer", subject = "orders.1" }))
      local seen = {}
      for i = 1, 2 do
        local m = source:take()
        seen[i] = m.value.number
        assert.same({ "orders.1", "red" }, { m.subject, m.headers.Colour })
        m:ack()
      end
      assert.same({ 3, 5 }, seen)
      source:close()
      local values = rn.chan(10)
      assert(store:stage("work", 2, function(value) values:put(value) end, nil, { name = "worker" }))
      local jobs = {}
      for i = 1, 5 do jobs[i] = values:take() end
      assert.same({ "job 1", "job 2", "job 3", "job 4", "job 5" }, sorted(jobs))
      patience.wait_for(function() return store:stream("work"):stats().messages == 1 end) -- the one of a later time
      local letters = assert(store:dead "checker":list())
      assert.equal(5, #letters)
      assert.same(letters, store:queue("orders/checker"):dead():list())
      assert.same({}, store:dead("work/checker"):list())
      assert.matches("order 1 is wrong", letters[1].error)
      local checked = rn.chan(1)
      assert(store:stage("orders", 1, function(order) checked:put(order.number) end, nil, { name = "checker" }))
      assert(store:dead "checker":replay(letters[2].sequence))
      assert.equal(2, checked:take())
      assert.equal(2, tables())
    end)

    it("has buckets, with the earlier values of a key", function()
      open "streams"
      local bucket = assert(store:kv("settings", { history = 3 }))
      assert.same({ "colour 4", 4 }, { bucket:get "colour" })
      assert.is_nil((bucket:get "gone"))
      assert.same({ "colour" }, bucket:keys())
      local history, changes = {}, bucket:watch("colour", { from = "all" })
      for i = 1, 3 do history[i] = changes:take().value end
      assert.same({ "colour 2", "colour 3", "colour 4" }, history)
      changes:close()
      assert.equal(7, bucket:put("colour", "colour 5"))
    end)

    -- Continues the runs of the file to their ends.
    local function check_runs(opts, is_keyed)
      rn.on_error(function() end)
      local program = new_program(store, done, {}, function() end)
      program.runs(opts)
      local function result(id) return assert(program.orders:get(id)):result() end
      assert.same({ order = "done", receipt = "done/100" }, result "done")
      assert.same({ nil, "no mail for bob" }, { result "failed" })
      assert.same({ nil, "not wanted" }, { result "cancelled" })
      assert.same({ order = "packing", receipt = "packing/800" }, result "packing")
      assert.same({ order = "sleeping", receipt = "sleeping/300" }, result "sleeping")
      work_store.wait_for_state(program.orders:get "waiting", "waiting")
      assert(program.orders:get "waiting":signal "approved")
      assert.same({ order = "waiting", receipt = "waiting/200" }, result "waiting")
      assert(program.ships:get "parent-book":signal("arrived", "Bonn"))
      assert.same({ order = "parent", receipt = "parent/400" }, result "parent")
      if is_keyed then
        assert.same({ order = "second", receipt = "second/700" }, result "second")
      end
      local expected = { "pack packing", "mail hal packing is packed", "mail hal packing/800", "mail eve thanks",
        "mail eve sleeping/300", "mail dan waiting/200", "mail fay book in Bonn", "mail fay parent/400" }
      if is_keyed then
        expected[#expected + 1] = "charge second"
        expected[#expected + 1] = "mail dan second/700"
      end
      assert.same(sorted(expected), sorted(done)) -- and no step again that was done
      assert.equal("no mail for bob", store:dead "order":list()[1].error)
      assert(program.orders:get "failed":restart { from = "mail" })
      assert.same({ order = "failed", receipt = "failed/500" }, result "failed")
      assert.equal("mail bob failed/500", done[#done])
      local states = {}
      for _, state in ipairs(assert(store:schedules())) do states[state.name] = state end
      assert.same({ "0 3 * * *", "Europe/Berlin" }, { states.nightly.cron, states.nightly.zone })
      assert.equal(50 * 365 * 24 * 3600 * 1000, states.often.every)
    end

    it("has runs in every state, which go on, and schedules", function()
      open "runs"
      check_runs()
      assert.equal(3, tables())
    end)

    it("has runs in the order of their keys, which go on", function()
      open "keys"
      check_runs({ key = function(order) return order.to end }, true)
      assert.equal(4, tables())
    end)

    it("has the same tables as a new file, once it has got those that it lacks", function()
      local function all_tables(db)
        local list = {}
        local SQL <const> = "select name, sql from sqlite_schema where name like 'runnel%' and name <> 'runnel_clock'"
        for _, row in ipairs(db:rows(SQL)) do
          list[row.name] = (row.sql:gsub("%-%-[^\n]*", ""):gsub("%s+", " "))
        end
        return list
      end
      local schema = require "runnel.store.schema"
      local new <close> = stores.open ":memory:"
      assert(new:prepare(schema.KEYS))
      local wanted = all_tables(new.db)
      for _, name in ipairs { "results", "streams", "runs", "keys" } do
        open(name)
        assert(store:prepare(schema.KEYS))
        assert.same(wanted, all_tables(store.db), name)
        store:close()
      end
      store = stores.open ":memory:"
    end)

    it("gets the tables that it lacks, and keeps what it has", function()
      open "results"
      assert(store:stream "orders")
      assert.equal(2, tables())
      local runs = store:runs("order", function() return "new" end)
      assert.equal("new", assert(runs:start(1)):result())
      assert.equal(3, tables())
      check_results()
    end)

    it("gets the tables of keys while runs wait in it, and these go on", function()
      open "runs"
      assert(store:stream "customers")
      assert(store:stage("customers", 1, print, nil, { name = "by-customer", key = tostring }))
      assert.equal(4, tables())
      check_runs()
    end)
  end)
end

describe("a store that programs of two versions use", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local dir, store
  local work = work_store.new(function(...) store, dir = ... end)
  before_each(work.open)
  after_each(work.close)

  -- A program of a later version, whose tables have one version more: it gives a run a column more.
  local LATER <const> = [[
    local path = assert(package.searchpath("runnel.store.schema", package.path))
    local file <close> = assert(io.open(path))
    local text, n = file:read "a":gsub("{ ONCE, STREAMS, RUNS, KEYS }", [=[{ ONCE, STREAMS, RUNS, KEYS, "alter table "
      .. "runnel_run add column colour text default 'red'; create table runnel_later(name text)" }]=])
    assert(n == 1)
    text, n = text:gsub("schema.KEYS = 1, 2, 3, 4", "schema.KEYS = 1, 2, 3, 5")
    assert(n == 1)
    package.preload["runnel.store.schema"] = load(text, "@" .. path)
    local store = require("runnel.store").open(arg[1] .. "/work.db")
  ]]

  local function later(code)
    local set <close> = background.set()
    local program = set:start { os.getenv "LUA" or "lua5.4", set:write("later.lua", LATER .. code), dir.path }
    assert.equal(0, program:wait(), program:output())
    return program:output()
  end

  it("keeps its runs going in the older program, when a newer one has changed the tables", function()
    local step = store:once("step", function(n) return n + 1 end)
    local runs = store:runs("order", function(run, n)
      n = step(n)
      run:wait "go"
      return step(n)
    end)
    local waits = assert(runs:start("before", 1))
    work_store.wait_for_state(waits, "waiting")
    later 'store:runs("invoice", print, { key = tostring }):stop() store:close()'
    assert.equal(5, store.db:one("select version from runnel_schema").version)
    assert(waits:signal "go")
    assert.equal(3, waits:result())
    local after = assert(runs:start("after", 10))
    assert(after:signal "go")
    assert.equal(12, after:result())
    assert.equal("red", store.db:one("select colour from runnel_run where id = 'after'").colour)
  end)

  it("is refused when an older program opens it, or needs further tables, and stays as it is", function()
    local kept = store:once("work", function() return "kept" end)
    kept "a"
    later 'store:runs("invoice", print, { key = tostring }):stop() store:close()'
    local function why(f)
      local ok, err = pcall(f)
      assert.is_false(ok)
      return tostring(err)
    end
    local WRONG <const> = "its tables of runnel.store have version 5, and this release of runnel supports version 4: "
      .. "use a newer release"
    assert.matches("fixtures_spec.lua:%d+: runs: .*" .. WRONG, why(function() store:runs "order" end))
    assert.equal("kept", kept "a")
    assert.matches("open: .*" .. WRONG, why(function() return work.another() end))
    assert.equal("5 kept\n", later [[
      print(store.db:one("select version from runnel_schema").version, store:once("work", error) "a")
    ]]:gsub("\t", " "))
  end)

  it("can be continued by a newer program, with the runs that an older one has left", function()
    local runs = store:runs("order", function(run)
      run:wait "go"
      return "of the older one"
    end)
    work_store.wait_for_state(assert(runs:start "left"), "waiting")
    runs:stop()
    assert.equal("of the newer one\n", later [[
      store:runs("invoice", print, { key = tostring }):stop()
      local runs = store:runs("order", function(run)
        run:wait "go"
        return "of the newer one"
      end)
      local left = assert(runs:get "left")
      assert(left:signal "go")
      print(left:result())
      store:close()
    ]])
  end)
end)
