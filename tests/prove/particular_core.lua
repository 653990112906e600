---Particular programs about what lite.lua does not have: f(is), where is(got, expected) checks a value. Memory,
---coroutines that others close, and variables that wait.

local core = require "runnel.core"
local plain = require "tests.prove.plain"
local rn = require "runnel"
local sim = require "runnel.sim"

local only = {}

-- The library can end the take in which a go block waits.
function only.withdraw_take(is)
  local withdraw_take = core.internal.withdraw_take
  sim.run(function()
    local ch, other = rn.chan(), rn.chan()
    local waits = {
      take = function() return ch:take() end, put = function() return ch:put(1) end,
      alts = function() return rn.alts { ch, other } end, sleep = function() return rn.sleep(5) end,
      ["another"] = function() return other:take() end, ["none"] = function() return "ended" end,
    }
    for name, f in pairs(waits) do
      local go = rn.go(function()
        local value, err = f()
        return tostring(value) .. " " .. tostring(err)
      end)
      rn.yield()
      is(withdraw_take(go, ch), name == "take")
      if name == "take" then is(withdraw_take(go, ch), false) end
      rn.yield()
      is(go:closed(), name == "take" or name == "none")
      if name == "take" then is(go:take(), "nil nil") end
      rn.cancel(go)
      rn.yield()
      is(ch:stats().takes_waiting + ch:stats().puts_waiting + other:stats().takes_waiting, 0)
    end
  end)
end

-- What a go block starts belongs to its host.
function only.hosts(is)
  local host = core.internal.host
  sim.run(function()
    is(host(), 0)
    local inner, innermost
    local go = rn.go(function()
      host(5)
      inner = rn.go(function()
        innermost = rn.go(function() return host() end)
        return host()
      end)
      return host()
    end)
    is(go:take(), 5)
    is(inner:take(), 5)
    is(innermost:take(), 5)
    is(rn.go(function() return host() end):take(), 0)
    local ch = rn.chan()
    ch:take_async(function() is(host(), 0) end)
    is(host(), 0)
  end)
  is(host(), 0)
end

-- What a go block starts belongs to the function of the library that the program has called.
function only.origins(is)
  local internal = core.internal
  local function origin_inside() -- as the library's own go blocks see it
    local seen
    local guard = setmetatable({ returned = function(_, _, text) seen = text end }, { __close = function() end })
    rn.go(internal.guarded, guard, internal.origin, "x"):take()
    return seen
  end
  sim.run(function()
    local text
    local go = rn.go(function()
      rn.go(function() text = origin_inside() end):take()
    end)
    internal.started(go, "outer")
    go:take()
    is(tostring(text):match "^outer at ", "outer at ")
    is(origin_inside(), nil)
  end)
end

-- Operations that wait need no memory: what they use is kept for the next one.
function only.memory(is)
  local ch, other, ops, many = rn.chan(), rn.chan(), {}, {}
  ops[1], ops[2] = ch, other
  for i = 1, 50 do many[i] = i == 30 and ch or rn.chan() end
  local puts = { { ch, 1 } }
  local function bytes(n, f)
    for _ = 1, 20 do f() end
    collectgarbage()
    collectgarbage "stop"
    local before = collectgarbage "count"
    for _ = 1, n do f() end
    local used = (collectgarbage "count" - before) * 1024 / n
    collectgarbage "restart"
    return used
  end
  local partner -- what the other go block does
  local function wait_for_it() partner() end
  local function both(f, theirs)
    partner = theirs
    return function()
      rn.go(wait_for_it)
      f()
    end
  end
  local function nothing() end
  local function put() ch:put(1) end
  local function take() return ch:take() end
  for _, where in ipairs { "outside", "inside" } do
    local function measure()
      local one = bytes(200, function()
        rn.go(nothing)
        rn.yield()
      end) + 250 -- a go block, and some of its stack
      is(bytes(200, both(take, put)) < one, true)
      is(bytes(200, both(put, take)) < one, true)
      is(bytes(200, both(function() rn.alts(ops) end, put)) < one, true)
      is(bytes(200, both(function() rn.alts(many) end, put)) < one, true)
      is(bytes(200, both(function() rn.alts(puts) end, take)) < one, true)
      is(bytes(200, both(take, function() rn.alts(puts) end)) < one, true)
      is(bytes(200, both(put, function() rn.alts(ops) end)) < one, true)
      is(bytes(200, both(put, function() rn.alts(many) end)) < one + 1500, true)
      is(bytes(200, function() rn.yield() end) < 10, true)
      if where == "inside" then is(bytes(200, function() rn.sleep(1) end) < 10, true) end
      is(bytes(200, function() pcall(rn.alts, many, { nowait = true }) end) < 200, true)
    end
    if where == "inside" then sim.run(measure) else measure() end
  end
  sim.run(function() is(bytes(1000, function() rn.timeout(20):take() end) < 300, true) end)
  sim.run(function() -- many at a time use the same places again
    local before
    rn.timeout(1e9)
    for round = 1, 42 do
      for i = 1, 100 do rn.timeout(i * 20) end
      rn.sleep(2100)
      if round == 2 or round == 42 then collectgarbage() end
      before = before or round == 2 and collectgarbage "count" or nil
    end
    is(collectgarbage "count" - before < 16, true)
  end)
