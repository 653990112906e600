---Particular programs about buffer policies, which lite.lua does not have: policies that raise, return nonsense, close
---their channel, and use others. As particular_core.lua.

local plain = require "tests.prove.plain"
local rn = require "runnel"
local sim = require "runnel.sim"

local only = {}

-- A queue of `limit` values, and its table of methods that are to be done in another way.
local function queue(limit)
  local instead = {}
  local q = { values = {}, closed = 0 }
  local methods = {
    full = function() return #q.values >= limit end,
    add = function(_, value) q.values[#q.values + 1] = value end,
    remove = function() return table.remove(q.values, 1) end,
    count = function() return #q.values end,
    close = function() q.closed = q.closed + 1 end,
  }
  for name, method in pairs(methods) do
    q[name] = function(...) return (instead[name] or method)(...) end
  end
  return q, instead
end

local function raise() error("raised", 0) end
local function error_of(f, ...) return plain(select(2, pcall(f, ...))) end

-- Runs f in a simulation, with a list of the errors that were reported.
local function simulate(f)
  sim.run(function()
    local reports = {}
    rn.on_error(function(err) reports[#reports + 1] = plain(err) end)
    f(reports)
    rn.on_error(nil)
  end)
end

function only.a_policy_that_raises_in_an_operation(is)
  simulate(function(reports)
    local q, instead = queue(2)
    local ch, other = rn.chan(q), rn.chan()
    for _, name in ipairs { "full", "add" } do
      instead[name] = raise
      is(error_of(ch.put, ch, 1), "raised")
      is(error_of(ch.offer, ch, 1), "raised")
      is(error_of(rn.alts, { other, { ch, 1 } }), "raised")
      is(error_of(ch.put_async, ch, 1, print), "raised")
      instead[name] = nil
      is(ch:stats().put_total, 0)
      is(#ch, 0)
      is(other:stats().takes_waiting, 0)
    end
    is(ch:put(1), true)
    for _, name in ipairs { "remove", "count" } do
      instead[name] = raise
      is(error_of(ch.take, ch), "raised")
      is(error_of(ch.poll, ch), "raised")
      is(error_of(rn.alts, { other, ch }), "raised")
      is(error_of(ch.take_async, ch, print), "raised")
      if name == "count" then is(error_of(function() return #ch end), "raised") end
      instead[name] = nil
      is(ch:stats().take_total, 0)
      is(#ch, 1)
    end
    is(ch:take(), 1)
    is(ch:stats().take_total, 1)
    is(#reports, 0)
  end)
end

function only.a_policy_that_raises_for_those_that_wait(is)
  simulate(function(reports)
    local q, instead = queue(1)
    local ch, other, log = rn.chan(q):name "c", rn.chan(), {}
    local function start(f)
      rn.go(function()
        local text = error_of(f)
        log[#log + 1] = text
        if not pcall(rn.yield) then log[#log + 1] = "again" end
      end)
      rn.yield()
    end
    local function logged()
      rn.yield()
      rn.yield()
      local text = table.concat(log, ",") .. ";" .. table.concat(reports, ",")
      for i = 1, #log do log[i] = nil end
      for i = 1, #reports do reports[i] = nil end
      return text
    end
    ch:put "first"
    start(function() return ch:put "second" end)
    start(function() return (rn.alts { other, { ch, "third" } }) end)
    ch:put_async("fourth", function(ok, err) log[#log + 1] = ("%s %s"):format(ok, err) end)
    is(ch:stats().puts_waiting, 3)
    instead.add = raise
    is(ch:take(), "first")
    is(logged(), "raised,raised,false raised;raised")
    is(ch:stats().put_total, 1)
    is(ch:stats().puts_waiting + other:stats().takes_waiting, 0)
    instead.add = nil
    -- takes
    start(function() return ch:take() end)
    start(function() return (rn.alts({ other, ch }, { priority = true })) end)
    ch:take_async(function(value, err) log[#log + 1] = ("%s %s"):format(value, err) end)
    instead.remove = raise
    is(ch:put "value", true)
    is(logged(), "raised,raised,nil raised;raised")
    is(ch:stats().take_total, 1)
    is(#ch, 1)
    is(ch:stats().takes_waiting + other:stats().takes_waiting, 0)
    instead.remove = nil
    -- no operation asks: the error is reported
    start(function() return ch:put "waits" end)
    local calls = 0
    instead.full = function() calls = calls + 1 raise() end
    is(ch:take(), "value")
    is(calls, 1)
    is(logged(), ";raised")
    is(ch:stats().puts_waiting, 1)
    instead.full = nil
    is(ch:take(), "waits")
    is(logged(), "true;")
    start(function() return ch:take() end)
    instead.count = raise
    is(ch:put "later", true)
    is(logged(), ";raised")
    instead.count = nil
    is(ch:stats().takes_waiting, 1)
    is(ch:put "again", true)
    is(logged(), "later;")
    is(ch:take(), "again")
  end)
end

function only.a_policy_that_returns_nonsense(is)
  simulate(function(reports)
    local q, instead = queue(2)
    local ch = rn.chan(q)
    is(ch:put(1), true)
    for _, wrong in ipairs { "x", -1, 0.5, {}, true } do
      instead.count = function() return wrong end
      local text = "the buffer policy's count did not return a non-negative integer"
      is(error_of(ch.take, ch):gsub("^.-: ", ""), text)
      is(error_of(function() return #ch end):gsub("^.-: ", ""), text)
    end
    instead.count = function() end
    is(error_of(ch.take, ch):find "non%-negative integer" ~= nil, true)
    instead.count = function() return 3 end
    instead.remove = function() end
    is(error_of(ch.take, ch):find "remove returned nil although its count is not 0" ~= nil, true)
    instead.count, instead.remove = function() return 1.0 end, function() return false end
    is(ch:take(), false)
    instead.count, instead.remove = nil, nil
    is(ch:take(), 1)
    q.full = nil
    is(error_of(ch.put, ch, 1):find "the buffer policy has no method 'full'" ~= nil, true)
    q.full, q.close = function() end, nil
    is(ch:put(2), true)
    ch:close()
    is(ch:take(), 2)
    is(ch:take(), nil)
    is(ch:closed(), true)
    is(#reports, 0)
  end)
end

function only.a_policy_is_closed_once(is)
  simulate(function(reports)
    for _, how in ipairs { "empty", "full", "waiting", "withdrawn", "raising" } do
      local q, instead = queue(1)
      local ch = rn.chan(q)
      if how ~= "empty" then ch:put(1) end
      local putter
      if how == "waiting" or how == "withdrawn" then
        putter = rn.go(function() return ch:put(2) end)
        rn.yield()
      end
      if how == "raising" then instead.close = function() q.closed = q.closed + 1 raise() end end
      ch:close "why"
      is(q.closed, (how == "waiting" or how == "withdrawn") and 0 or 1)
      is(ch:put(3), false)
      if how ~= "empty" then is(ch:take(), 1) end
      if how == "withdrawn" then
        is(q.closed, 1) -- the waiting put has entered
        is(ch:take(), 2)
      elseif how == "waiting" then
        is(putter:take(), true)
        is(ch:take(), 2)
      end
      local value, why = ch:take()
      is(value, nil)
      is(why, "why")
      is(q.closed, 1)
      ch:close()
      is(q.closed, 1)
    end
    is(table.concat(reports, ","), "raised")
    -- the last waiting put is withdrawn after the close
    local q = queue(1)
    local ch = rn.chan(q)
    ch:put(1)
    local putter = rn.go(function() return ch:put(2) end)
    rn.yield()
    ch:close()
    is(ch:take(), 1)
    rn.cancel(putter)
    is(ch:take(), 2)
    local q2 = queue(0)
    local ch2 = rn.chan(q2)
    putter = rn.go(function() return ch2:put(2) end)
    rn.yield()
    ch2:close()
    rn.cancel(putter)
    is(q2.closed, 0)
    is(ch2:take(), nil)
    is(q2.closed, 1)
    is(ch2:take(), nil)
    is(q2.closed, 1)
  end)
end

function only.a_policy_and_its_channel(is)
  simulate(function(reports)
    for _, name in ipairs { "full", "add", "remove", "count" } do
      local q, instead = queue(2)
      local ch = rn.chan(q):name "c"
      ch:put(1)
      for _, use in ipairs { "put", "take", "offer", "poll", "alts", "#", "take_async" } do
        local said
        instead[name] = function()
          instead[name] = nil
          said = error_of(function()
            if use == "alts" then return rn.alts { ch } end
            if use == "#" then return #ch end
            return ch[use](ch, use == "take_async" and print or 2)
          end)
          return name == "count" and 1 or name == "remove" and 1 or nil
        end
        if name == "full" or name == "add" then ch:offer(3) else is(ch:poll(), 1) end
        is(said, "chan: c: a transducer or buffer policy must not use the channel that it runs for")
        q.values = { 1 }
      end
      instead[name] = function()
        instead[name] = nil
        ch:close("closed by " .. name)
        is(ch:closed(), true)
        ch:close "again"
        return name == "count" and 1 or name == "remove" and 1 or nil
      end
      is(ch:closed(), false)
      if name == "full" then is(ch:offer(2), false)
      elseif name == "add" then is(ch:offer(2), true)
      else is(ch:poll(), 1) end
      is(ch:closed(), true)
      is(ch:put(5), false)
      q.values = {}
      is(select(2, ch:take()), "closed by " .. name)
      is(q.closed, 1)
    end
    is(#reports, 0)
  end)
end

function only.a_policy_and_other_channels(is)
  simulate(function(reports)
    local q, instead = queue(1)
    local ch, other = rn.chan(q), rn.chan()
    ch:put(1)
    local calls = 0
    instead.full = function()
      calls = calls + 1
      if calls == 1 then rn.go(function() other:put "put meanwhile" end) end
      if calls == 1 then other:put_async "put by the policy" end
      return true
    end
    local value, port = rn.alts({ other, { ch, 2 } }, { priority = true })
    is(value, "put by the policy")
    is(port, other)
    is(ch:stats().puts_waiting, 0)
    is(other:take(), "put meanwhile")
    -- it changes its mind: another operation, or none
    local answers = { false, true }
    instead.full = function() return table.remove(answers, 1) ~= false end
    value, port = rn.alts({ { ch, 2 } }, { default = "none" })
    is(value, "none")
    is(port, "default")
    answers = { false, true }
    other:put_async "second"
    value, port = rn.alts({ { ch, 2 }, other }, { priority = true })
    is(value, "second")
    is(port, other)
    -- also instead of the default
    answers = { false, true }
    other:put_async "third"
    value, port = rn.alts({ { ch, 2 }, other }, { priority = true, default = "none" })
    is(value, "third")
    is(port, other)
    -- also if the value is buffered
    local buffered = rn.chan(1)
    answers = {}
    instead.full = function()
      buffered:offer "buffered"
      return true
    end
    value, port = rn.alts({ buffered, { ch, 2 } }, { priority = true })
    is(value, "buffered")
    is(port, buffered)
    instead.full = nil
    -- takes: it has a value, and then it has none
    local n = 0
    instead.count = function()
      n = n + 1
      return n < 50 and n % 2 or 0
    end
    value, port = rn.alts({ ch }, { default = "none" })
    is(value, "none")
    is(port, "default")
    is(n, 2)
    n = 0
    buffered:put "third"
    value, port = rn.alts({ ch, buffered }, { priority = true })
    is(value, "third")
    is(port, buffered)
    is(n, 2)
    instead.count = nil
    -- an alts whose operation on a policy completes has left its other queues before the policy runs
    is(ch:take(), 1)
    local seen
    local go = rn.go(function() return (rn.alts { ch, other }) end)
    rn.yield()
    instead.remove = function(self)
      seen = other:offer "nobody waits"
      return table.remove(self.values, 1)
    end
    is(ch:put "for the alts", true)
    is(seen, nil)
    is(go:take(), "for the alts")
    instead.remove = nil
    -- a go block that is cancelled while its value is looked for
    go = rn.go(function() return (ch:take()) end)
    rn.yield()
    instead.remove = function(self)
      is(rn.cancel(go, "cancelled"), true)
      return table.remove(self.values, 1)
    end
    is(ch:put "arrives", true)
    is(go:take(), "arrives")
    instead.remove = nil
    -- one whose coroutine is closed or resumed meanwhile: the value is lost
    for _, meddle in ipairs { coroutine.close, coroutine.resume } do
      local co
      go = rn.go(function()
        co = coroutine.running()
        return (ch:take())
      end)
      rn.yield()
      instead.remove = function(self)
        meddle(co)
        return table.remove(self.values, 1)
      end
      is(ch:put "is lost", true)
      instead.remove = nil
      is(plain(select(2, go:take())), "the coroutine of the go block was closed or resumed by other code")
    end
    is(#ch, 0)
    is(ch:stats().take_total, 5)
    is(#reports, 0)
  end)
end

-- Outside any go block a policy serves the operation that waits there.
function only.a_policy_outside(is)
  local q, instead = queue(1)
  local ch = rn.chan(q)
  rn.go(function() ch:put "value" end)
  is(ch:take(), "value")
  rn.go(function() instead.remove = raise ch:put "stays" end)
  is(error_of(ch.take, ch), "raised")
  instead.remove = nil
  is(#ch, 1)
  rn.go(function() is(ch:take(), "stays") end)
  is(ch:put "enters", true)
  is(ch:take(), "enters")
  ch:put "full"
  rn.go(function() instead.add = raise ch:take() end)
  is(error_of(ch.put, ch, "not added"), "raised")
  instead.add = nil
end

return only
