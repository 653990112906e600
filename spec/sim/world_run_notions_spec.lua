-- Each notion of runs on a host that crashes once, at each place between two writes: what it was told stays true.

local crashes = require "spec.support.crashes"
local rn = require "runnel"
local work_store = require "spec.support.work_store"

describe("a run whose host crashes once, at any place, #heavy", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"

  local DAY <const> = 24 * 3600 * 1000
  local prepared -- the bytes of a store that has the tables

  setup(function()
    prepared = work_store.bytes(function(store)
      store:runs "order"
      store:runs "ship"
      store.db:exec "create table effects(what)"
    end)
  end)
  before_each(function() rn.on_error(function() end) end) -- of runs that fail for good
  after_each(function() rn.on_error(nil) end)

  -- What the program was told, it is told again.
  local function tell(seen, what, value)
    if seen[what] ~= nil and seen[what] ~= value then
      error(("%s: %s, and then %s"):format(what, seen[what], value), 0)
    end
    seen[what] = value
  end

  -- Steps of the program.
  local function steps_of(store)
    local steps = {}
    for _, name in ipairs { "charge", "mail", "audit" } do
      steps[name] = store:once(name, function(what, tx)
        tx:exec("insert into effects values (?)", name .. " " .. tostring(what))
        return name .. " " .. tostring(what)
      end, { tx = true })
    end
    return steps
  end

  -- Runs a program with a crash at each place. It gets the store, what the world was told, and its steps; it returns
  -- the effects that must be in the file then, in any order.
  local function with_each_crash(program)
    local places = crashes.each(function(world)
      local seen = { starts = 0 }
      local host = world:host("host", function()
        seen.starts = seen.starts + 1
        local store <close> = stores.open "/var/work.db"
        local effects = program(store, seen, steps_of(store))
        store:drain()
        seen.over = true
        local again <close> = stores.open "/var/work.db"
        local found = {}
        for i, row in ipairs(again.db:rows "select what from effects order by what") do found[i] = row.what end
        table.sort(effects)
        found, effects = table.concat(found, ", "), table.concat(effects, ", ")
        if found ~= effects then error(("the effects are %s, not %s"):format(found, effects), 0) end
        for _, name in ipairs { "runnel_message", "runnel_delivery", "runnel_signal" } do
          local n = again.db:one("select count(*) as n from " .. name).n
          if n > 0 then error(("%d rows are left in %s"):format(n, name), 0) end
        end
      end, { restart = 10 })
      host:put("/var/work.db", prepared)
      world:run()
      if not seen.over then error("it has not ended", 0) end
    end)
    assert.is_true(places > 40, places)
  end

  local function result_of(r)
    local result, err = r:result()
    if err ~= nil then error(err, 0) end
    return result
  end

  it("is started once, listed, and has one result", function()
    with_each_crash(function(store, seen, steps)
      local runs = store:runs("order", function(run, cents)
        run:note "charges"
        return { steps.charge(cents), run:random() }
      end)
      local result = result_of(assert(runs:start("17", 5)))
      tell(seen, "receipt", result[1])
      tell(seen, "random", result[2])
      local listed = runs:list { state = "done" }
      assert(#listed == 1 and listed[1].id == "17" and listed[1].note == "charges")
      return { "charge 5" }
    end)
  end)

  it("sleeps for as long as it was to", function()
    with_each_crash(function(store, seen, steps)
      local runs = store:runs("order", function(run)
        local since = run:now()
        run:sleep(3 * DAY)
        steps.mail "late"
        return store:time() - since
      end)
      local slept = result_of(assert(runs:start(17)))
      tell(seen, "slept", slept)
      assert(slept >= 3 * DAY and slept < 3 * DAY + 1000, slept)
      return { "mail late" }
    end)
  end)

  it("gets each signal once, and a timeout if none comes", function()
    with_each_crash(function(store, seen, steps)
      local runs = store:runs("order", function(run)
        steps.mail(run:wait "go")
        local none, err = run:wait("go", { timeout = DAY })
        return ("%s %s"):format(none, rn.is_timeout(err))
      end)
      local r = assert(runs:start(17))
      if not seen.sent then -- a crash may come after it was stored, and before the world knows that
        local sent = store.db:one("select (select count(*) from runnel_signal) "
          .. "+ (select count(*) from runnel_once where name = 'wait') as n").n
        if sent == 0 then assert(r:signal("go", "now")) end
        seen.sent = true
      end
      tell(seen, "result", result_of(r))
      assert(seen.result == "nil true")
      return { "mail now" }
    end)
  end)

  it("takes the same one of several that it waits for", function()
    with_each_crash(function(store, seen, steps)
      local runs = store:runs("order", function(run)
        local value, which = run:wait({ "never", rn.go(function()
          run:sleep(DAY)
          return steps.audit "answer"
        end), rn.go(function()
          run:sleep(DAY)
          return "other"
        end) }, { timeout = 2 * DAY })
        steps.mail(which ~= "never" and value)
        run:sleep(DAY)
        return value
      end)
      local value = result_of(assert(runs:start(17)))
      tell(seen, "value", value)
      local audited = store.db:one("select count(*) as n from effects where what = 'audit answer'").n == 1
      local mailed = value == "other" and "mail other" or "mail audit answer"
      return audited and { "audit answer", mailed } or { mailed }
    end)
  end)

  it("starts its children once, and gets their results", function()
    with_each_crash(function(store, seen, steps)
      local ships = store:runs("ship", function(run, item)
        run:sleep(DAY)
        if item == "bad" then return nil, "no " .. item end
        return steps.audit(item)
      end, { tries = 1 })
      local runs = store:runs("order", function()
        local good, bad = ships:start(1, "good"), ships:start(2, "bad")
        return ("%s, %s"):format(good:result(), select(2, bad:result()))
      end)
      tell(seen, "result", result_of(assert(runs:start("17"))))
      assert(seen.result == "audit good, no bad", seen.result)
      assert(ships:get(2):state().parent.id == "17")
      if ships:get(1):state().state ~= "done" then error "a child has not ended" end
      return { "audit good" }
    end)
  end)

  it("cancels its children when it is cancelled, and cleans up once", function()
    with_each_crash(function(store, seen, steps)
      local ships = store:runs("ship", function(run)
        local ok, err = pcall(run.sleep, run, 30 * DAY)
        steps.audit(tostring(ok))
        error(err, 0)
      end)
      local runs = store:runs("order", function(run)
        ships:start(1)
        local _, err = pcall(run.wait, run, "never")
        steps.mail(err)
        error(err, 0)
      end)
      local r = assert(runs:start(17))
      local function is(one, state) return one:state().state == state or one:state().state == "cancelled" end
      while not ships:get(1) do rn.sleep(10) end
      -- The step that starts the child may not be in the file although the child is: so the parent waits, too.
      while not seen.cancelled and not (is(r, "waiting") and is(ships:get(1), "sleeping")) do rn.sleep(10) end
      if r:state().state ~= "cancelled" then
        -- One statement: between two, the run may take the signal.
        local sent = store.db:one("select (select count(*) from runnel_run where cancelled is not null) "
          .. "+ (select count(*) from runnel_signal where signal = '') as n").n
        if sent == 0 then r:cancel "no stock" end
      end
      seen.cancelled = true
      for _, one in ipairs { r, ships:get(1) } do
        local result, err = one:result()
        assert(result == nil and err == "no stock", err)
        assert(one:state().state == "cancelled")
      end
      return { "audit false", "mail no stock" }
    end)
  end)

  it("tries a step again, and counts its tries", function()
    with_each_crash(function(store, seen, steps)
      local calls = 0
      local flaky = store:once("flaky", function()
        calls, seen.calls = calls + 1, (seen.calls or 0) + 1
        error("no " .. seen.calls, 0)
      end, { tries = 3, backoff = DAY })
      local runs = store:runs("order", function()
        local _, err = pcall(flaky)
        steps.mail(type(err))
        return err
      end)
      local err = result_of(assert(runs:start(17)))
      tell(seen, "error", err)
      -- A try may be done again if the host crashes before it is stored that it has failed.
      assert(seen.calls == 3 or seen.calls == 4 and seen.starts == 2, seen.calls)
      return { "mail string" }
    end)
  end)

  it("fails for good after its tries, and goes on from a step", function()
    with_each_crash(function(store, seen, steps)
      local fails = store:once("fails", function()
        if not seen.repaired then error("no mail server", 0) end
        return "sent"
      end)
      local runs = store:runs("order", function()
        steps.charge(5)
        return fails()
      end, { tries = 2, backoff = DAY })
      local r = assert(runs:start(17))
      if not seen.repaired then
        local result, err = r:result()
        assert(result == nil and err == "no mail server", err)
        assert(store:dead "order":list()[1].traceback:find("fails", 1, true))
        seen.repaired = true
      end
      if r:state().state == "failed" then assert(r:restart { from = "fails" }) end
      tell(seen, "result", result_of(r))
      assert(seen.result == "sent" and store:dead "order":count() == 0)
      return { "charge 5" }
    end)
  end)

  it("goes on in a program that has changed meanwhile", function()
    with_each_crash(function(store, seen, steps)
      local is_new = seen.starts > 1
      local runs = store:runs("order", function(run)
        steps.charge(5)
        local audits = is_new and run:version "audits"
        if audits then steps.audit(5) end
        steps.mail(5)
        run:sleep(DAY)
        return audits and "audited" or "not audited"
      end)
      tell(seen, "result", result_of(assert(runs:start(17))))
      return seen.result == "audited" and { "charge 5", "audit 5", "mail 5" } or { "charge 5", "mail 5" }
    end)
  end)

  it("does each step of its go blocks once", function()
    with_each_crash(function(store, seen, steps)
      local runs = store:runs("order", function(_, items)
        rn.scope(function(s)
          for _, item in ipairs(items) do s:go(steps.mail, item) end
        end)
        local list = {}
        for text in rn.pmap(2, steps.charge, items) do list[#list + 1] = text end
        return table.concat(list, ", ")
      end)
      tell(seen, "result", result_of(assert(runs:start(17, { "a", "b" }))))
      assert(seen.result == "charge a, charge b")
      return { "charge a", "charge b", "mail a", "mail b" }
    end)
  end)
end)
