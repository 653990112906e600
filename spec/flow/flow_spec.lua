local rn = require "runnel"
local flow = require "runnel.flow"
local sim = require "runnel.sim"

-- Runs a function in a simulation, and checks that no go block is left.
local function run(f)
  sim.run(function()
    local before = {}
    for _, entry in ipairs(rn.ps()) do before[entry.id] = true end
    local was = rn.on_error(function(err) error(err, 0) end)
    f()
    rn.on_error(was)
    rn.sleep(10000)
    for _, entry in ipairs(rn.ps()) do
      if not before[entry.id] then error(("a go block is left: %s, %s"):format(entry.name, entry.state), 0) end
    end
  end, { seed = 1 })
end

-- A stage that keeps what it gets, and the list.
local function sink()
  local list = {}
  return function(value) list[#list + 1] = value end, list
end

local function slow(value)
  rn.sleep(10)
  return value
end

local function text(list) return table.concat(list, " ") end

local function numbers(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

-- Does not report errors of stages that hold.
local function quietly(f)
  run(function()
    rn.on_error(function() end)
    f()
  end)
end

describe("flow", function()
  it("moves values along its edges, until the sources have ended", function()
    run(function()
      local save, saved = sink()
      local f = flow("job", {
        files = { from = { "a", "b" } },
        lines = { step = function(name, put) for i = 1, 2 do put(name .. i) end end },
        upper = string.upper,
        save = save,
        "files > lines > upper > save",
      })
      assert.is_true(f:wait())
      assert.equal("A1 A2 B1 B2", text(saved))
      assert.is_true(f:done():closed())
    end)
  end)

  it("drops results that are nil, and passes on false", function()
    run(function()
      local got = {}
      flow("job", {
        a = { from = { 1, 2, 3 } },
        b = function(value) if value == 1 then return false end if value == 3 then return 3 end end,
        c = function(value) got[#got + 1] = tostring(value) end,
        "a > b > c",
      }):wait()
      assert.equal("false 3", text(got))
    end)
  end)

  it("has sources: a list, an iterator, a channel, a function, inject", function()
    run(function()
      local save, saved = sink()
      local ch = rn.to_chan { "c1", "c2" }
      local i = 0
      local f = flow("job", {
        list = { from = { "l1" } },
        iterator = { from = function()
          i = i + 1
          rn.sleep(1)
          return i <= 2 and "i" .. i or nil
        end },
        channel = { from = ch },
        bare = rn.to_chan { "b1" },
        own = { source = function(put) put "s1" end },
        by_hand = { function(value) return value end, input = true },
        save = save,
        "list, iterator, channel, bare, own, by_hand > save",
      }):start()
      f:inject("by_hand", "h1", "h2")
      rn.sleep(100)
      assert.is_true(f:drain())
      table.sort(saved)
      assert.equal("b1 c1 c2 h1 h2 i1 i2 l1 s1", text(saved))
    end)
  end)

  it("puts on channels, and closes them at the end", function()
    run(function()
      local out = rn.chan()
      flow("job", { a = { from = { 1, 2, 3 } }, out = out, "a > out" }):start()
      assert.same({ 1, 2, 3 }, rn.into({}, out):take())
    end)
  end)

  it("copies, merges, and has named outputs", function()
    run(function()
      local left, lefts = sink()
      local right, rights = sink()
      local odd, odds = sink()
      flow("job", {
        a = { from = { 1, 2, 3 } },
        b = { from = { 10 } },
        split = { outs = { "odd" }, step = function(value)
          if value % 2 == 1 then return value, "odd" end
          return value
        end },
        left = left, right = right, odd = odd,
        "a, b > split > left, right",
        "split.odd > odd",
      }):wait()
      table.sort(lefts)
      table.sort(rights)
      assert.equal("2 10 / 2 10 / 1 3", text { text(lefts), "/", text(rights), "/", text(odds) })
    end)
  end)

  it("runs n calls at a time, in order unless it is told otherwise", function()
    for _, ordered in ipairs { true, false } do
      run(function()
        local save, saved = sink()
        local running, peak = 0, 0
        flow("job", {
          a = { from = numbers(6) },
          b = { n = 3, ordered = ordered, function(value)
            running = running + 1
            peak = math.max(peak, running)
            rn.sleep(value % 3 == 1 and 10 or 1)
            running = running - 1
            return value
          end },
          save = save,
          "a > b > save",
        }):wait()
        assert.equal(3, peak)
        assert.equal(ordered and "1 2 3 4 5 6" or "2 3", text { table.unpack(saved, 1, ordered and 6 or 2) })
      end)
    end
  end)

  it("gives each worker a state, flushes it at the end, and stops it", function()
    run(function()
      local save, saved = sink()
      local stopped = 0
      flow("job", {
        a = { from = numbers(10) },
        sum = {
          n = 2, ordered = false,
          init = function(number) return { number = number, sum = 0 } end,
          step = function(value, _, state)
            rn.sleep(1)
            state.sum = state.sum + value
          end,
          flush = function(state, put) put(state.sum) end,
          close = function() stopped = stopped + 1 end,
        },
        save = save,
        "a > sum > save",
      }):wait()
      assert.equal(55, saved[1] + saved[2])
      assert.equal(2, stopped)
    end)
  end)

  it("takes a pool or another object that can be called for a function", function()
    run(function()
      local save, saved = sink()
      local double = setmetatable({}, { __call = function(_, value) return 2 * value end })
      flow("job", {
        a = { from = { 1, 2 } }, b = double, c = { double, n = 2 }, save = save,
        "a > b > c > save",
      }):wait()
      assert.equal("4 8", text(saved))
    end)
  end)
end)

describe("flow: errors", function()
  for what, flush in pairs { ["a stage"] = false, ["a stage with flush"] = function() end } do
    it(("are what %s returns after nil, and are tried again"):format(what), function()
      run(function()
        local save, saved = sink()
        local calls, records = 0, {}
        flow("job", {
          a = { from = { 1, 2, 3 } },
          b = {
            function(value)
              if value ~= 2 then return value end
              calls = calls + 1
              return nil, "two"
            end,
            tries = 2, backoff = 1, flush = flush or nil,
          },
          save = save, bad = function(record) records[#records + 1] = record end,
          "a > b > save", "b.error > bad",
        }):wait()
        assert.equal("1 3", text(saved))
        assert.equal(1, #records)
        assert.same({ 2, "two", 2, 2 }, { records[1].value, records[1].error, records[1].tries, calls })
      end)
    end)
  end

  it("go along an edge, after the tries, and keep their place", function()
    run(function()
      local save, saved = sink()
      local calls, records = 0, {}
      flow("job", {
        a = { from = { 1, 2, 3 } },
        b = { n = 3, tries = 3, backoff = 1, function(value)
          if value == 2 then
            calls = calls + 1
            error("two", 0)
          end
          return value
        end },
        save = save,
        bad = function(e) records[#records + 1] = e end,
        "a > b > save", "*.error > bad",
      }):wait()
      assert.equal("1 3", text(saved))
      assert.equal(3, calls)
      local e = records[1]
      assert.same({ 1, "b", 2, "two", 3 }, { #records, e.stage, e.value, e.error, e.tries })
      assert.matches("stack traceback", e.traceback)
      assert.equal("stage b: two", tostring(e))
    end)
  end)

  it("keep what a failed try has put back", function()
    run(function()
      local save, saved = sink()
      local tried = 0
      flow("job", {
        a = { from = { 1 } },
        b = { tries = 2, backoff = 0, step = function(value, put)
          tried = tried + 1
          put("try " .. tried)
          if tried == 1 then error "no" end
          return value
        end },
        save = save,
        "a > b > save",
      }):wait()
      assert.equal("try 2 1", text(saved))
    end)
  end)

  it("of calls that take too long are errors, too, but waiting for room does not count", function()
    run(function()
      local records, saved = {}, 0
      flow("job", {
        a = { from = numbers(4) },
        b = { timeout = 50, function(value)
          rn.sleep(value == 2 and 100 or 1)
          return value
        end },
        slow = { buffer = 0, function()
          rn.sleep(200)
          saved = saved + 1
        end },
        bad = function(e) records[#records + 1] = e end,
        "a > b > slow", "b.error > bad",
      }):wait()
      assert.same({ 1, 2, 3 }, { #records, records[1].value, saved })
      assert.is_true(rn.is_timeout(records[1].error))
    end)
  end)

  it("without an edge make the stage hold: wait raises, and replace and resume try the value again", function()
    quietly(function()
      local save, saved = sink()
      local f = flow("job", {
        a = { from = { 1, 2, 3 } },
        b = { n = 2, function(value)
          if value == 2 then error("two", 0) end
          return value
        end },
        save = save,
        "a > b > save",
      })
      local ok, err = pcall(f.wait, f)
      assert.is_false(ok)
      assert.same({ "b", 2, "two" }, { err.stage, err.value, err.error })
      assert.equal("held", f:stats()[2].state)
      assert.is_false((pcall(f.wait, f)))
      f:replace("b", function(value) return value * 10 end)
      f:resume "b"
      assert.is_true(f:wait())
      assert.equal("1 20 30", text(saved):gsub(" 3$", " 30"))
    end)
  end)

  it("of a stage that holds are reported once, unless somebody waits", function()
    local reports = {}
    sim.run(function()
      rn.on_error(function(err, trace, where) reports[#reports + 1] = { err, trace, where } end)
      local f = flow("job", { a = { from = { 1 } }, b = function() error("one", 0) end, "a > b" }):start()
      rn.sleep(1)
      assert.equal(1, #reports)
      assert.same({ "one", "stage b of flow job, which holds its value" }, { reports[1][1], reports[1][3] })
      assert.is_false((pcall(f.wait, f)))
      f:resume "b"
      assert.is_false((pcall(f.wait, f)))
      f:stop()
      assert.equal(1, #reports)
    end)
  end)

  it("of init hold the stage, and resume calls it again", function()
    quietly(function()
      local save, saved = sink()
      local calls = 0
      local f = flow("job", {
        a = { from = { 1 } },
        b = { function(value) return value end, init = function()
          calls = calls + 1
          if calls == 1 then error "no server" end
        end },
        save = save,
        "a > b > save",
      })
      assert.is_false((pcall(f.wait, f)))
      f:resume()
      f:wait()
      assert.same({ 2, "1" }, { calls, text(saved) })
    end)
  end)

  it("of a source go along its edge, or hold it; resume calls it again", function()
    quietly(function()
      local save, saved = sink()
      local n = 0
      local function source(put)
        n = n + 1
        put(n)
        if n < 3 then error "lost" end
      end
      local f = flow("job", { a = { source = source }, save = save, "a > save" })
      for _ = 1, 2 do
        assert.is_false((pcall(f.wait, f)))
        f:resume()
      end
      f:wait()
      assert.equal("1 2 3", text(saved))
      local records = {}
      n = 0
      flow("job", {
        a = { source = source }, save = save, bad = function(e) records[#records + 1] = e end,
        "a > save", "a.error > bad",
      }):wait()
      assert.same({ 1, "a" }, { #records, records[1].stage })
    end)
  end)

  it("of an iterator go along its edge, or hold it; resume calls it again", function()
    quietly(function()
      local n
      local function numbers_with_error()
        n = n + 1
        if n == 3 then error("lost", 0) end
        return n <= 5 and n or nil
      end
      local function waiting()
        rn.sleep(1)
        return numbers_with_error()
      end
      for _, iterator in ipairs { numbers_with_error, waiting } do
        local save, saved = sink()
        n = 0
        local f = flow("job", { a = { from = iterator }, save = save, "a > save" })
        local ok, err = pcall(f.wait, f)
        assert.same({ false, "lost", nil }, { ok, err.error, err.value })
        f:resume():wait()
        assert.equal("1 2 4 5", text(saved))

        local others, records = {}, {}
        n = 0
        flow("job", {
          a = { from = iterator }, save = function(v) others[#others + 1] = v end,
          bad = function(e) records[#records + 1] = e end,
          "a > save", "*.error > bad",
        }):wait()
        assert.equal("1 2", text(others))
        assert.same({ 1, "a", "lost" }, { #records, records[1].stage, records[1].error })
      end
    end)
  end)

  it("with which an input channel closes count as those of its stage", function()
    quietly(function()
      local ch = rn.chan(1)
      ch:put(1)
      ch:close "no more disk"
      local save, saved = sink()
      local f = flow("job", { a = ch, save = save, "a > save" })
      local ok, err = pcall(f.wait, f)
      assert.same({ false, "no more disk" }, { ok, err.error })
      f:resume()
      f:wait()
      assert.equal("1", text(saved))
    end)
  end)
end)

describe("flow: while it runs", function()
  it("a stage is paused: calls that have begun finish, nothing else is taken", function()
    run(function()
      local save, saved = sink()
      local f = flow("job", {
        a = { from = numbers(5) },
        b = { slow },
        save = save,
        "a > b > save",
      }):start()
      rn.sleep(15)
      f:pause "b"
      rn.sleep(1000)
      assert.equal("1 2", text(saved))
      assert.equal("paused", f:stats()[2].state)
      f:resume "b"
      f:wait()
      assert.equal("1 2 3 4 5", text(saved))
    end)
  end)

  it("a source that is paused waits in its put", function()
    run(function()
      local put_count, save, saved = 0, sink()
      local f = flow("job", {
        a = { source = function(put)
          for i = 1, 4 do
            rn.sleep(10)
            put(i)
            put_count = i
          end
        end },
        save = save,
        "a > save",
      }):start()
      rn.sleep(15)
      f:pause()
      rn.sleep(1000)
      assert.equal(1, put_count)
      f:resume()
      f:wait()
      assert.equal("1 2 3 4", text(saved))
    end)
  end)

  it("a function is replaced, from the next call on, and the state stays or is migrated", function()
    run(function()
      local save, saved = sink()
      local f = flow("job", {
        a = { source = function(put) for i = 1, 4 do rn.sleep(10) put(i) end end },
        b = { init = function() return { sum = 0 } end, step = function(value, _, state)
          state.sum = state.sum + value
          return state.sum
        end },
        save = save,
        "a > b > save",
      }):start()
      rn.sleep(25)
      f:replace("b", function(value, _, state)
        state.total = state.total + value
        return "total " .. state.total
      end, function(state) return { total = state.sum } end)
      assert.has_error(function() f:replace("b", function() end, function() error("no", 0) end) end, "no")
      f:wait()
      assert.equal("1 3 total 6 total 10", text(saved))
    end)
  end)

  it("workers come and go", function()
    run(function()
      local save, saved = sink()
      local f = flow("job", {
        a = { from = numbers(12) },
        b = { slow },
        save = save,
        "a > b > save",
      }):start()
      rn.sleep(5)
      f:workers("b", 4)
      rn.sleep(20)
      assert.equal(4, f:stats()[2].workers)
      f:workers("b", 2)
      rn.sleep(15)
      assert.equal(2, f:stats()[2].workers)
      f:wait()
      assert.equal(text(numbers(12)), text(saved))
    end)
  end)

  for _, ordered in ipairs { true, false } do
    it("workers come back before those that are too many have ended" .. (ordered and ", in order" or ""), function()
      run(function()
        local calls, most = 0, 0
        local f = flow("job", {
          a = { from = numbers(60) },
          b = { n = 4, ordered = ordered, function()
            calls = calls + 1
            most = math.max(most, calls)
            rn.sleep(10)
            calls = calls - 1
          end },
          "a > b",
        }):start()
        rn.sleep(15)
        f:workers("b", 2)
        f:workers("b", 4)
        rn.sleep(20)
        most = 0
        rn.sleep(20)
        assert.equal(4, most)
        f:wait()
      end)
    end)
  end

  it("values are injected before others, also where a stage is full, paused, or holds", function()
    quietly(function()
      local save, saved = sink()
      local f = flow("job", {
        a = { from = numbers(3) },
        b = { buffer = 1, function(value)
          rn.sleep(1)
          if value == 1 then error "one" end
          return value
        end },
        save = save,
        "a > b > save",
      }):start()
      rn.sleep(10)
      f:inject("b", "x", "y")
      f:inject("b.out", "z")
      rn.sleep(10)
      assert.equal("z", text(saved))
      f:replace("b", function(value) return value end)
      f:resume()
      f:wait()
      assert.equal("z 1 x y 2 3", text(saved))
    end)
  end)

  it("a tap shows what a stage puts", function()
    run(function()
      local f = flow("job", {
        a = { source = function(put) for i = 1, 4 do rn.sleep(10) put(i) end end },
        b = { outs = { "odd" }, step = function(value) return value, value % 2 == 1 and "odd" or nil end },
        "a > b",
      }):start()
      local even, odd = f:tap("b", 1), f:tap "b.odd"
      local early = f:tap "a"
      rn.sleep(15)
      early:close()
      f:wait()
      assert.same({ 4 }, rn.into({}, even):take())
      assert.same({ 1, 3 }, rn.into({}, odd):take())
      assert.same({ 1 }, rn.into({}, early):take())
      assert.is_true(f:tap "b":closed())
    end)
  end)

  it("edges come and go", function()
    run(function()
      local save, saved = sink()
      local other, others = sink()
      local f = flow("job", {
        a = { source = function(put) for i = 1, 6 do rn.sleep(10) put(i) end end },
        b = { from = {} },
        save = save, other = other,
        "a > save", "b > other",
      })
      f:connect "a > other"
      f:start()
      rn.sleep(25)
      f:disconnect "a > save"
      f:wait()
      assert.equal("1 2 / 1 2 3 4 5 6", text(saved) .. " / " .. text(others))
    end)
  end)

  it("an edge that goes while a put for it has begun still gets the value, or the value is left", function()
    for _, is_paused in ipairs { true, false } do
      run(function()
        local save, saved = sink()
        local other, others = sink()
        local f = flow("job", {
          a = { function(v) return v end, input = true }, save = { save, buffer = 0 }, other = { other, buffer = 0 },
          "a > save, other",
        }):start():pause "save"
        if is_paused then f:pause "other" end
        f:inject("a", 1)
        rn.sleep(10)
        f:disconnect "a > other" -- while the put waits at the paused stage; `other` has ended then, unless it is paused
        rn.sleep(10)
        f:resume "save"
        rn.sleep(10)
        local done, _, left = f:resume():drain()
        assert.equal("1", text(saved))
        if is_paused then
          assert.same({ true, "1" }, { done, text(others) })
        else
          assert.same({ false, "", "1 value left: 1 for other" }, { done, text(others), tostring(left) })
        end
      end)
    end
  end)

  it("a value that a worker has in hand goes along the new edge if that takes the place of the old one", function()
    run(function()
      local save, saved = sink()
      local other, others = sink()
      local from = rn.chan(300)
      for i = 1, 300 do from:put(i) end
      local f = flow("job", {
        a = { from = from }, save = { save, buffer = 300 }, other = { other, buffer = 300, input = true }, "a > save",
      }):start()
      rn.yield() -- a lets others run after 128 values, with one in hand
      f:disconnect("a > save"):connect "a > other"
      rn.sleep(10)
      assert.is_true(f:drain())
      assert.is_true(#saved > 100 and #others > 100)
      assert.equal(text(numbers(300)), text(saved) .. " " .. text(others))
    end)
  end)

  it("stats tells of each stage, and prints as a table", function()
    quietly(function()
      local f = flow("job", {
        a = { from = numbers(40) },
        b = { n = 2, function(value)
          rn.sleep(value > 2 and 5000 or 1)
          return value
        end },
        c = function(value) if value == 2 then error("two is bad", 0) end end,
        "a > b > c",
      }):start()
      f:stats()
      rn.sleep(1000)
      local stats = f:stats()
      assert.same({ "job", "running", 3 }, { stats.flow, stats.state, #stats })
      local b = stats[2]
      assert.same({ "b", "running", 2, 2 }, { b.stage, b.state, b.busy, b.workers })
      assert.same({ 16, 4, 0 }, { b.room, b.taken, b.errors })
      assert.equal(4, math.floor(b.rate + 0.5))
      assert.equal("sleep", b.doing)
      assert.matches("flow_spec.lua:%d+", b.where)
      assert.is_true(b.longest > 900)
      assert.same({ "held", "two is bad" }, { stats[3].state, stats[3].error })
      local printed = tostring(f)
      assert.matches("^job +running +busy +waiting +taken +rate/s +errors +to\n", printed)
      assert.matches("\nb +running +2/2 +17/16 +4 .* > c   %(sleep for 999 ms at .*flow_spec.lua:%d+%)\n", printed)
      assert.matches("\nc +held .* %(two is bad%)$", printed)
      f:stop()
    end)
  end)
end)

describe("flow: the end", function()
  it("counts what a stage takes, and not what others take from its channel", function()
    run(function()
      local ch = rn.chan(20)
      for i = 1, 5 do ch:put(i) end
      for _ = 1, 2 do ch:take() end
      local f = flow("job", {
        a = ch, b = { function(value) return value end, n = 3, ordered = false }, c = function() end, "a > b > c",
      }):start()
      rn.sleep(1)
      f:pause "a"
      for i = 6, 9 do ch:put(i) end
      for _ = 1, 3 do ch:take() end
      f:resume "a"
      rn.sleep(1)
      f:workers("b", 1):inject("b", 10)
      rn.sleep(1)
      ch:close()
      f:wait()
      local stats = f:stats()
      assert.same({ 4, 5, 5 }, { stats[1].taken, stats[2].taken, stats[3].taken })
    end)
  end)

  it("a cycle ends when nothing leads into it and nothing is under way in it", function()
    run(function()
      local seen, pages = {}, { a = { "b", "c" }, b = { "a", "d" }, c = {}, d = { "a" } }
      local f = flow("crawl", {
        start = { from = { "a" } },
        new = { function(name)
          if seen[name] then return nil end
          seen[name] = true
          return name
        end },
        fetch = { n = 4, step = function(name, put)
          rn.sleep(10)
          for _, link in ipairs(pages[name]) do put(link) end
        end },
        "start > new > fetch >> new",
      })
      assert.is_true(f:wait())
      assert.same({ a = true, b = true, c = true, d = true }, seen)
    end)
  end)

  it("a cycle flushes its states before it ends, again if that has put values into it", function()
    run(function()
      local save, saved = sink()
      flow("job", {
        a = { from = { 1, 2, 3 } },
        batch = flow.batch(2),
        again = { outs = { "out2" }, step = function(list, put)
          for _, value in ipairs(list) do
            if value < 10 then put(value + 5) else put(value, "out2") end
          end
        end },
        save = save,
        "a > batch > again >> batch", "again.out2 > save",
      }):wait()
      table.sort(saved)
      assert.equal("11 12 13", text(saved))
    end)
  end)

  it("drain ends the sources, after a put that has begun, and waits for the rest", function()
    run(function()
      local save, saved = sink()
      local i = 0
      local f = flow("job", {
        a = { source = function(put)
          while true do
            i = i + 1
            put(i)
          end
        end },
        b = { from = function() rn.sleep(100000) end },
        save = { buffer = 2, function(value)
          rn.sleep(10)
          save(value)
        end },
        "a, b > save",
      }):start()
      rn.sleep(35)
      assert.same({ true, "nothing left" }, { f:drain(), tostring(f:stop()) })
      assert.equal(text(numbers(i)), text(saved))
    end)
  end)

  it("drain with a time stops the flow then, and tells what is left, each value once", function()
    run(function()
      local save, saved = sink()
      local f = flow("job", {
        a = { from = numbers(10) },
        b = { buffer = 3, function(value)
          rn.sleep(100)
          save(value)
        end },
        "a > b",
      }):start()
      rn.sleep(250)
      local ok, err, left = f:drain(0)
      assert.is_false(ok)
      assert.is_true(rn.is_timeout(err))
      assert.equal("flow job was not drained within 0 ms: " .. tostring(left), tostring(err))
      assert.equal("1 2", text(saved))
      local values = {}
      for i, entry in ipairs(left) do values[i] = entry.value end
      table.sort(values)
      assert.equal(text { table.unpack(numbers(10), 3, 2 + #left) }, text(values))
      assert.matches("^%d values left: .*1 in b", tostring(left))
    end)
  end)

  it("drain ends a source that holds, or fails meanwhile, since it could put nothing any more", function()
    quietly(function()
      for _, stages in ipairs {
        { source = function(put)
          put(1)
          error("no", 0)
        end },
        { source = function() end, init = function() error("no", 0) end },
        { source = function(put) -- it raises an error of its own where it is told to end
          put(1)
          if not pcall(rn.sleep, 1e6) then error("no", 0) end
        end },
      } do
        local f = flow("job", { a = stages, b = function() end, "a > b" }):start()
        rn.sleep(5)
        local waiting = rn.go(function() return f:drain() end)
        rn.sleep(1)
        assert.is_true(waiting:poll())
        assert.is_true(f:done():closed())
      end
    end)
  end)

  it("stop flushes and stops the states, and a held value is left with its error", function()
    quietly(function()
      local stopped = 0
      local f = flow("job", {
        a = { from = { 1, 2 } },
        b = { buffer = 4, function() error("no", 0) end, close = function() stopped = stopped + 1 end },
        "a > b",
      }):start()
      rn.sleep(10)
      local left = f:stop()
      assert.equal("2 values left: 1 for b, 1 in b", tostring(left))
      for _, entry in ipairs(left) do
        if entry.begun then assert.same({ stage = "b", value = 1, begun = true, error = "no" }, entry) end
      end
      assert.equal(1, stopped)
      assert.equal(left, f:stop())
    end)
  end)

  it("a flow that is closed is stopped", function()
    run(function()
      local f
      do
        local one <close> = flow("job", { a = { source = function() rn.sleep(1e6) end } }):start()
        f = one
        rn.sleep(1)
      end
      assert.is_true(f:done():closed())
      local unused <close> = flow("job", { a = { from = { 1 } } }) -- luacheck: ignore 211
    end)
  end)
end)

describe("flow in time", function()
  it("batch gives lists of n, or what has come in ms, and never an empty one", function()
    run(function()
      local got = {}
      local f = flow("job", {
        a = { source = function(put)
          for i, pause in ipairs { 0, 0, 0, 0, 30, 0 } do
            rn.sleep(pause)
            put(i)
          end
          rn.sleep(100)
          put(7)
        end },
        batch = flow.batch(3, 20),
        save = function(list) got[#got + 1] = ("%d: %s"):format(rn.now(), text(list)) end,
        "a > batch > save",
      })
      f:wait()
      assert.same({ "0: 1 2 3", "20: 4", "50: 5 6", "130: 7" }, got)
    end)
  end)

  it("rate lets n values pass in any ms", function()
    run(function()
      local times = {}
      flow("job", {
        a = { from = numbers(5) },
        rate = flow.rate(2, 100),
        save = function() times[#times + 1] = math.floor(rn.now() + 0.5) end,
        "a > rate > save",
      }):wait()
      assert.same({ 0, 0, 100, 100, 200 }, times)
    end)
  end)

  it("batch, rate and debounce are replaced by their own kind, and by functions", function()
    run(function()
      local got, times = {}, {}
      local f = flow("job", {
        given = { input = true, function(value) return value end },
        batch = flow.batch(10),
        rate = flow.rate(2, 100),
        calm = flow.debounce(1000),
        save = function(value)
          got[#got + 1], times[#times + 1] = type(value) == "table" and text(value) or value, math.floor(rn.now() + 0.5)
        end,
        "given > batch > rate > calm > save",
      }):start()
      f:inject("given", 1)
      rn.sleep(1)
      f:replace("batch", flow.batch(2)):replace("rate", flow.rate(1, 50)):replace("calm", function(v) return v end)
      f:inject("given", 2, 3, 4, 5)
      rn.sleep(200)
      f:replace("batch", function(value) return value end)
      f:replace("batch", flow.batch(1)):inject("given", 6)
      f:drain()
      assert.equal("1 2 / 3 4 / 5 6", table.concat(got, " / "))
      assert.same({ 1, 51, 201 }, times)
    end)
  end)

  it("debounce lets the last value pass after a pause", function()
    run(function()
      local got = {}
      flow("job", {
        a = { source = function(put)
          for i, pause in ipairs { 0, 5, 5, 100, 5 } do
            rn.sleep(pause)
            put(i)
          end
          rn.sleep(100)
          put(6)
        end },
        debounce = flow.debounce(20),
        save = function(value) got[#got + 1] = ("%d: %d"):format(math.floor(rn.now() + 0.5), value) end,
        "a > debounce > save",
      }):wait()
      assert.same({ "30: 3", "135: 5", "215: 6" }, got)
    end)
  end)

  it("batch and debounce keep what they have while they are paused, and give it when the flow is stopped", function()
    run(function()
      local save, saved = sink()
      local f = flow("job", {
        a = { source = function(put)
          put(1)
          put(2)
          rn.sleep(1000)
        end },
        batch = flow.batch(5, 20),
        save = save,
        "a > batch > save",
      }):start()
      rn.sleep(10)
      f:pause "batch"
      rn.sleep(100)
      assert.equal(0, #saved)
      local left = f:stop()
      assert.equal("save 1 2", left[1].stage .. " " .. text(left[1].value))
    end)
  end)
end)
