-- Streams, stages, dead letters and buckets of a store where the file, the disk or the values are not as usual: each
-- has its message, and nothing is lost. store:once: spec/store/adversity_spec.lua.

local adversity = require "spec.support.queue.adversity"
local background = require "spec.support.background"
local long = require "spec.support.long"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local rn = require "runnel"
local waits = require "runnel.queue.patience"

local wait_for = patience.wait_for

describe("a stream of a store", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local sqlite = require "runnel.sqlite"
  local stores = require "runnel.store"
  local dir, store, reports, handler

  local function open(opts)
    if store then store:close() end
    store = stores.open(dir.path .. "/work.db", opts)
    return store
  end

  before_each(function()
    dir, reports = process.directory(), {}
    handler = rn.on_error(function(err, _, where) reports[#reports + 1] = where .. ": " .. tostring(err) end)
    open()
  end)
  after_each(function()
    rn.on_error(handler)
    store:close()
    store = nil
    dir:remove()
  end)

  -- Makes a stream. Returns its sink, and a function that counts its messages.
  local function stream(name)
    assert(store:stream(name))
    return assert(store:sink(name)), function() return assert(assert(store:stream(name)):stats()).messages end
  end

  local function has_reported(pattern)
    for _, text in ipairs(reports) do
      if text:find(pattern) then return true end
    end
    return false
  end

  it("does not lose a try of a stage while another program holds the file: at the start of a transaction", function()
    waits.scale(0.02)
    finally(function() waits.scale(1) end)
    open { busy_timeout = 1 }
    local sink, count = stream "words"
    local holder <close> = sqlite.open(dir.path .. "/work.db")
    local db, begins, is_held, calls = store.db, rn.chan(1), rn.chan(), 0
    function db:transaction(...) -- the call begins when the file is held
      begins:offer(true)
      is_held:take()
      self.transaction = nil
      return self:transaction(...)
    end
    local stage = assert(store:stage("words", 1, function() calls = calls + 1 end, nil,
      { name = "s", tx = true, tries = 1 }))
    assert(sink:put "one")
    begins:take()
    holder:transaction(function(tx)
      tx:exec "create table other(a)"
      is_held:close()
      wait_for(function() return has_reported "another connection has held a lock" end)
    end)
    wait_for(function() return stage:stats().done == 1 end)
    assert.same({ 1, 0, 0, 1 }, { calls, stage:stats().failed, store:dead("s"):count(), count() })
    assert.is_true(has_reported "a message was handed back: .*another connection has held a lock")
    stage:stop()
  end)

  it("does not lose a try of a stage while another program holds the file: in a step with a transaction", function()
    waits.scale(0.02)
    finally(function() waits.scale(1) end)
    open { busy_timeout = 1 }
    local sink = stream "words"
    local holder <close> = sqlite.open(dir.path .. "/work.db")
    local begins, is_held, calls = rn.chan(1), rn.chan(), 0
    local step = store:once("step", function() calls = calls + 1 end, { tx = true })
    local stage = assert(store:stage("words", 1, function()
      begins:offer(true)
      is_held:take()
      step(1)
    end, nil, { name = "s", tries = 1 }))
    assert(sink:put "one")
    begins:take()
    holder:transaction(function(tx)
      tx:exec "create table other(a)"
      is_held:close()
      wait_for(function() return has_reported "another connection has held a lock" end)
    end)
    wait_for(function() return stage:stats().done == 1 end)
    assert.same({ 1, 0, 0 }, { calls, stage:stats().failed, store:dead("s"):count() })
    stage:stop()
  end)

  for what, f_of in pairs {
    ["a job"] = function(f) return f end,
    ["a job with a channel"] = function(f) return function(value, out)
      f(value)
      out:close()
    end end,
  } do
    it("does not fail " .. what .. " whose step meets a lock of another program", function()
      waits.scale(0.02)
      finally(function() waits.scale(1) end)
      open { busy_timeout = 1 }
      local holder <close> = sqlite.open(dir.path .. "/work.db")
      local begins, is_held, calls = rn.chan(1), rn.chan(), 0
      local step = store:once("step", function() calls = calls + 1 end, { tx = true })
      local worker <close> = store:serve("work", 1, f_of(function() -- luacheck: ignore 211
        begins:offer(true)
        is_held:take()
        step(1)
      end))
      local remote <close> = store:remote("work", { tries = 1 })
      local done = rn.go(function()
        if what == "a job" then return { pcall(remote, 1) } end
        local out = rn.chan()
        remote(1, out)
        return { select(2, out:take()) == nil }
      end)
      begins:take()
      holder:transaction(function(tx)
        tx:exec "create table other(a)"
        is_held:close()
        wait_for(function() return has_reported "a job was handed back: .*another connection has held a lock" end)
      end)
      assert.same({ true }, done:take())
      assert.equal(1, calls)
    end)
  end

  for _, how in ipairs { "raises", "returns" } do
    it("does not lose a try of a stage that " .. how .. " that the disk has no room", function()
      waits.scale(0.02)
      finally(function() waits.scale(1) end)
      local sink = stream "words"
      store.db:exec "create table effects(text)"
      store.db:exec(("pragma max_page_count = %d"):format(store.db:one("pragma page_count").page_count + 10))
      local stage = assert(store:stage("words", 1, function(text, _, tx)
        local to = tx or store.db
        local ok, err = pcall(to.exec, to, "insert into effects values (?)", text:rep(200000))
        if not ok and how == "returns" then return nil, err end
        assert(ok, err)
      end, nil, { name = "s", tx = how == "raises", tries = 1 }))
      assert(sink:put "x")
      wait_for(function() return has_reported "database or disk is full" end)
      store.db:exec "pragma max_page_count = 100000"
      wait_for(function() return stage:stats().done == 1 end)
      assert.same({ 0, 0 }, { stage:stats().failed, store:dead("s"):count() })
      assert.equal(1, store.db:one("select count(*) as n from effects").n)
      stage:stop()
    end)
  end

  it("that is full refuses messages, and its stage waits with results and dead letters until there is room", function()
    waits.scale(0.02)
    finally(function() waits.scale(1) end)
    local sink, count = stream "words"
    local _, results = stream "out"
    local pages = store.db:one("pragma page_count").page_count
    store.db:exec(("pragma max_page_count = %d"):format(pages + 20))
    local n = 0
    local ok, err
    repeat
      ok, err = sink:put(("%d "):format(n + 1):rep(1000))
      if ok then n = n + 1 end
    until not ok
    assert.matches("work.db: database or disk is full", err)
    assert.is_true(n > 3)
    assert.equal(n, count())
    local bucket, why = store:kv "bucket"
    if bucket then ok, why = bucket:put("key", ("x"):rep(100000)) end
    assert.is_falsy(bucket and ok)
    assert.matches("full", why)
    local calls = {}
    local stage = assert(store:stage("words", 2, function(v)
      local i = tonumber(v:match "%d+")
      calls[i] = (calls[i] or 0) + 1
      if i == 1 then error(v, 0) end
      return v
    end, "out", { tries = 1 }))
    wait_for(function() return has_reported "for now: .*database or disk is full" end)
    assert.is_true(stage:stats().done < n)
    store.db:exec "pragma max_page_count = 100000"
    wait_for(function() return stage:stats().done + stage:stats().given_up == n end)
    assert.same({ n - 1, 1, n }, { results(), store:dead("out"):count(), count() })
    for i = 2, n do assert.equal(1, calls[i]) end
    stage:drain()
  end)

  it("keeps what was acknowledged when the disk is full, and takes more when there is room", function()
    store:close()
    local n, err = adversity.fill(dir, 600, [[
      local store = require("runnel.store").open("work.db", { synchronous = "off" })
      assert(store:stream "words")
      local sink = assert(store:sink "words")
      local function step() assert(sink:put(("x"):rep(10000))) end
    ]])
    assert.matches("work.db: di?sk? I/O error", err)
    open()
    assert.equal("ok", store.db:one("pragma integrity_check").integrity_check)
    local sink, count = stream "words"
    assert.equal(n, count())
    assert.same({ true, n + 1, false }, { sink:put "one more" })
  end)

  it("that is damaged says so, and does not lose what can still be read", function()
    open { synchronous = "off" }
    local sink, count = stream "words"
    for i = 1, 100 do assert(sink:put(("x"):rep(3000) .. i)) end
    store:close()
    adversity.overwrite(dir, 10) -- some pages of messages, and some that say where messages are
    open()
    local words, good, bad = assert(store:source("words", { buffer = 1 })), 0, 0
    for m in words do
      local ok, value = pcall(function() return m.value end)
      if ok then
        assert.equal(("x"):rep(3000) .. m.sequence, value)
        good = good + 1
      else
        assert.matches("a value of the store is damaged: .*; remove it", value)
        bad = bad + 1
      end
    end
    assert.matches("source: .*work.db: database disk image is malformed", (select(2, words:take())))
    assert.is_true(good > 30 and good < 100, good)
    local done = 0
    local stage = assert(store:stage("words", 1, function(v, m)
      assert(v == ("x"):rep(3000) .. m.sequence)
      done = done + 1
    end, nil, { name = "n", tries = 1 }))
    wait_for(function() return has_reported "stage n: no messages for now: .*database disk image is malformed" end)
    assert.is_true(done > 30, done)
    -- Whoever claims a message looks for the one behind it, which may be on a damaged page.
    assert.is_true(stage:stats().given_up >= bad - 1)
    assert.equal(100, count())
  end)

  it("gives up a message whose value is damaged, and keeps it as a dead letter", function()
    local sink = stream "words"
    for i = 1, 3 do assert(sink:put { i }) end
    local bucket = assert(store:kv "bucket")
    assert(bucket:put("key", { 1 }))
    store.db:exec "update runnel_message set value = '[2' where seq = 2"
    store.db:exec "update runnel_value set value = '[2'"
    local sum = 0
    local stage = assert(store:stage("words", 1, function(v) sum = sum + v[1] end, nil, { name = "n", tries = 1 }))
    wait_for(function() return stage:stats().done == 2 and stage:stats().given_up == 1 end)
    assert.equal(4, sum)
    local letter = assert(store:dead("n"):list())[1]
    assert.matches("a value of the store is damaged: .*; remove it", letter.error)
    assert.same({ v = "[2" }, store.db:one "select value as v from runnel_dead")
    local value, revision, err = bucket:get "key"
    assert.same({}, { value, revision })
    assert.matches('the value of "key": a value of the store is damaged: .*; remove it', err)
    assert.is_true(bucket:put("key", 3) > 1)
    assert.equal(3, bucket:get "key")
  end)

  it("carries many messages, with flat memory; and a bucket has many keys", function()
    open { synchronous = "off" }
    local n = long.times(2000, 120000)
    local sink = stream "words"
    local _, results = stream "out"
    local numbers = rn.chan()
    rn.go(function()
      for i = 1, n do numbers:put(i) end
      numbers:close()
    end)
    collectgarbage()
    local before = collectgarbage "count"
    local filling, sum = sink:from(numbers, 128), 0
    local stage = assert(store:stage("words", 128, function(v)
      sum = sum + v
      return v
    end, "out"))
    assert.equal(n, filling:take())
    wait_for(function() return stage:stats().done == n end)
    assert.same({ n, n * (n + 1) // 2 }, { results(), sum })
    stage:drain()
    collectgarbage()
    assert.is_true(collectgarbage "count" - before < 10000) -- KB
    local bucket, list = assert(store:kv "bucket"), {}
    for i = 1, n // 4 do list[i] = i end
    for _ in rn.pmap_unordered(128, function(i) return assert(bucket:put("key." .. i, i)) end, list) do end
    assert.equal(n // 4, #assert(bucket:keys()))
    local i = math.random(n // 4)
    assert.equal(i, bucket:get("key." .. i))
  end)

  it("keeps values with zero bytes, and large ones, in messages, results, dead letters and buckets", function()
    open { synchronous = "off" }
    local text = ("a\0b\0\0"):rep(long.times(2, 100) * 200000)
    local sink = stream "words"
    stream "out"
    assert(sink:put(text))
    assert(sink:put { "bad", text })
    local stage = assert(store:stage("words", 1, function(v)
      if v[1] == "bad" then error("a\0b", 0) end
      return { v, "\0" }
    end, "out", { tries = 1 }))
    wait_for(function() return stage:stats().done == 1 and stage:stats().given_up == 1 end)
    stage:drain()
    local bucket = assert(store:kv "bucket")
    assert(bucket:put("key", text))
    open()
    local out = assert(store:source "out")
    local value = out:take().value
    out:close()
    assert.is_true(value[1] == text and value[2] == "\0")
    local letter = assert(store:dead("out"):get(1))
    assert.is_true(letter.value[2] == text)
    assert.equal("a\0b", letter.error)
    assert.is_true(assert(store:kv "bucket"):get "key" == text)
  end)

  it("refuses values with cycles; a stage with such a result gives its message up", function()
    local cycle = { {} }
    cycle[1].back = cycle
    local sink, count = stream "words"
    local _, results = stream "out"
    raises("put: value%[1%].back: a table that contains itself cannot be kept", function() sink:put(cycle) end)
    raises("put: value%[1%].back: a table that contains itself cannot be kept", function()
      assert(store:kv "bucket"):put("key", cycle)
    end)
    local worker = store:serve("cyclic", 1, function(v) return v == 1 and cycle or v end)
    local remote = store:remote("cyclic", { traceback = false })
    raises("remote cyclic: value%[1%].back: a table that contains itself cannot be kept", function() remote(cycle) end)
    assert.matches("^serve cyclic: result%[1%].back: a table that contains itself cannot be kept",
      (select(2, pcall(remote, 1))))
    assert.equal(2, remote(2))
    remote:close()
    worker:drain()
    for i = 1, 2 do assert(sink:put(i)) end
    local stage = assert(store:stage("words", 1, function(v) return v == 1 and cycle or v end, "out", { tries = 1 }))
    wait_for(function() return stage:stats().done == 1 and stage:stats().given_up == 1 end)
    assert.same({ 2, 1 }, { count(), results() })
    local letter = assert(store:dead("out"):get(1))
    assert.equal(1, letter.value)
    assert.matches("result%[1%].back: a table that contains itself cannot be kept", letter.error)
    stage:drain()
  end)

  it("whose dead letters cannot be stored for a while loses none; the caller of a job gets its error then", function()
    waits.scale(0.02)
    finally(function() waits.scale(1) end)
    local sink, count = stream "words"
    local tries, calls = 0, 0
    local worker = store:serve("flaky", 1, function()
      tries = tries + 1
      error("no", 0)
    end, { timeout = 60000 })
    store.db:exec "create trigger full before insert on runnel_dead begin select raise(abort, 'no room'); end"
    local remote = store:remote("flaky", { tries = 2, backoff = 1, traceback = false })
    local job = rn.go(pcall, remote, "a")
    assert(sink:put "b")
    local stage = assert(store:stage("words", 1, function()
      calls = calls + 1
      error("no", 0)
    end, nil, { name = "n", tries = 1 }))
    wait_for(function()
      return has_reported "serve flaky: a dead letter cannot be stored for now: .*no room"
        and has_reported "stage n: a dead letter cannot be stored for now: .*no room"
    end)
    assert.is_nil((job:poll()))
    for _, call in pairs(worker.held) do assert.is_nil(call.message.limit) end -- this is no part of the call
    assert.same({ 0, 0 }, { worker:stats().given_up, stage:stats().given_up })
    store.db:exec "drop trigger full"
    assert.is_false(job:take())
    wait_for(function() return stage:stats().given_up == 1 end)
    assert.same({ 2, 1, 1, 1, 1 }, { tries, calls, store:dead("flaky"):count(), store:dead("n"):count(), count() })
    remote:close()
    worker:drain()
    stage:drain()
  end)

  it("is not opened on a network file system", function()
    -- A library that is loaded before those of the system says that every file is on NFS.
    local has_cc = background.has_command "cc" and process.run(dir.path, "uname").out == "Linux\n"
    if not has_cc or os.getenv "LD_PRELOAD" then return pending "a library cannot be put before the system's" end
    dir:write("nfs.c", [[
      #include <string.h>
      #include <sys/vfs.h>
      int fstatfs(int fd, struct statfs *info) {
        memset(info, 0, sizeof *info);
        info->f_type = 0x6969;
        return fd < 0;
      }
    ]])
    store:close()
    local made = process.run(dir.path, "cc -shared -fPIC -o nfs.so nfs.c")
    assert.equal(0, made.status, made.err)
    local got = adversity.run(dir, [[require("runnel.store").open "work.db"]],
      [[ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0" LD_PRELOAD=./nfs.so]])
    assert.same({ "", 1 }, { got.out, got.status })
    assert.matches("program.lua:1: open: %S+/work.db%-locks: it is on a network file system, .*: use a disk of this ",
      got.err)
  end)
end)
