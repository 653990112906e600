-- runnel.store.runs.run_check: whether a program can continue the runs of a store.

local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"

describe("a check of runs", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local run_check = require "runnel.store.runs.run_check"
  local stores = require "runnel.store"
  local dir, path

  -- A program of which a part can be replaced.
  local PROGRAM <const> = [[
    local rn, stores = require "runnel", require "runnel.store"
    local store <close> = stores.open "the path does not matter"
    local charge = store:once("charge", function() done "charge" end)
    local mail = store:once("mail", function() done "mail" end)
    local audit = store:once("audit", function() done "audit" end)
    local orders = store:runs("order", function(run, items)
      charge(1)
      rn.scope(function(s)
        for _, item in ipairs(items) do s:go(mail, item) end
      end)
      charge(2)
      run:note "charged"
      run:sleep(1e9)
      mail "the end"
    end)
    orders:start("19", {})
  ]]

  local function check(from, to)
    local text = from and PROGRAM:gsub(from, to) or PROGRAM
    assert(not from or text ~= PROGRAM)
    local effects = {}
    local program = assert(load(text, "=app.lua", "t", setmetatable({ done = function(what)
      effects[#effects + 1] = what
    end }, { __index = _G })))
    local result = assert(run_check.check(path, program))
    assert.same({}, effects)
    return result
  end

  before_each(function()
    dir = process.directory()
    path = dir.path .. "/work.db"
    local store <close> = stores.open(path, { synchronous = "off" })
    local charge, mail = store:once("charge", function() end), store:once("mail", function(item)
      if item == "b" then error("no mail", 0) end
    end)
    local orders = store:runs("order", function(run, items)
      charge(1)
      rn.scope(function(s)
        for _, item in ipairs(items) do s:go(mail, item) end
      end)
      charge(2)
      run:sleep(1e9)
    end, { tries = 1000, backoff = 60000 })
    for id, items in pairs { ["17"] = { "a" }, ["18"] = { "a", "b" } } do assert(orders:start(id, items)) end
    rn.on_error(function() end)
    patience.wait_for(function() return orders:get "17":state().state == "sleeping" end)
    patience.wait_for(function() return orders:get "18":state().state == "retrying" end)
    rn.on_error(nil)
  end)
  after_each(function() dir:remove() end)

  local function rows()
    local store <close> = stores.open(path)
    return { store.db:rows "select * from runnel_run", store.db:rows "select * from runnel_once",
      store.db:rows "select * from runnel_delivery", store.db:rows "select * from runnel_message" }
  end

  it("finds nothing if the program can continue all, does no step, and stores nothing", function()
    local before = rows()
    assert.same({ checked = 2, blocked = {} }, check())
    assert.same(before, rows())
  end)

  it("says which runs are blocked, with the step and the line", function()
    local result = check("charge%(2%)", "audit(2)")
    assert.equal(2, result.checked)
    assert.equal(1, #result.blocked) -- the other one has not come there
    local run = result.blocked[1]
    assert.same({ "order", "17", "audit[2]", "app.lua:11" }, { run.name, run.id, run.step, run.line })
    assert.matches('run order%["17"%]: step 2 is audit%[2%] now; before, it was charge%[2%]', run.error)
    assert.equal(2, #check("charge%(1%)", "audit(1)").blocked)
    assert.matches("step 3 is gone now", check("run:sleep%(1e9%)", "do return end").blocked[1].error)
  end)

  it("lets a change in run:version pass, and steps that no run has come to", function()
    assert.same({}, check("charge%(2%)", 'if run:version "audits" then audit(3) end charge(2)').blocked)
    assert.same({}, check('mail "the end"', 'audit "the end"').blocked)
  end)

  it("finds errors of the function before that", function()
    local run = check("charge%(2%)", "charge(nil + 2)").blocked[1]
    assert.matches("app.lua:11: attempt to perform arithmetic", run.error)
  end)

  it("says that a name is not registered, and why", function()
    local result = check("local orders = store:runs%(\"order\"", 'store:stream "mails":put(1)\nlocal orders = '
      .. 'store:runs("order"')
    assert.equal(2, #result.blocked)
    assert.matches('^the program has not registered the runs "order": app.lua:6: while its runs are checked, a program '
      .. "can do nothing else with the store", result.blocked[1].error)
    assert.equal(2, #check('runs%("order"', 'runs("orders"').blocked)
  end)

  it("runs until the program waits, if it has registered all names", function()
    assert.same({ checked = 2, blocked = {} }, check("orders:start%(\"19\", {}%)", "rn.chan():take()"))
  end)

  it("returns nil and an error if there is no such store, or no such program", function()
    local result, err = run_check.check(dir.path .. "/none.db", function() end)
    assert.is_nil(result)
    assert.matches("none.db", err)
    result, err = run_check.check(path, dir.path .. "/none.lua")
    assert.is_nil(result)
    assert.matches("none.lua", err)
    dir:write("bad.lua", "x =")
    result, err = run_check.check(path, dir.path .. "/bad.lua")
    assert.is_nil(result)
    assert.matches("bad.lua:1: ", err)
  end)

  it("says that nothing is to be continued in a store without runs", function()
    stores.open(dir.path .. "/other.db"):close()
    assert.same({ checked = 0, blocked = {} }, (run_check.check(dir.path .. "/other.db", function() end)))
  end)
end)
