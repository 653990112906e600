-- store:runs: what programs see of it. Crashes and days are in spec/sim/world_runs_spec.lua.

local background = require "spec.support.background"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"
local work_store = require "spec.support.work_store"

describe("runs of a store", function()
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

  it("start once for each id, and return what the function returns", function()
    local calls = 0
    local orders = store:runs("order", function(run, order)
      calls = calls + 1
      return { run.key, run.name, order.cents }
    end)
    local r = assert(orders:start("17", { cents = 500, items = { "a" } }))
    assert.same({ "17", "order", 500 }, (r:result()))
    assert.same({ "17", "order", 500 }, (orders:start("17", { items = { "a" }, cents = 500 }):result()))
    assert.same({ "17", "order", 500 }, (orders:get("17"):result()))
    assert.same({ 18, "order", 1 }, (orders:start(18, { cents = 1 }):result()))
    assert.equal(2, calls)
    assert.equal("done", r:state().state)
    local none, err = orders:get "nobody"
    assert.is_nil(none)
    assert.equal('there is no run order["nobody"]', err)
  end)

  it("refuse another argument for an id, at the program's line, and name both", function()
    local orders = store:runs "order"
    assert(orders:start("17", { cents = 500 }))
    raises('runs_spec.lua:%d+: start: there is a run "17" of order with another argument: it has {"cents":500}, and '
      .. 'this call has {"cents":501}', function() orders:start("17", { cents = 501 }) end)
    raises('it has {"cents":500}, and this call has nil', function() orders:start "17" end)
  end)

  it("take nan for the same argument as nan, since it was stored as that", function()
    local orders = store:runs "order"
    for _, id in ipairs { "a number", "in a table" } do
      local argument = id == "a number" and 0 / 0 or { cents = 0 / 0, of = { -(0 / 0) } }
      assert(orders:start(id, argument))
      assert(orders:start(id, argument))
    end
    raises("with another argument", function() orders:start("a number", 1) end)
    raises("with another argument", function() orders:start("in a table", { cents = 0 / 0, of = { 1 } }) end)
  end)

  it("say what is wrong with arguments, at the program's line", function()
    local orders = store:runs "order"
    local r = assert(orders:start "17")
    for pattern, f in pairs {
      ["start: an id expected, a string or a number, got nothing"] = function() orders:start() end,
      ["start: the argument: a function cannot be kept"] = function() orders:start("18", print) end,
      ["signal: the name of a signal expected, got nothing"] = function() r:signal() end,
      ["signal: the value: a function cannot be kept"] = function() r:signal("x", print) end,
      ["cancel: a reason expected, got a number"] = function() r:cancel(17) end,
      ["list: state: "] = function() orders:list { state = "asleep" } end,
      ['list: unknown option "stat"'] = function() orders:list { stat = "done" } end,
      ["restart: from: the name of a step expected"] = function() r:restart { from = 2 } end,
      ["runs: name: letters, digits"] = function() store:runs "an order" end,
      ["runs: f: a function expected"] = function() store:runs("other", 17) end,
      ['runs: unknown option "m"'] = function() store:runs("other", print, { m = 1 }) end,
      ['runs: this program has the name "f" already'] = function()
        store:once("f", print)
        store:runs("f", print)
      end,
    } do
      raises("runs_spec.lua:%d+: " .. pattern, f)
    end
  end)

  it("go on with the next step when the program is started again", function()
    local done, fails = {}, true
    local function program()
      local charge = store:once("charge", function(cents)
        done[#done + 1] = "charge " .. cents
        return "receipt"
      end)
      local mail = store:once("mail", function(text)
        if fails then error("no mail server", 0) end
        done[#done + 1] = "mail " .. text
      end)
      return store:runs("order", function(_, cents)
        local receipt = charge(cents)
        mail(receipt)
        return receipt
      end, { backoff = 10, tries = 1000000 })
    end
    local r = assert(program():start("17", 500))
    local state = wait_for_state(r, "retrying")
    assert.equal('mail["receipt"]', state.step)
    assert.equal("no mail server", state.error)
    assert.matches("runs_spec.lua:%d+$", state.line)
    restart()
    fails = false
    assert.equal("receipt", program():start("17", 500):result())
    assert.same({ "charge 500", "mail receipt" }, done)
  end)

  it("that fail for good are dead letters, and go on when these are replayed, or from a step", function()
    local fails, charges, mails = true, 0, 0
    local charge = store:once("charge", function()
      charges = charges + 1
      return "receipt " .. charges
    end)
    local mail = store:once("mail", function()
      mails = mails + 1
      if fails then error("no mail server", 0) end
    end)
    local orders = store:runs("order", function()
      local receipt = charge()
      mail()
      return receipt
    end, { backoff = 1, tries = 2 })
    local r = assert(orders:start("17", 500))
    local result, err = r:result()
    assert.is_nil(result)
    assert.equal("no mail server", err)
    assert.equal(2, mails)
    patience.wait_for(function() return #reported == 1 end)
    assert.equal("no mail server", reported[1])
    local letters = store:dead "order":list()
    assert.equal(1, #letters)
    assert.same({ "no mail server", 2, 2 }, { letters[1].error, letters[1].starts, letters[1].raises })
    assert.equal("failed", r:state().state)
    fails = false
    assert(store:dead "order":replay(letters[1].sequence))
    assert.equal("receipt 1", r:result())
    assert(r:restart { from = "mail" })
    assert.equal("receipt 1", r:result())
    assert(r:restart())
    assert.equal("receipt 2", r:result())
    assert.equal(2, charges)
    local ok, why = r:restart { from = "male" }
    assert.is_nil(ok)
    assert.equal('the run order["17"] has no step "male"', why)
  end)

  describe("whose dead letter is replayed", function()
    local fails, r, letters, messages

    before_each(function()
      fails = true
      r = assert(store:runs("order", function()
        if fails then error("no stock", 0) end
        return "sent"
      end, { tries = 1 }):start "17")
      assert.equal("no stock", select(2, r:result()))
      fails, letters = false, store:dead "order"
      messages = function()
        return store.db:one("select count(*) as n from runnel_message where stream = 'runnel-runs-order'").n
      end
    end)

    it("go on together with the end of the letter, or not at all", function()
      store.db:exec [[create trigger refuses before update of state on runnel_run when new.state = 'ready' begin
        select raise(abort, 'not now'); end]]
      local ok, err = letters:replay(1)
      assert.is_nil(ok)
      assert.matches("not now", err)
      assert.same({ 0, 1, "failed" }, { messages(), letters:count(), r:state().state })
      assert.equal("no stock", select(2, r:result()))
      store.db:exec "drop trigger refuses"
      assert.is_true(letters:replay(1))
      assert.equal(0, letters:count())
      assert.equal("sent", r:result())
    end)

    it("keep their result if the letter is replayed once more, as one that a killed program has left", function()
      store.db:exec "create table kept as select * from runnel_dead"
      assert.is_true(letters:replay(1))
      assert.equal("sent", r:result())
      store.db:exec "insert into runnel_dead select * from kept"
      assert.is_true(letters:replay(1)) -- it is known that it was put
      assert.same({ 0, "done", "sent" }, { letters:count(), r:state().state, (r:result { timeout = 0 }) })
      store.db:exec "insert into runnel_dead select * from kept; delete from runnel_id"
      local ok, err = letters:replay(1)
      assert.is_nil(ok)
      assert.equal('the run order["17"] has not failed, or was forgotten: drop its dead letter', err)
      assert.same({ 1, 0 }, { letters:count(), messages() })
      assert.same({ "done", "sent" }, { r:state().state, (r:result { timeout = 0 }) })
    end)

    it("go on once when two programs replay it at a time", function()
      local other <close> = work.another()
      local theirs = rn.go(function() return table.pack(other:dead "order":replay(1)) end)
      local ours = table.pack(letters:replay(1))
      theirs = theirs:take()
      local done, late = ours[1] and ours or theirs, ours[1] and theirs or ours
      assert.same({ true, nil, "there is no dead letter 1 of order" }, { done[1], late[1], late[2] })
      assert.equal("sent", r:result())
    end)

    it("keep their result if they are started again while a message comes that has not been noted in them", function()
      local attempt <const>, other <close> = store.attempt, work.another()
      local result
      function store:attempt(kind, sql, ...)
        if sql:find("state = 'failed'", 1, true) and not result then
          result = "started again"
          assert(other:runs("order", nil):get("17"):restart())
          patience.wait_for(function() return r:state().state == "done" end)
          result = r:result()
        end
        return attempt(self, kind, sql, ...)
      end
      -- A program of a version before notes it later.
      store.db:exec("insert into runnel_message(stream, seq, subject, form, value, bytes, made) "
        .. "select name, last + 1, 'run', (select form from runnel_dead), (select value from runnel_dead), 0, 0 "
        .. "from runnel_stream where name = 'runnel-runs-order'")
      store:ring "runnel-runs-order"
      patience.wait_for(function() return result == "sent" and messages() == 0 end)
      assert.same({ "done", "sent" }, { r:state().state, (r:result { timeout = 0 }) })
    end)
  end)

  it("go on after an error of a step that they have caught, as if it had happened again", function()
    local calls, fails = 0, true
    local check = store:once("check", function()
      calls = calls + 1
      error("not " .. calls, 0)
    end)
    local log = store:once("log", function(text) return text end)
    local orders = store:runs("order", function()
      local _, err = pcall(check)
      local told = log(err)
      if fails then error("later", 0) end
      return told
    end, { backoff = 1, tries = 1000000 })
    local r = assert(orders:start "17")
    wait_for_state(r, "retrying")
    fails = false
    assert.equal("not 1", r:result())
    assert.equal(1, calls)
  end)

  it("get signals in their order, also those that came before, from any process", function()
    local orders = store:runs("order", function(run)
      run:note "waits"
      return { run:wait "go", run:wait "go", (run:wait("go", { timeout = 1 })) }
    end)
    local other <close> = stores.open(dir.path .. "/work.db")
    local r = assert(orders:start "17")
    assert(other:runs "order":get "17":signal("go", { 1 }))
    local state = wait_for_state(r, "waiting")
    assert.equal("waits", state.note)
    assert.equal('wait["go"]', state.step)
    assert.matches("runs_spec.lua:%d+$", state.line)
    assert(r:signal("go", false))
    assert.same({ { 1 }, false }, (r:result()))
    local sent, err = r:signal "go"
    assert.is_nil(sent)
    assert.equal('the run order["17"] has ended: it is done', err)
  end)

  it("leave no note with a run that has ended just before they wait for its result", function()
    local table_of = require "runnel.store.runs.run_table"
    local orders = store:runs("order", function(_, what) if what == "fails" then error("no", 0) end end, { tries = 1 })
    for id, what in pairs { a = "ends", b = "fails" } do
      assert(orders:start(id, what)):result()
      store.db:exec(table_of.LISTEN, "order", id, "other", 1, store:time())
    end
    assert.equal(0, store.db:one("select count(*) as n from runnel_signal").n)
  end)

  it("are listed by their states", function()
    local orders = store:runs("order", function(run, what)
      if what == "sleeps" then run:sleep(1e9) end
      if what == "waits" then run:wait "go" end
    end)
    for i, what in ipairs { "sleeps", "waits", "ends" } do assert(orders:start(i, what)) end
    local list
    patience.wait_for(function()
      list = assert(orders:list())
      return list[1].state == "sleeping" and list[2].state == "waiting" and list[3].state == "done"
    end)
    assert.equal("sleep[1000000000]", list[1].step:gsub("%.0", ""))
    assert.is_true(list[1].due - list[1].since >= 1e9 - 1)
    assert.equal(2, orders:list { state = "waiting" }[1].id)
    assert.equal(3, orders:list { after = 2 }[1].id)
    assert.equal(1, #orders:list { limit = 1 })
    assert.same({}, orders:list { state = "failed" })
    assert.is_true(store:queue "order".running <= 2)
  end)

  it("are cancelled where they wait, also if no process has them in memory, and may do steps about it", function()
    local done = {}
    local refund = store:once("refund", function(cents) done[#done + 1] = cents end)
    local begun = 0
    local orders = store:runs("order", function(run, cents)
      begun = begun + 1
      local ok, err = pcall(run.sleep, run, 1e9)
      refund(cents)
      if not ok then error(err, 0) end
    end)
    local r = assert(orders:start("17", 500))
    patience.wait_for(function() return store.db:one("select count(*) as n from runnel_delivery "
      .. "where holder is null").n == 1 end) -- it has left
    assert(r:cancel "no stock")
    local result, err = r:result()
    assert.is_nil(result)
    assert.equal("no stock", err)
    assert.same({ 500 }, done)
    assert.equal(2, begun)
    assert.equal("cancelled", r:state().state)
    assert.equal(0, store:dead "order":count())
    local ok, why = r:cancel()
    assert.is_nil(ok)
    assert.equal('the run order["17"] has ended: it is cancelled', why)
    assert(r:forget())
    assert.is_nil((orders:get "17"))
    assert.equal(0, store.db:one("select count(*) as n from runnel_once").n)
  end)

  it("are cancelled by the reason only, not by an error of their cleanup that contains it", function()
    local fails
    local refund = store:once("refund", function()
      fails = fails - 1
      if fails >= 0 then error("bank: connection timeout", 0) end
      return "refunded"
    end)
    local orders = store:runs("order", function(run, how)
      local ok, err = xpcall(run.wait, how == "traced" and debug.traceback or function(e) return e end, run, "go")
      if not ok and not how then return refund(run.key) end
      error(err, how == "with a position" and 1 or 0)
    end, { backoff = 1 })
    for _, reason in ipairs { "timeout", "", "bank", "connection timeout" } do
      fails = 2
      local r = assert(orders:start("not " .. reason))
      wait_for_state(r, "waiting")
      assert(r:cancel(reason))
      assert.equal("refunded", r:result())
      for _, how in ipairs { "as it is", "with a position", "traced" } do
        r = assert(orders:start(("%s %s"):format(reason, how), how))
        wait_for_state(r, "waiting")
        assert(r:cancel(reason))
        assert.equal(reason, select(2, r:result()))
        assert.equal("cancelled", r:state().state)
      end
    end
  end)

  it("do the steps of their go blocks once, although they are tried again", function()
    local done, fails = {}, true
    local ship = store:once("ship", function(item)
      if item == "ccc" and fails then
        patience.wait_for(function() -- the others are stored
          return store.db:one("select count(*) as n from runnel_once where name = 'ship'").n == 2
        end)
        error("no " .. item, 0)
      end
      done[item] = (done[item] or 0) + 1
      return "shipped " .. item
    end)
    local orders = store:runs("order", function(run, items)
      rn.scope(function(s)
        for _, item in ipairs(items) do s:go(ship, item) end
      end)
      local list = {}
      for text in rn.pmap(2, ship, items) do list[#list + 1] = text end
      raises("only the go block of the run's function can call it", function()
        local value, err = rn.go(run.random, run):take()
        if not value then error(err, 0) end
      end)
      return table.concat(list, ", ")
    end, { backoff = 1, tries = 1000000 })
    local r = assert(orders:start("17", { "a", "bb", "ccc" }))
    wait_for_state(r, "retrying")
    fails = false
    assert.equal("shipped a, shipped bb, shipped ccc", r:result())
    assert.same({ a = 2, bb = 2, ccc = 2 }, done) -- in the scope, and in the pmap
  end)

  it("with steps that have changed say so, with the ways out, and wait for a program that fits", function()
    local fails = true
    local steps = {}
    for _, name in ipairs { "charge", "mail", "audit" } do steps[name] = function(v) return v end end
    local function start(f)
      local all = {}
      for name, g in pairs(steps) do all[name] = store:once(name, g) end
      return store:runs("order", function(run) return f(run, all) end, { backoff = 1, tries = 1000000 })
    end
    local program = start(function(_, s)
      s.charge(1)
      s.mail(2)
      if fails then error("not yet", 0) end
    end)
    local r = assert(program:start "17")
    wait_for_state(r, "retrying")
    restart()
    fails = false
    for _, f in ipairs {
      function(_, s) -- a new step
        s.charge(1)
        s.audit(3)
        s.mail(2)
      end,
      function(_, s) s.charge(1) end, -- one is gone
    } do
      local changed = start(f)
      r = assert(changed:get "17")
      local state = wait_for_state(r, "blocked")
      assert.matches('run order%["17"%]: step 2 is .* now; before, it was mail%[2%]', state.error)
      assert.matches("run:version \"NAME\"", state.error)
      assert.matches("r:restart { from = ... }", state.error)
      assert.equal("17", changed:list { state = "blocked" }[1].id)
      restart()
    end
    local seen = {}
    program = start(function(run, s)
      s.charge(1)
      seen[#seen + 1] = run:version "audits"
      if seen[#seen] then s.audit(3) end
      s.mail(2)
      return #seen
    end)
    store.db:exec "update runnel_delivery set due = 0" -- not only after 5 s
    assert(program:get "17":result())
    assert(program:start "18":result())
    assert.same({ false, true }, { seen[1], seen[#seen] })
  end)

  it("leave when the program drains them, and let their steps end", function()
    local going, ended = rn.chan(), rn.chan()
    local step = store:once("step", function()
      going:put(true)
      ended:take()
      return "done"
    end)
    local after = store:once("after", function() return "after" end)
    local orders = store:runs("order", function() return step() .. ", " .. after() end)
    local asleep = store:runs("asleep", function(run) run:sleep(30000) end)
    local r, other = assert(orders:start "17"), assert(asleep:start "1")
    going:take()
    wait_for_state(other, "sleeping")
    assert.is_true(asleep:drain())
    local draining = rn.go(orders.drain, orders)
    ended:put(true)
    assert.is_true(draining:take())
    assert.equal(0, store.db:one("select count(*) as n from runnel_delivery where holder is not null").n)
    assert.equal("ready", r:state().state)
    assert.equal("sleeping", other:state().state)
    restart()
    store:once("step", error)
    step = store:once("step", error)
    local again = store:once("after", function() return "after" end)
    assert.equal("done, after", store:runs("order", function() return step() .. ", " .. again() end):get "17":result())
  end)

  it("of a process that is killed in the middle of a sleep go on in another one, and do nothing twice", function()
    dir:write("work.lua", [[
      local rn, stores = require "runnel", require "runnel.store"
      local store = stores.open(arg[1])
      local charge = store:once("charge", function(cents)
        local log <close> = io.open(arg[2], "a")
        log:write("charged ", cents, "\n")
        return "receipt"
      end)
      local runs = store:runs("order", function(run, cents)
        local receipt = charge(cents)
        run:sleep(50000)
        return receipt .. run:wait "go"
      end)
      print "ready"
      io.stdout:flush()
      runs:wait()
    ]])
    local set <close> = background.set()
    local function start()
      local program = set:start { process.runnel, dir.path .. "/work.lua", dir.path .. "/work.db", dir.path .. "/log" }
      assert(program:says "ready", program:output())
      return program
    end
    local first = start()
    local r = assert(store:runs "order":start("17", 500))
    assert.matches("^sleep", wait_for_state(r, "sleeping").step)
    local second = start()
    store.db:exec "update runnel_once set expires = 1 where name = 'sleep'" -- the first one does not look again
    first:signal "KILL"
    first:wait()
    wait_for_state(r, "waiting")
    assert(r:signal("go", "!"))
    assert.equal("receipt!", r:result())
    assert.equal("charged 500\n", dir:read "log")
    second:signal "TERM"
    second:wait()
  end)
end)
