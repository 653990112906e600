-- store:forget beside calls: what it has forgotten is called again, and stays nowhere.

local process = require "spec.support.process"
local raises = require "spec.support.raises"
local rn = require "runnel"
local sim = require "runnel.sim"

describe("store:forget", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"
  local dir, store

  before_each(function()
    dir = process.directory()
    store = stores.open(dir.path .. "/work.db", { synchronous = "off" })
  end)
  after_each(function()
    store:close()
    dir:remove()
  end)

  for what, has_key in pairs { ["with a key"] = true, ["without a key"] = false } do
    for how, opts in pairs { [""] = {}, [", which has a time limit,"] = { timeout = 60000 },
      [", which has a transaction,"] = { tx = true } } do
      it(what .. " beside a call" .. how .. " leaves no forgotten result in memory", function()
        local calls, forgotten = 0, 0
        local f = store:once("f", function() calls = calls + 1 return calls end, opts)
        for i = 1, 150 do
          store:forget "f"
          local n
          local call = rn.go(function() return f(i) end)
          local forget = rn.go(function()
            for _ = 1, i % 6 do rn.yield() end
            if i % 5 > 0 then rn.sleep(i % 5 / 3) end
            if has_key then n = store:forget("f", i) else n = store:forget "f" end
            -- It is forgotten: whoever calls now gets a new result, also while the first call is still returning.
            local before = calls
            local got = f(i)
            if n > 0 then
              forgotten = forgotten + 1
              assert(got > before, "a forgotten result")
            end
          end)
          local first, err = call:take()
          assert(first, err)
          assert.is_nil((select(2, forget:take())))
          local kept = store.db:one("select value from runnel_once where key = ?", i)
          assert.equal(tonumber(kept and kept.value), f(i))
        end
        assert.is_true(forgotten > 0)
      end)
    end
  end

  it("lets a call that waits for a forgotten one call again", function()
    local started, gate, calls = rn.chan(), rn.chan(), 0
    local f = store:once("f", function()
      calls = calls + 1
      started:put(true)
      gate:take()
      return calls
    end)
    local first = rn.go(f, 1)
    started:take()
    local second = rn.go(f, 1)
    rn.yield()
    assert.equal(0, store:forget("f", 1)) -- nothing yet
    gate:put(true)
    assert.equal(1, first:take())
    assert.equal(1, second:take()) -- which finds it in the file
    assert.equal(1, store:forget("f", 1))
    local third = rn.go(f, 1)
    started:take()
    gate:put(true)
    assert.equal(2, third:take())
  end)

  it("refuses the name of runs, whose steps would be done again, and the id of one", function()
    sim.run(function()
      local own <close> = stores.open ":memory:"
      local paid = 0
      local pay = own:once("pay", function() paid = paid + 1 end)
      local runs = own:runs("order", function(run)
        pay(run.key)
        run:sleep(1000)
        return "sent"
      end)
      local function refused(...)
        raises('^forget: "order" is the name of runs: forget each one that has ended, store:runs%("order"%):get%(id%)',
          function(...) own:forget(...) end, ...)
      end
      refused "order" -- it is no function's, although there are no runs yet
      local r = assert(runs:start "a")
      rn.sleep(100)
      refused "order"
      refused("order", "a")
      assert.equal(0, own:forget("order", "b"))
      runs:stop()
      refused "order"
      assert.same({ 1, 0 }, { paid, own:forget "pay" })
      own:runs("order", function(run)
        pay(run.key)
        run:sleep(1000)
        return "sent"
      end)
      assert.equal("sent", r:result())
      assert.equal(1, paid)
      assert.is_true(r:forget())
      refused "order"
    end)
  end)
end)

describe("results of a store with a max_age", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"

  local function in_store(f)
    sim.run(function()
      local store <close> = stores.open ":memory:"
      f(store, function(condition)
        return store.db:one("select count(*) as n from runnel_once where " .. (condition or "true")).n
      end)
    end)
  end

  it("go from the file when they have expired and new ones come, also those of other functions", function()
    in_store(function(store, count)
      local function value(v) return v end
      local kept = store:once("kept", value)
      local long = store:once("long", value, { max_age = 10000 })
      local short = store:once("short", value, { max_age = 10 })
      local of_parts = store:once("of parts", function(v) return kept(v) end, { max_age = 10 })
      for i = 1, 20 do
        kept(i)
        long(i)
        short(i)
        of_parts(i)
      end
      rn.sleep(20)
      for i = 21, 24 do long(i) end
      assert.equal(44, count()) -- those of "kept", and of "long"
      assert.equal(0, count "name = 'short'")
      assert.equal(21, short(21))
    end)
  end)

  it("go with their steps, also if they are errors", function()
    in_store(function(store, count)
      local calls, fails = 0, true
      local step = store:once("step", function()
        calls = calls + 1
        return calls
      end)
      local get = store:once("get", function()
        local n = step()
        if fails then error("no " .. n, 0) end
        return n
      end, { errors = true, max_age = 10 })
      for _ = 1, 2 do
        local ok, err = pcall(get, "a")
        assert.same({ false, "no 1" }, { ok, err })
      end
      assert.equal(1, count())
      rn.sleep(20)
      fails = false
      assert.equal(2, get "b")
      assert.equal(1, count())
      assert.equal(3, get "a")
    end)
  end)

  it("stay, as errors, while the file has steps of an older version, with which a call would go on", function()
    in_store(function(store, count)
      local calls = 0
      local step = store:once("step", function()
        calls = calls + 1
        return calls
      end)
      local get = store:once("get", function() return step() end, { max_age = 10 })
      store.db:exec [[
        insert into runnel_once values ('', 'get', 'a', null, 1, 'json', '"no"', -2, -1),
          ('get["a"]', 'step', '', 1, 0, 'json', '"old"', -2, null)]]
      assert.equal(1, get "b")
      assert.equal(3, count())
      assert.equal(2, get "a")
    end)
  end)
end)
