-- The flight recorder, and the core's trace that it writes.
local rn = require "runnel"
local core = require "runnel.core"
local sim = require "runnel.sim"
local finalizers = require "spec.support.finalizers"
local format = require "spec.support.trace_format"
local process = require "spec.support.process"
local stage = require "spec.support.stage"

local recorder = core.internal.trace

describe("rn.trace", function()
  local path
  before_each(function()
    stage.open()
    path = os.tmpname()
  end)
  after_each(function()
    rn.trace(false)
    os.remove(path)
    stage.close()
  end)

  -- The events while f runs as a go block under virtual time, and what else is in the file.
  local function recorded(f, options)
    rn.trace(path, options)
    sim.run(f)
    rn.trace(false)
    return format.read(path)
  end

  local function count(events, phase, name)
    local n = 0
    for _, event in ipairs(events) do
      if event.ph == phase and (not name or (event.name or ""):find(name)) then n = n + 1 end
    end
    return n
  end

  -- The name of a track.
  local function name_of(events, track)
    for _, event in ipairs(events) do
      if event.ph == "M" and event.tid == track then return event.args.name end
    end
  end

  local function chain(n)
    return function()
      local first, second = rn.chan():name "first", rn.chan(3):name "second"
      rn.go(function()
        rn.rename "source"
        for i = 1, n do first:put(i) end
        first:close()
      end)
      rn.go(function()
        rn.rename "middle"
        for v in first do second:put(v) end
        second:close()
      end)
      for _ in second do rn.sleep(1) end
    end
  end

  it("has a track for each go block, with what it is parked on", function()
    local events = recorded(chain(20))
    assert.equal(1, count(events, "M", "thread_name") > 0 and 1 or 0)
    local names = {}
    for _, event in ipairs(events) do
      if event.ph == "M" then names[event.args.name:gsub(" #%d+$", "")] = true end
    end
    assert.is_true(names.source and names.middle and names.main)
    assert.is_true(count(events, "B", "^running$") > 3)
    assert.is_true(count(events, "B", "^put on chan: second$") > 0)
    assert.is_true(count(events, "B", "^take on chan: first$") > 0)
    assert.is_true(count(events, "B", "^sleep$") >= 20)
  end)

  it("has an arrow for each message, and one for each go block that is started", function()
    local events = recorded(chain(20))
    assert.equal(40, count(events, "s", "^message$"))
    assert.equal(40, count(events, "f", "^message$"))
    assert.equal(count(events, "s", "^go$"), count(events, "f", "^go$"))
    assert.is_true(count(events, "s", "^go$") >= 2)
  end)

  it("counts the values in buffers", function()
    local events = recorded(chain(20))
    local most, last = 0, nil
    for _, event in ipairs(events) do
      if event.ph == "C" then
        assert.equal("chan: second", event.name)
        most, last = math.max(most, event.args.values), event.args.values
      end
    end
    assert.equal(3, most)
    assert.equal(0, last)
    assert.equal(40, count(events, "C"))
  end)

  it("shows when a channel is closed", function()
    local events = recorded(chain(1))
    assert.equal(1, count(events, "i", "^close chan: first$"))
    assert.equal(1, count(events, "i", "^close chan: second$"))
  end)

  it("has transducers, policies, promises, windowed buffers, alts, callbacks and results of go blocks", function()
    local events = recorded(function()
      local mapped = rn.chan(2, rn.xf.map(function(v) return v + 1 end)):name "mapped"
      local sorted = rn.chan(rn.priority_buffer(3)):name "sorted"
      local promise, latest = rn.promise_chan():name "promise", rn.chan(rn.sliding_buffer(2)):name "latest"
      rn.go(function()
        for i = 1, 10 do
          mapped:put(i)
          sorted:put(-i)
          latest:put(i)
        end
        promise:put(true)
      end)
      local waiting = rn.go(function() return (promise:take()) end)
      for _ = 1, 20 do
        rn.alts { mapped, sorted }
        rn.sleep(1)
      end
      latest:take_async(function() end)
      rn.chan():take_async(function() end)
      assert.is_true(waiting:take())
    end)
    for _, name in ipairs { "mapped", "sorted", "promise" } do
      assert.is_true(count(events, "B", "on chan: " .. name) > 0, name)
    end
    assert.is_true(count(events, "C", "^chan: latest$") >= 10)
    assert.is_true(count(events, "B", "^alts on chan: mapped and 1 more$") > 0)
  end)

  it("has no counter for a buffer that it cannot ask", function()
    local events = recorded(function()
      local sorted = rn.chan(rn.priority_buffer(3)):name "sorted"
      local shared = rn.shared_chan(3):name "shared"
      for i = 1, 3 do sorted:put(i) shared:put(i) end
      for _ = 1, 3 do sorted:take() shared:take() end
    end)
    assert.equal(0, count(events, "C"))
  end)

  it("keeps the newest records if the ring is too small, and says how many are missing", function()
    local events, all = recorded(chain(500), { records = 256 })
    assert.equal(256, all.otherData.records)
    assert.is_true(all.otherData.overwritten > 3000)
    assert.is_true(count(events, "s", "^message$") > 20)
  end)

  it("keeps the names of go blocks and channels that are gone", function()
    local function short_lived()
      for i = 1, 30 do
        local ch = rn.chan(1):name("channel " .. i)
        rn.go(function()
          rn.rename("block " .. i)
          ch:put(i)
          rn.yield()
          ch:take()
        end):take()
      end
      collectgarbage()
    end
    local events = recorded(short_lived)
    local names, counters = {}, {}
    for _, event in ipairs(events) do
      if event.ph == "M" then names[event.args.name:gsub(" #%d+$", "")] = true end
      if event.ph == "C" then counters[event.name] = true end
    end
    for i = 1, 30 do
      assert.is_true(names["block " .. i])
      assert.is_true(counters["chan: channel " .. i])
    end
  end)

  it("has the names that go blocks were given when they were started, or later", function()
    local events = recorded(function()
      local early = rn.go(rn.sleep, 1):name "early"
      local late = rn.go(rn.sleep, 1)
      rn.yield()
      late:name "late"
      early:take()
      late:take()
    end)
    local names = {}
    for _, event in ipairs(events) do
      if event.ph == "M" then names[event.args.name:gsub(" #%d+$", "")] = true end
    end
    assert.is_true(names.early and names.late)
  end)

  it("has what existed before it began", function()
    sim.run(function()
      local ch = rn.chan(2):name "older"
      local block = rn.go(function()
        rn.rename "elder"
        for v in ch do rn.sleep(v) end
      end)
      rn.sleep(1)
      rn.trace(path)
      for i = 1, 5 do ch:put(i) end
      ch:close()
      block:take()
      rn.trace(false)
    end)
    local events = format.read(path)
    assert.is_true(count(events, "B", "^take on chan: older$") > 0)
  end)

  it("is valid for random programs and rings of the smallest size", function()
    for seed = 1, 15 do
      rn.trace(path, { records = 256 })
      sim.run(function()
        local chs = { rn.chan(), rn.chan(1), rn.chan(5), rn.chan(rn.dropping_buffer(2)), rn.chan(200) }
        for _ = 1, 8 do
          rn.go(function()
            for _ = 1, 60 do
              local ch = chs[math.random(#chs)]
              local what = math.random(5)
              if what == 1 then rn.alts({ ch, { chs[math.random(#chs)], what }, rn.timeout(3) })
              elseif what == 2 then ch:offer(what)
              elseif what == 3 then ch:poll()
              elseif what == 4 then rn.sleep(math.random(3))
              else rn.alts { { ch, true }, rn.timeout(1) } end
            end
          end)
        end
        rn.sleep(1000)
      end, { seed = seed, shuffle = true })
      rn.trace(false)
      format.read(path)
    end
  end)

  it("writes names as JSON, whatever is in them", function()
    local events = recorded(function()
      local ch = rn.chan(1):name 'a "quoted" \\ name\n\1 é'
      ch:put(1)
      rn.chan(1):name "\255\254":put(1)
    end)
    assert.equal(1, count(events, "C", '^chan: a "quoted" \\ name\n\1 é$'))
    assert.equal(1, count(events, "C", "^chan: ÿþ$"))
  end)

  it("refuses what it cannot do, and says why", function()
    local _, err = pcall(function() rn.trace "/nowhere/at/all.json" end)
    assert.matches("trace_spec.lua:%d+: trace: cannot write /nowhere/at/all.json: No such file", err)
    _, err = pcall(function() rn.trace(path, { records = 10 }) end)
    assert.matches("trace_spec.lua:%d+: trace: records: an integer from 256 to 16777216 expected, got 10", err)
    assert.error_matches(function() rn.trace(path, { record = 1000 }) end,
      'trace: unknown option "record"; known: records')
    assert.error_matches(function() rn.trace(7) end, "trace: the path of a file, or false, expected, got a number")
    assert.error_matches(function() rn.trace(path, 7) end, "trace: a table of options expected, got number")
    rn.trace(path)
    assert.error_matches(function() rn.trace(path) end, "is being recorded; end it first with rn.trace%(false%)")
    assert.equal(path, rn.trace(false).file)
    assert.is_nil(rn.trace(false))
  end)

  it("writes the file at the end of a program, after an error, a deadlock, os.exit and Ctrl-C", function()
    local dir = process.directory()
    local body = "local rn = require 'runnel' local ch = rn.chan(1) ch:put(1) "
    local ends = { -- with exit statuses
      { "", 0 }, { "error 'the end'", 1 }, { "rn.chan():take()", 1 }, { "os.exit(3)", 3 }, { "rn.exit(4)", 4 },
      { "rn.go(function() error 'unhandled' end) rn.sleep(1)", 1 },
      { ("os.execute %q rn.sleep(60000)"):format(process.interrupt()), 130 },
    }
    for _, case in ipairs(ends) do
      os.remove(dir.path .. "/out.json")
      dir:write("script.lua", body .. case[1])
      local result = process.run(dir.path, process.runnel .. " --trace=out.json script.lua")
      assert.equal(case[2], result.status, case[1])
      local events = format.read(dir.path .. "/out.json")
      assert.equal(1, count(events, "C"), case[1])
    end
    dir:remove()
  end)

  -- A go block dies at 50 ms, and nobody takes its error; `before` is what else goes wrong. Others go on for much
  -- longer than the ring is.
  local function failing(before)
    return [[
      local rn = require "runnel"
      local ch = rn.chan():name "numbers"
      local function job(ms, name)
        return rn.go(function()
          rn.rename(name)
          rn.sleep(ms)
          rn.chan(1):name("last of " .. name):put(1)
          error(name .. " fails")
        end)
      end
      rn.go(function() for i = 1, 15000 do ch:put(i) rn.sleep(1) end ch:close() end)
      rn.go(function() for _ in ch do end end)
      ]] .. before .. [[

      job(50, "victim")
      rn.sleep(20000)
    ]]
  end

  -- Runs it, and returns the events up to the first error, those at the end, and what was written to stderr.
  local function run_failing(before)
    local dir <close> = process.directory()
    dir:write("script.lua", failing(before))
    local result = process.run(dir.path, process.runnel .. " --sim --trace=out.json --trace-records=1024 script.lua")
    return format.read(dir.path .. "/out.error.json"), format.read(dir.path .. "/out.json"), result.err
  end

  it("writes what led to the first unhandled error to a file of its own, though others go on meanwhile", function()
    local events, later, err = run_failing ""
    assert.equal(1, count(events, "i", "^error$"))
    assert.same({ name = "script.lua" }, events[1].args) -- the process
    assert.equal(1, count(events, "C", "^chan: last of victim$"))
    for _, event in ipairs(events) do
      if event.ph == "i" and event.name == "error" then assert.matches("^victim #", name_of(events, event.tid)) end
    end
    assert.is_true(count(events, "s", "^message$") > 40)
    assert.equal(0, count(later, "C", "^chan: last of victim$"))
    assert.matches("runnel: out%.error%.json has the trace up to this error:\n[^\n]*error in victim: [^\n]*fails", err)
  end)

  it("writes its files, and that of --profile, where the program began, though it changes its directory", function()
    if not pcall(require, "luv") then return pending "luv is missing" end
    local dir <close> = process.directory()
    dir:write("script.lua", [[
      local rn = require "runnel"
      if arg[1] then rn.trace(arg[1]) end
      require "luv".chdir "m"
      rn.go(function() error "fails" end)
    ]])
    assert(os.execute(("mkdir '%s/m'"):format(dir.path)))
    for options, files in pairs {
      ["--trace=out.json"] = { "out.json", "out.error.json" }, ["--profile=out.html"] = { "out.html" },
      ["--trace=./a.otlp.json"] = { "a.otlp.json", "a.error.otlp.json" }, ["script.lua own.json"] = { "own.json",
        "own.error.json" },
    } do
      process.run(dir.path, ("%s %s script.lua"):format(process.runnel, options))
      assert.equal("", process.run(dir.path, "ls m").out)
      for _, file in ipairs(files) do assert.not_equal("", dir:read(file) or "", options .. ": " .. file) end
    end
  end)

  it("writes nothing for errors that somebody takes", function()
    local events, _, err = run_failing [[
      for i = 1, 5 do job(i, "taken " .. i):take() end
      local waiting = job(5, "taken late")
      rn.go(function() rn.sleep(30) waiting:take() end)
    ]]
    assert.equal(1, count(events, "C", "^chan: last of victim$"))
    assert.not_matches("taken", err)
  end)

  it("writes the first of several unhandled errors", function()
    local events, _, err = run_failing 'job(20, "first")'
    assert.equal(1, count(events, "C", "^chan: last of first$"))
    assert.equal(0, count(events, "C", "^chan: last of victim$"))
    assert.equal(1, select(2, err:gsub("has the trace up to this error", "")))
    assert.matches("this error:\n[^\n]*error in first: .*error in victim: ", err)
  end)

  it("has what led to an error that nobody can take, such as that of a callback", function()
    local events = run_failing [[
      local early = job(5, "early")
      rn.go(function() rn.sleep(30) early:take() end)
      rn.timeout(20):take_async(function() rn.chan(1):name "called":offer(1) error "in a callback" end)
    ]]
    assert.equal(1, count(events, "C", "^chan: called$"))
    assert.equal(0, count(events, "C", "^chan: last of victim$"))
  end)

  it("says that the file cannot be written: before the script runs, or at its end", function()
    local dir <close> = process.directory()
    dir:write("script.lua", "print 'runs'")
    local function run(file)
      local result = process.run(dir.path, ("%s --trace=%s script.lua"):format(process.runnel, file))
      return { result.out, result.status }, result.err
    end
    local result, err = run "nowhere/out.json"
    assert.same({ "", 1 }, result)
    assert.matches("trace: cannot write nowhere/out.json: No such file or directory\n$", err)
    if not os.execute "test -c /dev/full" then return end
    result, err = run "/dev/full"
    assert.same({ "runs\n", 0 }, result)
    assert.equal("runnel: the trace was not written: /dev/full: No space left on device\n", err)
  end)

  it("says that the trace up to an error cannot be written, and goes on #ci", function()
    local dir <close> = process.directory()
    dir:write("script.lua", failing "")
    local result = process.run(dir.path, "mkdir out.error.json && " .. process.runnel
      .. " --sim --trace=out.json script.lua")
    assert.matches("runnel: the trace up to this error was not written: /[^\n]*/out%.error%.json: Is a directory\n"
      .. "[^\n]*error in victim: ", result.err)
    format.read(dir.path .. "/out.json")
  end)
end)

describe("rn.trace with threads", function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  -- Runs a program that is recorded, and returns what it has written, and the events.
  local function recorded(program, options)
    dir:write("script.lua", 'local rn = require "runnel"\n' .. program)
    local result = process.run(dir.path, ("%s %s --trace=out.json script.lua"):format(process.runnel, options or ""))
    return result, format.read(dir.path .. "/out.json")
  end

  -- What the processes are called, by number.
  local function processes(events)
    local names = {}
    for _, event in ipairs(events) do
      if event.name == "process_name" then names[event.pid] = event.args.name end
    end
    return names
  end

  -- How many arrows lead from one process to another: "1>2" -> how many.
  local function arrows(events)
    local begins, count = {}, {}
    for _, event in ipairs(events) do
      if event.ph == "s" then begins[event.id] = event.pid end
      if event.ph == "f" and begins[event.id] ~= event.pid then
        local key = begins[event.id] .. ">" .. event.pid
        count[key] = (count[key] or 0) + 1
      end
    end
    return count
  end

  it("has a process for each thread, and arrows for the messages between them", function()
    local result, events = recorded [[
      local jobs, results = rn.shared_chan(4):name "jobs", rn.shared_chan():name "results"
      local thread = rn.thread(function(from, to)
        for v in from do to:put(v) end
        to:close()
      end, jobs, results)
      rn.go(function() for i = 1, 20 do jobs:put(i) end jobs:close() end)
      local sum = 0
      for v in results do sum = sum + v end
      print(sum, thread:take())
    ]]
    assert.equal("210\tnil\n", result.out)
    assert.same({ "script.lua", "thread script.lua:3" }, processes(events))
    assert.same({ ["1>2"] = 20, ["2>1"] = 20 }, arrows(events))
    local found
    for _, event in ipairs(events) do
      if event.pid == 2 and event.ph == "i" and event.name == "close chan: results" then found = true end
      if event.name == "thread_name" then assert.not_matches("runnel/internal", event.args.name) end
    end
    assert.is_true(found)
  end)

  it("has arrows for promises and values that were dropped only where a value was taken that can be told", function()
    local _, events = recorded [[
      local promise, dropping = rn.shared_chan "promise", rn.shared_chan(rn.dropping_buffer(2))
      local thread = rn.thread(function(promise, dropping)
        promise:put(true)
        for i = 1, 5 do dropping:put(i) end
        dropping:close()
      end, promise, dropping)
      promise:take() promise:take() thread:take()
      for _ in dropping do end
    ]]
    assert.same({ ["2>1"] = 2 }, arrows(events))
  end)

  it("has the threads of a pool, those that threads start, and those that still run at its end", function()
    local _, events = recorded([[
      local pool <close> = rn.threads(2, function(v) return v end)
      for _ in rn.pmap(4, pool, { 1, 2, 3, 4 }) do end
      rn.thread(function()
        local rn = require "runnel"
        return rn.thread(function() end):take()
      end):take()
      local is_running = rn.shared_chan()
      rn.thread(function(is_running)
        local rn = require "runnel"
        is_running:put(true)
        while true do rn.sleep(1) end
      end, is_running)
      is_running:take()
      rn.exit()
    ]], "--no-drain")
    local names = processes(events)
    table.sort(names)
    assert.same({ "script.lua", "thread script.lua:4", "thread script.lua:6", "thread script.lua:9",
      "threads script.lua:2", "threads script.lua:2" }, names)
  end)

  it("ends without those that compute, and says so #ci", function()
    local result, events = recorded [[
      rn.thread(function()
        io.open("computing", "w"):close()
        while true do end
      end)
      while not io.open "computing" do rn.sleep(1) end
      rn.exit()
    ]]
    assert.same({ "script.lua" }, processes(events))
    assert.matches("runnel: out%.json has no records of 1 thread, which did not send them within a second\n",
      result.err)
  end)

  it("leaves the recording to the state that has begun it", function()
    local result = recorded [[
      print(rn.thread(function()
        local rn = require "runnel"
        local ok, err = pcall(rn.trace, false)
        return err
      end):take())
    ]]
    assert.equal("trace: this thread is being recorded for the state that has started it\n", result.out)
  end)

  it("records a thread that asks for it, under its name", function()
    dir:write("script.lua", [[
      local rn = require "runnel"
      rn.thread(function()
        local rn = require "runnel"
        rn.trace "thread.json"
        rn.sleep(1)
      end):take()
    ]])
    process.run(dir.path, process.runnel .. " script.lua")
    assert.same({ "thread script.lua:2" }, processes(format.read(dir.path .. "/thread.json")))
  end)

  it("does not record threads that were started before or after", function()
    dir:write("script.lua", [[
      local rn = require "runnel"
      local function nothing() end
      rn.thread(nothing):take()
      rn.trace "out.json"
      assert(rn.trace(false).missing == 0)
      rn.thread(nothing):take()
      rn.trace "out.json"
      rn.thread(nothing):take()
    ]])
    process.run(dir.path, process.runnel .. " script.lua")
    assert.equal(2, #processes(format.read(dir.path .. "/out.json")))
  end)
end)

describe("the core's trace", function()
  before_each(stage.open)
  after_each(stage.close)

  local RUN, PUT, TAKE = 1, 6, 7

  -- The records of a kind while f runs.
  local function records(f)
    recorder.hold("r", 4096)
    local _, from = recorder.ring()
    sim.run(f)
    local _, to = recorder.ring()
    local list = {}
    for n = from, to - 1 do list[#list + 1] = table.pack(recorder.read(n)) end
    recorder.release "r"
    return list
  end

  it("numbers puts and takes: the nth put is the nth take", function()
    local puts, takes = {}, {}
    local list = records(function()
      local ch = rn.chan(2)
      rn.go(function()
        for i = 1, 9 do ch:put(i) end
        ch:close()
      end)
      for _ in ch do rn.yield() end
    end)
    for _, r in ipairs(list) do
      if r[6] & 8 == 0 and r[1] == PUT then puts[#puts + 1] = r[5] end
      if r[6] & 8 == 0 and r[1] == TAKE then takes[#takes + 1] = r[5] end
    end
    assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9 }, puts)
    assert.same(puts, takes)
  end)

  it("does not record hidden go blocks, nor what they make", function()
    local list = records(function()
      local watcher
      local ch = rn.chan():name "watched"
      watcher = rn.go(function()
        local own = rn.chan(1)
        rn.go(function() own:put(1) end)
        own:take()
      end)
      recorder.hide(watcher)
      rn.go(function() ch:put(1) end)
      ch:take()
    end)
    local puts = 0
    for _, r in ipairs(list) do
      assert.not_equal("hidden", recorder.label(r[7]))
      if r[1] == PUT and r[6] & 8 == 0 then puts = puts + 1 end
    end
    assert.equal(1, puts)
  end)

  it("counts holds: the last release switches it off", function()
    recorder.hold "l"
    recorder.hold "er"
    recorder.release "er"
    local ch = rn.chan():name "listed"
    local found = false
    for _, other in ipairs(recorder.chans()) do found = found or other == ch end
    assert.is_true(found)
    recorder.release "l"
    assert.same({}, recorder.chans())
    assert.is_nil(recorder.ring())
    recorder.hold "e"
    recorder.hold "e"
    recorder.release "e"
    rn.chan(1):put(1)
    assert.equal(1, #recorder.edges())
    recorder.release "e"
    assert.same({}, (recorder.edges()))
    recorder.hold "" -- of nothing
    recorder.release ""
    assert.same({}, recorder.chans())
  end)

  it("keeps contexts only while a caller has asked for them", function()
    recorder.hold "lc"
    recorder.set_context "first"
    assert.equal("first", recorder.context())
    recorder.release "c"
    assert.is_nil(recorder.context())
    recorder.set_context "second"
    recorder.hold "c"
    assert.is_nil(recorder.context())
    recorder.release "lc"
  end)

  it("counts and records what other threads complete on shared channels", function()
    recorder.hold("er", 4096)
    local _, from = recorder.ring()
    local requests, answers = rn.shared_chan():name "requests", rn.shared_chan(2):name "answers"
    local never = rn.chan()
    rn.thread(function(asked, answered)
      for v in asked do answered:put(v) end
      answered:close()
    end, requests, answers)
    rn.go(function()
      rn.rename "asker"
      for i = 1, 100 do
        if i % 2 == 0 then requests:put(i) else rn.alts { { requests, i }, never } end
      end
    end)
    rn.go(function()
      rn.rename "reader"
      for i = 1, 80 do
        if i % 2 == 0 then answers:take() else rn.alts { never, answers } end
      end
    end):take()
    for _ = 1, 20 do answers:take() end
    requests:close()
    assert.is_nil(answers:take())
    local counted, recorded = {}, {}
    for _, edge in ipairs(recorder.edges()) do
      if edge.channel == requests:stats().id then counted["requests " .. edge.name] = { edge.puts, edge.takes } end
      if edge.channel == answers:stats().id then counted["answers " .. edge.name] = { edge.puts, edge.takes } end
    end
    local _, to = recorder.ring()
    for n = from, to - 1 do
      local kind, _, _, id, _, _, label = recorder.read(n)
      if (kind == PUT or kind == TAKE) and (id == requests:stats().id or id == answers:stats().id) then
        local key = recorder.label(label) .. (kind == PUT and " puts" or " takes")
        recorded[key] = (recorded[key] or 0) + 1
      end
    end
    recorder.release "er"
    assert.same({ ["requests asker"] = { 100, 0 }, ["answers reader"] = { 0, 80 }, ["answers main"] = { 0, 20 } },
      counted)
    assert.same({ ["asker puts"] = 100, ["reader takes"] = 80, ["main takes"] = 20 }, recorded)
  end)

  it("lists a channel as long as it exists", function()
    recorder.hold "l"
    for _ = 1, 1000 do rn.chan(1) end
    local kept = rn.chan(1):name "kept"
    collectgarbage()
    local list = recorder.chans()
    assert.equal(kept, list[#list])
    assert.is_true(#list < 1000)
    recorder.release "l"
  end)

  it("keeps its records when it is held again, unless the new hold needs a larger ring", function()
    recorder.hold("r", 256)
    local ch = rn.chan(1)
    for i = 1, 10 do ch:put(i) ch:take() end
    local first, next_one = recorder.ring()
    recorder.hold("r", 100)
    assert.same({ first, next_one }, { (recorder.ring()), (select(2, recorder.ring())) })
    assert.is_truthy(recorder.read(first))
    assert.is_nil(recorder.read(first - 1))
    assert.is_nil(recorder.read(next_one))
    recorder.hold("r", 4096)
    assert.is_true(recorder.ring() >= next_one)
    for _ = 1, 3 do recorder.release "r" end
    assert.is_nil(recorder.ring())
    assert.is_nil(recorder.read(first))
  end)

  it("copies the newest records of a large ring at an error", function()
    recorder.hold("r", 1 << 17)
    local heard = 0
    recorder.on_error(function() heard = heard + 1 end)
    assert.is_nil(recorder.ring(true))
    assert.is_nil(recorder.read(0, true))
    local ch = rn.chan(1)
    for i = 1, 50000 do ch:put(i) ch:take() end
    rn.go(error, "oops")
    rn.run()
    assert.equal(1, #stage.heard())
    assert.equal(1, heard)
    local first, next_one = recorder.ring(true)
    assert.equal(1 << 16, next_one - first)
    assert.is_truthy(recorder.read(first, true))
    assert.is_nil(recorder.read(first - 1, true))
    assert.is_nil(recorder.read(next_one, true))
    for _ = 1, 300 do rn.chan(1):put(1) end -- the list looks for channels of which the copy has no record
    collectgarbage()
    for _ = 1, 600 do rn.chan(1):put(1) end
    rn.go(error, "again")
    rn.run()
    assert.equal(1, #stage.heard())
    assert.equal(2, heard)
    recorder.on_error(nil)
    assert.is_nil(recorder.ring(true))
    recorder.release "r"
    recorder.on_error(function() heard = heard + 1 end) -- there is no ring to copy
    rn.go(error, "later")
    rn.run()
    assert.equal(1, #stage.heard())
    assert.equal(2, heard)
  end)

  it("keeps the name of a channel that is gone as long as a record of it is there", function()
    recorder.hold("r", 4096)
    local function is_known()
      for _, name in pairs((recorder.names())) do
        if name == "early 1" then return true end
      end
      return false
    end
    local function make(n, name)
      for i = 1, n do rn.chan(1):name(name .. i):put(i) end
      collectgarbage()
    end
    make(20, "early ")
    for _ = 1, 600 do rn.chan() end -- makes the list look for what is gone
    collectgarbage()
    assert.is_true(is_known())
    make(3000, "later ")
    make(3000, "last ")
    assert.is_false(is_known())
    recorder.release "r"
  end)

  it("forgets channels that are gone, so that its memory does not grow", function()
    recorder.hold("r", 256)
    local most = 0
    for i = 1, 20000 do
      rn.chan(1):put(i)
      if i % 1000 == 0 then
        collectgarbage()
        local n = 0
        for _ in pairs((recorder.names())) do n = n + 1 end
        most = math.max(most, n)
      end
    end
    recorder.release "r"
    assert.is_true(most < 5000, most .. " names")
  end)

  it("can be asked before anything was traced", function()
    assert.equal("?\nmain\ndriver\n?\nother\nhidden\n0\t0\t0\nnil\tnil\nnil\n", (stage.script [[
      local trace = require("runnel.core").internal.trace
      for _, label in ipairs { 0, 1, 2, 9, 0xFFFE, 0xFFFF } do print(trace.label(label)) end
      local edges, lost = trace.edges()
      print(#trace.chans(), #edges, lost)
      trace.on_error(print)
      print((trace.ring()), (trace.read(0)))
      trace.set_context "lost"
      print((trace.context()))
    ]]))
  end)

  it("gives the names that come after the first 65000 the label other #ci", function()
    assert.equal("name 1\tother\tother\n", (stage.script [[
      local rn = require "runnel"
      local trace = require("runnel.core").internal.trace
      trace.hold "l"
      local first, last = rn.chan():name "name 1"
      for i = 2, 70000 do last = rn.chan():name("name " .. i) end
      local block = rn.go(function() rn.rename "late" rn.sleep(1) end)
      rn.sleep(0)
      print(trace.name(first), trace.name(last), trace.name(block))
      trace.release "l"
      trace.release ""
    ]]))
  end)

  it("has times that never go back, though a simulation begins at 0", function()
    recorder.hold("r", 1024)
    local _, from = recorder.ring()
    rn.sleep(1)
    sim.run(function() rn.sleep(5000) end)
    rn.sleep(1)
    local _, to = recorder.ring()
    local before = 0
    local runs = 0
    for n = from, to - 1 do
      local kind, time = recorder.read(n)
      assert.is_true(time >= before)
      before = time
      if kind == RUN then runs = runs + 1 end
    end
    assert.is_true(runs > 2)
    recorder.release "r"
  end)

  it("calls a function for the values on a channel, once each, and survives its errors", function()
    local seen = {}
    sim.run(function()
      local ch = rn.chan(1)
      recorder.tap(ch, function(v, waits)
        seen[#seen + 1] = v .. (waits and " waits" or "")
        if v == 2 then error "in the tap" end
        if v == 3 then ch:put(100) end
      end)
      ch:put(1)
      rn.go(function()
        ch:put(2)
        rn.alts { { ch, 3 }, rn.timeout(100) }
        rn.sleep(50)
        ch:offer(4)
      end)
      rn.sleep(1)
      for _ = 1, 3 do
        ch:take()
        rn.sleep(1)
      end
      rn.sleep(100)
      recorder.tap(ch, nil)
      ch:offer(5)
      local other = rn.chan(2)
      recorder.tap(other, function(v) seen[#seen + 1] = "other " .. v end)
      recorder.tap(ch, nil)
      other:offer(6)
      recorder.tap(other, nil)
      other:offer(7)
    end)
    assert.same({ "1", "2 waits", "3 waits", "4", "other 6" }, seen)
    local errors = stage.heard()
    assert.matches("in the tap", tostring(errors[1].err))
    assert.matches("inside a function that is called for values on a channel", tostring(errors[2].err))
  end)

  it("does not keep the main program waiting if a tap takes the value that it puts", function()
    local turns = 0
    local ch = rn.chan()
    recorder.tap(ch, function(v, waits)
      if waits then assert.equal(v, ch:poll()) end
    end)
    rn.go(function()
      for _ = 1, 20 do
        rn.yield()
        turns = turns + 1
      end
    end)
    assert.is_true(ch:put(7))
    recorder.tap(ch, nil)
    assert.is_true(turns < 20)
    rn.run()
  end)

  it("does not let a finalizer wait while the main program begins to wait", function()
    local ok, err, got
    local ch = rn.chan() -- is not listed, and will be once the main program waits on it
    recorder.hold "e"
    rn.go(function()
      rn.sleep(1)
      ch:put(7)
    end)
    finalizers.at_once(function()
      ok, err = pcall(rn.sleep, 1)
    end, function() got = ch:take() end)
    recorder.release "e"
    assert.equal(7, got)
    assert.is_false(ok)
    assert.matches("inside a callback", err)
  end)

  it("survives that a finalizer switches it off while a channel is added to the list", function()
    local ch
    local unlisted = rn.chan(1)
    for at = 1, 8 do
      recorder.hold "l"
      local calls = 0
      finalizers.among(function()
        calls = calls + 1
        if calls == at then recorder.release "l" end
      end, function()
        ch = rn.chan(1)
        unlisted:offer(1)
        for _ = 1, 300 do rn.chan() end
      end)
      assert.is_true(calls >= at)
      assert.same({}, recorder.chans())
      assert.is_nil(ch:poll())
      assert.equal(1, unlisted:poll())
    end
  end)

  it("survives that a finalizer ends the go block that is about to be resumed", function()
    local chans = {}
    for i = 1, 700 do
      chans[i] = rn.chan(1)
      chans[i]:offer(i)
    end
    local co
    local n = 0
    rn.go(function()
      co = coroutine.running()
      rn.yield()
      n = n + 1
    end)
    recorder.hold "er"
    rn.step(1)
    local closed = rn.chan()
    closed:close()
    closed:take_async(function() -- a callback, since outside one, polls let the go block run
      for i = 1, 700 do chans[i]:poll() end -- the table of edges must grow
    end)
    finalizers.at_once(function()
      if not co then return end
      coroutine.close(co)
      co = nil
    end, function() rn.step(1) end)
    recorder.release "er"
    assert.equal(0, n)
    assert.is_nil(co)
  end)

  it("survives that it is switched off and on while a go block dies", function()
    recorder.hold "er"
    rn.on_error(function()
      recorder.release "er"
      recorder.hold "er"
      collectgarbage()
    end)
    local ch = rn.chan(10)
    for i = 1, 10 do
      ch:take_async(function() error "dies" end)
      ch:put(i)
    end
    rn.run()
    recorder.release "er"
  end)

  it("has the same name for the same go blocks of each call of the library", function()
    recorder.hold "er"
    sim.run(function()
      for _ = 1, 20 do
        for _ in rn.pmap(2, function(v) return v end, rn.to_chan { 1, 2, 3 }) do rn.yield() end
      end
    end)
    local names, n = {}, 0
    for _, edge in ipairs(recorder.edges()) do
      if not names[edge.name] then n = n + 1 end
      names[edge.name] = true
    end
    recorder.release "er"
    assert.is_true(n < 10, n .. " names")
  end)

  it("counts on channels that only the main program uses", function()
    recorder.hold "e"
    local chans = {}
    for i = 1, 3000 do chans[i] = rn.chan(1) end
    for _, ch in ipairs(chans) do ch:offer(1) end
    local edges, lost = recorder.edges()
    recorder.release "e"
    assert.equal(3000, #edges)
    assert.equal(0, lost)
  end)

  it("does not look through a full table of edges again and again #ci", function()
    recorder.hold "e"
    local chans = {}
    for i = 1, 100000 do
      chans[i] = rn.chan(1)
      chans[i]:offer(1)
    end
    local edges, lost = recorder.edges()
    assert.equal(100000, #edges + lost)
    collectgarbage()
    collectgarbage "stop"
    local before = collectgarbage "count"
    rn.run(function()
      for _ = 1, 10 do rn.yield() end
    end)
    local grown = collectgarbage "count" - before
    collectgarbage "restart"
    recorder.release "e"
    assert.is_true(grown < 100, grown .. " KB")
  end)
end)

describe("the check of trace events", function()
  local function checked(...)
    local events = { { ph = "M", pid = 1, name = "process_name", args = { name = "program" } },
      { ph = "M", pid = 1, tid = 1, name = "thread_name", args = { name = "one" } } }
    for _, event in ipairs { ... } do
      event.pid, event.tid = 1, event.tid or 1
      events[#events + 1] = event
    end
    return function() format.check(events) end
  end

  it("finds planted faults", function()
    assert.has_no_error(checked({ ph = "B", ts = 1, name = "a" }, { ph = "E", ts = 2, name = "a" }))
    assert.error_matches(checked { ph = "B", ts = 1, name = "a" }, "has no end")
    assert.error_matches(checked({ ph = "B", ts = 1, name = "a" }, { ph = "E", ts = 2, name = "b" }),
      "an end has not the name of its begin")
    assert.error_matches(checked { ph = "E", ts = 1 }, "an end without a begin")
    assert.error_matches(checked({ ph = "B", ts = 1, name = "a" }, { ph = "B", ts = 2, name = "b" }), "slices overlap")
    assert.error_matches(checked({ ph = "B", ts = 2, name = "a" }, { ph = "E", ts = 1 }), "time goes back")
    assert.error_matches(checked { ph = "s", ts = 1, id = "1.1" }, "outside of slices")
    assert.error_matches(checked({ ph = "B", ts = 1, name = "a" }, { ph = "s", ts = 1, id = "1.1" },
      { ph = "E", ts = 2, name = "a" }),
      "arrow 1.1 has no end")
    assert.error_matches(checked({ ph = "B", ts = 1, name = "a" }, { ph = "f", ts = 1, id = "1.1", bp = "e" }),
      "an arrow has no begin")
    assert.has_no_error(checked({ ph = "s", ts = 1, id = "a.1" }, { ph = "f", ts = 1, id = "a.1", bp = "e" }))
    assert.error_matches(checked { ph = "s", ts = 1, id = "a.1" }, "arrow a.1 has no end")
    assert.error_matches(checked({ ph = "s", ts = 2, id = "a.1" }, { ph = "f", ts = 1, id = "a.1", bp = "e" }),
      "goes back")
    assert.error_matches(checked({ ph = "s", ts = 1, id = "a.1" }, { ph = "f", ts = 1, id = "a.1", bp = "e" },
      { ph = "B", ts = 1, name = "a" }), "behind the arrows")
    assert.error_matches(checked { ph = "X", ts = 1 }, "an unknown phase")
    assert.error_matches(function() format.decode '{"a":[1,2' end, "JSON")
    assert.error_matches(function() format.decode '{"a":"\1"}' end, "JSON")
  end)
end)
