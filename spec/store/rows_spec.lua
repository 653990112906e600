-- Rows that no program of ours would write: whatever another program writes into a table of a store is refused by the
-- table, or does not stop the others. A message that cannot be read becomes a dead letter after its tries.

local long = require "spec.support.long"
local patience = require "spec.support.patience"
local raises = require "spec.support.raises"
local rn = require "runnel"

local wait_for = patience.wait_for

describe("rows that another program has written to a store", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local sqlite = require "runnel.sqlite"
  local stores = require "runnel.store"
  local store, reports, handler

  before_each(function()
    store = stores.open ":memory:"
    reports = {}
    handler = rn.on_error(function(err, trace, where)
      reports[#reports + 1] = ("%s: %s\n%s"):format(where, tostring(err), trace or "")
    end)
  end)
  after_each(function()
    rn.on_error(handler)
    store:close()
  end)

  local INSERT <const> = "insert into runnel_message(stream, seq, subject, form, value, bytes, headers, made) "
    .. "select name, last + 1, 'in', ?, ?, 1, ?, unixepoch() * 1000 from runnel_stream where name = 'in'"

  -- A stage of `in`, whose results go to `out`. Returns it, and a function that says how many messages have ended.
  local function stage(f)
    assert(store:stream "in")
    assert(store:stream "out")
    f = f or function(v) return v end
    local self = assert(store:stage("in", 2, f, "out", { name = "n", tries = 2, backoff = 10 }))
    return self, function() return self:stats().done, self:stats().given_up end
  end

  local VALUES <const> = {
    ["a number as JSON"] = { "json", 1 }, ["a float as JSON"] = { "json", 0.5 }, ["NULL as JSON"] = { "json", nil },
    ["no JSON"] = { "json", "{" }, ["JSON with more behind it"] = { "json", "1 2" },
    ["nothing as JSON"] = { "json", "" },
    ["deep JSON"] = { "json", ("["):rep(200) }, ["bytes as JSON"] = { "json", sqlite.blob "\255\0" },
    ["a number as MessagePack"] = { "msgpack", 7 }, ["no MessagePack"] = { "msgpack", "\193" },
    ["MessagePack that is cut"] = { "msgpack", sqlite.blob "\221\255\255\255\255" },
    ["NULL as MessagePack"] = { "msgpack", nil }, ["an unknown form"] = { "xml", "<a/>" }, ["no form"] = { "", "1" },
    ["a number as the form"] = { 5, "1" }, ["bytes as the form"] = { sqlite.blob "\0\255", "1" },
    ["a number as a response"] = { "json http response", "5" },
    ["a list as a response"] = { "json http response", "[]" },
    ["NULL as a response"] = { "msgpack http response", nil }, ["a list as headers"] = { "json", "1", "[1]" },
    ["a number as headers"] = { "json", "1", "5" }, ["null as headers"] = { "json", "1", "null" },
    ["no JSON as headers"] = { "json", "1", "{" }, ["bytes as headers"] = { "json", "1", sqlite.blob "\255" },
    ["a text as headers"] = { "json", "1", '"Runnel-At"' },
  }

  for what, row in pairs(VALUES) do
    it("make a dead letter of a message with " .. what .. ", after its tries, and the others go on", function()
      local self, ended = stage()
      local sink = assert(store:sink "in")
      assert(sink:put "before")
      store.db:exec(INSERT, row[1], row[2], row[3])
      assert(sink:put "after")
      wait_for(function()
        local done, given_up = ended()
        return done == 2 and given_up == 1
      end)
      assert.equal(2, self:stats().failed)
      local letters = store:dead "n"
      local letter = assert(letters:list())[1]
      assert.matches("^[^\n]*damaged: ", letter.error)
      assert.is_nil(letter.error:find "attempt to")
      assert.same({ 2, 2 }, { letter.starts, letter.raises })
      letter = assert(letters:get(letter.sequence))
      if row[3] == nil then
        assert.is_nil(letter.value)
        assert.matches("damaged: ", letter.problem)
      end
      -- Put again, it is given up again.
      assert.is_true(letters:replay(letter.sequence))
      if row[3] == nil then wait_for(function() return select(2, ended()) == 2 end) end
      self:stop()
      -- A source delivers it, and reading its value is an error at the program's line.
      local source = assert(store:source("in", { name = "s" }))
      assert(source:take()):ack()
      local m = assert(source:take())
      raises("damaged: ", function() return m.value end)
      m:ack()
      assert.equal("after", source:take().value)
      source:close()
    end)
  end

  it("may be headers with anything in them", function()
    local seen = {}
    local _, ended = stage(function(_, m) seen[#seen + 1] = m.headers end)
    local headers = {
      '{"Runnel-At": "soon"}', '{"Runnel-At": {}}', '{"Runnel-At": -1}', '{"Runnel-At": null}', '{"traceparent": 5}',
      '{"Runnel-For": 5, "x": 1}', '{}', '{"": ""}', '{"a": [1]}', '{"Runnel-At": true}',
    }
    for _, text in ipairs(headers) do store.db:exec(INSERT, "json", "1", text) end
    wait_for(function() return (ended()) >= #headers - 1 end)
    assert.equal(0, (select(2, ended())))
    assert.same({}, reports)
  end)

  it("may be counts of starts with anything in them", function()
    local starts = { "5", "{", "null", "[]", '"x"', '{"starts": -1}', '{"starts": "a", "raises": {}}', "",
      '{"starts": 1e300, "raises": 0}', 7, 0.5, sqlite.blob "\255", '{"starts": 1, "raises": 5}' }
    assert(store:stream "in")
    local source = assert(store:source("in", { name = "n" }))
    local sink = assert(store:sink "in")
    for i = 1, #starts do
      assert(sink:put(i))
      assert(source:take().value == i)
    end
    source:close()
    for i, text in ipairs(starts) do
      store.db:exec("update runnel_delivery set holder = 'gone:1:x', deliveries = 2, starts = ? where seq = ?", text, i)
    end
    local _, ended = stage()
    wait_for(function() return ended() == #starts end)
  end)

  it("may be starts of a rate that lie far ahead", function()
    assert(store:stream "in")
    local rated = { name = "n", rate = { 2, 100 } }
    assert(store:stage("in", 1, print, nil, rated)):stop()
    store.db:exec "update runnel_rate set at = 9007199254740992"
    local self = assert(store:stage("in", 2, function() end, nil, rated))
    for i = 1, 3 do assert(assert(store:sink "in"):put(i)) end
    wait_for(function() return self:stats().done == 3 end)
  end)

  it("may be messages of a process that never was", function()
    assert(store:stream "in")
    assert(assert(store:sink "in"):put "a")
    local source = assert(store:source("in", { name = "n" }))
    source:take()
    source:close()
    store.db:exec "update runnel_delivery set holder = 'no process', claim = 5"
    local _, ended = stage()
    wait_for(function() return ended() == 1 end)
  end)

  it("may be outcomes of jobs: each other job has its result", function()
    local remote <close> = store:remote "double"
    local worker <close> = store:serve("double", 1, function(v) return 2 * v end) -- luacheck: ignore 211
    for _, row in ipairs {
      { 100, 1, 9, "result", "json", 5 }, { 100, 7, 1, "result", "json", "5" }, { 101, 1, 1, "error", "xml", "5" },
      { 102, 4, 1, "nothing", "nil" }, { 103, 2, 3, "other", "json", "1" }, { 4, 1, 5, "result", "json", "{" },
    } do
      store.db:exec("insert into runnel_result(submitter, number, place, count, kind, form, value) "
        .. "values (?, ?, ?, ?, ?, ?, ?)", remote.id, table.unpack(row, 1, 6))
    end
    for i = 1, 3 do assert.equal(2 * i, remote(i)) end
    assert.equal(0, store.db:one("select count(*) as n from runnel_result").n)
    store.db:exec("insert into runnel_result(submitter, number, place, count, kind, form, value) "
      .. "values (?, 4, 1, 1, 'result', 'json', '{')", remote.id)
    assert.matches("damaged: ", (select(2, pcall(remote, 4))))
    assert.equal(10, remote(5))
  end)

  -- ---- every column ----

  local GARBAGE <const> = {
    0, -1, 1, 2, 7, 1e300, -1e300, 0.5, math.maxinteger, math.mininteger, 1 << 53, "", "x", "5", "{", "[]", "null",
    "\255",
    sqlite.blob "", sqlite.blob "\0\255", "nil", "json", 1 / 0,
  }

  -- A store with something in each table.
  local function fill()
    assert(store:stream("in", { max_messages = 1000, max_bytes = 1 << 20, max_age = 100000, max_message = 10000 }))
    assert(store:stream "out")
    local sink = assert(store:sink "in")
    for i = 1, 3 do assert(sink:put(i, { id = "id" .. i, headers = { a = "b" } })) end
    local source = assert(store:source("in", { name = "n" }))
    source:take():nak(20)
    source:take()
    source:close()
    local once = store:once("f", function(v) return v end)
    once(1)
    local bucket = assert(store:kv "bucket")
    assert(bucket:put("key", 1))
    local db = store.db
    db:exec("insert into runnel_dead(name, kind, id, error, starts, raises, since, made, stream, subject, position, "
      .. "form, value, bytes) values ('n', 'message', 'x', 'e', 1, 1, 0, 0, 'in', 'in', 1, 'json', '1', 1)")
    db:exec "insert into runnel_worker(holder, id, stream, consumer, report) values ('h:1:x', 1, 'in', 'n', '{}')"
    db:exec "insert into runnel_rate(name, at) values ('n', 0)"
    local remote = store:remote "double"
    db:exec("insert into runnel_result(submitter, number, place, count, kind, form, value) select ?, 1, 1, 1, "
      .. "'result', 'json', '5'", remote.id)
    return remote, bucket, once
  end

  -- Everything that a program may ask of it. An error is a text in the library's words.
  local function use(remote, bucket, once)
    local function call(f, ...)
      local results = table.pack(pcall(f, ...))
      for i = 1, results.n do
        local text = results[i]
        if type(text) == "string" then
          assert(not text:find "attempt to" and not text:find "bad argument" and not text:find "table: 0x", text)
        end
      end
      return table.unpack(results, 1, results.n)
    end
    call(once, 1)
    call(once, 2)
    local _, sink = call(store.sink, store, "in")
    if sink then call(sink.put, sink, "good", { id = "id1" }) end
    if sink then call(sink.put, sink, "good") end
    local _, self = call(store.stage, store, "in", 2, function(v) return v end, "out",
      { name = "n", tries = 2, backoff = 10, rate = { 1000, 100 } })
    local _, source = call(store.source, store, "in", { name = "other", ack = "taken" })
    local _, plain = call(store.source, store, "in")
    call(bucket.get, bucket, "key")
    call(bucket.keys, bucket)
    call(bucket.put, bucket, "key", 2)
    local _, changes = call(bucket.watch, bucket)
    if changes then call(changes.poll, changes) end
    local letters = store:dead "n"
    call(letters.count, letters)
    local _, list = call(letters.list, letters)
    for _, letter in ipairs(list or {}) do
      call(letters.get, letters, letter.sequence)
      call(letters.replay, letters, letter.sequence)
    end
    call(store.queues, store, 20)
    local worker = select(2, call(store.serve, store, "double", 1, function(v) return 2 * v end))
    local job = rn.go(call, remote, 1)
    return self, function()
      rn.cancel(job)
      for _, ch in ipairs { source or job, plain or job, changes or job } do ch:close() end
      for _, one in ipairs { self or 0, type(worker) == "table" and worker or 0 } do
        if one ~= 0 then one:stop() end
      end
      remote:close()
    end
  end

  -- The columns of all tables.
  local function columns()
    local probe <close> = stores.open ":memory:"
    probe:stream "in"
    local list = {}
    local tables = "select name from sqlite_schema where type = 'table' and name like 'runnel_%' order by 1"
    for _, t in ipairs(probe.db:rows(tables)) do
      for _, column in ipairs(probe.db:rows(("pragma table_info(%s)"):format(t.name))) do
        list[#list + 1] = { t.name, column.name }
      end
    end
    return list
  end

  it("may have anything in any column: no operation spins or raises an error of the library's own #ci", function()
    local all = {}
    for _, column in ipairs(columns()) do
      for i = 1, #GARBAGE + 1 do all[#all + 1] = { column[1], column[2], GARBAGE[i] } end
    end
    for _ = 1, long.times(12, #all) do
      local case = table.remove(all, math.random(#all))
      local value = type(case[3]) == "table" and "a blob" or ("%q"):format(case[3])
      local what = ("%s.%s = %s"):format(case[1], case[2], value)
      store:close()
      store = stores.open ":memory:"
      local remote, bucket, once = fill()
      pcall(store.db.exec, store.db, ("update %s set %s = ?"):format(case[1], case[2]), case[3])
      local ok, self, stop = pcall(use, remote, bucket, once)
      assert(ok, what .. ": " .. tostring(self))
      -- Nothing is done again and again: after a while, nothing is written any more.
      local function changes() return store.db:one("select total_changes() as n").n end
      local before, same = -1, 0
      wait_for(function()
        local n = changes()
        same, before = n == before and same + 1 or 0, n
        rn.sleep(15)
        return same == 3 or store.is_closed
      end)
      for _, text in ipairs(reports) do
        assert(not text:find "attempt to" and not text:find "bad argument", what .. ": " .. text)
      end
      reports = {}
      stop()
    end
  end)
end)
