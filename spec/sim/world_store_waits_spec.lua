-- What waits for changes of a store on a simulated host goes on when there is one, and is told if there never is.

local rn = require "runnel"
local sim = require "runnel.sim"

describe("in a simulated world", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"
  local table_of = require "runnel.store.runs.run_table"

  -- Runs f on a host.
  local function on_host(f)
    sim.run(function()
      local world = sim.world()
      world:host("host", f)
      world:run()
    end, { leaks = true })
  end

  describe("a run of a store", function()
    it("goes on when it is cancelled before the go block that has let it wait in the file goes on", function()
      on_host(function()
        local store <close> = stores.open "work.db"
        local attempt, left = store.attempt, 0
        function store:attempt(kind, sql, ...)
          local result, err = attempt(self, kind, sql, ...)
          if sql == table_of.LEAVE then
            left = left + 1
            rn.sleep(1000) -- the go block learns late what is in the file
          end
          return result, err
        end
        local reason
        local orders = store:runs("order", function(run)
          local _, err = pcall(run.sleep, run, 30 * 24 * 3600 * 1000)
          reason = err
          error(err, 0)
        end)
        local r = assert(orders:start "17")
        repeat rn.sleep(10) until left == 1
        assert.is_true(r:cancel "no stock")
        local _, err = r:result { timeout = 5000 }
        assert.equal("no stock", err)
        assert.equal("no stock", reason)
        assert.equal("cancelled", r:state().state)
        assert.equal(0, store.db:one("select count(*) as n from runnel_delivery").n)
      end)
    end)
  end)

  describe("a program that waits for what is in a store", function()
    it("is told if it waits for ever, since it serves nobody", function()
      local ok, err = pcall(on_host, function()
        local store <close> = stores.open "work.db"
        local r = assert(store:runs("order", function(run) run:wait "approved" end):start "17")
        r:result()
      end)
      assert.is_false(ok)
      assert.matches("^leak: the program of host host waits for ever in take %(spec/sim/[%w_]*%.lua:%d+%)$", err)
    end)

    it("hears of changes after the program that has started it was killed, and has started again", function()
      if not pcall(require, "luv") then return pending "luv is not installed" end
      local uv = require "runnel.uv"
      sim.run(function()
        local world, got, starts = sim.world(), nil, 0
        world:program("follow", function()
          local store <close> = stores.open "work.db"
          got = assert(store:source("news", { name = "reader", from = "all" })):take().value
        end)
        local host = world:host("host", function()
          starts = starts + 1
          local store <close> = stores.open "work.db"
          assert(store:stream "news")
          if starts == 1 then
            local follow <close> = uv.spawn { "follow" } -- luacheck: ignore 211
            rn.sleep(100000)
          end
          rn.sleep(1000)
          assert(store:sink "news":put "hello")
        end)
        rn.sleep(1000)
        host:kill()
        host:restart()
        world:run()
        assert.equal("hello", got)
      end)
    end)
  end)
end)
