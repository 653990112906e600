-- What runs of a store wait for: several things at a time, other runs that they have started, the next try of a step.

local patience = require "spec.support.patience"
local rn = require "runnel"
local work_store = require "spec.support.work_store"

describe("a run of a store", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"
  local dir, store, reported

  local work = work_store.new(function(...) store, dir, reported = ... end)
  before_each(work.open)
  after_each(work.close)
  local restart, wait_for_state = work.restart, work_store.wait_for_state

  local function raises(pattern, f, ...)
    local ok, err = pcall(f, ...)
    assert.is_false(ok)
    assert.matches(pattern, tostring(err))
  end

  local function count(sql) return store.db:one("select count(*) as n from " .. sql).n end

  it("has its result awaited by many in another program with a few statements for all #ci", function()
    local other <close> = work.another()
    local runs = store:runs("order", function(run) return (run:wait "go") end)
    local theirs, statements = other:runs "order", 0
    for i = 1, 300 do assert(runs:start(i)) end
    local attempt = other.attempt
    other.attempt = function(...)
      statements = statements + 1
      return attempt(...)
    end
    local waits = rn.pmap(300, function(i) return theirs:get(i):result() end, rn.to_chan((function()
      local ids = {}
      for i = 1, 300 do ids[i] = i end
      return ids
    end)()))
    patience.wait_for(function()
      local n = 0
      for _, list in pairs(other.results and other.results.waiting or {}) do n = n + #list end
      return n == 300
    end)
    local before <const> = statements
    patience.wait_for(function() return statements > before end) -- those of the beginning are over
    local from <const>, since <const> = statements, rn.now()
    rn.sleep(1000)
    -- One each 100 ms, at first more often, and one more after others have written: not one for each of the 300.
    local n <const>, most <const> = statements - from, 20 + (rn.now() - since) / 50
    assert.is_true(n <= most, n .. " of " .. most)
    for i = 1, 300 do assert(runs:get(i):signal("go", i)) end
    local sum = 0
    for value in waits do sum = sum + value end
    assert.equal(300 * 301 // 2, sum)
    assert.same({}, other.results.waiting)
  end)

  -- ---- several things at a time ----

  describe("that waits for the first of several", function()
    -- Starts a run that waits, does a step that fails at first, and returns what it has waited for.
    local function program(wait, fails)
      local log = store:once("log", function(what)
        if fails then error("later", 0) end
        return what
      end)
      return store:runs("order", function(run)
        local value, which = wait(run)
        log "here"
        return { tostring(value), tostring(which) }
      end, { tries = 1000000, backoff = 5 })
    end

    it("gets the signal that came first, and the same one when it is continued", function()
      local function wait(run)
        local value, which = run:wait { "approved", "rejected" }
        if which == "rejected" then return value, which end
        return "not " .. tostring(value)
      end
      local r = assert(program(wait, true):start "17")
      assert.matches('wait[["approved","rejected"]]', wait_for_state(r, "waiting").step, 1, true)
      assert(r:signal("rejected", 5))
      assert(r:signal("approved", 6))
      wait_for_state(r, "retrying")
      restart()
      assert.same({ "5", "rejected" }, program(wait):get "17":result())
    end)

    it("gets a timeout error when none comes, also when it is continued", function()
      local function wait(run)
        local value, err = run:wait({ "approved", "rejected" }, { timeout = 20 })
        return value, rn.is_timeout(err) and tostring(err)
      end
      local r = assert(program(wait, true):start "17")
      wait_for_state(r, "retrying")
      assert(r:signal "approved")
      restart()
      assert.matches('nothing has come of wait[["approved","rejected"]] within 20 ms',
        program(wait):get "17":result()[2], 1, true)
    end)

    it("gets what a go block returns, and the same when it is continued, whatever the go block does then", function()
      local calls = 0
      local function wait(run)
        calls = calls + 1
        local answer = rn.go(function()
          run:sleep(5)
          return calls
        end)
        local value, which = run:wait({ "approved", answer }, { timeout = 60000 })
        return value, which == answer
      end
      local r = assert(program(wait, true):start "17")
      wait_for_state(r, "retrying")
      assert(r:signal "approved")
      restart()
      assert.same({ "1", "true" }, program(wait):get "17":result())
      assert.is_true(calls > 1)
    end)

    it("takes what is ready at a timeout of 0, and sees that a channel is closed", function()
      local orders = store:runs("order", function(run)
        local ready, closed = rn.chan(1), rn.chan()
        ready:put "ready"
        closed:close()
        local first, which = run:wait({ "approved", ready }, { timeout = 0 })
        local second, err = run:wait({ "approved", ready }, { timeout = 0 })
        local third, last = run:wait { closed }
        return { first, which == ready, second == nil, rn.is_timeout(err), third == nil, last == closed }
      end)
      assert.same({ "ready", true, true, true, true, true }, assert(orders:start "17"):result())
    end)

    it("takes signals in the order in which they came, whatever their place in the list", function()
      local names = store:runs "order"
      local r = assert(names:start "17")
      for _, name in ipairs { "b", "a", "b" } do assert(r:signal(name, name .. "!")) end
      store:runs("order", function(run)
        local list = {}
        for i = 1, 3 do list[i] = table.concat({ run:wait { "a", "b" } }, " ") end
        return list
      end)
      assert.same({ "b! b", "a! a", "b! b" }, r:result())
    end)

    it("fails with the error of a go block, and is tried again", function()
      local fails = true
      local orders = store:runs("order", function(run)
        return (run:wait { "approved", rn.go(function()
          if fails then error("no answer", 0) end
          return "an answer"
        end) })
      end, { tries = 1000000, backoff = 5 })
      local r = assert(orders:start "17")
      assert.equal("no answer", wait_for_state(r, "retrying").error)
      fails = false
      assert.equal("an answer", r:result())
    end)

    it("goes on after such an error that it has caught, as if it had happened again", function()
      local calls = 0
      local function wait(run)
        calls = calls + 1
        local ok, err = pcall(run.wait, run, { "approved", rn.go(function()
          if calls == 1 then error("not 1", 0) end
        end) })
        return ok, err
      end
      local r = assert(program(wait, true):start "17")
      wait_for_state(r, "retrying")
      restart()
      assert.same({ "false", "not 1" }, program(wait):get "17":result())
    end)

    it("refuses what is no name and no channel, at the program's line", function()
      local problems = {}
      local orders = store:runs("order", function(run)
        for i, what in ipairs { {}, { 17 }, { "" }, 17, "", { "a", false }, "\1",
          { "a", timeout = 1 }, { "a", nil, "b" } } do
          local _, err = pcall(function() run:wait(what) end)
          problems[i] = tostring(err)
        end
      end)
      assert(orders:start "17"):result()
      for i, pattern in ipairs { "got an empty table", "got a number", "not empty", "got a number", "not empty",
        "got a boolean", "is a text", '"timeout" is no index', "3 is no index" } do
        assert.matches("run_waits_spec.lua:%d+: wait: .*" .. pattern, problems[i])
      end
    end)
  end)

  -- ---- other runs ----

  describe("that starts others", function()
    it("is their parent, starts each once, and gets their results and errors", function()
      local shipped, fails = {}, true
      local function program()
        local ships = store:runs("ship", function(_, item)
          shipped[#shipped + 1] = item
          if item == "bad" then return nil, "no " .. item end
          return "shipped " .. item
        end, { tries = 1, backoff = 5 })
        local log = store:once("log", function() if fails then error("later", 0) end end)
        return store:runs("order", function(_, items)
          local list = {}
          for i, item in ipairs(items) do
            local r = ships:start(i, item)
            local result, err = r:result()
            list[i] = result or err
          end
          log()
          return list
        end, { tries = 1000000, backoff = 5 }), ships
      end
      local orders, ships = program()
      local r = assert(orders:start("17", { "a", "bad", "c" }))
      wait_for_state(r, "retrying")
      assert.same({ name = "order", id = "17" }, ships:get(1):state().parent)
      assert.is_nil(r:state().parent)
      assert(ships:get(1):forget()) -- the result is in the parent
      restart()
      fails = false
      assert.same({ "shipped a", "no bad", "shipped c" }, program():get "17":result())
      assert.same({ "a", "bad", "c" }, shipped)
      assert.equal(0, count "runnel_signal")
    end)

    it("leaves memory while it waits for one, and goes on when that has ended", function()
      local calls = 0
      local ships = store:runs("ship", function(run) return run:wait "go" end)
      local orders = store:runs("order", function(_, id)
        calls = calls + 1
        return ships:start(id):result()
      end, { n = 1 })
      local first, second = assert(orders:start("1", 1)), assert(orders:start("2", 2)) -- there is place for one
      patience.wait_for(function() return calls == 2 end)
      patience.wait_for(function() return count "runnel_delivery where holder is null" >= 1 end)
      assert(ships:get(1):signal("go", "one"))
      assert(ships:get(2):signal("go", "two"))
      assert.equal("one", first:result())
      assert.equal("two", second:result())
    end)

    it("cancels those that live when it is cancelled, and those that these have started", function()
      local reasons = {}
      local function waiter(run)
        local ok, err = pcall(run.wait, run, "go")
        reasons[#reasons + 1] = tostring(err)
        if not ok then error(err, 0) end
      end
      local lower = store:runs("lower", waiter)
      local middle = store:runs("middle", function(run)
        lower:start "1"
        waiter(run)
      end)
      local other = assert(lower:start "other")
      local done = store:runs("quick", function() return 1 end)
      local upper = store:runs("upper", function(run)
        done:start "1":result()
        middle:start "1"
        lower:start "other"
        waiter(run)
      end)
      local r = assert(upper:start "1")
      for _, one in ipairs { { r, "upper" }, { middle, "middle" }, { lower, "lower" } } do
        patience.wait_for(function()
          local ref = one[1] == r and r or one[1]:get "1"
          return ref and ref:state().state == "waiting"
        end)
      end
      assert(r:cancel "no stock")
      for _, ref in ipairs { r, middle:get "1", lower:get "1" } do
        local result, err = ref:result()
        assert.is_nil(result)
        assert.equal("no stock", err)
      end
      assert.equal("waiting", other:state().state) -- another has started it
      assert.equal("done", done:get "1":state().state)
      assert.same({ "no stock", "no stock", "no stock" }, reasons)
    end)

    it("has them no more once it was forgotten, although its id comes again", function()
      local ships = store:runs("ship", function(run) return run:wait "arrived" end)
      local orders = store:runs("order", function(run, item)
        if not item then return run:wait "paid" end
        ships:start(item)
        return "sent"
      end)
      assert.equal("sent", assert(orders:start("17", "book")):result())
      assert.same({ name = "order", id = "17" }, ships:get("book"):state().parent)
      assert(orders:get("17"):forget())
      assert.is_nil(ships:get("book"):state().parent)
      local again = assert(orders:start "17") -- another order, which has sent nothing
      assert(again:cancel "no stock")
      assert.equal("no stock", select(2, again:result()))
      assert(ships:get("book"):signal("arrived", "in time"))
      assert.equal("in time", ships:get("book"):result())
    end)

    it("has each of them once for its cancellation, also if a file from before has a circle of parents", function()
      local jobs = store:runs "job"
      local a = assert(jobs:start "a")
      assert(jobs:start "b")
      store.db:exec "update runnel_run set parent = name, parent_id = case id when 'a' then 'b' else 'a' end"
      -- With a limit, since this would never end.
      local down = require("runnel.store.runs.run_table").SIGNAL:match "^(with recursive .-)insert into"
      assert.equal(2, #store.db:rows(down .. "select id from down limit 10", "job", "a", ""))
      assert(a:cancel "stop")
      assert.equal(2, count "runnel_signal")
    end)

    it("gets each kind of result and of error, also when it is continued", function()
      local kinds = {
        { nil, nil }, { false }, { "\0\255" }, { { 1, { a = "\255" } } }, { ("x"):rep(2 << 20) },
        { nil, { code = 5 } }, { nil, "\255" }, { nil, "no" }, { nil, false }, { 0.1 },
      }
      local kid = store:runs("kid", function(_, i)
        if kinds[i][2] ~= nil then error(kinds[i][2], 0) end
        return kinds[i][1]
      end, { tries = 1 })
      local seen, continued = {}, {}
      local orders = store:runs("order", function(_, i)
        seen[i] = table.pack(kid:start(i, i):result())
        if continued[i] then return end
        continued[i] = true
        error("again", 0)
      end, { tries = 2, backoff = 1 })
      for i, kind in ipairs(kinds) do
        assert(orders:start(i, i)):result { timeout = 20000 }
        assert.is_true(continued[i], i)
        assert.same(kind, { seen[i][1], seen[i][2] }, i)
      end
    end)

    it("signals, cancels, restarts and forgets others once, as steps", function()
      local fails = true
      local log = store:once("log", function() if fails then error("later", 0) end end)
      local ships = store:runs("ship", function(run) return { run:wait "a", (run:wait("b", { timeout = 1 })) } end)
      local orders = store:runs("order", function()
        local first, second = ships:start(1), ships:start(2)
        local list = { first:signal("a", 1), second:cancel "no stock" }
        list[3] = select(2, second:result())
        list[4] = first:result()[1]
        list[5], list[6] = first:restart(), second:forget()
        list[7], list[8] = second:forget(), select(2, second:forget())
        log()
        return list
      end, { tries = 1000000, backoff = 5 })
      local r = assert(orders:start "17")
      wait_for_state(r, "retrying")
      assert(ships:get(1):signal("a", 2))
      assert.same({ 2 }, ships:get(1):result())
      fails = false
      assert.same({ true, true, "no stock", 1, true, true, nil, "there is no run ship[2]" }, r:result())
      assert.same({ 2 }, ships:get(1):result())
      assert.equal(0, count "runnel_signal")
    end)

    it("refuses another argument for an id, at the line in its function", function()
      local ships = store:runs("ship", function() return 1 end)
      assert(ships:start(1, "a")):result()
      local orders = store:runs("order", function()
        raises("run_waits_spec.lua:%d+: start: there is a run \"1\" of ship with another argument", function()
          ships:start(1, "b")
        end)
        return "refused"
      end)
      assert.equal("refused", assert(orders:start "17"):result())
    end)

    it("has no children in another file, where it is a program like others", function()
      local other <close> = stores.open(dir.path .. "/other.db", { synchronous = "off" })
      local ships = other:runs("ship", function(run) return run:wait "go" end)
      local orders = store:runs("order", function()
        local r = ships:start(1)
        r:signal "go"
        return r:result()
      end)
      assert.is_true(assert(orders:start "17"):result())
      assert.is_nil(ships:get(1):state().parent)
    end)

    it("waits for a result at most for the time that it is told", function()
      local ships = store:runs("ship", function(run) return run:wait "go" end)
      local orders = store:runs("order", function()
        local result, err = ships:start(1):result { timeout = 10 }
        return { tostring(result), tostring(err), rn.is_timeout(err) }
      end)
      assert.same({ "nil", "result: run ship[1] had not ended after 10 ms", true }, assert(orders:start "17"):result())
    end)
  end)

  -- ---- the tries of a step ----

  describe("with a step that is tried again", function()
    it("does not begin again to count when the program is started again, and has a story of each try", function()
      local calls = 0
      local pause = math.ceil(200 * patience.factor()) -- longer than the program needs to end
      local function program()
        local mail = store:once("mail", function()
          calls = calls + 1
          error("no " .. calls, 0)
        end, { tries = 3, backoff = calls == 0 and pause or 1 })
        return store:runs("order", function() mail "alice" end, { tries = 1 })
      end
      local r = assert(program():start "17")
      patience.wait_for(function() return r:state().step ~= nil end)
      assert.equal('mail["alice"]', r:state().step)
      restart()
      local result, err = program():get "17":result()
      assert.is_nil(result)
      assert.equal("no 3", err)
      assert.equal(3, calls)
      local letter = store:dead "order":list()[1]
      local story = {}
      for line in letter.traceback:gmatch "[^\n]+" do story[#story + 1] = line end
      for i = 1, 3 do
        assert.matches('^%d+%-%d%d%-%d%dT[%d:]+Z  mail%["alice"%] at .*_spec.lua:%d+: no ' .. i .. "$", story[i])
      end
    end)

    it("leaves memory if the pause is long, and is cancelled there", function()
      local calls, reason = 0, nil
      local mail = store:once("mail", function()
        calls = calls + 1
        error("no mail", 0)
      end, { tries = 3, backoff = 200000 })
      local orders = store:runs("order", function()
        local ok, err = pcall(mail, "alice")
        reason = err
        if not ok then error(err, 0) end
      end)
      local r = assert(orders:start "17")
      patience.wait_for(function() return count "runnel_delivery where holder is null" == 1 end)
      local state = r:state()
      assert.same({ "retrying", 'mail["alice"]' }, { state.state, state.step })
      assert.is_true(state.due - state.since > 90000)
      assert(r:cancel "no stock")
      assert.equal("no stock", select(2, r:result()))
      assert.equal("no stock", reason)
      assert.equal(1, calls)
    end)

    it("has the result of the first try that succeeds, in a transaction too, and in go blocks", function()
      local calls = {}
      local function flaky(item, tx)
        calls[item] = (calls[item] or 0) + 1
        if calls[item] < 3 then error("not yet", 0) end
        if tx then tx:exec("update runnel_once set made = made") end
        return item .. calls[item]
      end
      local ship = store:once("ship", flaky, { tries = 3, backoff = 2 })
      local book = store:once("book", flaky, { tries = 3, backoff = 2, tx = true })
      local orders = store:runs("order", function()
        local list = { ship "x", book "y" }
        for item in rn.pmap(2, ship, { "a", "b" }) do list[#list + 1] = item end
        return list
      end)
      assert.same({ "x3", "y3", "a3", "b3" }, assert(orders:start "17"):result())
      assert.same({}, reported)
    end)
  end)
end)
