-- Statements of SQLite in simulations: other go blocks run before they are done, as in reality.

local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local has_luv = pcall(require, "luv")

describe("a statement of SQLite", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local sqlite = require "runnel.sqlite"
  before_each(stage.open)
  after_each(stage.close)

  -- Where a program can run.
  local places = { ["in a simulation"] = function(f) return f() end }
  if has_luv then
    places["in a simulated world"] = function(f)
      local world = sim.world()
      world:host("host", f)
      world:run()
    end
  end

  for place, within in pairs(places) do
    it("lets another go block come between it and the next one, " .. place, function()
      search.finds_bug("paid 160", function(is_mended)
        local paid = 0
        within(function()
          local db = sqlite.open ":memory:"
          db:exec "create table account(sum integer); insert into account values (100)"
          local function withdraw()
            if is_mended then
              local n = db:exec "update account set sum = sum - 80 where sum >= 80"
              paid = paid + 80 * n
              return
            end
            local sum = db:one "select sum from account".sum
            if sum < 80 then return end
            db:exec("update account set sum = ?", sum - 80)
            paid = paid + 80
          end
          local one, two = rn.go(withdraw), rn.go(withdraw)
          one:take()
          two:take()
          db:close()
        end)
        if paid ~= 80 then error("paid " .. paid, 0) end
      end)
    end)

    it("may not have run when its go block is cancelled, " .. place, function()
      local seen = {}
      search.until_enough(function() return seen[0] and seen[1] end, function()
        within(function()
          local db = sqlite.open ":memory:"
          db:exec "create table t(a)"
          local block = rn.go(db.exec, db, "insert into t values (1)")
          rn.yield()
          rn.cancel(block)
          seen[db:one "select count(*) as n from t".n] = true
          db:close()
        end)
      end)
      assert.same({ [0] = true, [1] = true }, seen)
    end)

    it("of two connections may run before one of the other that was asked for first, " .. place, function()
      local path, seen = os.tmpname(), {}
      search.until_enough(function() return seen[0] and seen[1] end, function()
        within(function()
          local one <close> = sqlite.open(path)
          local two <close> = sqlite.open(path)
          one:exec "drop table if exists t; create table t(a)"
          local block = rn.go(one.exec, one, "insert into t values (1)")
          rn.yield()
          seen[two:one "select count(*) as n from t".n] = true
          block:take()
        end)
      end)
      for _, suffix in ipairs { "", "-wal", "-shm" } do os.remove(path .. suffix) end
      assert.same({ [0] = true, [1] = true }, seen)
    end)

    it("of several that wait may be committed alone, or all together, " .. place, function()
      local seen = {}
      search.until_enough(function() return seen["1 2"] and seen["2 2"] end, function()
        within(function()
          local db = sqlite.open ":memory:"
          db:exec "create table t(a unique)"
          local order = {}
          local function insert(i)
            db:exec("insert into t values (?)", i)
            local n = db:one "select count(*) as n from t".n
            order[#order + 1] = n
          end
          local one, two = rn.go(insert, 1), rn.go(insert, 2)
          one:take()
          two:take()
          db:close()
          seen[table.concat(order, " ")] = true
        end)
      end)
      assert.is_true(seen["1 2"] and seen["2 2"])
    end)
  end

  it("waits for another connection's lock in virtual time, in a simulation without a world", function()
    local path = os.tmpname()
    sim.run(function()
      local one <close> = sqlite.open(path)
      local two <close> = sqlite.open(path)
      one:exec "create table t(a)"
      local begun = rn.chan(1)
      local block = rn.go(function()
        one:transaction(function(tx)
          tx:exec "insert into t values (1)"
          begun:put(true)
          rn.sleep(4000)
        end)
      end)
      begun:take()
      two:exec "insert into t values (2)"
      assert.is_true(sim.elapsed() >= 4000 and sim.elapsed() < 4200)
      assert.is_nil((block:take()))
      assert.equal(2, two:one "select count(*) as n from t".n)
    end)
    for _, suffix in ipairs { "", "-wal", "-shm" } do os.remove(path .. suffix) end
  end)

  it("rolls a transaction back, whose go block is cancelled, before the next one", function()
    search.finds_nothing(function()
      local db = sqlite.open ":memory:"
      db:exec "create table t(a)"
      local block = rn.go(function()
        db:transaction(function(tx)
          tx:exec "insert into t values (1)"
          rn.sleep(10)
        end)
      end)
      rn.yield()
      if sim.choose(2) == 2 then rn.sleep(5) end
      rn.cancel(block)
      db:exec "insert into t values (2)"
      assert(db:one "select count(*) as n from t".n == 1)
      db:close()
    end)
  end)

  it("has random numbers that are those of the seed, and random ones when the simulation is over", function()
    local function draw()
      local db <close> = sqlite.open ":memory:"
      return db:one "select random() as n".n
    end
    local one, two = sim.run(draw, { seed = 3 }), sim.run(draw, { seed = 4 })
    assert.not_equal(one, two)
    assert.equal(one, sim.run(draw, { seed = 3 }))
    assert.not_equal(rn.go(draw):take(), rn.go(draw):take())
  end)

  it("that a simulation has left behind does not keep a database of the program from working", function()
    local db <close> = sqlite.open ":memory:"
    db:exec "create table t(a)"
    for _ = 1, 3 do
      sim.run(function()
        rn.go(db.exec, db, "insert into t values (1)")
        rn.yield()
      end)
      sim.run(function() assert.equal(0, #db:rows "select * from t where a = 2") end)
    end
    db:exec "insert into t values (3)"
    assert.equal(1, #db:rows "select * from t where a = 3")
  end)
end)

describe("in a search, a file", function()
  if not has_luv then return pending "luv is not installed" end
  local uv = require "runnel.uv"

  -- A server that listens before it has read its state, or after it.
  local function test(opts, is_mended)
    local world, seen = sim.world(opts), nil
    local host = world:host("server", function()
      local value = 0
      local reading = rn.go(function()
        for line in uv.lines "state" do value = tonumber(line) end
      end)
      if is_mended then reading:take() end
      for conn in assert(uv.listen("0.0.0.0", 80)) do
        rn.go(function()
          conn:lines():take()
          conn:write(value .. "\n")
          conn:close()
        end)
      end
    end)
    host:put("state", "42\n")
    world:host("client", function()
      local conn
      repeat
        rn.sleep(10)
        conn = uv.connect("server", 80)
      until conn
      conn:write "read\n"
      seen = conn:lines():take()
      conn:close()
    end)
    world:run()
    if seen ~= "42" then error("read " .. tostring(seen), 0) end
  end

  it("takes time: a server that listens before it has read its state is found", function()
    search.finds_bug("read 0.*server: the disk takes %d+ ms %(fault slow%)", function(is_mended)
      test(nil, is_mended)
    end)
  end)

  it("takes none with the option slow = 0", function()
    search.finds_nothing(function() test { faults = { slow = 0 } } end)
  end)

  it("is no choice of the search if nothing else can happen meanwhile", function()
    if not pcall(require, "runnel.sqlite.core") then return end
    local function alone(opts)
      return function()
        local world = sim.world(opts)
        world:host("host", function()
          local db = require "runnel.sqlite".open "file"
          db:exec "create table t(a)"
          db:close()
        end)
        world:run()
      end
    end
    local explored = sim.explore(alone(), { seconds = 60 })
    assert.same({ 1, true }, { explored.schedules, explored.all })
    local _, message = pcall(sim.explore, alone { faults = { slow = 1 } })
    assert.matches("asked for the fault slow, and no run had a place for it", message)
  end)
end)
