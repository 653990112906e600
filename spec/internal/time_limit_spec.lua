-- What happens at the end of a call's time is the same for every function with such an option.

local flow = require "runnel.flow"
local missing = require "spec.support.missing"
local nats_world = require "spec.support.queue.nats_world"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local LIMIT <const>, LONG <const> = 20, 100000 -- ms

local function first(ch)
  local value, err = ch:take()
  if value ~= nil then return value end
  return nil, err
end

-- What a protected call has given: its value; or nil and the error.
local function outcome(ok, value)
  if ok then return value end
  return nil, value
end

local function store_of(f)
  local store <close> = require("runnel.store").open ":memory:"
  return f(store)
end

-- The result or the error of a stage that has one message.
local function of_stage(owner, f)
  assert(owner:stream "in")
  assert(owner:stream "out")
  assert(assert(owner:sink "in"):put "message")
  local results, failure <const> = assert(owner:source "out"), rn.chan(1)
  local one = assert(owner:stage("in", 1, f, "out", {
    timeout = LIMIT, tries = 1, dead = false,
    ex_handler = function(err)
      failure:put(err)
      return "handled"
    end,
  }))
  local value = results:take().value
  one:stop()
  if value == "handled" then return nil, failure:take() end
  return value
end

local function on_nats(f)
  local world, value, err, elapsed = nats_world.new_world(), nil, nil, nil
  world:host("program", function()
    local conn <close> = nats_world.connect()
    value, err = f(conn)
    elapsed = sim.elapsed()
  end)
  world:run(LONG / 2)
  return value, err, elapsed
end

-- Each calls f once, with that limit, and returns its result, or nil and the error; and when, if that is not now.
-- `needs`: modules. `at_once`: it does not wait until the call has ended. `by_nil`: nil and an error count as raised.
local OPERATIONS <const> = {
  { "rn.scope", call = function(f) return outcome(pcall(rn.scope, f, { timeout = LIMIT })) end },
  { "a go block of rn.scope", call = function(f)
    return outcome(pcall(rn.scope, function(s) return outcome(true, s:go(f):take()) end, { timeout = LIMIT }))
  end },
  { "rn.retry", by_nil = true, call = function(f)
    return outcome(pcall(rn.retry, f, { tries = 1, timeout = LIMIT }))
  end },
  { "rn.pmap", by_nil = true, call = function(f) return first(rn.pmap(1, f, { 1 }, { timeout = LIMIT })) end },
  { "rn.pmap, in order", by_nil = true, call = function(f)
    return first(rn.pmap(3, f, { 1 }, { timeout = LIMIT }))
  end },
  { "rn.pmap_unordered", by_nil = true, call = function(f)
    return first(rn.pmap_unordered(2, f, { 1 }, { timeout = LIMIT }))
  end },
  { "rn.frontier", by_nil = true, call = function(f)
    return first(rn.frontier(1, f, { 1 }, { timeout = LIMIT }))
  end },
  { "rn.frontier, with tries", by_nil = true, call = function(f)
    return first(rn.frontier(1, f, { 1 }, { timeout = LIMIT, tries = 1 }))
  end },
  { "a stage of a flow", by_nil = true, call = function(f)
    local results <const> = rn.chan(2)
    flow("f", {
      a = { from = { 1 } }, b = { f, timeout = LIMIT }, out = function(v) results:put { v } end,
      failed = function(e) results:put { nil, e.error } end, "a > b > out", "b.error > failed",
    }):wait()
    return table.unpack(results:take(), 1, 2)
  end },
  { "a stage of a flow whose function puts", by_nil = true, call = function(f)
    local results <const> = rn.chan(2)
    local function step(_, put)
      local value, err = f()
      if value == nil then error(err, 0) end
      put(value)
    end
    flow("f", {
      a = { from = { 1 } }, b = { step = step, timeout = LIMIT },
      out = function(v) results:put { v } end, failed = function(e) results:put { nil, e.error } end,
      "a > b > out", "b.error > failed",
    }):wait()
    return table.unpack(results:take(), 1, 2)
  end },
  { "store:once", by_nil = true, needs = "runnel.store", call = function(f)
    return store_of(function(store) return outcome(pcall(store:once("o", f, { tries = 1, timeout = LIMIT }), 1)) end)
  end },
  { "store:serve", needs = "runnel.store", call = function(f)
    return store_of(function(store)
      local worker <close> = store:serve("s", 1, f, { timeout = LIMIT }) -- luacheck: ignore 211
      return outcome(pcall(store:remote("s", { traceback = false }), 1))
    end)
  end },
  { "store:serve, whose function gets a channel", needs = "runnel.store", call = function(f)
    return store_of(function(store)
      local worker <close> = store:serve("s", 1, function(_, out) -- luacheck: ignore 211
        local value, err = f()
        if value ~= nil then out:put(value) end
        out:close(err)
      end, { timeout = LIMIT })
      local out <const> = rn.chan(1)
      store:remote("s", { traceback = false })(1, out)
      return first(out)
    end)
  end },
  { "store:stage", needs = "runnel.store", call = function(f)
    return store_of(function(store) return of_stage(store, f) end)
  end },
  { "conn:serve", needs = "runnel.nats", call = function(f)
    return on_nats(function(conn)
      local worker <close> = conn:serve("s", 1, f, { timeout = LIMIT }) -- luacheck: ignore 211
      return outcome(pcall(conn:remote("s", { traceback = false, encoding = "json" }), 1))
    end)
  end },
  { "conn:stage", needs = "runnel.nats", call = function(f)
    return on_nats(function(conn) return of_stage(conn, f) end)
  end },
  { "a request to a function of http.fake", needs = "runnel.http.curl", call = function(f)
    local http = require "runnel.http"
    local before = http.fake(function() return 200, nil, f() end)
    local closing <close> = setmetatable({}, { __close = function() http.fake(before) end }) -- luacheck: ignore 211
    local response, err = http.get("http://server/", { timeout = LIMIT })
    return response and response.body, err
  end },
  -- The client gets a status, and the function the error.
  { "http.serve", needs = "luv runnel.http.curl", at_once = true, call = function(f, seen)
    local http = require "runnel.http"
    local world, value, err, at = sim.world(), nil, nil, nil
    world:host("server", function()
      assert(http.serve(80, function() return 200, nil, f() end, { host = "0.0.0.0", timeout = LIMIT }))
    end)
    world:host("client", function()
      rn.sleep(1)
      local response = assert(http.get "http://server/")
      value, at = response.status == 200 and response.body or nil, sim.elapsed()
      rn.sleep(200) -- the function ends later
      err = response.status == 503 and seen.err or nil
    end)
    world:run(LONG / 2)
    return value, err, at
  end },
}

