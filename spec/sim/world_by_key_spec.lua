-- Order per key of a store with two programs, in every order of their statements that a search finds, and with crashes.

local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local work_store = require "spec.support.work_store"

describe("order per key in a simulated world #heavy", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"
  local ORDERS <const> = { "a1", "a2", "b1", "a3" }

  -- The bytes of a store that has the tables and the messages, since they are made by many writes.
  local prepared

  setup(function()
    prepared = work_store.bytes(function(store)
      assert(store:stream "orders")
      assert(store:stage("orders", 1, print, nil, { name = "stage", key = print })):stop()
      local sink = assert(store:sink "orders")
      for _, order in ipairs(ORDERS) do assert(sink:put(order)) end
      store.db:exec "create table done(what)"
    end)
  end)

  local function key(order) return order:sub(1, 1) end

  -- Works on the orders, until all are done.
  local function program(store, busy)
    assert(store:stage("orders", 2, function(order, _, tx)
      if busy[key(order)] then error("two at a time", 0) end
      busy[key(order)] = true
      tx:exec("insert into done values (?)", order)
      busy[key(order)] = nil
    end, nil, { name = "stage", key = key, tx = true }))
    while store.db:one("select count(*) as n from done").n < #ORDERS do rn.sleep(50) end
    rn.sleep(200)
  end

  local function run_of(faults)
    return function()
      local world, problem = sim.world { faults = faults }, nil
      rn.on_error(function(err) problem = problem or tostring(err) end)
      local function check(store)
        local list = {}
        for i, row in ipairs(store.db:rows "select what from done order by substr(what, 1, 1), rowid") do
          list[i] = row.what
        end
        if table.concat(list, " ") ~= "a1 a2 a3 b1" then error("they were done as " .. table.concat(list, " "), 0) end
      end
      local is_over
      local host = world:host("host", function()
        local first <close> = stores.open "/var/work.db"
        local second <close> = stores.open "/var/work.db"
        local busy = {}
        rn.scope(function(s)
          s:go(program, first, busy)
          s:go(program, second, busy)
        end)
        check(first)
        is_over = true
      end, { restart = 10 })
      host:put("/var/work.db", prepared)
      world:run()
      if problem then error(problem, 0) end
      assert(is_over, "it has not ended")
    end
  end

  it("holds for two programs, and each message is done once", function() search.finds_nothing(run_of {}) end)

  it("holds if the host crashes between any two writes", function() search.finds_nothing(run_of { crash = 1 }) end)
end)
