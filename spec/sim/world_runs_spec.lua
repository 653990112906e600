-- store:runs on the disks of simulated hosts: a host may crash between any two writes, and days pass in virtual time.

local long = require "spec.support.long"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local work_store = require "spec.support.work_store"

describe("runs of a store in a simulated world #heavy", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"

  local DAY <const> = 24 * 3600 * 1000

  -- How long a host is down after a crash, and how long a disk takes at most that is slow; ms.
  local DOWN <const>, SLOW <const> = 10, 5000

  -- How often faults happen in a run at most, where they are random.
  local FAULTS <const> = { crash = 2, torn = 1, slow = 1 }

  -- How late a run may go on: it does within 200 ms if another process had it, and the faults take their time before.
  local LATE <const> = 200 + FAULTS.crash * DOWN + FAULTS.slow * SLOW

  -- The bytes of a store that has the tables, since they are made by many writes.
  local prepared

  setup(function()
    prepared = work_store.bytes(function(store)
      store:runs "order"
      store.db:exec "create table effects(what)"
    end)
  end)

  -- A run: a host calls f(store, seen), again after each crash. `seen` is what the world has been told.
  local function run_of(faults, f, opts, rate)
    return function()
      local world, seen = sim.world { faults = faults, probability = rate, delays = { 10, SLOW } }, {}
      rn.on_error(function() end) -- of runs that fail for good
      local host = world:host("host", function()
        local store <close> = stores.open("/var/work.db", opts)
        f(store, seen)
      end, { restart = DOWN })
      host:put("/var/work.db", prepared)
      world:run()
      assert(seen.over, "it has not ended")
    end
  end

  -- Runs it many times, with crashes at random places.
  local function is_right(f, rate)
    local starts, n = 0, long.times(10, 40)
    sim.each_seed(n, run_of(FAULTS, function(...)
      starts = starts + 1
      f(...)
    end, nil, rate or 0.03))
    assert.is_true(starts > n * 5 // 4, starts)
  end

  local function expect(wanted, found, what)
    if wanted ~= found then error(("%s: %s, not %s"):format(what, tostring(found), tostring(wanted)), 0) end
  end

  -- What a host was told, it is told again.
  local function tell(seen, what, value)
    if seen[what] ~= nil and seen[what] ~= value then error("another " .. what, 0) end
    seen[what] = value
  end

  local function count(store, sql) return store.db:one("select count(*) as n from " .. sql).n end

  -- The end of a program: nothing is left of a run but its result and its steps.
  local function finish(store, seen)
    store:drain()
    seen.over = true
  end

  local function nothing_left(store)
    expect(0, count(store, "runnel_message"), "messages")
    expect(0, count(store, "runnel_delivery"), "deliveries")
    expect(0, count(store, "runnel_signal"), "signals")
  end

  -- One step, and one whose effect is in the file.
  local function order(store, seen)
    local charge = store:once("charge", function(cents)
      seen.charged = (seen.charged or 0) + 1
      return ("receipt %d for %d"):format(seen.charged, cents)
    end)
    local book = store:once("book", function(what, tx)
      tx:exec("insert into effects values (?)", what)
    end, { tx = true })
    local orders = store:runs("order", function(_, cents)
      local receipt = charge(cents)
      book "order"
      return receipt
    end)
    local r = assert(orders:start("17", 500))
    local result, err = r:result()
    if err then error(err, 0) end
    tell(seen, "result", result)
    expect("receipt", result:match "^%a+", "the result")
    expect(1, count(store, "effects"), "effects")
    nothing_left(store)
    finish(store, seen)
  end

  it("have one result, and do what is in the file exactly once, if the host crashes between any two writes", function()
    search.finds_nothing(run_of({ crash = 1 }, order))
    is_right(order)
  end)

  it("are lost if the disk is not synced: the search finds it", function()
    search.finds("another result", run_of({ crash = 1 }, order, { synchronous = "off" }))
  end)

  -- Sleeps for days, whatever happens meanwhile.
  local function sleeper(store, seen)
    local calls = 0
    local orders = store:runs("order", function(run)
      calls = calls + 1
      local since = run:now()
      tell(seen, "since", since)
      run:sleep(3 * DAY)
      local slept = store:time() - since
      if slept < 3 * DAY then error("it woke too soon", 0) end
      if not seen.woken then seen.woken = slept end
      return run:id()
    end)
    local r = assert(orders:start "17")
    tell(seen, "id", (r:result()))
    if seen.woken > 3 * DAY + LATE then error(("it woke %d ms too late"):format(seen.woken - 3 * DAY), 0) end
    if calls < 2 and not seen.asleep and seen.id == nil then error("it has stayed in memory", 0) end
    nothing_left(store)
    finish(store, seen)
  end

  it("sleep for three days, which end in time, if the host crashes between any two writes", function()
    search.finds_nothing(run_of({ crash = 1 }, sleeper))
    is_right(sleeper)
  end)

  -- Two runs of a key, the first of which sleeps and fails once, and one of another key. `tx` says what ran when.
  local function by_key(store, seen)
    local note = store:once("note", function(what, tx)
      tx:exec("insert into effects values (?)", what)
    end, { tx = true })
    local orders = store:runs("order", function(run, customer)
      note("begin " .. run.key)
      run:sleep(DAY)
      if run.key == "a1" and not seen.failed then
        seen.failed = true
        error "not yet"
      end
      note("end " .. run.key)
      return customer
    end, { key = function(customer) return customer end, tries = 100 })
    local all = {}
    for i, id in ipairs { "a1", "a2", "b1" } do all[i] = assert(orders:start(id, id:sub(1, 1))) end
    for _, r in ipairs(all) do assert(r:result()) end
    local found = {}
    for _, row in ipairs(store.db:rows "select what from effects where what like '% a_' order by rowid") do
      found[#found + 1] = row.what
    end
    expect("begin a1, end a1, begin a2, end a2", table.concat(found, ", "), "the order")
    expect(6, count(store, "effects"), "effects")
    nothing_left(store)
    finish(store, seen)
  end

  it("of a key go on one at a time, in their order, if the host crashes between any two writes", function()
    search.finds_nothing(run_of({ crash = 1 }, by_key))
    is_right(by_key)
  end)

  -- Gets two signals, the first of them before it waits.
  local function waiter(store, seen)
    local orders = store:runs("order", function(run)
      local first = run:wait "approved"
      run:sleep(DAY)
      local second = run:wait "approved"
      local third, err = run:wait("approved", { timeout = DAY })
      return ("%s, %s, %s, %s"):format(first, second, third, rn.is_timeout(err))
    end)
    local r = assert(orders:start "17")
    for i = 1, 2 do
      if not seen[i] then
        -- Nobody knows whether a signal was stored if the host has crashed meanwhile. This is one statement: between
        -- two, the run may take a signal, which counts twice then.
        local sent = count(store, "(select 1 from runnel_signal union all "
          .. "select 1 from runnel_once where name = 'wait' and value is not null)")
        if sent < i then assert(r:signal("approved", i)) end
        seen[i] = true
      end
      rn.sleep(10)
    end
    tell(seen, "result", (r:result()))
    expect("1, 2, nil, true", seen.result, "the result")
    nothing_left(store)
    finish(store, seen)
  end

  it("get each signal once, in order, if the host crashes between any two writes", function()
    search.finds_nothing(run_of({ crash = 1 }, waiter))
    is_right(waiter)
  end)

  -- Is cancelled in a sleep; its cleanup has a step.
  local function cancelled(store, seen)
    local refund = store:once("refund", function(tx) tx:exec "insert into effects values ('refund')" end,
      { tx = true, key = function() return "refund" end })
    local orders = store:runs("order", function(run)
      local ok, err = pcall(run.sleep, run, 30 * DAY)
      if ok then error("it was not cancelled", 0) end
      refund()
      error(err, 0)
    end)
    local r = assert(orders:start "17")
    if not seen.cancelled then
      if r:state().state ~= "cancelled" then r:cancel "no stock" end
      seen.cancelled = true
    end
    local result, err = r:result()
    expect(nil, result, "the result")
    expect("no stock", err, "the reason")
    expect("cancelled", r:state().state, "the state")
    if count(store, "effects") > 1 then error("two refunds", 0) end
    nothing_left(store)
    finish(store, seen)
  end

  it("are cancelled once, with what they do about it, if the host crashes between any two writes", function()
    search.finds_nothing(run_of({ crash = 1 }, cancelled))
    is_right(cancelled)
  end)

  -- Fails at the second step for good, and is started again from there.
  local function failing(store, seen)
    local charge = store:once("charge", function(tx) tx:exec "insert into effects values ('charge')" end,
      { tx = true, key = function() return "charge" end })
    local mail = store:once("mail", function()
      if not seen.repaired then error("no mail server", 0) end
      return "sent"
    end)
    local orders = store:runs("order", function()
      charge()
      return mail "alice"
    end, { tries = 2, backoff = 60000 })
    local r = assert(orders:start "17")
    if not seen.repaired then
      local result, err = r:result()
      expect(nil, result, "the result")
      expect("no mail server", err, "the error")
      expect(1, store:dead("order"):count(), "dead letters")
      seen.repaired = true
    end
    if r:state().state == "failed" then assert(r:restart { from = "mail" }) end
    tell(seen, "result", (r:result()))
    expect("sent", seen.result, "the result")
    expect(1, count(store, "effects"), "charges")
    expect(0, store:dead("order"):count(), "dead letters")
    nothing_left(store)
    finish(store, seen)
  end

  it("fail after their tries, and go on from a step, if the host crashes between any two writes", function()
    search.finds_nothing(run_of({ crash = 1 }, failing))
    is_right(failing)
  end)

  -- Steps of go blocks, in any order.
  local function parallel(store, seen)
    local ship = store:once("ship", function(item, tx)
      tx:exec("insert into effects values (?)", item)
      return "shipped " .. item
    end, { tx = true })
    local orders = store:runs("order", function(run, items)
      rn.scope(function(s)
        for _, item in ipairs(items) do
          s:go(function()
            run:sleep(2 * DAY)
            ship(item)
          end)
        end
      end)
      local list = {}
      for text in rn.pmap(2, ship, items) do list[#list + 1] = text end
      return table.concat(list, ", ")
    end)
    local r = assert(orders:start("17", { "a", "b", "c" }))
    tell(seen, "result", (r:result()))
    expect("shipped a, shipped b, shipped c", seen.result, "the result")
    expect(6, count(store, "effects"), "effects")
    nothing_left(store)
    finish(store, seen)
  end

  it("do each step of their go blocks once, in whatever order, if the host crashes between any two writes", function()
    search.finds_nothing(run_of({ crash = 1 }, parallel))
    is_right(parallel, 0.015)
  end)

  it("of a process that is killed go on in another one within 0.2 s, and those of a living one stay with it", function()
    if not pcall(require, "luv") then return pending "luv is not installed" end
    local uv = require "runnel.uv"
    for seed = 1, 20 do
      sim.run(function()
        local world, begun, result = sim.world(), {}, nil
        world:program("work", function(args)
          local store = stores.open "work.db"
          local orders = store:runs("order", function(run, cents)
            begun[#begun + 1] = { args[1], rn.now() }
            run:sleep(20000)
            return cents
          end)
          orders:wait()
        end)
        local killed
        world:host("host", function()
          local first = uv.spawn { "work", "first" }
          rn.sleep(500)
          local second = uv.spawn { "work", "second" }
          local store <close> = stores.open "work.db"
          local r = assert(store:runs "order":start("17", 500))
          rn.sleep(10000) -- the living process keeps it
          expect(1, #begun, "calls")
          expect("sleeping", r:state().state, "the state")
          killed = begun[1][1] == "first" and first or second
          killed:kill "kill"
          killed = rn.now()
          result = r:result()
          for _, one in ipairs { first, second } do pcall(one.kill, one, "kill") end
        end)
        world:run()
        expect(500, result, "the result")
        expect(2, #begun, "calls")
        if begun[1][1] == begun[2][1] then error("the same process", 0) end
        if begun[2][2] - killed > 200 then error(("after %g ms"):format(begun[2][2] - killed), 0) end
      end, { seed = seed })
    end
  end)

  it("sleep without a process that has them in memory, more than it may have, and wake in time", function()
    sim.run(function()
      local world = sim.world()
      world:host("host", function()
        local store <close> = stores.open("work.db", { synchronous = "off" })
        local inside, most, late = 0, 0, 0
        local double = store:once("double", function(n) return 2 * n end)
        local orders = store:runs("order", function(run, hours)
          inside = inside + 1
          most = math.max(most, inside)
          local leaving <close> = setmetatable({}, { __close = function() inside = inside - 1 end }) -- luacheck: ignore
          local since = run:now()
          run:sleep(hours * 3600 * 1000)
          late = math.max(late, store:time() - since - hours * 3600 * 1000)
          return double(hours)
        end, { n = 8 })
        local list = {}
        local n <const> = long.times(20, 60)
        for i = 1, n do list[i] = assert(orders:start(i, i)) end
        repeat rn.sleep(1000) until #orders:list { state = "sleeping", limit = 100 } == n
        expect(0, inside, "runs in memory")
        for _, r in ipairs(list) do
          expect(2 * r.id, (r:result()), "the result")
        end
        if most > 8 then error(most .. " in memory", 0) end
        if late > 200 then error(late .. " ms late", 0) end
        store:drain()
      end)
      world:run()
    end)
  end)
end)
