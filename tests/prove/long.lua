---Long programs: more and larger channels, more go blocks, many timers and waiting operations, callbacks within
---callbacks, transducers of all kinds. Each is run in a few schedules, the same on the core and on lite.lua.
---
---A program is { channels = { { kind, limit, transducer, handler } }, blocks = { script, ... } }. A script is a list of
---operations, { what, ... }; `catches` tells whether it goes on when an operation raises.

local engines = require "tests.prove.engines"
local lite = require "runnel.lite"
local plain = require "tests.prove.plain"
local rn = require "runnel"
local transforms = require "tests.prove.transforms"

local MOST_STEPS, SCHEDULES, LONG = 100000, 4, 100000

local long = {}

-- ---- channels ----

-- A buffer policy that does what a buffer of that kind does.
local function policy_of(kind, limit)
  local values = {}
  return {
    full = function() return kind == "fixed" and #values >= limit end,
    add = function(_, value)
      if kind ~= "fixed" and #values >= limit then
        if kind == "dropping" then return end
        table.remove(values, 1)
      end
      values[#values + 1] = value
    end,
    remove = function() return table.remove(values, 1) end,
    count = function() return #values end,
  }
end

local function make(module, it)
  local ch
  local xf = it.transducer and function(rf)
    local step, complete = transforms.transducers[it.transducer](module, rf, function() return ch end)
    return function(...)
      if select("#", ...) == 0 then return rf() end
      if select("#", ...) == 1 then return (complete or rf)(...) end
      return step(...)
    end
  end or nil
  local handler = transforms.handlers[it.handler or ""]
  if it.kind == "promise" then ch = module.promise_chan(xf, handler)
  elseif it.kind == "none" then ch = module.chan()
  elseif it.policy and module == rn then ch = rn.chan(policy_of(it.kind, it.limit), xf, handler)
  elseif it.kind == "fixed" then ch = module.chan(it.limit, xf, handler)
  else ch = module.chan(module[it.kind .. "_buffer"](it.limit), xf, handler) end
  return ch
end

-- ---- operations ----

-- Values as text; a channel by its name.
local function show(e, ...)
  local n, parts = select("#", ...), {}
  for i = 1, n do
    local value = select(i, ...)
    parts[i] = plain(value ~= nil and e.names[value] or value)
  end
  return table.concat(parts, ",")
end

local perform -- does a script

local doing = {}
function doing.put(e, op) return e.chans[op[2]]:put(op[3]) end
function doing.take(e, op) return e.chans[op[2]]:take() end
function doing.offer(e, op) return e.chans[op[2]]:offer(op[3]) end
function doing.poll(e, op) return e.chans[op[2]]:poll() end
function doing.close(e, op) return e.chans[op[2]]:close(op[3]) end
function doing.puts(e, op)
  local n = 0
  for i = 1, op[3] do n = n + (e.chans[op[2]]:put(op[4] .. i) and 1 or 0) end
  return n
end
function doing.offers(e, op)
  local n = 0
  while n < 25 and e.chans[op[2]]:offer(op[3] .. n) do n = n + 1 end
  return n
end
function doing.takes(e, op)
  local list = {}
  for i = 1, op[3] do list[i] = show(e, e.chans[op[2]]:take()) end
  return table.concat(list, " ")
end
function doing.polls(e, op)
  local list = {}
  for i = 1, op[3] do list[i] = show(e, e.chans[op[2]]:poll()) end
  return table.concat(list, " ")
end
doing["for"] = function(e, op)
  local list = {}
  for value in e.chans[op[2]] do
    list[#list + 1] = show(e, value)
    if #list == op[3] then break end
  end
  return table.concat(list, " ")
end
function doing.look(e, op)
  local ch = e.chans[op[2]]
  local stats = ch:stats()
  if e.has_policy[op[2]] then
    return #ch, ch:closed(), stats.puts_waiting, stats.takes_waiting, stats.put_total, stats.take_total
  end
  return #ch, ch:closed(), stats.buffer, stats.capacity, stats.values, stats.puts_waiting, stats.takes_waiting,
    stats.put_total, stats.take_total, stats.closed, tostring(ch)
end
function doing.done(e, op) return e.chans[op[2]]:done():take() end
function doing.sleep(e, op) return e.rn.sleep(op[2]) end
function doing.timeout(e, op) return e.rn.timeout(op[2]):take() end
doing["yield"] = function(e) return e.rn.yield() end
-- Several timeouts at once: which are the same channel, and in which order they close.
function doing.timeouts(e, op)
  local list, waiting, said = {}, {}, {}
  for i, ms in ipairs(op[2]) do
    local ch = e.rn.timeout(ms)
    for k = 1, i - 1 do
      if list[k] == ch then said[#said + 1] = ("%d is %d"):format(i, k) end
    end
    list[i], waiting[#waiting + 1] = ch, ch
  end
  while #waiting > 0 do
    local _, port = e.rn.alts(waiting, { priority = true })
    for k = #waiting, 1, -1 do
      if waiting[k] == port then table.remove(waiting, k) end
    end
    said[#said + 1] = ("%d left at %g"):format(#waiting, e.rn.now())
  end
  return table.concat(said, "; ")
end
-- A list of { "t" or "p", channel, value }, or { "w", ms }; `priority`, `default`, `nowait`.
function doing.alts(e, op)
  local clauses, ports = {}, {}
  for i, one in ipairs(op[2]) do
    local ch = one[1] == "w" and e.rn.timeout(one[2]) or e.chans[one[2]]
    ports[ch] = ports[ch] or i
    clauses[i] = one[1] == "p" and { ch, one[3] } or ch
  end
  local value, port, err = e.rn.alts(clauses, { priority = op.priority, default = op.default, nowait = op.nowait })
  return value, ports[port] or port, err
end
local function result_of(e, number) return e.results[(number - 1) % #e.results + 1] end
function doing.cancel(e, op) return e.rn.cancel(result_of(e, op[2]), op[3]) end
function doing.join(e, op) return result_of(e, op[2]):take() end
function doing.go(e, op) e.spawn(op[2]) end
-- Go blocks that wait for the same channel; some of them are cancelled, from the middle of the queue.
function doing.crowd(e, op)
  local list = {}
  for i = 1, op[3] do
    list[i] = e.rn.go(function()
      local value
      if op[4] == "alts" then value = e.rn.alts { e.chans[op[2]], e.chans[op[6]] }
      elseif op[4] == "put" then value = e.chans[op[2]]:put("crowd " .. i)
      elseif op[4] == "sleep" then value = e.rn.sleep(op[2] * 7 + i * 13 % 31)
      else value = e.chans[op[2]]:take() end
      e.say("one of the crowd", i, show(e, value))
      return "crowd " .. i
    end)
  end
  e.rn.yield()
  local said = {}
  for _, i in ipairs(op[5]) do
    if list[i] then said[#said + 1] = tostring(e.rn.cancel(list[i], "cancelled " .. i)) end
  end
  for i = 1, op[3] do e.results[#e.results + 1] = list[i] end
  return table.concat(said, " ")
end
local function callback(e, op, from)
  return function(...)
    e.say("callback of " .. op[1], "", show(e, ...))
    perform(e, op[from], "a callback")
  end
end
function doing.take_async(e, op) return e.chans[op[2]]:take_async(callback(e, op, 4), op[3]) end
function doing.put_async(e, op) return e.chans[op[2]]:put_async(op[5], callback(e, op, 4), op[3]) end
-- Callbacks that each begin the next one: the scheduler has to call some.
function doing.nest(e, op)
  local n, ch = 0, e.chans[op[2]]
  local function next_one(value)
    n = n + 1
    e.say("nested", n, show(e, value))
    if n < op[3] and value ~= nil then
      if op[4] then ch:put_async(n, next_one) else ch:take_async(next_one) end
    end
    e.say("end of nested", n, "")
  end
  if op[4] then return ch:put_async(0, next_one) end
  return ch:take_async(next_one)
end
-- Variables that are closed when the go block ends.
function doing.closing(e, op)
  local function variable(name, err)
    return setmetatable({}, { __close = function(_, why)
      e.say("closes", name, show(e, why))
      if err then error(name .. " cannot be closed", 0) end
    end })
  end
  local first <close> = variable("first", op[3] == 1) -- luacheck: ignore 211
  local second <close> = variable("second", op[3] == 2) -- luacheck: ignore 211
  perform(e, op[2], "closing")
end
-- Values that were taken, and go blocks that have ended, are garbage.
function doing.garbage(e, op)
  local kept = setmetatable({}, { __mode = "k" })
  local ch = e.chans[op[2]]
  for _ = 1, op[3] do
    local value = {}
    kept[value] = true
    if not ch:offer(value) then break end
  end
  for _ = 1, op[4] do ch:poll() end
  local n = 0
  collectgarbage()
  collectgarbage()
  for _ in pairs(kept) do n = n + 1 end
  return n
end
function doing.wrong(e, op)
  local ch = e.chans[op[2]]
  local calls = {
    function() return ch:put(nil) end,
    function() return e.rn.sleep(-1) end,
    function() return e.rn.alts {} end,
    function() return e.rn.timeout(5):close() end,
    function() return ch:done():close() end,
    function() return e.results[1]:put(1) end,
    function() return e.results[1]:offer(1) end,
    function() return e.rn.alts({ { e.results[1], 1 } }, { nowait = true }) end,
    function() return coroutine.wrap(function() return ch:take() end)() end,
    function() return table.sort({ 1, 2, 3 }, function() return ch:take() end) end,
    function() return e.rn.sleep(0 / 0) end,
    function() return e.rn.alts { ch, 7 } end,
    function() return e.rn.alts({ ch }, { unknown = 1 }) end,
    function() return e.rn.cancel(ch) end,
  }
  return calls[op[3] % #calls + 1]()
end
long.WRONG_CALLS = 14
function doing.raise(_, op) error(op[2], 0) end
function doing.coroutine_yield() coroutine.yield(1, 2) end

local BULK = { puts = true, offers = true, takes = true, polls = true, ["for"] = true, nest = true, garbage = true,
  crowd = true }

-- After 128 operations that do not wait the core does so. It begins to count again when a go block runs.
local function nothing() end
local function let_others_run(e)
  if e.is_outside then e.rn.go(nothing) end
  e.rn.yield()
end

function perform(e, script, who)
  for k, op in ipairs(script) do
    local list = table.pack(pcall(doing[op[1]], e, op))
    if list[1] then
      e.say(who, op[1], show(e, table.unpack(list, 2, list.n)))
      if BULK[op[1]] then let_others_run(e) end
    else
      e.say(who, op[1], "raises " .. show(e, list[2]))
      if script.catches ~= true and k ~= script.catches then error(list[2], 0) end
    end
  end
end

-- ---- running ----

---A copy of a program, or of a part of it.
function long.copy(value)
  if type(value) ~= "table" then return value end
  local to = {}
  for key, one in pairs(value) do to[key] = long.copy(one) end
  return to
end

-- Makes the channels, and the function that starts go blocks.
local function begin(e, program)
  local module = e.rn
  e.has_policy = {}
  for i, it in ipairs(program.channels) do
    e.has_policy[i] = it.policy
    e.chans[i] = make(module, it):name("c" .. i)
    e.names[e.chans[i]] = "c" .. i
  end
  function e.spawn(script)
    local number = #e.results + 1
    e.results[number] = module.go(function(...)
      perform(e, script, "g" .. number)
      if script.raises then error("raised by g" .. number, 0) end
      if script.fails then return nil, "failed g" .. number end
      return table.unpack(script.returns or { "result of g" .. number }), ...
    end, number)
    e.names[e.results[number]] = "g" .. number
  end
end

-- Tells how channels and results are at the end.
local function finish(e)
  for i = 1, #e.chans do e.say("c" .. i, "at the end", show(e, doing.look(e, { "look", i }))) end
  for i, result in ipairs(e.results) do e.say("g" .. i, "result", show(e, result:closed(), result:poll())) end
end

-- The function that is run once for each schedule, the handler of errors, and one that ends a run.
local function recorder(module, program)
  local story, is_over

  local function main()
    local e = { rn = module, chans = {}, results = {}, names = {} }
    story, is_over = {}, false
    function e.say(who, what, text)
      if is_over then return end
      story[#story + 1] = ("%g %s %s: %s"):format(module.now(), who, what, text)
    end
    begin(e, program)
    for _, script in ipairs(program.blocks) do e.spawn(script) end
    module.sleep(LONG)
    finish(e)
  end

  local function report(err)
    if story and not is_over then story[#story + 1] = "report: " .. plain(err) end
  end
  return main, report, function()
    local text = table.concat(story, "\n")
    is_over = true
    return text
  end
end

---On the core: the stories of the first schedules of a search.
function long.core(program)
  local main, report, story_of = recorder(rn, program)
  return engines.core(main, report, story_of, MOST_STEPS, SCHEDULES)
end

-- Outside simulations: the main program does what the first go block would. Time passes, so there are no timers; and
-- choices are random, so each alts has priority.
local function run_outside(module, program)
  local story, e = {}, { rn = module, chans = {}, results = {}, names = {}, is_outside = true }
  local function add(text) story[#story + 1] = text end
  function e.say(who, what, text) add(("%s %s: %s"):format(who, what, text)) end
  module.on_error(function(err) add("report: " .. plain(err)) end)
  begin(e, program)
  for g = 2, #program.blocks do e.spawn(program.blocks[g]) end
  let_others_run(e)
  local main = long.copy(program.blocks[1])
  main.catches = true
  perform(e, main, "main")
  module.run()
  local function wait_for_ever() module.chan():take() end
  add(plain(select(2, pcall(module.run, wait_for_ever)))) -- reports errors that nobody has taken
  finish(e)
  module.on_error(nil)
  return { table.concat(story, "\n") }
end

---The same outside simulations, in one schedule.
long.outside = {
  core = function(program) return run_outside(rn, program) end,
  lite = function(program) return run_outside(lite, program) end,
}

---On lite.lua.
function long.lite(program)
  local main, report, story_of = recorder(lite, program)
  return engines.lite(main, report, story_of, SCHEDULES)
end

return long
