local core = require "runnel.core"
local explore = require "runnel.search.explore"
local long = require "spec.support.long"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local patience = require "spec.support.patience"
local stage = require "spec.support.stage"

-- The options of a search that ends when it has run all schedules, or when one fails, on a slow machine, too.
local function patiently(options)
  local patient = { seconds = 60 * patience.factor() }
  for name, value in pairs(options or {}) do patient[name] = value end
  return patient
end

-- The message with which an exploration fails.
local function message(f, options)
  local ok, err = pcall(sim.explore, f, patiently(options))
  assert.is_false(ok)
  return err
end

-- After etcd's issue 6857: a node that has stopped is asked for its status.
local function node()
  local stop, done, status = rn.chan():name "stop", rn.chan():name "done", rn.chan():name "status"
  rn.go(function()
    rn.rename "node"
    while true do
      local answer, port = rn.alts { status, stop }
      if port == stop then break end
      answer:put "fine"
    end
    done:close()
  end)
  rn.go(function()
    rn.rename "asks"
    local answer = rn.chan(1)
    status:put(answer)
    answer:take()
  end)
  rn.go(function()
    rn.rename "stops"
    local _, port = rn.alts { { stop, true }, done }
    if port == stop then done:take() end
  end)
end

describe("sim.explore", function()
  before_each(stage.open)
  after_each(stage.close)

  local shortening -- on a slow machine, the usual time is not enough for the shortest schedule
  setup(function() shortening, explore.shortening = explore.shortening, 60000 * patience.factor() end)
  teardown(function() explore.shortening = shortening end)

  it("finds which of several puts of an alts completes, on a shared channel, too", function()
    for _, new in ipairs { rn.chan, rn.shared_chan } do
      local taken = {}
      local explored = sim.explore(function()
        local ch, other = new(), new()
        rn.go(function() rn.alts { { ch, 1 }, { other, 2 }, { ch, 3 }, { ch, 4 } } end)
        rn.yield()
        taken[ch:take()] = true
      end, patiently())
      assert.same({ true, nil, true, true }, taken)
      assert.is_true(explored.all)
    end
  end)

  it("finds each order in which a timer of 0 ms may fire, however many go blocks have run before", function()
    for warm_up = 0, 20, 5 do
      local orders, n = {}, 0
      local explored = sim.explore(function()
        local log = {}
        for _ = 1, warm_up do rn.yield() end
        local sleeper = rn.go(function()
          rn.sleep(0)
          log[#log + 1] = "S"
        end)
        local other = rn.go(function()
          for i = 1, 3 do
            log[#log + 1] = i
            rn.yield()
          end
        end)
        sleeper:take()
        other:take()
        orders[table.concat(log)] = true
      end, patiently())
      assert.is_true(explored.all)
      for _ in pairs(orders) do n = n + 1 end
      assert.equal(4, n, warm_up)
    end
  end)

  describe("counts", function()
    -- How many orders there are of go blocks, each a list of operations: "yield", { "put", channel }, { "take",
    -- channel }. This knows nothing of runnel: it tries each order by itself.
    local function count(blocks)
      local known = {}
      local function go_on(state)
        local ready, parts = {}, {}
        for i = 1, #blocks do
          if state.ready[i] then ready[#ready + 1] = i end
          parts[i] = state.at[i] .. (state.ready[i] and "r" or "")
        end
        for _, name in ipairs { "puta", "takea", "putb", "takeb" } do
          parts[#parts + 1] = name .. table.concat(state.queues[name] or {}, "-")
        end
        if #ready == 0 then return 1 end
        local key = table.concat(parts, " ")
        if known[key] then return known[key] end
        local sum = 0
        for _, i in ipairs(ready) do
          local next_state = { at = { table.unpack(state.at) }, ready = { table.unpack(state.ready, 1, #blocks) },
            queues = {} }
          for name, queue in pairs(state.queues) do next_state.queues[name] = { table.unpack(queue) } end
          local at, is_ready, queues = next_state.at, next_state.ready, next_state.queues
          is_ready[i] = false
          local op = blocks[i][at[i]]
          while op and op ~= "yield" do
            local mine, other = op[1] .. op[2], (op[1] == "put" and "take" or "put") .. op[2]
            at[i] = at[i] + 1
            if not queues[other] or #queues[other] == 0 then
              queues[mine] = queues[mine] or {}
              table.insert(queues[mine], i)
              break
            end
            is_ready[table.remove(queues[other], 1)] = true
            op = blocks[i][at[i]]
          end
          if op == "yield" then
            at[i] = at[i] + 1
            is_ready[i] = true
          end
          sum = sum + go_on(next_state)
        end
        known[key] = sum
        return sum
      end
      local all = { at = {}, ready = {}, queues = {} }
      for i = 1, #blocks do all.at[i], all.ready[i] = 1, true end
      return go_on(all)
    end

    local function run(blocks)
      local chans = {}
      for _, block in ipairs(blocks) do
        for _, op in ipairs(block) do
          if op ~= "yield" then chans[op[2]] = chans[op[2]] or rn.chan() end
        end
      end
      for _, block in ipairs(blocks) do
        rn.go(function()
          for _, op in ipairs(block) do
            if op == "yield" then rn.yield()
            elseif op[1] == "put" then chans[op[2]]:put(true)
            else chans[op[2]]:take() end
          end
        end)
      end
    end

    local y, put, take = "yield", { "put", "a" }, { "take", "a" }
    local PROGRAMS = {
      { 120, { {}, {}, {}, {}, {} } },
      { 35, { { y, y }, { y, y, y } } },
      { 1680, { { y, y }, { y, y }, { y, y } } },
      { 2, { { put, put }, { take, take } } },
      { nil, { { put, y, put }, { take, y }, { take } } },
      { nil, { { put, put }, { put, y, put }, { take, take, take, take } } },
      { nil, { { put, { "take", "b" } }, { take, { "put", "b" } }, { y, put }, { take } } },
    }
    for i, program in ipairs(PROGRAMS) do
      it("exactly as many orders as there are: program " .. i, function()
        local orders = count(program[2])
        assert.equal(program[1] or orders, orders)
        assert.same({ schedules = orders, all = true }, sim.explore(function() run(program[2]) end, { seconds = 1e6 }))
      end)
    end

    it("the choices of alts and of sim.choose", function()
      local seen = {}
      local explored = sim.explore(function()
        local chans = { rn.chan(1), rn.chan(1), rn.chan() }
        local number = sim.choose(4)
        local _, port = rn.alts { { chans[1], 1 }, chans[3], { chans[2], 1 } }
        seen[number .. (port == chans[1] and "a" or "b")] = true
        assert.equal(1, sim.choose(1))
        rn.alts({ { chans[1], 1 }, { chans[2], 1 }, chans[3] }, { priority = true })
      end, patiently())
      assert.same({ schedules = 8, all = true }, explored)
      local n = 0
      for _ in pairs(seen) do n = n + 1 end
      assert.equal(8, n)
    end)

    it("which of several operations on one channel an alts that waits does, and nothing else of it", function()
      local function seen_of(operations)
        local seen = {}
        local explored = sim.explore(function()
          local a, b = rn.chan(), rn.chan()
          rn.go(rn.alt, operations(a, b, function(_, _) end))
          rn.yield()
          seen[tostring((a:take()))] = true
        end, patiently { leaks = false })
        local names = {}
        for name in pairs(seen) do names[#names + 1] = name end
        table.sort(names)
        return explored.schedules, explored.all, table.concat(names, " ")
      end
      local function orders(...) return { seen_of(...) } end
      local alone = orders(function(a, b, f) return { { { a, 1 }, f }, { { b, 2 }, f } } end)
      assert.same({ alone[1], true, "1" }, alone)
      assert.same({ alone[1], true, "1" }, orders(function(a, b, f) return { { { a, 1 }, f }, { b, f }, { a, f } } end))
      local three = orders(function(a, b, f)
        return { { { a, 1 }, f }, { { b, 0 }, f }, { { a, 2 }, f }, { { a, 3 }, f } }
      end)
      assert.same({ true, "1 2 3" }, { three[2], three[3] })
      assert.is_true(three[1] > alone[1] and three[1] <= 3 * alone[1], three[1])
    end)

    it("a cancelled go block that catches it in a loop: it ends, and no value is lost", function()
      local ends = {}
      local explored = sim.explore(function()
        local ch, results, runs = rn.chan(), rn.chan(4), 0
        local sent, told = 0, false
        local worker = rn.go(function()
          for i = 1, 3 do
            local before = runs
            local ok, accepted = pcall(ch.put, ch, i)
            if ok and accepted then sent = sent + 1 end
            assert(not told or runs == before, "it has waited again")
            told = told or not ok
          end
          local ok = pcall(results.put, results, "has room") -- which needs not wait
          assert(ok)
          return sent
        end)
        local got = 0
        local reader = rn.go(function()
          for _ in ch do
            got, runs = got + 1, runs + 1
          end
        end)
        if sim.choose(2) == 2 then rn.yield() end
        rn.cancel(worker, "enough")
        local said, err = worker:take()
        ch:close()
        reader:take()
        assert(said == got and err == nil and results:take() == "has room", "a value was lost, or came twice")
        ends[got] = true
      end, patiently())
      assert.is_true(explored.all)
      assert.is_true(ends[0] and (ends[1] or ends[2] or ends[3]))
    end)

    it("say what was proved as text", function()
      assert.equal("all 1 schedule of its go blocks", tostring(sim.explore(function() end)))
      local function four() for _ = 1, 4 do rn.go(function() end) end end
      assert.equal("all 24 schedules of its go blocks", tostring(sim.explore(four, patiently())))
      local cut = sim.explore(function() sim.choose(2) end, { seconds = 0 })
      assert.equal("1 schedule of its go blocks, not all", tostring(cut))
      local explored = setmetatable({ schedules = 1234567, all = false }, getmetatable(sim.explore(function() end)))
      assert.equal("1,234,567 schedules of its go blocks, not all", tostring(explored))
    end)
  end)

  describe("finds", function()
    it("a leak, and tells its story", function()
      assert.equal([[
sim.explore: leak: 1 go block waits for ever (schedule SOME)
  1   f      starts node
             starts asks
             starts stops
             ends
  2 * stops  waits in alts on stop, done (explore_spec.lua:LINE)
  3   node   takes from stop (explore_spec.lua:LINE), which wakes stops
             closes done (explore_spec.lua:LINE)
             ends
  4   asks   waits to put on status (explore_spec.lua:LINE)
  5   stops  ends
At the end:
      asks   waits for ever to put on status (explore_spec.lua:LINE)
* not the first in the queue. To replay: sim.explore(f, { schedule = "SOME" })]],
        (message(node):gsub("schedule %d+[^)]*", "schedule SOME"):gsub('"[^"]+"', '"SOME"')
          :gsub("spec.lua:%d+", "spec.lua:LINE")))
    end)

    it("a leak, with the program's names for the channels, also while something else records", function()
      rn.graph()
      local others = { rn.chan():name "status" }
      assert.matches("waits for ever to put on status %(", (message(node)))
      rn.graph(false)
      assert.equal(1, #others)
    end)

    it("much in one step, and tells its last 100 lines, or with the option full all", function()
      local function f()
        local c = rn.chan(500):name "c"
        for i = 1, 500 do c:put(i) end
        error "too much"
      end
      local short, full = message(f), message(f, { full = true })
      assert.equal(102, select(2, short:gsub("\n", "")))
      local left_out = "\n  %.%.%. %d steps? and %d+ actions of step %d %(the option full shows all%), then:\n"
      assert.matches(left_out .. "  %d   f ", short)
      assert.matches("\n +ends with an error\nTo replay: ", short)
      assert.equal(500, select(2, full:gsub("puts on c ", "")))
      assert.not_matches("%.%.%.", full)
    end)

    it("a leak of many go blocks, and names 30 of them, or with the option full all", function()
      local function f()
        local never = rn.chan():name "never"
        for _ = 1, 31 do rn.go(never.take, never) end
      end
      local short, full = message(f), message(f, { full = true })
      assert.equal(30, select(2, short:gsub("waits for ever to take", "")))
      assert.matches("\n      %.%.%. and 1 more go block %(the option full shows all%)\nTo replay: ", short)
      assert.equal(31, select(2, full:gsub("waits for ever to take", "")))
    end)

    it("what came to nothing, whose value fills a channel, and four channels of an alts", function()
      local text = message(function()
        local locks = { alice = rn.chan(1):name "lock alice", bob = rn.chan(1):name "lock bob" }
        local wake, chans = rn.chan():name "wake", {}
        for i = 1, 6 do chans[i] = rn.chan():name("c" .. i) end
        local function transfer(from, to)
          rn.rename(from)
          if from == "alice" then
            wake:offer(true)
            wake:poll()
          end
          locks[from]:put "held"
          if from == "alice" then locks[from]:offer "again" end
          rn.yield()
          locks[to]:put "held"
        end
        local alice = rn.go(transfer, "alice", "bob")
        rn.go(transfer, "bob", "alice")
        rn.go(rn.alts, chans)
        rn.go(rn.alts, { chans[1], chans[2], chans[3], chans[4] })
        alice:take()
      end):gsub("explore_spec.lua:%d+", "LINE")
      for _, line in ipairs {
        "  2   alice   offers on wake (LINE): nobody waits, dropped\n",
        "polls wake (LINE): nothing there\n",
        "offers on lock alice (LINE): it is full, dropped\n",
        " waits to put on lock bob (LINE)\n",
        "waits in alts on c1, c2, c3, c4\n",
        "waits in alts on c1, c2, c3, c4 and 2 more\n",
        "alice   waits for ever to put on lock bob (LINE): bob has put what is in it, "
          .. "and waits to put on lock alice (LINE)\n",
        "bob     waits for ever to put on lock alice (LINE): alice has put what is in it, "
          .. "and waits to put on lock bob (LINE)\n",
      } do
        assert.is_truthy(text:find(line, 1, true), line .. "is not in:\n" .. text)
      end
    end)

    it("that whoever has filled a channel has ended", function()
      local text = message(function()
        local ch = rn.chan(2):name "full"
        rn.go(function()
          rn.rename "first"
          ch:put(1)
          ch:put(2)
        end)
        rn.go(function() rn.rename "second" ch:take() ch:put(3) ch:put(4) end)
      end)
      assert.matches("second  waits for ever to put on full %([^)]*%): first has put what is in it, and has ended\n",
        text)
    end)

    it("an error of f, also one that is no string", function()
      assert.matches("^sim.explore: error: spec/sim/explore_spec.lua:%d+: bad %(schedule 1%)\n", message(function()
        error "bad"
      end))
      assert.matches("^sim.explore: error: an object %(", message(function()
        error(setmetatable({}, { __tostring = function() return "an object" end }))
      end))
      assert.matches("sim.explore: error: .*Expected objects to be equal.*Passed in", message(function()
        assert.equal(1, 2)
      end))
    end)

    it("an error that nobody takes, but not one that somebody does", function()
      assert.matches("^sim.explore: error: lost %(schedule 1%)", message(function() rn.go(error, "lost", 0) end))
      assert.is_true(sim.explore(function() rn.go(error, "lost", 0):take() end, patiently()).all)
      assert.same({}, stage.heard())
    end)

    it("a deadlock", function()
      local text = message(function()
        local ch = rn.chan():name "nobody"
        rn.sleep(5)
        ch:take()
      end)
      assert.matches("^sim.explore: deadlock: f waits for ever %(schedule 1%)\n", text)
      assert.matches("\n  at 5 ms:\n  2   f  waits to take from nobody %(explore_spec.lua:%d+%)\nAt the end:", text)
      assert.matches("\n      f  waits for ever to take from nobody %(explore_spec.lua:%d+%)\nTo replay", text)
      assert.is_true(sim.explore(function() pcall(rn.chan().take, rn.chan()) end).all)
    end)

    it("a failure in one order of six, by each strategy", function()
      local function racy()
        local log = {}
        for i = 1, 3 do rn.go(function() log[#log + 1] = i end) end
        rn.sleep(1)
        if table.concat(log) == "321" then error("backwards", 0) end
      end
      local text = message(racy)
      assert.matches("^sim.explore: error: backwards %(schedule %d+", text)
      for _, strategy in ipairs { 1, 2 } do
        local explorer, found = core.internal.explore.new(1000, false), false
        for seed = 1, 200 do
          found = found or core.internal.explore.run(explorer, racy, true, nil, strategy, seed, 2) == false
        end
        assert.is_true(found)
      end
    end)

    it("an error of the program that begins as one of the core", function()
      for _, own in ipairs { "leak: of water", "deadlock: mine", "livelock: none" } do
        assert.matches("^sim.explore: error: " .. own, message(function() error(own, 0) end))
      end
    end)

    it("sim.explore in a deadlock, also to f", function()
      local err
      sim.explore(function() err = select(2, pcall(function() rn.chan():take() end)) end)
      assert.matches("^deadlock: sim.explore would wait for ever", err)
    end)

    it("a fault that it injects", function()
      local text = message(function()
        local function read() return sim.choose(3) < 3 and "text" or nil, "no such file" end
        assert(read())
      end)
      assert.matches("error: spec/sim/explore_spec.lua:%d+: no such file %(schedule 3", text)
      assert.matches("sim.choose%(3%) is 3 %(explore_spec.lua:%d+%)", text)
      assert.matches('schedule = "2:%x+"', text)
    end)

    it("no leak where only the library waits, or a callback, or leaks is false", function()
      local function library()
        local from, to = rn.chan(), rn.chan()
        rn.pipe(from, to)
        rn.mult(to):tap(rn.chan())
        rn.chan():take_async(function() end)
      end
      assert.is_true(sim.explore(library, patiently()).all)
      sim.run(library, { leaks = true })
      local function leaves() rn.go(function() rn.chan():take() end) end
      assert.is_true(sim.explore(leaves, patiently { leaks = false }).all)
    end)

    it("with timers = any, what happens if a go block is slower than a timer", function()
      local function slow()
        local is_late = false
        rn.go(function()
          rn.sleep(1000)
          is_late = true
        end)
        rn.go(function()
          rn.yield()
          assert(not is_late, "too late")
        end)
      end
      assert.is_true(sim.explore(slow, patiently()).all)
      local text = message(slow, { timers = "any" })
      assert.matches("error: .*too late %(", text)
      assert.matches("at 1000 ms:", text)
      local schedule = text:match '{ schedule = "([^"]+)", timers = "any" }'
      assert.matches("too late", message(slow, { schedule = schedule, timers = "any" }))
    end)
  end)

  describe("a schedule", function()
    local schedule

    lazy_setup(function() schedule = message(node):match 'schedule = "([^"]+)"' end)

    it("fails again", function()
      local text = message(node, { schedule = schedule })
      assert.matches("^sim.explore: leak: 1 go block waits for ever %(schedule \"" .. schedule .. "\"%)", text)
      assert.equal(text, message(node, { schedule = schedule }))
    end)

    it("fails again in another process, and its number tells if the program is another one", function()
      local program = [[
        local rn, sim = require "runnel", require "runnel.sim"
        local function f()
          local ch, go_blocks = rn.chan():name "ch", %d
          local log = {}
          for i = 1, go_blocks do
            rn.go(function()
              rn.yield()
              log[#log + 1] = i
            end)
          end
          rn.sleep(1)
          if log[1] == 3 then ch:take() end
        end
        print(select(2, pcall(sim.explore, f, { schedule = %s })))]]
      local first = stage.script(program:format(3, "nil"))
      local found = first:match 'schedule = "([^"]+)"'
      local again = stage.script(program:format(3, ("%q"):format(found)))
      assert.matches("^sim.explore: deadlock: f waits for ever", again)
      local function steps(text) return (text:match("\n.*"):gsub("lua_%w+", "")) end
      assert.equal(steps(first), steps(again))
      assert.matches("f is not the same in every run: it makes other choices than when schedule \"" .. found,
        (stage.script(program:format(4, ("%q"):format(found)))))
    end)

    it("has no more choices once it is shortened, and the same kind of failure", function()
      -- A long program in which one choice matters.
      local text = message(function()
        local log = {}
        for i = 1, 6 do
          rn.go(function()
            for _ = 1, 5 do
              rn.yield()
              log[#log + 1] = i
            end
          end)
        end
        rn.sleep(1)
        if log[1] == 6 then error("the last was first", 0) end
      end)
      local n = tonumber(text:match "shortened to (%d+) choice") or 0
      assert.is_true(n <= 2, text)
      assert.matches("^sim.explore: error: the last was first", text)
    end)

    it("that does not fail returns", function()
      local text = message(function() error "x" end)
      assert.same({ schedules = 1, all = false }, sim.explore(function() end, { schedule = text:match '"([^"]+)"' }))
    end)

    it("has a clock for traces, which advances by 1 us a step", function()
      local recorder = core.internal.trace
      recorder.hold("r", 256)
      local _, from = recorder.ring()
      pcall(sim.explore, node, { schedule = schedule })
      local times, _, to = {}, recorder.ring()
      for n = from, to - 1 do
        local kind, time, go = recorder.read(n)
        if kind == 1 and go ~= 0 then times[#times + 1] = time end -- it runs
      end
      recorder.release "r"
      assert.equal(10, #times) -- it is run twice: for the result, and for its story
      for i = 2, 5 do assert.equal(1000, times[i] - times[i - 1]) end
    end)
  end)

  describe("options", function()
    it("seconds end the search, and RUNNEL_EXPLORE_SECONDS overrides them", function()
      local program = [[
        local rn, sim = require "runnel", require "runnel.sim"
        print(sim.explore(function() for _ = 1, 9 do rn.go(function() rn.yield() end) end end, { seconds = %s }))]]
      local one = "1 schedule of its go blocks, not all\n"
      assert.equal(one, (stage.script(program:format "0")))
      assert.equal(one, (stage.script(program:format "1000", "RUNNEL_EXPLORE_SECONDS=0")))
      assert.matches("sim.explore: RUNNEL_EXPLORE_SECONDS: a number expected, got \"soon\"",
        (stage.script(program:format "1", "RUNNEL_EXPLORE_SECONDS=soon")))
      assert.matches("sim.explore: RUNNEL_EXPLORE_SECONDS: a number of at least 0 expected, got %-1",
        (stage.script(program:format "1", "RUNNEL_EXPLORE_SECONDS=-1")))
    end)

    it("steps: longer runs are given up, which is counted, and then it is never all", function()
      local longest = 0
      local function f() -- of unfair schedules, some are long
        local stop, steps = false, 0
        rn.go(function()
          while not stop do
            rn.yield()
            steps = steps + 1
            longest = math.max(longest, steps)
          end
        end)
        for _ = 1, 3 do rn.yield() end
        stop = true
      end
      local explored = search.until_enough(function(result)
        return result.given_up and result.given_up < result.schedules
      end, f, { steps = 50 })
      assert.is_false(explored.all)
      assert.is_true(longest <= 50)
      assert.is_true(explored.given_up > 0 and explored.given_up < explored.schedules)
      assert.matches(", not all; [%d,]+ w[as]*[ere]* given up$", tostring(explored))
    end)

    it("steps: if all runs are given up it fails, since it has checked nothing, and shows the end of one", function()
      local err
      local seconds = 0.01
      repeat -- on a slow machine, the time may be over after one run
        err = message(function() while sim.choose(2) > 0 do rn.yield() end end, { steps = 50, seconds = seconds })
        seconds = 4 * seconds
      until not err:find "the only run was given up" or seconds > 60
      assert.matches("^sim.explore: each of the [%d,]+ runs was given up, so nothing was checked: more than 50 steps",
        err)
      assert.matches("\n *50 +f +sim.choose%(2%) is 1 %([^)]*%)\n +yields %(explore_spec.lua:%d+%)$", err)
      err = message(function() -- time passes, but the program never ends
        local never = rn.chan()
        while not never:poll() do rn.sleep(10) end
      end)
      assert.matches("the only run was given up.*polls chan.*nothing there\n +sleeps", err)
    end)

    it("steps: a run in which one step chooses without end is given up, too #ci", function()
      local why
      local ok, err = pcall(sim.explore, function()
        local _, reason = pcall(function() for _ = 1, 1e6 do sim.choose(2) end end)
        why = reason
      end, { seconds = 0 })
      assert.matches("sim.choose: too many choices in one run$", why)
      assert.is_false(ok)
      assert.matches("^sim.explore: the only run was given up, so nothing was checked", err:sub(1, 80)) -- of 3 MB
    end)

    it("seconds: it ends in time if one of its runs would take for ever", function()
      local runs
      local explored
      local seconds = 0.1
      repeat -- on a slow machine, the time may be over after one run
        runs = 0
        explored = sim.explore(function()
          runs = runs + 1
          sim.choose(2)
          while runs > 1 do rn.sleep(1) end
        end, { steps = 1 << 29, seconds = seconds })
        seconds = 4 * seconds
      until explored.schedules > 1 or seconds > 60
      assert.same({ schedules = 2, all = false, given_up = 1 }, explored)
    end)

    it("that are wrong, and a wrong function, are refused at the caller's line", function()
      local at = "^spec/sim/explore_spec.lua:%d+: sim.explore: "
      local CASES = {
        { "unknown option \"second\"; known: full, leaks, schedule, seconds, share, steps, timers", { second = 1 } },
        { "a table of options expected, got a number", 1 },
        { "seconds: a number of at least 0 expected, got \"1\"", { seconds = "1" } },
        { "seconds: a number of at least 0 expected, got %-1", { seconds = -1 } },
        { "steps: an integer of at least 1 expected, got 0", { steps = 0 } },
        { "leaks: true or false expected, got 1", { leaks = 1 } },
        { 'timers: "any" expected, got "all"', { timers = "all" } },
        { 'schedule: what a message of sim.explore ends with, as "2:51c0", expected, got "2"', { schedule = "2" } },
        { 'schedule: .*, got "2,:51c0"', { schedule = "2,:51c0" } },
      }
      for _, case in ipairs(CASES) do
        local _, err = pcall(function() sim.explore(node, case[2]) end)
        assert.matches(at .. case[1], err)
      end
      local _, err = pcall(function() sim.explore(42) end)
      assert.matches(at .. "a function expected, got a number", err)
    end)

    it("and anything else are refused in a go block and in a simulation", function()
      for _, run in ipairs { rn.run, sim.run, sim.explore } do
        run(function()
          local _, err = pcall(function() sim.explore(node) end)
          assert.matches("^spec/sim/explore_spec.lua:%d+: sim.explore: cannot be called inside a go block", err)
        end)
      end
    end)
  end)

  describe("f", function()
    it("that is not the same in every run is refused at the caller's line", function()
      local runs = 0
      local _, err = pcall(function()
        sim.explore(function()
          runs = runs + 1
          for _ = 1, 2 + runs % 2 do rn.go(function() end) end
        end)
      end)
      assert.matches("^spec/sim/explore_spec.lua:%d+: sim.explore: f is not the same in every run: "
        .. "at choice 1 there were 2 ready go blocks, before 3; likely causes: state outside of f, or the clock$", err)
      runs = 0
      _, err = pcall(function()
        sim.explore(function()
          runs = runs + 1
          if runs == 1 then error "only once" end
        end)
      end)
      assert.matches("^spec/sim/explore_spec.lua:%d+: sim.explore: f is not the same in every run: "
        .. "schedule 1 fails %(error%), and then does not; likely causes: state ", err)
    end)

    it("has the same random numbers in each run, and the program's own go on as if it had not been run", function()
      local seen, n = {}, 0
      local function once()
        math.randomseed(42)
        sim.explore(function()
          n = n + 1
          sim.choose(3)
          seen[math.random(1 << 40)] = true
        end, patiently())
        return math.random(1 << 40)
      end
      assert.equal(once(), once())
      assert.equal(6, n)
      assert.is_not_nil(next(seen))
      assert.is_nil(next(seen, (next(seen))))
      math.randomseed(43)
      sim.explore(function() math.random() end)
      assert.not_equal(once(), math.random(1 << 40))
    end)

    it("may set on_error, which is as before afterwards", function()
      local heard
      local explored = sim.explore(function()
        rn.on_error(function(err) heard = err end)
        rn.go(error, "mine", 0)
      end, patiently())
      assert.is_true(explored.all)
      assert.equal("mine", heard)
      rn.go(error, "outside", 0)
      rn.run()
      assert.equal("outside", stage.heard()[1].err)
    end)

    it("cannot use threads", function()
      assert.matches("a simulation, whose time is virtual, cannot start threads", message(function()
        rn.thread(function() end)
      end))
    end)

    it("leaves nothing on channels outside of it", function()
      local outside = rn.chan()
      sim.explore(function() rn.go(function() outside:take() end) end, { leaks = false })
      stage.assert_no_waiters(outside)
      assert.same({}, stage.others())
    end)

    it("may run many thousands of times within 10 MB #heavy", function()
      local runs = 0
      local function program()
        runs = runs + 1
        local a, b = rn.chan(), rn.chan(1)
        local out = rn.merge { a, b }
        rn.go(function()
          a:put(1)
          b:put(2)
          rn.sleep(1)
        end)
        rn.go(function() out:take() out:take() end)
        rn.go(function() rn.chan():take() end)
        out:take_async(function() end)
      end
      local function used()
        collectgarbage()
        collectgarbage()
        return collectgarbage "count"
      end
      sim.explore(program, { leaks = false, seconds = 0.02 })
      local before, most = used(), 0
      while runs < long.times(15000, 100000) do
        sim.explore(program, { leaks = false, seconds = 0.2 })
        most = math.max(most, collectgarbage "count")
      end
      assert.is_true(most - before < 10 * 1024, most - before)
      assert.is_true(used() - before < 1024)
    end)
  end)
end)

describe("sim.choose", function()
  it("chooses at random by the seed in sim.run", function()
    local function choices(seed)
      return sim.run(function()
        local list = {}
        for i = 1, 100 do list[i] = sim.choose(3) end
        return table.concat(list)
      end, { seed = seed })
    end
    assert.equal(choices(1), choices(1))
    assert.not_equal(choices(1), choices(2))
    assert.matches("^[123]+$", choices(1))
    for number = 1, 3 do assert.matches(tostring(number), choices(1)) end
  end)

  it("refuses what is no number, and to be called outside a simulation", function()
    local _, err = pcall(sim.run, function() sim.choose(0) end)
    assert.matches("^spec/sim/explore_spec.lua:%d+: sim.choose: how many there are: an integer of at least 1 expected, "
      .. "got 0", err)
    _, err = pcall(sim.run, function() sim.choose(1 << 30) end)
    assert.matches("^spec/sim/explore_spec.lua:%d+: sim.choose: how many there are: at most 1073741823, got 1073741824",
      err)
    assert.is_true(sim.run(function() return sim.choose((1 << 30) - 1) end) >= 1)
    _, err = pcall(function() sim.choose(2) end)
    assert.matches("^spec/sim/explore_spec.lua:%d+: sim.choose: there is nothing to choose outside a simulation", err)
  end)
end)

describe("leaks = true", function()
  before_each(stage.open)
  after_each(stage.close)

  local function leaky()
    local ch = rn.chan():name "nobody takes"
    rn.go(function() ch:put(1) end)
    rn.pipe(rn.chan(), rn.chan():name "to")
    return "result"
  end

  it("makes sim.run raise if a go block of the program is left, and lists those of the library", function()
    assert.equal("result", sim.run(leaky))
    local _, err = pcall(sim.run, leaky, { leaks = true })
    assert.matches("^leak: 1 go block waits for ever\n  #%d+ %(spec/sim/explore_spec.lua:%d+%): put on chan: nobody "
      .. "takes at spec/sim/explore_spec.lua:%d+\ngo blocks of the library:\n  #%d+ "
      .. "%(pipe at spec/sim/explore_spec.lua:%d+ %-> chan: to%): alts on chan: #%d+, "
      .. "chan: #%d+ at spec/sim/explore_spec.lua:%d+$", err)
    assert.equal(2, select("#", sim.run(function()
      rn.go(function() rn.sleep(1e6) end)
      return 1, 2
    end, { leaks = true })))
    assert.equal(1e6, sim.elapsed())
  end)

  it("finds a go block that nobody can wake, also if the collector has run since", function()
    local function abandons()
      rn.go(function() rn.chan():take() end)
      rn.go(function() rn.alts { rn.chan(), rn.chan() } end)
      for _ = 1, 5 do
        rn.sleep(1)
        collectgarbage()
      end
    end
    local _, err = pcall(sim.run, abandons, { leaks = true })
    assert.matches("^leak: 2 go blocks wait for ever\n", err)
    _, err = pcall(sim.explore, abandons)
    assert.matches("^sim.explore: leak: 2 go blocks wait for ever %(schedule 1%)\n", err)
    sim.run(abandons)
  end)

  it("ends also if something goes on for ever", function()
    for _, wait in ipairs { function() rn.sleep(1) end, rn.yield } do
      local _, err = pcall(sim.run, function()
        rn.go(function() while true do wait() end end)
      end, { leaks = true })
      assert.matches("^leak: 1 go block goes on for ever\n", err)
    end
  end)

  it("makes sim.each_seed name the seed", function()
    sim.each_seed(3, leaky)
    assert.error_matches(function() sim.each_seed(3, leaky, { leaks = true }) end, "^with seed 1: leak: 1 go block")
    assert.error_matches(function() sim.each_seed(3, leaky, { leak = true }) end,
      'sim.each_seed: unknown option "leak"')
  end)
end)

describe("the deadlock of a simulation", function()
  it("lists only its own go blocks", function()
    sim.run(function()
      rn.go(function() rn.chan():name("of another simulation"):take() end)
      rn.yield()
    end)
    local _, err = pcall(sim.run, function()
      rn.go(function() rn.chan():name("of this one"):take() end)
      rn.chan():take()
    end)
    assert.matches("take on chan: of this one", err)
    assert.not_matches("of another simulation", err)
  end)
end)

describe("sim.explore finds what goes on for ever:", function()
  before_each(stage.open)
  after_each(stage.close)

  -- Each never waits, and nobody else can end it.
  local loops = {
    ["a yield"] = function() rn.yield() end,
    ["a sleep of 0 ms"] = function() rn.sleep(0) end,
    ["a timeout of 0 ms"] = function() rn.timeout(0):take() end,
    ["a take from a closed channel"] = function(closed) closed:take() end,
    ["a put on a closed channel"] = function(closed) closed:put(1) end,
    ["an alts with a closed channel"] = function(closed, other) rn.alts { closed, other } end,
    ["a poll of a closed channel"] = function(closed) closed:poll() end,
  }
  for name, operation in pairs(loops) do
    it("a livelock, with its go blocks and lines: " .. name .. " #heavy", function()
      local function program()
        local closed, other = rn.chan(), rn.chan()
        closed:close()
        rn.go(function()
          rn.rename "looper"
          while true do operation(closed, other) end
        end):take()
      end
      local err = message(program, { seconds = 60 * patience.factor() })
      assert.matches("^sim.explore: livelock: a go block was ready at each of 10000 steps, so none waits for a time "
        .. "%(schedule 1%)\ngo blocks that go on for ever:\n  #%d+ %(looper%): %l+[^\n]* at [^\n]*explore_spec", err)
      assert.matches("\n *10000 +looper +[^\n]*%(explore_spec.lua:%d+%)", err)
      if name ~= "a take from a closed channel" then return end -- sim.run takes longer to find it
      local ok
      ok, err = pcall(sim.run, program)
      assert.is_false(ok)
      assert.matches("^livelock: a go block was ready at each of %d+ steps.*\n  #%d+ %(looper%): ", err)
    end)
  end

  it("two go blocks that wait only for each other, and a livelock that needs some choices", function()
    local limits = { seconds = 60 * patience.factor() }
    local err = message(function()
      local a, b = rn.chan(), rn.chan()
      rn.go(function() while true do a:put(b:take()) end end)
      b:put(1)
      while true do b:put(a:take()) end
    end, limits)
    assert.matches("livelock: .*takes from chan explore_spec.lua:%d+", err)
    err = message(function()
      local a, b, is_first = rn.chan(), rn.chan(), nil
      rn.go(function() is_first = is_first or "a" end)
      rn.go(function() is_first = is_first or "b" end)
      while not is_first do rn.yield() end
      if is_first == "b" then
        rn.go(function() while true do a:put(b:take()) end end)
        b:put(1)
        while true do b:put(a:take()) end
      end
    end, limits)
    assert.matches("livelock: .*schedule = \"[%dx,]*1:%x+\"", err)
  end)

  it("a heartbeat that is left running: a leak, as in sim.run", function()
    local function program()
      rn.go(function()
        rn.rename "heart"
        while true do rn.sleep(1000) end
      end)
      rn.sleep(10)
    end
    local err = message(program)
    assert.matches("^sim.explore: leak: 1 go block goes on for ever %(schedule 1%)\n", err)
    assert.matches("\n *heart +sleeps %(explore_spec.lua:%d+%)", err)
    assert.matches("leak: 1 go block goes on for ever", select(2, pcall(sim.run, program, { leaks = true })))
    assert.is_true(sim.explore(program, patiently { leaks = false }).all)
  end)
end)
