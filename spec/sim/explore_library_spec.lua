---The library's own operations in every order that a short search finds, while channels close and go blocks are
---cancelled at any step. And mutants of them, each with a fault that a reviewer might miss: the same programs must
---find it.

local rn = require "runnel"
local long = require "spec.support.long"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

-- Starts a go block that does one of the acts, or none, after some steps.
local function disturb(acts)
  local act, steps = acts[sim.choose(#acts + 1)], sim.choose(4) - 1
  if not act then return end
  rn.go(function()
    rn.rename "disturbs"
    for _ = 1, steps do rn.yield() end
    act()
  end)
end

-- Puts 1 to n on a channel, until it is closed, and closes it.
local function source(ch, n)
  return rn.go(function()
    rn.rename "source"
    for i = 1, n do
      if not ch:put(i) then return end
    end
    ch:close()
  end)
end

-- Takes all values of a channel into a list, and notes in `times` when.
local function reader(ch, times)
  local list = {}
  rn.go(function()
    rn.rename "reader"
    for value in ch do
      list[#list + 1] = value
      if times then times[#list] = rn.now() end
    end
    list.is_over = true
  end)
  return list
end

-- Asserts that a list has values from `first` on, in order and without gaps.
local function assert_run(list, first)
  for i, value in ipairs(list) do
    if value ~= first + i - 1 then error(("value %d is %s: %s"):format(i, value, table.concat(list, " ")), 2) end
  end
end

local function is_subset(list, n)
  local seen = {}
  for _, value in ipairs(list) do
    if seen[value] or value < 1 or value > n then error("taken twice, or never put: " .. table.concat(list, " "), 2) end
    seen[value] = true
  end
end

-- The programs. Each gets the modules to use: the library's, or mutants. What waits at the end is found as a leak.
local programs = {}

function programs.mult(lib)
  local from = rn.chan(sim.choose(2) - 1)
  local m = lib.mult.mult(from)
  local a, b = m:tap(rn.chan()), m:tap(rn.chan(1))
  local got_a, got_b = reader(a), reader(b)
  source(from, 3)
  local is_whole_a, is_whole_b = true, true
  disturb {
    function() is_whole_a = false a:close() end,
    function() is_whole_a = false m:untap(a) a:close() end,
    function() is_whole_b = false b:close() end,
  }
  rn.sleep(1)
  assert_run(got_a, 1)
  assert_run(got_b, 1)
  assert(not is_whole_a or #got_a == 3, "a tap has lost values")
  assert(not is_whole_b or #got_b == 3, "a tap has lost values")
end

function programs.pub(lib)
  local from = rn.chan()
  local p = lib.pub.pub(from, function(v) return v % 2 end)
  local odd, even, other = rn.chan(), rn.chan(), rn.chan()
  p:sub(1, odd)
  p:sub(0, even)
  p:sub(1, other)
  local got_odd, got_even, got_other = reader(odd), reader(even), reader(other)
  source(from, 4)
  disturb {
    function() other:close() end,
    function() p:unsub(1, other) other:close() end,
    function() p:unsub_all(1) odd:close() other:close() end,
    function() even:close() end,
  }
  rn.sleep(1)
  for _, list in ipairs { got_odd, got_other } do
    for i, value in ipairs(list) do assert(value == 2 * i - 1, "not in order") end
  end
  for i, value in ipairs(got_even) do assert(value == 2 * i, "not in order") end
end

function programs.mix(lib)
  local out = rn.chan()
  local m = lib.mix.mix(out)
  local a, b = rn.chan(), rn.chan()
  m:admix(a)
  m:admix(b)
  local got = {}
  rn.go(function()
    rn.rename "reader"
    for value in out do got[#got + 1] = value end
  end)
  source(a, 2)
  source(b, 2)
  local is_whole, expected = true, 4
  disturb {
    function() is_whole = false out:close() a:close() b:close() end,
    function() m:toggle { [a] = { pause = true } } m:toggle { [a] = { pause = false } } end,
    function()
      local c = rn.chan()
      m:admix(c)
      expected = 5
      source(c, 1)
    end,
    function()
      is_whole = false
      m:unmix(a)
      a:close()
      for _ in a do end
    end,
  }
  rn.sleep(1)
  if is_whole then assert(#got == expected, ("%d of %d values"):format(#got, expected)) end
  for _, ch in ipairs { a, b, out } do ch:close() end
  for _, ch in ipairs { a, b } do for _ in ch do end end
end

function programs.merge(lib)
  local a, b = rn.chan(), rn.chan(1)
  local out = lib.pipe.merge { a, b }
  local got = reader(out)
  source(a, 2)
  source(b, 2)
  local is_whole = true
  disturb { function() is_whole = false out:close() a:close() b:close() end }
  rn.sleep(1)
  assert(got.is_over)
  assert(#got <= 4 and (#got == 4 or not is_whole), "a value was lost")
  for _, ch in ipairs { a, b } do for _ in ch do end end
end

function programs.map(lib)
  local a, b = rn.chan(), rn.chan()
  local out = lib.operations.map(function(x, y) return x + y end, { a, b })
  local got = reader(out)
  source(a, 3)
  source(b, 3)
  local is_whole = true
  disturb {
    function() is_whole = false out:close() end,
    function() is_whole = false a:close() end,
  }
  rn.sleep(1)
  for i, value in ipairs(got) do assert(value == 2 * i, "not in order") end
  assert(#got == 3 or not is_whole, "a value was lost")
  a:close()
  b:close()
  for _, ch in ipairs { a, b } do for _ in ch do end end
end

function programs.split(lib)
  local from = rn.chan()
  local yes, no = lib.operations.split(function(v) return v % 2 == 0 end, from)
  local got_yes, got_no = reader(yes), reader(no)
  source(from, 4)
  disturb {
    function() yes:close() end,
    function() no:close() end,
    function() yes:close() no:close() from:close() end,
  }
  rn.sleep(1)
  for i, value in ipairs(got_yes) do assert(value == 2 * i, "not in order") end
  for i, value in ipairs(got_no) do assert(value == 2 * i - 1, "not in order") end
  from:close()
  for _ in from do end
end

for _, name in ipairs { "pmap", "pmap_unordered" } do
  programs[name] = function()
    local from, running, most = rn.chan(), 0, 0
    local results = rn[name](2, function(v)
      running = running + 1
      most = math.max(most, running)
      local _ <close> = setmetatable({}, { __close = function() running = running - 1 end })
      rn.yield()
      return v
    end, from)
    local got = reader(results)
    source(from, 3)
    local is_whole = true
    disturb { function() is_whole = false results:close() from:close() end }
    rn.sleep(1)
    assert(running == 0 and most <= 2, "too many jobs")
    if name == "pmap" then assert_run(got, 1) else is_subset(got, 3) end
    assert(#got == 3 or not is_whole, "a value was lost")
    for _ in from do end
  end
end

for _, name in ipairs { "pipeline_async", "pipeline_async_unordered" } do
  programs[name] = function()
    local from, to, running, most = rn.chan(), rn.chan(), 0, 0
    rn[name](2, to, function(v, result)
      running = running + 1
      most = math.max(most, running)
      rn.go(function()
        rn.rename "job"
        rn.yield()
        running = running - 1
        result:put(v)
        result:close()
      end)
    end, from)
    local got = reader(to)
    source(from, 3)
    local is_whole = true
    disturb { function() is_whole = false to:close() from:close() end }
    rn.sleep(1)
    assert(most <= 2, "too many jobs")
    if name == "pipeline_async" then assert_run(got, 1) else is_subset(got, 3) end
    assert(#got == 3 or not is_whole, "a value was lost")
    for _ in from do end
  end
end

function programs.scope(lib)
  local alive, ended = 0, false
  local function child()
    alive = alive + 1
    local _ <close> = setmetatable({}, { __close = function() alive = alive - 1 end })
    assert(not ended, "started in a scope that has ended")
    rn.yield()
    rn.sleep(sim.choose(2))
  end
  local s_of
  local outer = rn.go(function()
    rn.rename "outer"
    local ok, err = pcall(lib.scope.scope, function(s)
      s_of = s
      s:go(child)
      s:go(function()
        rn.rename "second"
        child()
        if sim.choose(2) == 2 then error("raised", 0) end
      end)
      rn.yield()
    end)
    ended = true
    assert(alive == 0, "a go block has outlived its scope")
    assert(ok or err == "raised" or err == "from outside" or err == "cancelled", err)
  end)
  disturb {
    function() rn.cancel(outer, "from outside") end,
    function() if s_of then s_of:cancel() end end,
  }
  outer:take()
  assert(alive == 0)
end

-- The acts that end a stream half way: its result is closed, its source is, or its go block is cancelled.
local function ends_of(what, from, out)
  return {
    function()
      out:close()
      rn.sleep(1)
      from:close()
      for _ in from do end
    end,
    function() from:close() end,
    function()
      for _, entry in ipairs(rn.ps()) do
        if entry.name:find("^" .. what .. " at ") then rn.cancel(entry.result, "stop") end
      end
      rn.sleep(1)
      from:close()
      for _ in from do end
    end,
  }
end

local function assert_ended(what)
  for _, entry in ipairs(rn.ps()) do
    if entry.name:find("^" .. what .. " at ") then error(what .. " has not ended", 2) end
  end
end

local function stream(what, from, out, n, times)
  local got, whole, is_late = reader(out, times), true, sim.choose(2) == 1
  rn.go(function()
    rn.rename "source"
    for i = 1, n do
      if not from:put(i) then return end
      if i == 3 or i == n and is_late then rn.sleep(2) end -- what was held is due meanwhile
    end
    from:close()
  end)
  local acts = ends_of(what, from, out)
  for i, act in ipairs(acts) do acts[i] = function() whole = false act() end end
  disturb(acts)
  rn.sleep(6)
  return got, whole
end

function programs.batch(lib)
  local from = rn.chan(sim.choose(2) - 1)
  local got, whole = stream("batch", from, lib.timed.batch(from, 2, sim.choose(2) == 1 and 1 or nil), 5)
  assert_ended "batch"
  local values = {}
  for _, list in ipairs(got) do
    assert(#list == 1 or #list == 2, "a list of " .. #list)
    table.move(list, 1, #list, #values + 1, values)
  end
  assert_run(values, 1)
  assert(not whole or #values == 5 and got.is_over, "values are lost")
end

function programs.rate(lib)
  local from = rn.chan(sim.choose(2) - 1)
  local got, whole = stream("rate", from, lib.timed.rate(from, 2, 1), 5)
  assert_ended "rate"
  assert_run(got, 1)
  assert(not whole or #got == 5 and got.is_over, "values are lost")
end

function programs.debounce(lib)
  local from = rn.chan(sim.choose(2) - 1)
  local got, whole = stream("debounce", from, lib.timed.debounce(from, 1), 5)
  assert_ended "debounce"
  for i = 2, #got do assert(got[i] > got[i - 1], "not in order") end
  assert(not whole or got[#got] == 5 and got.is_over, "the last value is lost")
end

function programs.throttle(lib)
  local from = rn.chan(sim.choose(2) - 1)
  local out = lib.timed.throttle(from, 1)
  local times = {}
  local got, whole = stream("throttle", from, out, 5, times)
  assert_ended "throttle"
  for i = 2, #got do
    assert(got[i] > got[i - 1], "not in order")
    assert(times[i] - times[i - 1] > 0.999 or i == #got, "two values within the time")
  end
  assert(not whole or got[#got] == 5 and got.is_over, "the last value is lost")
end

function programs.sample(lib)
  local from, began = rn.chan(sim.choose(2) - 1), rn.now()
  local out = lib.timed.sample(from, 1.5)
  local times = {}
  local got, whole = stream("sample", from, out, 5, times)
  assert_ended "sample"
  for i = 2, #got do assert(got[i] > got[i - 1], "not in order") end
  for i = 1, #got do
    assert(i == #got or math.abs((times[i] - began + 0.5) % 1.5 - 0.5) < 0.001, "not at a beat")
  end
  assert(not whole or got[#got] == 5 and got.is_over, "the last value is lost")
end

-- Whoever taps at any time gets the present value, newer ones in order, and the last one and the end at last.
function programs.latest(lib)
  local from = rn.chan(sim.choose(2) - 1)
  local state, fails, lists, is_over = lib.latest.latest(from, 0), sim.choose(2) == 1, {}, false
  for i = 1, 2 do
    local steps = sim.choose(4) - 1
    rn.go(function()
      rn.rename "tap"
      for _ = 1, steps do rn.yield() end
      local present, tap, list = state:get(), state:tap(), {}
      lists[i] = list
      local value, err = tap:take()
      list.present = present
      while value ~= nil do
        list[#list + 1] = value
        if #list == 2 and i == 2 and not is_over and sim.choose(2) == 1 then return tap:close() end
        if sim.choose(2) == 1 then rn.yield() end
        value, err = tap:take()
      end
      list.is_over, list.err = true, err
    end)
  end
  rn.go(function()
    rn.rename "source"
    for i = 1, 3 do from:put(i) end
    is_over = true
    from:close(fails and "gone" or nil)
  end)
  rn.sleep(1)
  assert(state:get() == 3, "the last value is lost")
  for _, list in ipairs(lists) do
    assert(list[1] and list[1] >= list.present, "older than the present value")
    for i = 2, #list do assert(list[i] > list[i - 1], "not in order") end
    assert(not list.is_over or list[#list] == 3 and list.err == (fails and "gone" or nil), "the end is lost")
    assert(list.is_over or #list == 2, "it does not end")
  end
end

-- What is in a shield is done whole, wherever the caller is cancelled; unless its grace is over.
function programs.shield(lib)
  local log, grace = {}, sim.choose(2) == 1 and 1 or nil
  local block = rn.go(function()
    rn.rename "shielded"
    rn.yield()
    return lib.shield.shield(function(x)
      log[#log + 1] = "begin"
      local _ <close> = setmetatable({}, { __close = function() log[#log + 1] = "closed" end })
      rn.sleep(3)
      log[#log + 1] = "end"
      return x
    end, { grace = grace }, 7)
  end)
  for _ = 1, sim.choose(3) - 1 do rn.yield() end
  local is_cancelled = sim.choose(2) == 1 and rn.cancel(block, "stop")
  local value, err = block:take()
  local done = table.concat(log, " ")
  if is_cancelled then
    assert(value == nil and err == "stop", tostring(err))
    assert(done == "" or done == (grace and "begin closed" or "begin end closed"), done)
  else
    assert(value == 7 and done == "begin end closed", done)
  end
end

-- At any time at most one run of each child; none is left at the end, however it comes; and the order of the rule.
function programs.supervise(lib)
  local running, starts, log = { a = 0, b = 0 }, { a = 0, b = 0 }, {}
  local order = ({ "one", "rest", "all" })[sim.choose(3)]
  local function child(name)
    return function()
      running[name], starts[name] = running[name] + 1, starts[name] + 1
      local _ <close> = setmetatable({}, { __close = function() running[name] = running[name] - 1 end })
      assert(running[name] == 1, "two runs of a child")
      log[#log + 1] = name
      rn.sleep(1)
      if name == "a" and starts.a == 1 then error("bad", 0) end
      if name == "b" then rn.sleep(3) end
    end
  end
  local block = rn.go(lib.supervise.supervise,
    { { "a", child "a", again = "error" }, { "b", child "b", again = "error" } },
    { order = order, backoff = 0, ex_handler = function() end })
  local is_cancelled = false
  disturb { function() is_cancelled = rn.cancel(block, "stop") end,
    function() rn.sleep(1.5) is_cancelled = rn.cancel(block, "stop") end }
  local _, err = block:take()
  assert(running.a == 0 and running.b == 0, "a child is left")
  if is_cancelled then return assert(err == "stop", tostring(err)) end
  assert(err == nil and starts.a == 2 and starts.b == (order == "one" and 1 or 2), order .. ": " .. table.concat(log))
end

-- Jobs of a key run in their order, one at a time; others do not wait for them.
function programs.keys(lib)
  local busy, ended, from = {}, {}, rn.chan()
  local function key(v) return v % 2 end
  local out = rn.chan(sim.choose(2) - 1)
  local is_ordered = sim.choose(2) == 1
  local result = lib.pmap[is_ordered and "pmap" or "pmap_unordered"](2, function(v)
    assert(not busy[key(v)], "two jobs of a key at a time")
    assert((ended[key(v)] or 0) < v, "not in the order of the key")
    local _ <close> = setmetatable({}, { __close = function() busy[key(v)] = nil end })
    busy[key(v)] = v
    if v == 1 then rn.sleep(1) elseif sim.choose(2) == 1 then rn.yield() end
    if key(v) == 0 then assert(not ended[1], "it has waited for another key") end
    ended[key(v)] = v
    return v
  end, from, { key = key, window = is_ordered and 8 or nil })
  source(from, 4)
  rn.pipe(result, out)
  local got, whole = reader(out), true
  disturb { function()
    whole = false
    result:close()
    for _ in from do end
  end }
  rn.sleep(4)
  is_subset(got, 4)
  assert(not whole or #got == 4 and got.is_over, "a result is lost: " .. #got)
  assert(next(busy) == nil, "a job is left")
end

-- However it ends, no try is left, and no other one begins.
function programs.retry(lib)
  local begun, running = 0, 0
  local function f()
    begun, running = begun + 1, running + 1
    local _ <close> = setmetatable({}, { __close = function() running = running - 1 end })
    rn.sleep(sim.choose(2) == 1 and 1 or 5)
    error("bad", 0)
  end
  local block = rn.go(lib.retry.retry, f, { tries = 2, backoff = 1, timeout = 2 })
  local cancelled, was_begun = false, nil
  disturb {
    function() cancelled, was_begun = rn.cancel(block, "stop"), begun end,
    function() rn.sleep(1.5) cancelled, was_begun = rn.cancel(block, "stop"), begun end,
  }
  local _, err = block:take()
  assert(running == 0, "a try is left")
  if cancelled then
    assert(err == "stop" and begun <= math.max(1, was_begun), "tried again")
  else
    assert(begun == 2 and (err == "bad" or rn.is_timeout(err)), tostring(err))
  end
  rn.sleep(3)
  for _, entry in ipairs(rn.ps()) do assert(not entry.name:find "^retry ", "a go block of retry is left") end
end

-- Values are neither lost nor doubled, whoever is cancelled.
function programs.cancel()
  local ch, sent, got = rn.chan(sim.choose(2) - 1), {}, {}
  local function try(f, ...)
    local ok, result = pcall(f, ...)
    assert(ok or result == "stop", result)
    return ok and result
  end
  local putter = rn.go(function()
    rn.rename "putter"
    for i = 1, 2 do sent[i] = try(ch.put, ch, i) or nil end
  end)
  local other = rn.chan()
  local taker = rn.go(function()
    rn.rename "taker"
    for _ = 1, 2 do
      local value = try(sim.choose(2) == 1 and ch.take or function() return (rn.alts { other, ch }) end, ch)
      if value then got[value] = (got[value] or 0) + 1 end
    end
  end)
  for _, victim in ipairs { putter, taker } do
    if sim.choose(2) == 2 then rn.cancel(victim, "stop") end
    rn.yield()
  end
  rn.sleep(1)
  for _ = 1, 3 do
    rn.cancel(putter, "stop")
    rn.cancel(taker, "stop")
    rn.yield()
  end
  ch:close()
  for value in ch do got[value] = (got[value] or 0) + 1 end
  for i = 1, 2 do assert(got[i] == (sent[i] and 1), ("value %d: put %s, taken %s times"):format(i, sent[i], got[i])) end
end

local NAMES = { "latest", "mult", "pmap", "pub", "mix", "operations", "pipe", "retry", "scope", "shield", "supervise",
  "timed" }
local library = {}
for _, name in ipairs(NAMES) do library[name] = require("runnel.rn." .. name) end

-- The modules through which others get one that is not in rn.
local CHAINS = {
  time_limit = { "runnel.internal.time_limit", "runnel.rn.retry" },
  lanes = { "runnel.workers.lanes", "runnel.workers.workers", "runnel.rn.pmap" },
}

-- The library with one text of one module replaced by another.
local function mutant(module, text, replacement)
  local names = CHAINS[module] or { "runnel.rn." .. module }
  local path = assert(package.searchpath(names[1], package.path))
  local file = assert(io.open(path))
  local code = file:read "a"
  file:close()
  local from, to = code:find(text, 1, true)
  assert(from, "the module has no such text any more: " .. text)
  assert(not code:find(text, to, true), "the module has the text twice: " .. text)
  local mutated = code:sub(1, from - 1) .. replacement .. code:sub(to + 1)
  local copy, usual = assert(load(mutated, "@" .. path))(), {}
  for i = 2, #names do -- new copies of those that require it
    usual[i - 1], package.loaded[names[i - 1]] = package.loaded[names[i - 1]], copy
    copy = assert(loadfile((assert(package.searchpath(names[i], package.path)))))()
  end
  for i, one in ipairs(usual) do package.loaded[names[i]] = one end
  return setmetatable({ [names[#names]:match "[^.]+$"] = copy }, { __index = library })
end

describe("in any order, with closes and cancels at any step,", function()
  before_each(stage.open)
  after_each(stage.close)

  local sorted = {}
  for name in pairs(programs) do sorted[#sorted + 1] = name end
  table.sort(sorted)
  for _, name in ipairs(sorted) do
    it(name .. " does what it promises", function()
      local found = sim.explore(function() programs[name](library) end, { seconds = long.times(0.1, 2) })
      assert.is_true(found.schedules > 0)
    end)
  end

  local MUTANTS = {
    { "mult", "mult", "if self.pending > 0 then take(self.delivered) end", "" },
    { "mult", "mult", "self.pending = self.pending - 1", "self.pending = 0" },
    { "mult", "mult", "put[2], tap.busy = value, true", "put[2], tap.busy = true, true" },
    { "mult", "mult", "accepted = not ok or result", "accepted = not ok" },
    { "mix", "mix", "  self.change:offer(true)\n", "" },
    { "mix", "mix", "put(self.out, value)", "self.out:offer(value)" },
    { "merge", "pipe", "if not put(out, value) then return end", "out:offer(value)" },
    { "merge", "pipe", "left = left - 1", "left = 0" },
    { "pub", "pub", "for i = 2, #topics do ends.close(topics[i].ch, reason) end", "" },
    { "map", "operations", "ops[n], places[n] = ch, i", "ops[n], places[n] = ch, 1" },
    { "split", "operations", "ends.close(no, err)", "" },
    { "scope", "scope", "if s.living == 0 then all_ended(s) end\n  if not ok",
      "if s.living <= 1 then all_ended(s) end\n  if not ok" },
    { "batch", "timed", "if i ~= 2 and not put_while_open", "if not put_while_open" },
    { "debounce", "timed", "if last ~= nil then put_while_open(out, last) end", "" },
    { "debounce", "timed", "ops[2], last, passed = never, nil, now()", "ops[2], passed = never, now()" },
    { "throttle", "timed", "return math.max(at, passed + ms)", "return at" },
    { "sample", "timed", "((at - began) // ms + 1) * ms", "(at - began) // ms * ms" },
    { "latest", "latest", "if self.value ~= nil then offer(to, self.value) end", "" },
    { "latest", "latest", "if not is_closed(tap) then", "do" },
    { "shield", "shield", "guard.join(block, caller, reason)", "reason" },
    { "shield", "shield", "if grace then waiting.timer", "if false then waiting.timer" },
    { "supervise", "supervise", "self:stop(self:group(child), OTHERS_RESTART)", "self:group(child)" },
    { "supervise", "supervise", "  self:stop(children, ENDS)\n", "" },
    { "keys", "lanes", "if lane.first <= lane.last then add_ready(self, lane[lane.first]) end", "" },
    { "keys", "lanes", "if lane.first == lane.last then", "do" },
    { "retry", "time_limit", "error(guard.join(call.block, caller, value), 0)",
      "return nil, guard.join(call.block, caller, value)" },
    { "retry", "time_limit", "guard.join(call.block, caller, value)", "value" },
    { "scope", "scope", "if not s.cancelled then cancel_all(s, err) end", "cancel_all(s, err) s.members[2] = nil" },
  }
  for i, m in ipairs(MUTANTS) do
    it(("mutant %d, of %s, is found"):format(i, m[2]), function()
      local lib = mutant(m[2], m[3], m[4])
      search.finds("^sim.explore: %l+: ", function() programs[m[1]](lib) end, { steps = 2000 })
    end)
  end
end)