end

-- Coroutines of go blocks that other code closes or resumes: the go block ends, and its operation is withdrawn.
function only.others_close_coroutines(is)
  for _, where in ipairs { "take", "put", "sleep", "alts", "ready", "yield" } do
    for _, meddle in ipairs { "close", "resume", "wrap" } do
      sim.run(function()
        local ch, co, closed = rn.chan(), nil, nil
        rn.on_error(function() end)
        local go = rn.go(function()
          co = coroutine.running()
          local _ <close> = setmetatable({}, { __close = function(_, err) closed = tostring(err) end })
          if where == "take" then ch:take()
          elseif where == "put" then ch:put(1)
          elseif where == "sleep" then rn.sleep(10)
          elseif where == "alts" then rn.alts { ch, { rn.chan(), 1 } }
          elseif where == "ready" then ch:take()
          else rn.yield() end
          return "goes on"
        end)
        rn.yield()
        if where == "ready" then ch:put "a value" end
        if meddle == "close" then
          coroutine.close(co)
          is(closed, "nil")
          is(coroutine.status(co), "dead")
        else
          pcall(coroutine.resume, co)
        end
        is(ch:stats().takes_waiting + ch:stats().puts_waiting, 0)
        local value, err = go:take()
        is(value, nil)
        is(err:match "closed or resumed by other code" ~= nil, true)
        is(closed ~= nil, true)
        is(rn.now(), 0)
        is(rn.cancel(go), false)
        rn.sleep(20)
        is(ch:offer(1), nil)
        rn.on_error(nil)
      end)
    end
  end
end

