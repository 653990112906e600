-- keepers.stage: durable stages on keepers of the program's own (lua/runnel/queue/keeper.lua). What a keeper promises
-- is in keeper_spec.lua.

local keepers = require "runnel.queue.keeper"
local memory = require "examples.lib.memory_keeper"
local memory_place = require "spec.support.queue.memory_place"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

-- Runs f(orders, invoices), two queues in memory, in a simulation. Returns what was reported.
local function within(f)
  return stage.report_texts(function() sim.run(f, nil, memory.queue "orders", memory.queue "invoices") end)
end

describe("a stage on a keeper of the program's own", function()
  it("works on its messages, n at a time, and stores the results", function()
    local running, most = 0, 0
    assert.same({}, within(function(orders, invoices)
      local w = assert(keepers.stage(orders:keeper(invoices), 2, function(v, message)
        running = running + 1
        most = math.max(most, running)
        rn.sleep(100)
        running = running - 1
        return v .. message.sequence, nil, "and"
      end))
      for _, v in ipairs { "a", "b", "c" } do orders:append(v) end
      rn.sleep(1000)
      assert.same({ "a1", "and", "b2", "and", "c3", "and" }, memory_place.values(invoices))
      assert.same({ waiting = 0, running = 0 }, orders:count())
      assert.equal("stage: orders (0/2)", tostring(w))
      assert.is_true(w:drain())
    end))
    assert.equal(2, most)
  end)

  it("tries a message again, gives it up as a dead letter, and has no results if it is told so", function()
    local tries = 0
    local reports = within(function(orders)
      orders:append "a"
      local w = assert(keepers.stage(orders:keeper(), 1, function()
        tries = tries + 1
        error("it is broken", 0)
      end, { name = "s", results = false, tries = 3, backoff = 10 }))
      rn.sleep(1000)
      local letter = orders.letters["orders.1"]
      assert.same({ "s", "it is broken", 3, 3, 1 },
        { letter.name, letter.error, letter.starts, letter.raises, letter.position })
      assert.same({ waiting = 0, running = 0 }, orders:count())
      w:stop()
    end)
    assert.equal(3, tries)
    assert.same({ "it is broken" }, reports)
  end)

  it("gets the result of ex_handler, ends a call at its limit, and stores no letter with dead = false", function()
    assert.equal(1, #within(function(orders, invoices)
      for v = 1, 2 do orders:append(v) end
      local w = assert(keepers.stage(orders:keeper(invoices), 1, function(v)
        if v == 1 then rn.sleep(1e6) else error("no", 0) end
      end, { tries = 1, starts = 2, timeout = 50, dead = false, drain_on_term = false, ex_handler = function(err, v)
        if v == 1 then return tostring(err) end
        error(err, 0)
      end }))
      rn.sleep(1000)
      assert.equal(1, invoices.last)
      assert.matches("^stage orders: a call had not ended .*50 ms$", memory_place.values(invoices)[1])
      assert.same({}, orders.letters)
      w:stop()
    end))
  end)

  it("is drained by SIGTERM, and watched by its keeper", function()
    local ended, watched
    sim.run(function()
      local world, orders = sim.world(), memory.queue "orders"
      local host = world:host("host", function()
        local keeper = orders:keeper()
        function keeper:watch(w) watched = w == self.taker and "wrong" or w:report().n end -- luacheck: no self
        orders:append "a"
        local w = assert(keepers.stage(keeper, 3, function() rn.sleep(500) end, { results = false }))
        ended = w:wait()
      end)
      world:host("operator", function()
        rn.sleep(100)
        host:signal "term"
      end)
      world:run()
      assert.same({ waiting = 0, running = 0 }, orders:count())
    end)
    assert.same({ true, 3 }, { ended, watched })
  end)

  it("begins paused if its queue is, and returns why its keeper cannot be opened", function()
    within(function(orders)
      orders:append "a"
      local keeper, calls = orders:keeper(), 0
      keeper.is_paused = true
      local w = keepers.stage(keeper, 1, function() calls = calls + 1 end, { results = false })
      rn.sleep(100)
      assert.equal(0, calls)
      w:pause(false)
      rn.sleep(100)
      assert.equal(1, calls)
      w:stop()
      local broken = orders:keeper()
      function broken.open() return nil, "no server" end
      assert.same({ nil, "stage: no server" }, { keepers.stage(broken, 1, print) })
    end)
  end)

  it("says at the caller's line what is wrong with the keeper, or with an argument", function()
    local keeper = memory.queue "orders":keeper()
    local function without(name) return setmetatable({ [name] = false }, { __index = keeper }) end
    for expected, arguments in pairs {
      ["stage: a keeper expected, got nothing"] = {}, ["stage: a keeper expected, got 1"] = { 1 },
      ['stage: the keeper has no function "bury"'] = { without "bury", 1, print },
      ["stage: from: a name expected, got a boolean"] = { without "from", 1, print },
      ["stage: n: an integer of at least 1 expected, got 0"] = { keeper, 0, print },
      ["stage: f: a function expected, got nothing"] = { keeper, 1 },
      ['stage: the module "no.such" cannot be loaded'] = { keeper, 1, "no.such" },
      ["stage: tries: an integer of at least 1 expected, got 0"] = { keeper, 1, print, { tries = 0 } },
      ["stage: name: a name expected, got a number"] = { keeper, 1, print, { name = 1 } },
      ["stage: results: true or false expected"] = { keeper, 1, print, { results = 1 } },
      ['stage: unknown option "result"'] = { keeper, 1, print, { result = false } },
    } do
      local ok, err = pcall(function() return (keepers.stage(table.unpack(arguments, 1, 4))) end)
      assert.is_false(ok)
      assert.matches("^spec/queue/keepers_spec.lua:%d+: ", err)
      assert.is_truthy(err:find(expected, 1, true), err)
    end
  end)
end)

describe("what the library promises to keepers", function()
  it("is enough for runnel.nats, which uses nothing else of core.internal", function()
    local files <close> = assert(io.popen "find lua/runnel/nats lua/runnel/nats.lua -name '*.lua'")
    local n = 0
    for path in files:lines() do
      local file <close> = assert(io.open(path))
      assert.not_matches("core[\"')]*%.internal", file:read "a", path)
      n = n + 1
    end
    assert.is_true(n > 30)
  end)

  it("encodes values in three forms, and says what cannot be sent", function()
    for name, value in pairs { raw = "a\0b", msgpack = { a = { 1, true } }, json = { "x", 2 } } do
      local codec = keepers.encodings[name]
      assert.same(value, codec.decode((assert(codec.encode(value, "value")))))
      assert.matches("^value", (select(2, codec.encode(print, "value"))))
    end
    assert.is_string((select(2, keepers.encodings.json.decode "{")))
  end)

  it("is to hear of closed channels, to report, and to tell cancellations from errors", function()
    local closed, err = 0, nil
    local reports = within(function()
      local ch = rn.chan()
      keepers.on_close(ch, function() closed = closed + 1 end)
      local put = rn.go(function() return keepers.put_while_open(ch, 1) end)
      rn.sleep(1)
      ch:close()
      assert.is_false(put:take())
      keepers.report("it is full", nil, "my keeper")
      local block = rn.go(function()
        local _, problem = pcall(rn.sleep, 1000)
        err = { keepers.is_cancelled(problem), keepers.is_cancelled "other", keepers.error_text(problem) }
      end)
      rn.sleep(1)
      rn.cancel(block, "not needed")
      rn.sleep(1)
    end)
    assert.equal(1, closed)
    assert.same({ "it is full" }, reports)
    assert.same({ true, false, "not needed" }, err)
  end)
end)
