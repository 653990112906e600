-- The option `key` of stages and runs: order per key. Killed processes are in spec/store/runs_kills_spec.lua.

local long = require "spec.support.long"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"
local work_store = require "spec.support.work_store"

describe("order per key in a store", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local store, reported

  local work = work_store.new(function(of, _, list) store, reported = of, list end)
  before_each(work.open)
  after_each(work.close)
  before_each(function() assert(store:stream "orders") end)

  local function customer(order) return order.customer end

  local function count(sql) return store.db:one("select count(*) as n from " .. sql).n end

  local function is_done()
    local queue = store:queues()[1]
    return queue.waiting + queue.running == 0 and count "runnel_delivery" == 0
  end

  -- Puts the orders from one number to another of random customers, some with a delay or a priority.
  local function fill(first, last, customers)
    local sink = assert(store:sink "orders")
    for i = first, last do
      assert(sink:put({ customer = math.random(customers), number = i }, {
        delay = math.random(10) == 1 and math.random(30) or nil, priority = math.random(0, 3),
      }))
    end
  end

  -- A function for a stage or runs, which fails if two orders of a customer are in work at a time, or if one begins
  -- before the last one has ended. Some fail at first, some are cut off.
  local function checking(problems)
    local busy, last, failed = {}, {}, {}
    return function(order)
      local key, number = order.customer, order.number
      if busy[key] then problems[#problems + 1] = ("%d and %d at a time"):format(busy[key], number) end
      if number <= (last[key] or 0) then problems[#problems + 1] = ("%d after %d"):format(number, last[key]) end
      busy[key] = number
      local done <close> = setmetatable({}, { __close = function() busy[key] = nil end }) -- luacheck: ignore 211
      rn.sleep(math.random(0, 3))
      if math.random(4) == 1 and (failed[number] or 0) < 3 then
        failed[number] = (failed[number] or 0) + 1
        error("not yet", 0)
      end
      last[key] = number
    end
  end

  it("holds in a stage of several stores, whatever fails, waits for its time, has a priority, or ends #ci", function()
    for seed = 1, long.times(3, 40) do
      math.randomseed(seed)
      local problems, name, others = {}, "stage" .. seed, {}
      local f = checking(problems)
      local function start(i)
        others[i] = work.another()
        assert(others[i]:stage("orders", 4, f, nil, {
          name = name, key = customer, backoff = 5, tries = 10,
        }))
      end
      assert(store:stream("orders"):purge())
      for i = 1, 2 do start(i) end
      for round = 1, 3 do
        fill(20 * round - 19, 20 * round, 5)
        local i = math.random(2)
        rn.sleep(math.random(20))
        others[i]:drain()
        start(i)
      end
      patience.wait_for(is_done)
      for i = 1, 2 do others[i]:close() end
      assert(store:queue("orders/" .. name):delete())
      assert.same({}, problems)
      assert.same({}, reported)
    end
  end)

  it("does not let a key with many messages stop another one, and finds the next message by indexes", function()
    local sink = assert(store:sink "orders")
    local n = long.times(500, 20000)
    assert(sink:from(rn.to_chan((function()
      local list = {}
      for i = 1, n do list[i] = { customer = "large", number = i } end
      return list
    end)()), 64):take())
    assert(sink:put { customer = "small" })
    local first, small, going = rn.chan(), rn.chan(1), rn.chan()
    assert(store:stage("orders", 8, function(order)
      if order.customer == "small" then return small:put(true) end
      first:offer(order.number)
      going:take()
    end, nil, { name = "stage", key = customer }))
    assert.is_true(small:take())
    assert.equal(n, count "runnel_delivery")
    assert.equal(1, count "runnel_delivery where due < 9223372036854775807 or holder is not null")
    for _, sql in ipairs {
      "select min(seq) from runnel_delivery where stream = 'a' and consumer = 'b' and key = 'c'",
      "select 1 from runnel_delivery where stream = 'a' and consumer = 'b' and key = 'c'",
    } do
      assert.matches("USING COVERING INDEX runnel_delivery_key %(stream=%? AND consumer=%? AND key=%?%)",
        store.db:one("explain query plan " .. sql).detail)
    end
  end)

  it("goes on with the next message of a key if the first is removed from the stream", function()
    local sink, seen, going = assert(store:sink "orders"), {}, rn.chan()
    for i = 1, 4 do assert(sink:put { customer = 1, number = i }) end
    assert(store:stage("orders", 8, function(order)
      seen[#seen + 1] = order.number
      going:take()
    end, nil, { name = "stage", key = customer }))
    patience.wait_for(function() return #seen == 1 and count "runnel_delivery" == 4 end)
    store.db:exec "delete from runnel_message where seq in (2, 3)"
    going:put(true)
    going:put(true)
    assert.same({ 1, 4 }, seen)
  end)

  it("starts the next call when one that was cancelled has ended, with its variables", function()
    local other <close> = work.another()
    local busy, begun, problems, going = nil, 0, {}, rn.chan()
    local function f()
      if busy then problems[#problems + 1] = "two at a time" end
      busy, begun = true, begun + 1
      local closing <close> = setmetatable({}, { __close = function() -- luacheck: ignore 211
        if begun == 1 then going:take() end
        busy = nil
      end })
      if begun == 1 then rn.sleep(1e9) end
    end
    local sink = assert(store:sink "orders")
    for i = 1, 2 do assert(sink:put { customer = 1, number = i }) end
    local opts = { name = "stage", key = customer }
    local stage = assert(store:stage("orders", 2, f, nil, opts))
    patience.wait_for(function() return begun == 1 end)
    local second = assert(other:stage("orders", 2, f, nil, opts))
    stage:stop()
    assert(other:queues()) -- has waited for the other stage
    assert.equal(1, begun)
    going:put(true)
    patience.wait_for(function() return second:stats().done == 2 end)
    assert.same({}, problems)
  end)

  it("fails a message of which the function makes no key, and no other one", function()
    local sink, seen = assert(store:sink "orders"), {}
    for _, order in ipairs { { customer = 1 }, {}, { customer = { a = 1 } }, 17, { customer = { 1, "a" } } } do
      assert(sink:put(order))
    end
    store.db:exec [[insert into runnel_message(stream, seq, subject, form, value, bytes, made)
      select name, last + 1, 'orders', 'json', '{', 1, 0 from runnel_stream where name = 'orders']]
    assert(store:stage("orders", 8, function(order) seen[#seen + 1] = order.customer end, nil,
      { name = "stage", key = customer, tries = 2, backoff = 1 }))
    patience.wait_for(is_done)
    assert.same({ 1, { 1, "a" } }, seen)
    local errors = {}
    for i, letter in ipairs(store:dead "stage":list()) do errors[i] = letter.error end
    table.sort(errors)
    assert.equal(4, #errors)
    for _, pattern in ipairs {
      "is damaged", "attempt to index a number value", "key: a string, a number, or a list of these expected, got nil",
      "key: a string, a number, or a list of these expected, got a table that is no list",
    } do
      assert.matches(pattern, table.concat(errors, "\n"))
    end
  end)

  it("is a setting of the queue, and says what to do about another one", function()
    local function nothing() end
    local stage = assert(store:stage("orders", 1, nothing, nil, { name = "plain" }))
    stage:stop()
    local again, err = store:stage("orders", 1, nothing, nil, { name = "plain", key = customer })
    assert.is_nil(again)
    assert.equal('stage: the consumer "plain" of "orders" exists with other settings: it has not the option key; end '
      .. 'its programs, and delete it (store:queue("orders/plain"):delete())', err)
    assert(store:queue("orders/plain"):delete())
    assert(store:stage("orders", 1, nothing, nil, { name = "plain", key = customer })):stop()
    again, err = store:stage("orders", 1, nothing, nil, { name = "plain" })
    assert.is_nil(again)
    assert.matches("it has the option key; end its programs", err)
    for what, f in pairs {
      stage = function() assert(store:stage("orders", 1, nothing, nil, { name = "plain", key = 17 })) end,
      runs = function() assert(store:runs("order", nothing, { key = 17 })) end,
    } do
      local ok, problem = pcall(f)
      assert.is_false(ok)
      assert.matches("by_key_spec.lua:%d+: " .. what .. ": key: a function expected, got a number", tostring(problem))
    end
  end)

  it("works in a file that was made before there were runs", function()
    assert.equal(2, store.db:one("select version from runnel_schema").version)
    local seen = {}
    assert(store:stage("orders", 4, function(order) seen[#seen + 1] = order.number end, nil,
      { name = "stage", key = customer }))
    assert(store:sink "orders"):put { customer = 1, number = 1 }
    patience.wait_for(function() return #seen == 1 end)
    assert.equal(4, store.db:one("select version from runnel_schema").version)
  end)

  it("holds for runs, also while they sleep or wait, and no key stops another one", function()
    local problems, ended = {}, {}
    local f = checking(problems)
    local other <close> = work.another()
    local function start(of)
      local step = of:once("step", f, { key = function(order) return order.number end })
      return of:runs("order", function(run, order)
        run:sleep(2)
        step(order)
        if order.number == 1 then run:wait "go" end
        ended[#ended + 1] = order.number
      end, { n = 2, key = customer, backoff = 1, tries = 1000 })
    end
    local orders, all = start(store), {}
    start(other)
    for i = 1, 12 do all[i] = assert(orders:start(i, { customer = i % 4, number = i }, { priority = i % 3 })) end
    for i = 1, 12 do
      if i % 4 ~= 1 then assert.same({}, { all[i]:result() }) end
    end
    assert.equal("waiting", all[1]:state().state)
    assert.equal("ready", all[5]:state().state)
    assert(all[1]:signal "go")
    assert.same({}, { all[9]:result() })
    assert.same({}, problems)
    assert.equal(12, #ended)
  end)

  it("holds for runs with any ids: bytes that are no text, zero bytes, and all numbers", function()
    local problems, first, all = {}, rn.chan(), {}
    local f = checking(problems)
    local orders = store:runs("order", function(_, order)
      first:take()
      f(order)
    end, { key = customer, backoff = 1, tries = 1000 })
    local ids = { "\xff1", "\xff2", "a\0b", "a\0c", "\0", "17", 17, 1.5, 1e300, math.huge, -math.huge, 1 << 60 }
    for i, id in ipairs(ids) do all[i] = assert(orders:start(id, { customer = "alice", number = i })) end
    patience.wait_for(function() return all[1]:state().state == "running" and count "runnel_delivery" == #ids end)
    assert.equal(1, count "runnel_delivery where holder is not null")
    first:close()
    for _, r in ipairs(all) do assert.same({}, { r:result() }) end
    assert.same({}, problems)
  end)
end)

describe("runs of a store", function()
  if not pcall(require, "runnel.sqlite.core") then return end
  local stores = require "runnel.store"

  it("begin by their priority, and at most max_running of them are in memory in all processes", function()
    local dir <close> = process.directory()
    local path, seen, running, most, going = dir.path .. "/work.db", {}, 0, 0, rn.chan()
    local store <close> = stores.open(path)
    local other <close> = stores.open(path)
    local work = store:runs "work"
    local function continue(of)
      local step = of:once("step", function(i)
        running = running + 1
        most = math.max(most, running)
        seen[#seen + 1] = i
        going:take()
        running = running - 1
      end)
      return of:runs("work", function(_, i) step(i) end, { max_running = 2 })
    end
    continue(store)
    continue(other)
    local all = {}
    for i = 1, 2 do all[i] = assert(work:start(i, i)) end
    patience.wait_for(function() return running == 2 end)
    for i, priority in ipairs { 0, 1, 9, 5 } do
      all[i + 2] = assert(work:start(i + 2, i + 2, { priority = priority }))
    end
    for i = 1, 6 do
      going:put(true)
      patience.wait_for(function() return #seen == math.min(i + 2, 6) end) -- the next one has begun, in either process
    end
    for _, r in ipairs(all) do r:result() end
    assert.equal(2, most)
    assert.equal("5, 6, 4, 3", table.concat(seen, ", ", 3))
    for _, wrong in ipairs { -1, 10, 1.5, "high" } do
      local ok, err = pcall(work.start, work, 7, 7, { priority = wrong })
      assert.is_false(ok)
      assert.matches("start: priority: an integer from 0 to 9 expected", tostring(err))
    end
  end)

  it("that wait leave the places of max_running to others", function()
    local store <close> = stores.open ":memory:"
    local runs = store:runs("work", function(run, what)
      if what == "waits" then return run:wait "go" end
      return what
    end, { max_running = 1 })
    local first = assert(runs:start(1, "waits"))
    assert.equal("second", assert(runs:start(2, "second")):result())
    assert(first:signal("go", "first"))
    assert.equal("first", first:result())
  end)

  it("make a wait for the result of a later run of the key, or of the run itself, an error", function()
    rn.on_error(function() end) -- of runs that fail for good
    local silent <close> = setmetatable({}, { __close = function() rn.on_error(nil) end }) -- luacheck: ignore 211
    local store <close> = require("runnel.store").open ":memory:"
    local runs
    runs = store:runs("work", function(_, what)
      if what.waits then return assert(runs:start(what.waits, what.of):result()) end
      return "done"
    end, { key = function(what) return what.customer end, tries = 1 })
    local function result(id, argument)
      local _, err = assert(runs:start(id, argument)):result()
      return err
    end
    local first = { customer = "a", waits = 2, of = { customer = "a" } }
    assert.matches("result: run work%[2%] has the key of this one, work%[1%], and comes after it", result(1, first))
    assert.equal("done", runs:get(2):result())
    assert(runs:get(1):restart()) -- that run has ended now
    assert.equal("done", runs:get(1):result())
    assert(runs:get(1):restart())
    assert.equal("done", runs:get(1):result())
    assert.is_nil(result(3, { customer = "a", waits = 4, of = { customer = "b" } }))
    local itself = { customer = "a", waits = 5 }
    itself.of = { customer = "a", waits = 5 }
    assert.matches("another argument", result(5, itself))
    local alone
    alone = store:runs("alone", function() return assert(alone:get(1):result()) end, { tries = 1 })
    assert(alone:start(1))
    local _, err = alone:get(1):result()
    assert.matches("result: run alone%[1%] waits for its own result", err)
  end)

  describe("that wait for each other's results", function()
    local store, refs
    before_each(function()
      rn.on_error(function() end) -- of runs that fail for good
      store, refs = require("runnel.store").open ":memory:", {}
    end)
    after_each(function()
      store:close()
      rn.on_error(nil)
    end)

    -- The outcomes of the run 1 of each name, which does f(run, wait). There, wait(name, ms) waits for the result of
    -- the run 1 of that name.
    local function started(functions)
      local outcomes = {}
      for name in pairs(functions) do refs[name] = assert(store:runs(name):start(1)) end
      for name, f in pairs(functions) do
        store:runs(name, function(run)
          return f(run, function(other, ms) return assert(refs[other]:result { timeout = ms }) end)
        end, { tries = 1 })
      end
      for name, ref in pairs(refs) do
        outcomes[name] = table.pack(ref:result { timeout = 20000 * patience.factor() })
      end
      return outcomes
    end

    it("without an end fail where the cycle closes, with its names", function()
      local outcomes, closing = started {
        a = function(_, wait) return wait "b" end,
        b = function(_, wait) return wait "c" end,
        c = function(_, wait) return wait "a" end,
        late = function(_, wait) return wait "a" end,
      }, 0
      for name, outcome in pairs(outcomes) do
        assert.is_nil(outcome[1])
        local cycle = { a = "bc", b = "ca", c = "ab" }
        assert.matches("result: runs would wait for each other's results for ever: %l%[1%] waits for ", outcome[2])
        local first, second = (cycle[name] or ""):match "(.)(.)"
        local text = first and ("%s[1] waits for %s[1], which waits for %s[1], which waits for %s[1]"):format(name,
          first, second, name)
        if text and outcome[2]:find(text, 1, true) then closing = closing + 1 end
      end
      assert.is_true(closing >= 1, closing) -- two runs may close it at the same time
    end)

    it("with an end, or in another go block, do not fail for that", function()
      local outcomes = started {
        a = function(_, wait) return pcall(wait, "b", 50) and "no" or "late" end,
        b = function(_, wait) return wait "a" .. " b" end,
        c = function(run, wait)
          rn.go(function() wait "d" end)
          run:sleep(50)
          return "c"
        end,
        d = function(_, wait) return wait "c" .. " d" end,
      }
      for name, expected in pairs { a = "late", b = "late b", c = "c", d = "c d" } do
        assert.same({ name, expected, nil }, { name, outcomes[name][1], outcomes[name][2] })
      end
    end)

    it("do not fail for a wait that was cancelled", function()
      local outcomes = started {
        a = function(run, wait)
          local ok = pcall(wait, "b") -- cancelled
          run:sleep(1)
          return ok and "no" or wait "c"
        end,
        b = function(run, wait)
          run:wait "go"
          return wait "a" .. " b"
        end,
        c = function()
          patience.wait_for(function() return refs.b:state().state == "waiting" end)
          assert(refs.a:cancel "enough")
          assert(refs.b:signal "go")
          return "c"
        end,
      }
      assert.equal("c", outcomes.c[1])
      assert.not_matches("for ever", tostring(outcomes.b[2]))
    end)
  end)

  it("keep their priority when they are started again", function()
    local store <close> = require("runnel.store").open ":memory:"
    local seen = {}
    local runs = store:runs("work", function(_, what) seen[#seen + 1] = what end, { n = 1 })
    for i, priority in ipairs { 0, 9, 5 } do assert(runs:start(i, i, { priority = priority })):result() end
    assert(store:queue("work"):pause())
    for i = 1, 3 do assert(runs:get(i):restart()) end
    assert(store:queue("work"):resume())
    for i = 1, 3 do runs:get(i):result() end
    assert.equal("1, 2, 3, 2, 3, 1", table.concat(seen, ", "))
  end)

  it("and messages of a stage keep their priority when their dead letters are replayed", function()
    local store <close> = require("runnel.store").open ":memory:"
    local seen, is_mended = {}, false
    local function work(what)
      if not is_mended then error "not yet" end
      seen[#seen + 1] = what
    end
    local before = rn.on_error(function() end)
    local runs = store:runs("work", function(_, what) work(what) end, { n = 1, tries = 1 })
    assert(store:stream "jobs")
    local stage = assert(store:stage("jobs", 1, work, nil, { name = "n", tries = 1 }))
    local sink = assert(store:sink "jobs")
    for i, priority in ipairs { 0, 9, 5 } do
      assert(runs:start(i, i, { priority = priority })):result()
      assert(sink:put("m" .. i, { priority = priority, headers = { Kept = "yes" } }))
    end
    patience.wait_for(function() return stage:stats().given_up == 3 end)
    rn.on_error(before)
    is_mended = true
    for _, name in ipairs { "work", "n" } do
      local queue, dead = store:queue(name), store:dead(name)
      assert(queue:pause())
      for _ = 1, 3 do
        local letter = assert(dead:list())[1]
        assert.same(name == "n" and { Kept = "yes" } or {}, dead:get(letter.sequence).headers)
        assert(dead:replay(letter.sequence))
      end
      assert(queue:resume())
      patience.wait_for(function() return #seen % 3 == 0 and seen[1] and store:queue(name).waiting == 0 end)
    end
    assert.equal("2, 3, 1, m2, m3, m1", table.concat(seen, ", "))
  end)
end)