-- A go block that is cancelled while it closes its variables gets that once.
function only.a_dying_go_block_is_told_once(is)
  for _, ending in ipairs { "error", "cancel" } do
    sim.run(function()
      local log = {}
      local go = rn.go(function()
        local _ <close> = setmetatable({}, { __close = function(_, err)
          log[#log + 1] = err
          for _ = 1, 3 do
            local ok, why = pcall(rn.sleep, 5)
            log[#log + 1] = tostring(why or ok)
          end
        end })
        if ending == "error" then error("raised", 0) end
        rn.sleep(1000)
      end)
      rn.yield()
      if ending == "cancel" then is(rn.cancel(go, "raised"), true) end
      rn.sleep(1)
      is(rn.cancel(go, "meanwhile"), true)
      is(rn.cancel(go, "again"), true)
      rn.sleep(100)
      is(table.concat(log, " "), "raised meanwhile true true")
      local value, err = go:take()
      is(value, nil)
      is(err, "raised")
      is(rn.cancel(go), false)
    end)
  end
end

-- One that goes on although it was cancelled may wait while it closes its variables, and nowhere else.
function only.a_cancelled_go_block_closes_its_variables(is)
  sim.run(function()
    local log = {}
    local function say(ok, err) log[#log + 1] = tostring(err or ok) end
    local go = rn.go(function()
      local function close() say(pcall(rn.sleep, 5)) end
      do
        local _ <close> = setmetatable({}, { __close = close })
        say(pcall(rn.sleep, 1000))
        say(pcall(rn.sleep, 1000))
      end
      say(pcall(rn.yield))
      local _ <close> = setmetatable({}, { __close = function() pcall(close) end })
      return "result"
    end)
    rn.yield()
    is(rn.cancel(go, "cancelled"), true)
    is(go:take(), "result")
    is(table.concat(log, " "), "cancelled cancelled true cancelled true")
    is(rn.now(), 10)
  end)
end

-- Variables that are closed may wait, whatever has ended the go block: by what it ends, its variables with their errors
-- in the order in which they are closed, and its result.
local ENDINGS = {
  { "return", { "b nil", "a nil" }, "result nil" },
  { "error", { "b raised", "a raised" }, "nil raised" },
  { "cancel", { "b cancelled", "a cancelled" }, "nil cancelled" },
  { "yield", { "b yielded", "a yielded" }, "nil yielded" },
  { "nested error", { "c of inner", "b of inner", "a of inner" }, "nil of inner" },
  { "raising variable", { "b raised", "a raised by b" }, "nil raised by b" },
}
function only.variables_wait(is)
  for _, case in ipairs(ENDINGS) do
    local ending, variables, result = table.unpack(case)
    sim.run(function()
      local log, ch = {}, rn.chan()
      local function say(text) log[#log + 1] = text:gsub("a go block called coroutine.yield.*", "yielded") end
      rn.on_error(function(err) say("report " .. plain(err)) end)
      local function variable(name)
        return setmetatable({}, { __close = function(_, err)
          say(name .. " " .. plain(err))
          local ok, why = pcall(rn.sleep, 5)
          say(name .. " slept " .. tostring(ok) .. " " .. plain(why))
          say(name .. " took " .. tostring(ch:take()))
          if ending == "raising variable" and name == "b" then error("raised by b", 0) end
        end })
      end
      local function inner()
        local _ <close> = variable "c"
        if ending == "nested error" then error("of inner", 0) end
      end
      local go = rn.go(function()
        local _ <close> = variable "a"
        local _ <close> = variable "b"
        if ending == "nested error" then inner() end
        if ending == "error" or ending == "raising variable" then error("raised", 0) end
        if ending == "cancel" then rn.sleep(1000) end
        if ending == "yield" then coroutine.yield() end
        return "result"
      end)
      rn.yield()
      if ending == "cancel" then rn.cancel(go, "cancelled") end
      for i = 1, 3 do
        rn.sleep(10)
        say("offer " .. tostring(ch:offer(i)) .. " " .. tostring(go:closed()))
      end
      local value, err = go:take()
      say(tostring(value) .. " " .. plain(err))
      rn.on_error(nil)
      local expected = {}
      for i = 1, 3 do
        local name = variables[i] and variables[i]:sub(1, 1)
        if name then table.move({ variables[i], name .. " slept true nil" }, 1, 2, #expected + 1, expected) end
        expected[#expected + 1] = name and "offer true false" or "offer nil true"
        if name then expected[#expected + 1] = ("%s took %d"):format(name, i) end
      end
      expected[#expected + 1] = result
      is(table.concat(log, "; "), table.concat(expected, "; "))
    end)
  end
end

-- The function of a transducer may ask how many values its channel has.
function only.counting_in_a_transducer(is)
  sim.run(function()
    local seen, ch = {}, nil
    ch = rn.chan(3, function(rf)
      return function(acc, ...)
        if select("#", ...) > 0 then seen[#seen + 1] = #ch end
        return rf(acc, ...)
      end
    end)
    for i = 1, 3 do is(ch:put(i), true) end
    is(table.concat(seen, " "), "0 1 2")
    is(ch:stats().values, 3)
    is(#ch, 3)
  end)
end

return only
