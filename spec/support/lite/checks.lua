---A program that runs on Lua 5.1 to 5.5 and LuaJIT, on runnel.lite and on runnel. It prints what happens, the same
---everywhere. Run: lua checks.lua MODULE. (No wait in pcall and in iterators: Lua 5.1 cannot.)

local name = ...
local rn = require(name)
local sim = rn.sim or require "runnel.sim"

local function show(...)
  local parts = {}
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    parts[i] = type(value) == "number" and ("%g"):format(value) or rn.is_chan(value) and "channel" or tostring(value)
  end
  return table.concat(parts, " ")
end

local function say(...) print(show(...)) end

local function in_simulation(title, f)
  print("-- " .. title)
  rn.on_error(function(err) say("reported", err) end)
  sim.run(f)
  rn.on_error(nil)
end

local BUFFERS = {
  { "none" }, { "fixed", function() return 2 end }, { "dropping", function() return rn.dropping_buffer(2) end },
  { "sliding", function() return rn.sliding_buffer(2) end },
}

in_simulation("buffers", function()
  for _, buffer in ipairs(BUFFERS) do
    local ch = rn.chan(buffer[2] and buffer[2]())
    for i = 1, 4 do say(buffer[1], "offer", ch:offer(i)) end
    local stats = ch:stats()
    say(stats.buffer, stats.values, stats.capacity, tostring(ch:name(buffer[1])))
    ch:close "the end"
    say(ch:offer(5))
    for _ = 1, 4 do say(ch:poll()) end
    say(tostring(ch), ch:closed())
  end
  local promise = rn.promise_chan()
  rn.go(function() say("promise", promise:take()) end)
  rn.yield()
  say(promise:put "first", promise:put "second", promise:take(), promise:take())
end)

in_simulation("a rendezvous, and closing", function()
  local ch = rn.chan()
  local writer = rn.go(function()
    for i = 1, 3 do say("put", ch:put(i)) end
    return "written"
  end)
  say(ch:take())
  ch:close "enough"
  say(ch:take())
  say(ch:take())
  say(ch:take())
  say(writer:take())
  say(writer:take())
  say(ch:done():take())
end)

in_simulation("errors of go blocks", function()
  say(rn.go(function() error("raised", 0) end):take())
  say(rn.go(function() return nil, "returned" end):take())
  say(rn.go(function(...) return select("#", ...) end, nil, nil):take())
  rn.go(function() error("nobody takes this", 0) end)
  rn.sleep(4999)
  say "after 4999 ms"
  rn.sleep(1)
  say "after 5000 ms"
end)

in_simulation("alts", function()
  local a, b = rn.chan(1), rn.chan(1)
  say(rn.alts({ a, b }, { default = "none" }))
  say(rn.alts({ a }, { nowait = true }))
  a:put "in a"
  local value, port = rn.alts { a, b }
  say(value, port == a)
  value, port = rn.alts({ { b, "for b" }, a }, { priority = true })
  say(value, port == b, b:take())
  local limit = rn.timeout(50)
  value, port = rn.alts { a, limit }
  say(value, port == limit, rn.now())
  rn.go(function() b:close "because" end)
  local err
  value, port, err = rn.alts { a, b }
  say(value, port == b, err)
end)

