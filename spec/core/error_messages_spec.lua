-- Programs as somebody writes them on the first day, each with a mistake. Each must end, not with status 0, and with a
-- message that names the line of the program (`line`) and says what is wrong or what to do (`says`).

local process = require "spec.support.process"

local LUA = os.getenv "LUA" or "lua5.4"
if LUA:find "^[^/].*/" then LUA = os.getenv "PWD" .. "/" .. LUA end -- the programs run in a directory of their own
local HEAD = 'local rn = require "runnel"\n' -- so the first line of each program is number 2

local MISTAKES = {
  -- ---- who waits for ever ----
  { "takes from a channel on which nobody puts", [[
local orders = rn.chan():name "orders"
print(orders:take())]], line = 3, says = "deadlock: take on chan: orders would wait for ever" },
  { "puts on a channel without a buffer from which nobody takes", [[
local orders = rn.chan():name "orders"
orders:put "one"]], line = 3, says = "deadlock: put on chan: orders would wait for ever" },
  { "forgets to close the channel over which it loops", [[
local ch = rn.chan():name "numbers"
rn.go(function()
  for i = 1, 3 do ch:put(i) end
end)
for n in ch do print(n) end]], line = 6,
    says = "chan: numbers was not closed: the for loop over it ends when it is. Call ch:close%(%)" },
  { "forgets it in a go block", [[
local ch = rn.chan():name "numbers"
rn.go(function()
  for i = 1, 3 do ch:put(i) end
end)
local printed = rn.go(function()
  for n in ch do print(n) end
end)
printed:take()]], line = 9, says = "chan: numbers was not closed: the for loop at job.lua:7 ends when it is" },
  { "forgets it for what a pipe, a pmap and into take one after another", [[
local ch = rn.chan():name "numbers"
rn.go(function() ch:put(1) end)
local texts = rn.pmap(2, tostring, rn.pipe(ch, rn.chan()))
print(rn.into({}, texts):take())]],
    line = 5, says = "chan: numbers was not closed: pipe at job.lua:4[^\n]* ends when it is. Call ch:close%(%)" },
  { "forgets it for a pmap", [[
local ch = rn.chan():name "numbers"
rn.go(function() ch:put(1) end)
for text in rn.pmap(2, tostring, ch) do print(text) end]],
    line = 4, says = "chan: numbers was not closed: pmap at job.lua:4" },
  { "waits for two go blocks that wait for each other", [[
local a, b = rn.chan():name "a", rn.chan():name "b"
rn.go(function()
  a:take()
  b:put(1)
end)
local other = rn.go(function()
  b:take()
  a:put(1)
end)
other:take()]], line = 11, says = "take on chan: a at job.lua:4\n.*take on chan: b at job.lua:8" },
  { "waits by alts on channels that nobody serves", [[
local a, b = rn.chan():name "a", rn.chan():name "b"
rn.alts { a, b }]], line = 3, says = "deadlock: alts on chan: a, chan: b would wait" },
  { "never closes the result channel of a job", [[
local results = rn.chan():name "results"
rn.pipeline_async(2, results, function(v, result)
  rn.go(function() result:put(v * 2) end)
end, rn.to_chan { 1, 2, 3 })
for r in results do print(r) end]],
    line = 6, says = "pipeline_async at job.lua:3: 2 jobs have not ended, those of the values 1, 2%. "
      .. "A job ends when its result channel is closed: the function at job.lua:3, [^\n]*result:close%(%)",
    omits = "pipeline_async at job.lua:3 %->" },
  { "never closes the result channel of one job of an unordered pipeline, and holds it no more", [[
local results = rn.chan():name "results"
rn.pipeline_async_unordered(2, results, function(v, result)
  result:put(v)
  if v ~= "two" then result:close() end
end, rn.to_chan { "one", "two", "three" })
for r in results do print(r) collectgarbage() end]],
    line = 7, says = 'pipeline_async_unordered at job.lua:3: the job of the value "two" has not ended%.',
    omits = "pipeline_async_unordered at job.lua:3 %->" },
  { "has a job whose go block dies", [[
local results = rn.chan():name "results"
rn.pipeline_async(2, results, function(v, result)
  rn.go(function()
    result:put(v + nil)
    result:close()
  end)
end, rn.to_chan { 1 })
print(results:take())]], line = 5, says = "attempt to perform arithmetic on a nil value.*take on chan: results" },
  { "runs a loop of go blocks that wait for the main program", [[
local ch = rn.chan():name "work"
rn.run(function()
  rn.go(function() ch:take() end):take()
end)]], line = 4, says = "deadlock: run would wait for ever.*take on chan: work at job.lua:4" },
  { "waits for a tap that nobody reads, which holds up the other", [[
local source = rn.chan()
local m = rn.mult(source)
local seen, unread = m:tap(rn.chan()), m:tap(rn.chan():name "unread")
rn.onto_chan(source, { 1, 2, 3 })
for v in seen do print(v) end]], line = 6, says = "tap at job.lua:4.*chan: unread" },
  { "puts more on a buffer than it holds", [[
local ch = rn.chan(2):name "small"
for i = 1, 3 do ch:put(i) end
for v in ch do print(v) end]], line = 3, says = "deadlock: put on chan: small" },

  -- ---- errors of go blocks ----
  { "starts a go block that raises, and looks at nothing", [[
rn.go(function()
  local config = nil
  print(config.port)
end)
rn.run()]], line = 4, says = "error in job.lua:2: .*attempt to index a nil value %(local 'config'%)" },
  { "loops over the result of a go block that raises", [[
for v in rn.go(function() error "no such host" end) do print(v) end]], line = 2, says = "no such host" },
  { "raises a table", [[
rn.go(function() error { message = "not found", code = 404 } end)
rn.run()]], line = 2, says = "not found %(code = 404%)" },
  { "raises in a callback", [[
local ch = rn.chan(1)
ch:take_async(function(v) print(v.name) end)
ch:put(1)
rn.run()]], line = 3, says = "attempt to index a number value" },
  { "has a job that raises, and no ex_handler", [[
local results = rn.pipeline_async(1, rn.chan(), function(v, result)
  result:put(#v)
  result:close()
end, rn.to_chan { 42 })
for r in results do print(r) end]], line = 3, says = "a job of a pipeline %(pipeline_async at job.lua:2" },
  { "merges results of which one is an error, and loops over them", [[
local function fetch(n)
  if n == 2 then error "refused" end
  return n
end
for v in rn.merge { rn.go(fetch, 1), rn.go(fetch, 2) } do print(v) end]], line = 3, says = "refused" },
  { "yields as if in a coroutine of its own", [[
rn.go(function() coroutine.yield() end)
rn.run()]], line = 2, says = "called coroutine.yield.*use rn.yield" },
  { "has a topic function that fails", [[
local p = rn.pub(rn.to_chan { {} }, function(v) return v.kind.name end)
p:sub("news", rn.chan())
rn.run()]], line = 2, says = "the topic function of a pub %(pub at job.lua:2%)" },

  -- ---- wrong arguments ----
  { "puts nil", [[
local ch = rn.chan(1)
ch:put(nil)]], line = 3, says = "nil cannot be put on a channel.*put false" },
  { "puts nothing where a function returns nothing", [[
local ch = rn.chan(1)
ch:put(os.getenv "NO_SUCH_VARIABLE")]], line = 3, says = "nil cannot be put" },
  { "calls the function instead of passing it to go", [[
local function work() return 1 end
rn.go(work())]], line = 3, says = "go: a function expected, got number.*write rn.go%(f, ...%)" },
  { "calls a function that returns nothing instead of passing it to go", [[
rn.go(print "now")]], line = 2, says = "go: a function expected, got nothing" },
  { "calls the function instead of passing it to a scope", [[
local function work() return 1 end
rn.scope(function(s)
  s:go(work())
end)]], line = 4, says = "scope:go: a function expected, got a number; .*write s:go%(f, ...%)" },
  { "gives retry the number of tries first", [[
rn.retry(3, print)]], line = 2, says = "retry: f: a function expected, got a number; call it as rn.retry%(f, { tries" },
  { "gives pmap the results of the function", [[
rn.pmap(2, #"a", {})]], line = 2, says = "f: a function expected, got a number; call it as rn.pmap%(n, f, from%)" },
  { "calls the function instead of passing it to thread", [[
rn.thread(#"a")]], line = 2, says = "got a number; pass the function itself and its arguments: f, ..., not f%(...%)" },
  { "calls the function instead of passing it, where functions have no form of their own", [[
require "runnel.sim".run(#"a")]], line = 2, says = "got a number; pass the function itself: f, not f%(%)" },
  { "writes a dot for a colon", [[
local ch = rn.chan(1)
ch.put("one")]], line = 3, says = "put: a channel expected, got string; call it as ch:put%(v%)" },
  { "gives alts channels instead of a list of them", [[
local a, b = rn.chan(), rn.chan()
rn.alts(a, b)]], line = 3, says = "alts: a list of operations expected, got a channel; .*rn.alts { ch, ... }" },
  { "gives merge channels instead of a list of them", [[
local a, b = rn.chan(), rn.chan()
rn.merge(a, b)]], line = 3,
    says = "merge: channels: a list of channels expected, got a channel; .*rn.merge { ch, ... }" },
  { "gives into its arguments in the wrong order", [[
rn.into(rn.chan(), {})]], line = 2,
    says = "into: list: a table expected, got a channel; call it as rn.into%(list, ch%)" },
  { "gives pmap the channel before the function", [[
rn.pmap(2, rn.chan(), print)]], line = 2,
    says = "f: a function expected, got a channel; call it as rn.pmap%(n, f, from%)" },
  { "gives pmap a table without a list", [[
rn.pmap(2, print, { a = 1 })]], line = 2,
    says = "from: a channel, a list or an iterator .*, got a table with keys but no values 1, 2, ..." },
  { "gives to_chan a table without a list", [[
rn.to_chan { a = 1 }]], line = 2, says = "to_chan: a list .*, got a table with keys but no values 1, 2, ..." },
  { "misspells an option of pmap", [[
rn.pmap(2, print, {}, { windos = 3 })]], line = 2,
    says = 'unknown option "windos"; known: backoff, buffer, ex_handler, key, timeout, tries, window' },
  { "puts default among the operations of alts", [[
local ch = rn.chan()
local v = rn.alts { ch, default = "nothing" }]],
    line = 3, says = "field 'default'; options go into a table of their own" },
  { "misspells an option", [[
local ch = rn.chan()
rn.alts({ ch }, { prio = true })]], line = 3, says = "unknown option 'prio'; known: default, nowait, priority" },
  { "gives options of a pipeline in the place of close", [[
rn.pipeline_async(2, rn.chan(), print, rn.chan(), { window = 4 })]], line = 2,
    says = "close: true or false expected, got a table" },
  { "forgets the number of jobs", [[
rn.pipeline_async(rn.chan(), print, rn.chan())]], line = 2, says = "n: an integer of at least 1 expected" },
  { "gives seconds with a unit to sleep", [[
rn.sleep("1s")]], line = 2, says = "sleep: a number of milliseconds expected, got string" },
  { "closes a timeout", [[
local late = rn.timeout(1000)
late:close()]], line = 3, says = "a timeout closes by itself" },
  { "pipes a list", [[
rn.pipe({ 1, 2, 3 }, rn.chan())]], line = 2, says = "pipe: from: a channel expected, got a table" },
  { "gives a transducer to a channel without a buffer", [[
local ch = rn.chan(0, rn.xf.map(tostring))]],
    line = 2, says = "a transducer needs a buffer; give a size of 1 or more" },

  -- ---- where nothing can wait ----
  { "parks in a transducer", [[
local other = rn.chan()
local ch = rn.chan(1, rn.xf.map(function(v) return other:take() end))
rn.go(function() ch:put(1) end)
rn.run()]], line = 3, says = "take would have to wait, which is impossible" },
  { "parks within table.sort", [[
local order = rn.chan()
rn.run(function()
  table.sort({ 3, 1, 2 }, function(a, b) return order:take() end)
end)]], line = 4, says = "would have to wait, which is impossible across a C call" },
  { "parks in a callback", [[
local ch, other = rn.chan(), rn.chan()
ch:take_async(function() other:take() end)
ch:put(1)
rn.run()]], line = 3, says = "take would have to wait, which is impossible inside a callback.*rn.go" },
  { "calls rn.run in a go block", [[
rn.run(function()
  rn.run(function() end)
end)]], line = 3, says = "run: cannot be called inside a go block" },
  { "gives a mult its own source as a tap", [[
local ch = rn.chan()
rn.mult(ch):tap(ch)]], line = 3, says = "the mult would feed its own source" },
  { "gives to_chan what ipairs returns", [[
print(rn.to_chan(ipairs { 1, 2 }):list())]],
    line = 2, says = "to_chan: a list or an iterator function expected, got one that needs .* pass the list itself" },
  { "gives onto_chan what pairs returns", [[
rn.onto_chan(rn.chan(), pairs { 1, 2 })]], line = 2, says = "onto_chan: .* pass the list itself" },
  { "gives a pmap what pairs returns", [[
local texts = rn.pmap(2, tostring, (pairs { 1, 2 }))
print(texts:list())]], line = 2, says = "pmap: .* pass the list itself" },
  { "puts values on a priority buffer that have no order", [[
local jobs = rn.chan(rn.priority_buffer(10))
jobs:put(1)
jobs:put "urgent"]], line = 4,
    says = "priority_buffer: `<` cannot compare a string with a number; .* rn.priority_buffer%(n, less%)" },
  { "has others put values there that have no order", [[
local jobs = rn.chan(rn.priority_buffer(10))
jobs:put(1)
rn.onto_chan(jobs, { "urgent" })
rn.sleep(1)
assert(jobs:list())]], line = 4, says = "priority_buffer: `<` cannot compare a string with a number" },
}

describe("a program that", function()
  local dir

  setup(function() dir = process.directory() end)
  teardown(function() dir:remove() end)

  local function run(interpreter, mistake)
    dir:write("job.lua", HEAD .. mistake[2] .. "\n")
    return process.run(dir.path, interpreter .. " job.lua")
  end

  local function check(result, mistake)
    assert.matches("job.lua:" .. mistake.line, result.err, 1, true)
    assert.matches(mistake.says, result.err)
    if mistake.omits then assert.not_matches(mistake.omits, result.err) end
    assert.equal(1, result.status)
  end

  for _, mistake in ipairs(MISTAKES) do
    it(mistake[1] .. " gets a helpful error", function() check(run(process.runnel, mistake), mistake) end)
  end

  -- lua5.4 ends with status 0 after an error in a go block.
  local IN_THE_MAIN_PROGRAM = {
    ["takes from a channel on which nobody puts"] = true,
    ["forgets to close the channel over which it loops"] = true,
    ["waits by alts on channels that nobody serves"] = true,
    ["never closes the result channel of a job"] = true,
    ["calls the function instead of passing it to go"] = true,
    ["misspells an option"] = true,
    ["parks within table.sort"] = true,
  }
  for _, mistake in ipairs(MISTAKES) do
    if IN_THE_MAIN_PROGRAM[mistake[1]] then
      it(mistake[1] .. " gets a helpful error under lua5.4, too", function() check(run(LUA, mistake), mistake) end)
    end
  end
end)
