---sim.explore { share = "channels" }: one order of each set of equivalent ones.

local long = require "spec.support.long"
local explore = require "runnel.search.explore"
local goker = require "spec.support.goker"
local orders = require "tests.orders.search"
local rn = require "runnel"
local sim = require "runnel.sim"

-- More than any of these searches takes.
local SECONDS <const> = 600

local function search(f, options)
  local all = { seconds = SECONDS, share = "channels" }
  for name, value in pairs(options or {}) do all[name] = value end
  local result = sim.explore(f, all) -- no tail call: an error names this line
  return result
end

-- `n` pairs of go blocks, of which one puts so many messages and the other takes them.
local function pairs_of(n, messages)
  return function()
    local ends = {}
    for p = 1, n do
      local ch, got = rn.chan(), {}
      rn.go(function() for i = 1, messages do ch:put(i) end end)
      ends[p] = rn.go(function()
        for i = 1, messages do got[i] = ch:take() end
        return #got
      end)
    end
    for p = 1, n do assert(ends[p]:take() == messages) end
  end
end

describe("sim.explore with share = \"channels\" #heavy", function()
  local shortening
  setup(function() shortening, explore.shortening = explore.shortening, 0 end)
  teardown(function() explore.shortening = shortening end)

  for _, case in ipairs { { 1, 3, 2 }, { 2, 3, 8 }, { 3, 1, 32 }, { 3, 100, 32 }, { 4, 1, 128 } } do
    local n, messages, most = table.unpack(case)
    it(("proves %d pairs with %d messages in at most %d schedules"):format(n, messages, most), function()
      local result = search(pairs_of(n, messages))
      assert.is_true(result.all)
      assert.is_true(result.schedules <= most, tostring(result))
    end)
  end

  it("finds the outcomes of a search of all orders, in random programs", function()
    local all, some = 0, 0
    for seed = 1, long.times(60, 250) do
      local difference, a, b = orders.compare(seed)
      if difference then error(difference, 0) end
      all, some = all + (a or 0), some + (b or 0)
    end
    assert.is_true(some < all)
  end)

  it("finds an outcome that only comes if a step waits that did not wait in another order", function()
    for _, seed in ipairs { 209, 696, 4031 } do assert.is_nil((orders.compare(seed))) end
  end)

  it("finds each order in which a shared channel, or a channel of the program around it, is used", function()
    local outer = rn.chan(2)
    for _, new in ipairs { function() return rn.shared_chan(1) end, function() return outer end } do
      local taken = {}
      local result = search(function()
        local ch = new()
        rn.go(function() ch:put(1) end)
        rn.go(function() ch:put(2) end)
        taken[ch:take() .. ch:take()] = true
      end)
      assert.is_true(result.all)
      assert.same({ ["12"] = true, ["21"] = true }, taken)
    end
  end)

  it("finds each order with a go block that has let the others run after 128 operations", function()
    -- It is next again only after another one has run: so a third go block decides whether it can be.
    for _, waits in ipairs { false, true } do
      local logs = {}
      local result = search(function()
        local start, closed, other, log = rn.chan(1), rn.chan(), rn.chan(1), rn.chan(2)
        closed:close()
        local many = rn.go(function()
          if waits then start:take() end
          for _ = 1, 200 do closed:take() end
          log:put "a"
        end)
        local once = rn.go(function()
          if waits then
            start:put(true)
            rn.yield()
          end
          log:put "b"
        end)
        local third = rn.go(function() other:put(true) end)
        many:take()
        once:take()
        third:take()
        logs[log:take() .. log:take()] = true
      end)
      assert.is_true(result.all)
      assert.same({ ab = true, ba = true }, logs)
    end
  end)

  it("finds each of the 68 blocking kernels of GoBench, whose failures replay without it", function()
    for _, name in ipairs(goker.names) do
      local function bug() goker.bugs[name](false) end
      local ok, message = pcall(search, bug, { steps = 600 })
      assert.is_false(ok, name)
      local kind = message:match "^sim.explore: (%l+): "
      assert.is_true(kind == "leak" or kind == "deadlock", message)
      local replayed, again = pcall(sim.explore, bug, { steps = 600, schedule = message:match 'schedule = "([^"]+)"' })
      assert.is_false(replayed)
      assert.matches("^sim.explore: " .. kind .. ": ", again)
    end
  end)

  it("goes through each order of the steps that f's end may come between, if leaks is false", function()
    local function program()
      local ch = rn.chan(1)
      rn.go(function() ch:put(1) end)
      rn.yield()
      assert(ch:poll() == nil, "it was put")
    end
    assert.error_matches(function() search(program, { leaks = false }) end, "it was put")
  end)

  it("finds a timer that fires before another one, and what is done when nothing is ready", function()
    local function program()
      local a, b = rn.chan(), rn.chan()
      rn.go(function() a:put(1) end)
      rn.go(function()
        rn.sleep(5)
        b:put(2)
      end)
      local _, port = rn.alts { b, rn.timeout(5) }
      a:take()
      if port == b then return end
      b:take()
    end
    assert.is_true(search(program).all)
  end)

  -- ---- the promise ----

  -- Each of these is wrong only in one order, and says nothing over channels.
  local SHARED = {
    ["a variable"] = function()
      local n, done = 0, rn.chan(2)
      for _ = 1, 2 do
        rn.go(function()
          local before = n
          rn.yield()
          n = before + 1
          done:put(true)
        end)
      end
      done:take()
      done:take()
      return n
    end,
    ["a table"] = function()
      local account, done = { balance = 0 }, rn.chan(2)
      for _ = 1, 2 do
        rn.go(function()
          local before = account.balance
          rn.yield()
          account.balance = before + 1
          done:put(true)
        end)
      end
      done:take()
      done:take()
      return account.balance
    end,
    ["a table in a table that is an argument"] = function()
      local bank, done = { accounts = { {} } }, rn.chan(2)
      local function work(of)
        local account = of.accounts[1]
        local before = account.balance or 0
        rn.yield()
        account.balance = before + 1
        done:put(true)
      end
      rn.go(work, bank)
      rn.go(work, bank)
      done:take()
      done:take()
      return bank.accounts[1].balance
    end,
    ["a counter in a closure"] = function()
      local function counter()
        local n = 0
        return function() return n end, function(value) n = value end
      end
      local get, set = counter()
      local done = rn.chan(2)
      for _ = 1, 2 do
        rn.go(function()
          local before = get()
          rn.yield()
          set(before + 1)
          done:put(true)
        end)
      end
      done:take()
      done:take()
      return get()
    end,
    ["a table that one go block puts into a shared one, for another"] = function()
      local box, done = {}, rn.chan(2)
      rn.go(function()
        box[1] = { n = 0 }
        rn.yield()
        box[1].n = box[1].n + 1
        done:put(true)
      end)
      rn.go(function()
        rn.yield()
        local inner = box[1] or { n = 1 }
        local before = inner.n
        rn.yield()
        inner.n = before + 1
        done:put(true)
      end)
      done:take()
      done:take()
      return box[1].n == 0 and 2 or box[1].n
    end,
  }

  for what, program in pairs(SHARED) do
    it("does not call a program proved that shares " .. what, function()
      local values, n = {}, 0
      sim.explore(function() values[program()] = true end, { seconds = SECONDS })
      for _ in pairs(values) do n = n + 1 end
      assert.is_true(n > 1)
      local wrong = next(values) == 2 and next(values, 2) or next(values)
      local ok, message = pcall(search, function() assert(program() ~= wrong, "wrong") end)
      assert.is_false(ok)
      assert.matches("^sim.explore: error: [^\n]*wrong", message)
    end)
  end

  -- Each returns a function that notes a number, and one that returns what was noted.
  local NOTED_BY = {
    ["transducers"] = function()
      local log = ""
      local function note(rf)
        return function(acc, ...)
          log = log .. (... or "")
          return rf(acc, ...)
        end
      end
      local chans = {}
      for i = 1, 5 do chans[i] = rn.chan(1, note) end
      return function(i) chans[i]:put(i) end, function() return log end
    end,
    ["exception handlers"] = function()
      local log, chans = "", {}
      local function fail() return function(_, ...) if ... then error((...), 0) end end end
      for i = 1, 5 do chans[i] = rn.chan(1, fail, function(err) log = log .. err end) end
      return function(i) chans[i]:put(i) end, function() return log end
    end,
    ["buffer policies"] = function()
      local log, chans = "", {}
      local function policy()
        local values = {}
        return {
          full = function() return false end,
          add = function(_, value)
            log = log .. value
            values[#values + 1] = value
          end,
          remove = function() return table.remove(values, 1) end,
          count = function() return #values end,
        }
      end
      for i = 1, 5 do chans[i] = rn.chan(policy()) end
      return function(i) chans[i]:put(i) end, function() return log end
    end,
    ["a metatable that they replace"] = function()
      local it = setmetatable({}, { __index = { log = "" } })
      return function(i) setmetatable(it, { __index = { log = it.log .. i } }) end, function() return it.log end
    end,
  }
  for what, make in pairs(NOTED_BY) do
    it("does not call a program proved whose go blocks share a log by " .. what, function()
      local ok, message = pcall(search, function()
        local note, get = make()
        local blocks = {}
        for i = 1, 5 do blocks[i] = rn.go(note, i) end
        for i = 1, 5 do blocks[i]:take() end
        assert(get() ~= "54321", "wrong")
      end)
      assert.is_false(ok)
      assert.matches("^sim.explore: error: [^\n]*wrong", message)
    end)
  end

  it("refuses a program whose go blocks share a global, at the caller's line", function()
    local function program()
      rawset(_G, "share_spec_flag", nil)
      local a, b = rn.chan(1), rn.chan(1)
      rn.go(function() rawset(_G, "share_spec_flag", true) end)
      rn.go(function() (rawget(_G, "share_spec_flag") and a or b):put(1) end)
    end
    local ok, message = pcall(search, program)
    rawset(_G, "share_spec_flag", nil)
    assert.is_false(ok)
    assert.matches('^spec/sim/share_spec.lua:%d+: sim.explore: share = "channels" is not true', message)
  end)

  it("makes no order of what only one go block can reach, or nobody writes", function()
    local result = search(function()
      local constants = { size = 3 }
      for _ = 1, 3 do
        local list = {}
        rn.go(function()
          for i = 1, constants.size do
            list[i] = i
            rn.yield()
          end
          return #list
        end)
      end
    end)
    assert.equal("all 1 schedule of its go blocks", tostring(result))
  end)

  -- ---- what it does not go with ----

  it("refuses timers = \"any\", another value, and a world", function()
    local function nothing() end
    assert.error_matches(function() search(nothing, { timers = "any" }) end,
      'sim.explore: share = "channels" and timers = "any" exclude each other')
    assert.error_matches(function() search(nothing, { share = "all" }) end, 'share: "channels" expected, got "all"')
    assert.error_matches(function() search(function() sim.world() end) end,
      'sim.world: sim.explore with share = "channels" does not know what hosts share')
    assert.equal(1, sim.explore(function() sim.world() end).schedules)
  end)
end)