in_simulation("time", function()
  say(rn.timeout(5) == rn.timeout(1), rn.timeout(5) == rn.timeout(15))
  local log = {}
  for i, ms in ipairs { 30, 10, 20, 10 } do
    rn.go(function()
      rn.sleep(ms)
      log[#log + 1] = i .. " at " .. show(rn.now())
    end)
  end
  rn.sleep(40)
  say(table.concat(log, ", "))
end)

in_simulation("cancel", function()
  local ch = rn.chan()
  local result = rn.go(function() ch:take() end)
  rn.yield()
  say(rn.cancel(result, "enough"), rn.cancel(result, "too late"))
  say(result:take())
  say(rn.cancel(result), ch:offer "nobody takes it")
  local sleeper = rn.go(function() rn.sleep(1000) end)
  rn.yield()
  rn.cancel(sleeper)
  say(sleeper:take())
  say(rn.now())
  local putter = rn.go(function() say("put", ch:put "value") say "goes on" ch:take() end)
  rn.yield()
  say(ch:take(), rn.cancel(putter, "later"))
  say(putter:take())
end)

in_simulation("callbacks", function()
  local ch = rn.chan(1)
  ch:take_async(function(...) say("taken", ...) end)
  say(ch:put_async(1, function(...) say("put", ...) end))
  ch:take_async(function() error("a callback raises", 0) end)
  ch:put(2)
  rn.yield()
  ch:put_async(3, function(...) say("put later", ...) end, false)
  say "first"
  rn.yield()
  ch:close "over"
  say(ch:put_async(4, function(...) say("closed", ...) end))
  ch:take_async(say)
  ch:take_async(say)
end)

in_simulation("transducers", function()
  local function xf(rf)
    local n = 0
    return function(...)
      local acc, value = ...
      if select("#", ...) < 2 then return rf(select("#", ...) == 1 and rf(acc, "last") or acc) end
      n = n + 1
      if value == "bad" then error("a bad value", 0) end
      if value == "stop" then return rn.reduced(acc) end
      if value == "wrong" then return 17 end
      return rf(rf(acc, value), n)
    end
  end
  local ch = rn.chan(1, xf, function(err) return "instead of " .. tostring(err):gsub("^.-:%d+: ", "") end)
  rn.go(function()
    for _, value in ipairs { "one", "bad", "wrong", "stop", "late" } do say(value, ch:put(value)) end
  end)
  rn.sleep(1)
  repeat
    local value = ch:take()
    say(value)
  until value == nil
end)

print "-- bad input"
for _, case in ipairs {
  { function() rn.chan(1):put(nil) end }, { function() rn.chan(-1) end }, { function() rn.chan(1.5) end },
  { function() rn.chan "x" end, true }, { function() rn.chan(0, function(rf) return rf end) end },
  { function() rn.chan(1, 17) end }, { function() rn.chan(1, nil, print) end }, { function() rn.buffer(0) end },
  { function() rn.go(17) end }, { function() rn.go(rn.chan()) end }, { function() rn:go() end },
  { function() rn.alts(rn.chan()) end }, { function() rn.alts {} end }, { function() rn.alts { 17 } end },
  { function() rn.alts { { rn.chan() } } end }, { function() rn.alts { { 17, 1 } } end },
  { function() rn.alts({ rn.chan() }, { prio = true }) end }, { function() rn.alts { rn.chan(), default = 1 } end },
  { function() rn.cancel(rn.chan():name "c") end }, { function() rn.cancel(17) end }, { function() rn.sleep "x" end },
  { function() rn.sleep(-1) end }, { function() rn.timeout(math.huge) end }, { function() rn.timeout(10):close() end },
  { function() rn.chan():done():close() end }, { function() rn.chan():take_async(17) end },
  { function() rn.chan().take(17) end }, { function() rn.chan():name(17) end },
  { function() local b = rn.buffer(1) rn.chan(b) rn.chan(b) end },
} do
  local ok, err = pcall(case[1])
  if not case[2] then say(ok, err) end
end

print "-- outside of go blocks"
local ch = rn.chan()
rn.go(function() ch:put "from a go block" end)
say(ch:take())
local ok, err = pcall(function() ch:take() end)
say(ok, tostring(err):match "deadlock")
say(rn.run(function(...) return select("#", ...), ... end, nil, 2))
for i = 1, 4 do
  rn.go(function()
    say("turn 1 of", i)
    rn.yield()
    say("turn 2 of", i)
  end)
end
rn.yield()
say "all have had their first turn"
rn.run()

print "-- all orders"
local explored = sim.explore(function()
  local c, buffered = rn.chan(), rn.chan(1)
  for i = 1, 3 do rn.go(function() rn.alts { { c, i }, { buffered, i } } end) end
  for _ = 1, 3 do rn.alts { c, buffered } end
end, not rn.sim and { seconds = 60 } or nil)
say(explored.schedules, explored.all)