-- Each is a function that an operation calls, and what it gives. `seen`: for notes. `err`: the end of the message;
-- `by_nil`: for operations for which nil and an error count as raised. `report`: what http.serve reports.
local CALLS <const> = {
  { "that catches the cancelling and returns a value", err = "20 ms", f = function(seen)
    seen.err = select(2, pcall(rn.sleep, LONG))
    return "late"
  end },
  { "that catches it, and then waits again", err = "20 ms", f = function(seen)
    seen.err = select(2, pcall(rn.sleep, LONG))
    pcall(rn.sleep, 5)
    return "late"
  end },
  { "that catches it and raises its own error", err = "20 ms; cancelled, it raised: own", f = function(seen)
    seen.err = select(2, pcall(rn.sleep, LONG))
    error("own", 0)
  end, report = "own" },
  { "that catches it and returns nil and an error", err = "20 ms", f = function(seen)
    seen.err = select(2, pcall(rn.sleep, LONG))
    return nil, "own"
  end, by_nil = "20 ms; cancelled, it raised: own" },
  { "that does not catch it", err = "20 ms", f = function(seen)
    local _ <close> = setmetatable({}, { __close = function(_, err) seen.err = err end })
    rn.sleep(LONG)
  end },
  { "that takes long to close its variables", err = "20 ms", is_late = true, f = function(seen)
    local _ <close> = setmetatable({}, { __close = function(_, err)
      seen.err = err
      rn.sleep(130)
      seen.ended = sim.elapsed()
    end })
    rn.sleep(LONG)
  end },
  { "that returns before", f = function()
    rn.sleep(LIMIT - 1)
    return "in time"
  end },
  { "that returns at the last moment", f = function()
    rn.sleep(LIMIT)
    return "in time"
  end },
  { "that gets what it waits for at the last moment", f = function()
    local ch <const> = rn.chan()
    rn.go(function()
      rn.sleep(LIMIT)
      ch:put "in time"
    end)
    return ch:take()
  end },
  { "that needs no time", f = function() return "in time" end },
}

describe("at the end of its time", function()
  before_each(stage.open)
  after_each(stage.close)

  for _, operation in ipairs(OPERATIONS) do
    for _, case in ipairs(CALLS) do
      it(("a call of %s %s"):format(operation[1], case[1]), function()
        local reason = missing(operation.needs or "")
        if reason then return pending(reason) end
        if case.is_late and not stage.is_5_4_3 then return pending "variables cannot wait before Lua 5.4.3" end
        sim.run(function()
          local reports, seen, calls = {}, {}, 0
          rn.on_error(function(err) reports[#reports + 1] = tostring(err) end)
          local function f()
            calls, seen.began = calls + 1, sim.elapsed()
            return case.f(seen)
          end
          local value, err, at = operation.call(f, seen)
          local elapsed = (at or sim.elapsed()) - seen.began
          assert.equal(1, calls)
          if not case.err then
            assert.same({ "in time" }, { value, err })
          else
            assert.is_nil(value)
            assert.is_true(rn.is_timeout(err), tostring(err))
            assert.is_true(rn.is_timeout(seen.err))
            local ending = operation.by_nil and case.by_nil or not operation.at_once and case.err or "20 ms"
            assert.equal(ending, tostring(err):match " after (.*)$")
            assert.is_true(elapsed >= LIMIT and elapsed < 1000, elapsed)
            if case.is_late then
              assert.is_truthy(seen.ended)
              assert.is_true(operation.at_once or elapsed >= LIMIT + 130, elapsed)
            end
          end
          assert.same(operation.at_once and { case.report } or {}, reports)
        end)
      end)
    end
  end
end)
