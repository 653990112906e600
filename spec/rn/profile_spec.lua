-- Profiles: where a program's time goes.
local rn = require "runnel"
local core = require "runnel.core"
local json = require "runnel.json"
local process = require "spec.support.process"
local stage = require "spec.support.stage"

local here = debug.getinfo(1, "S").short_src

-- A pattern for the place where a function begins.
local function place(f) return ((here .. ":" .. debug.getinfo(f, "S").linedefined):gsub("%p", "%%%0")) end

-- A coverage tool has set a hook, which a profile leaves alone: then nothing can be sampled here.
local is_hooked = debug.gethook() ~= nil
-- Ten tries: while other programs have the processor, few signals come, or none.
local function eventually(f)
  local ok, problem
  for _ = 1, 10 do
    ok, problem = pcall(f)
    if ok then return end
  end
  error(problem, 0)
end

-- A spec whose assertions need samples of what computes.
local function sampled(name, f)
  if is_hooked then pending(name) else it(name .. " #ci", function() eventually(f) end) end
end

describe("rn.profile", function()
  before_each(stage.open)
  after_each(stage.close)

  -- The stacks of a profile, as in .folded: a text -> us.
  local function stacks(profile)
    local list = {}
    local text = require("runnel.profile.forms").folded(profile.trees)
    for stack, us in text:gmatch "([^\n]*) (%d+)\n" do list[stack] = math.tointeger(tonumber(us)) end
    return list
  end

  -- The us of the stacks that match all patterns.
  local function sum(list, ...)
    local us = 0
    for stack, own in pairs(list) do
      local matches = true
      for _, pattern in ipairs { ... } do matches = matches and stack:find(pattern) ~= nil end
      if matches then us = us + own end
    end
    return us
  end

  -- Asserts that two numbers differ by at most 3 % of the whole.
  local function assert_share(expected, got, whole)
    if math.abs(expected - got) > 0.03 * whole then
      error(("%.1f of %.1f expected, got %.1f"):format(expected, whole, got), 2)
    end
  end

  describe("of what runs", function()
    local function loop(n)
      local x = 0
      for i = 1, n do x = x + i % 7 end
      return x
    end

    -- Calls f(n), n so large that this takes `s` of processor time; returns how much it took.
    local function takes(s, f)
      local began = os.clock()
      repeat local _ = f(200000) until os.clock() - began >= s
      return os.clock() - began
    end

    local function often(n) return (loop(n)) end
    local function seldom(n) return (loop(n)) end

    sampled("has the shares of the processor time of each function", function()
      local profile
      local long, short = 0, 0
      profile = rn.profile(function()
        long = takes(0.3, often)
        short = takes(0.1, seldom)
      end)
      local list, whole = stacks(profile), (long + short) * 1e6
      assert_share(long * 1e6, sum(list, place(often), "loop %("), whole)
      assert_share(short * 1e6, sum(list, place(seldom), "loop %("), whole)
      assert_share(whole, profile.ran * 1000, whole)
      assert.matches("^Lua code ran for %d+ %% of the time%. Look first at loop %(" .. place(loop)
        .. "%): %d+ %% of that, most of it in line %d+%.$", profile.first)
    end)

    sampled("has functions of C, by the names that package.loaded has for them", function()
      local took
      local profile = rn.profile(function()
        took = takes(0.2, function(n) return string.rep("x", n * 100) end)
      end)
      local whole, list = took * 1e6, stacks(profile)
      assert_share(whole, sum(list, "takes %("), whole)
      assert.is_true(sum(list, "%[C%] string%.rep$") > 0.9 * whole) -- the rest: the collector, os.clock
    end)

    sampled("has all go blocks of a line as one", function()
      local function work() loop(100000) end
      local profile = rn.profile(function()
        local blocks = {}
        for i = 1, 100 do blocks[i] = rn.go(work) end
        for _, block in ipairs(blocks) do block:take() end
      end)
      local roots = {}
      for stack in pairs(stacks(profile)) do
        if stack:find "loop %(" then roots[stack:match "^[^;]*"] = true end
      end
      assert.matches("^" .. place(work) .. "$", (next(roots)))
      assert.is_nil(next(roots, (next(roots))))
    end)

    sampled("has a coroutine of the program's own as time of the function that resumes it", function()
      local took
      local profile = rn.profile(function()
        rn.go(function()
          local generate = coroutine.wrap(function()
            while true do coroutine.yield((loop(20000))) end
          end)
          took = takes(0.3, generate)
        end):take()
      end)
      assert_share(took * 1e6, sum(stacks(profile), "takes %("), took * 1e6)
    end)

    sampled("lets an endless recursion come to its end, and has the end of its stack", function()
      local function endless() return 1 + endless() end
      local profile = rn.profile(function()
        for _ = 1, 3 do assert.is_false((pcall(endless))) end
      end)
      assert.is_true(sum(stacks(profile), "^%.%.%.;", place(endless)) > 0)
    end)

    it("has the beginning and the end of a deep stack, also in its page", function()
      local ch = rn.chan()
      local function deep(n)
        if n == 0 then return (ch:take()) end
        return (deep(n - 1))
      end
      rn.go(deep, 500)
      local profile = rn.profile(function() rn.sleep(30) end)
      ch:close()
      assert.is_true(sum(stacks(profile), "^waiting;[^;]*" .. place(deep), ";%.%.%.;.*take from") > 0)
      assert.is_true(#require("runnel.profile.forms").html(profile.trees) > 1000)
    end)

    it("leaves a hook of the program alone", function()
      local calls, before = 0, { debug.gethook() }
      rn.profile(function()
        debug.sethook(function() calls = calls + 1 end, "", 1000)
        takes(0.03, loop)
        debug.sethook(table.unpack(before, 1, 3))
      end)
      assert.is_true(calls > 10)
    end)

    sampled("leaves no hook behind", function()
      rn.profile(function() takes(0.03, loop) end)
      assert.is_nil((debug.gethook()))
    end)
  end)

  describe("of what blocks the thread", function()
    local MS = 200
    local function block() os.execute(("sleep %g"):format(MS / 1000)) end
    local line = debug.getinfo(block, "S").linedefined

    local function compute(s)
      local ended = os.clock() + s
      local function step(n) return n + 1 end
      repeat local n = 0 for _ = 1, 1000 do n = step(n) end until os.clock() >= ended
    end

    local ways = {
      ["in a go block"] = function()
        rn.go(function() block() rn.yield() end):take()
      end,
      ["in the main program"] = block,
      ["in the main program after a wait"] = function() rn.sleep(1) block() end,
      ["in a coroutine of the program's own"] = function()
        rn.go(function() coroutine.wrap(block)() end):take()
      end,
      ["in a coroutine that computes before"] = function()
        rn.go(function() coroutine.wrap(function() compute(0.03) block() end)() end):take()
      end,
      ["after computing"] = function()
        rn.go(function() compute(0.03) block() end):take()
      end,
      ["before an error"] = function()
        rn.go(function() pcall(function() block() error "wrong" end) end):take()
      end,
      ["in a variable that is closed"] = function()
        rn.go(function() local _ <close> = setmetatable({}, { __close = block }) end):take()
      end,
    }
    for name, way in pairs(ways) do
      sampled("has it with its line and the C function, " .. name, function()
        local profile = rn.profile(way)
        local us = sum(stacks(profile), ";line " .. line .. ";%[C%] os%.execute;blocks the thread$")
        assert.is_true(us >= 0.9 * MS * 1000, profile:text())
        assert.is_true(profile.blocked >= 0.9 * MS)
        assert.matches("\nblocked the thread, .*, line " .. line .. ": os%.execute", profile:text())
        assert.is_true(profile.ran + profile.loop + profile.blocked <= profile.elapsed + 20)
      end)
    end

    sampled("looks first at it, not at those who sleep meanwhile", function()
      local profile = rn.profile(function()
        rn.scope(function(s)
          s:go(function() for _ = 1, 20 do rn.sleep(1) end end)
          s:go(function() for _ = 1, 3 do block() rn.yield() end end)
        end)
      end)
      assert.matches("^Something blocked the thread for .*look first at block .*line " .. line .. ": os%.execute",
        profile.first)
    end)

    sampled("finds it also after the program has computed for long without it", function()
      local profile = rn.profile(function()
        rn.go(function()
          for _ = 1, 4 do compute(0.3) block() end
        end):take()
      end)
      assert.is_true(profile.blocked >= 0.9 * MS, profile:text())
    end)

    sampled("does not take for it what computes, sleeps, or waits for the processor", function()
      local profile = rn.profile(function()
        rn.go(function() compute(0.3) rn.sleep(100) end):take()
      end)
      assert.is_true(profile.blocked < 50, profile:text())
    end)

    sampled("does not count it as a wait that begins afterwards", function()
      local ch = rn.chan()
      local profile = rn.profile(function()
        rn.go(function() block() ch:put(1) end)
        rn.go(function() ch:take() end):take()
      end)
      assert.is_true(sum(stacks(profile), "^waiting;", "put on ") < MS * 500, profile:text())
    end)

    sampled("interrupts no system call that waits", function()
      local function waits()
        local status <close> = assert(io.open "/proc/thread-self/status")
        return tonumber(status:read("a"):match "\nvoluntary_ctxt_switches:%s*(%d+)")
      end
      local woken
      rn.profile(function()
        local before = waits()
        block()
        woken = waits() - before
      end)
      assert.is_true(woken < MS / 10, woken) -- a signal in each 10 ms would be as often
    end)
  end)

  describe("of a chain of waits", function()
    local WAIT <const> = 60

    local function go(name, f)
      return rn.go(function()
        rn.rename(name)
        return f()
      end)
    end

    -- What the sentence names, in its order; `f` is profiled.
    local function chain(f)
      local profile = rn.profile(f)
      local text = profile.first:match "what is waited for: (.*)%.$"
      assert(text, profile.first)
      return text, profile
    end

    local chains = {
      ["the results of go blocks"] = function()
        local first = go("first", function()
          local second = go("second", function()
            return go("the end", function() rn.sleep(WAIT) end):take()
          end)
          return second:take()
        end)
        first:take()
      end,
      ["a result that the last function of a tail call gives"] = function()
        local function sleeps() return rn.sleep(WAIT) end
        local done = rn.chan()
        go("first", function()
          go("the end", function() return sleeps() end):take()
          done:close()
        end)
        done:take()
      end,
      ["a scope whose go blocks close it"] = function()
        rn.scope(function(s)
          s:go(function() rn.rename "the end" rn.sleep(WAIT) end)
          s:go(function() rn.rename "short" rn.sleep(1) end)
        end)
      end,
      ["a lock that goes from hand to hand"] = function()
        local lock, done = rn.chan(1), rn.chan()
        go("the end", function() lock:put(1) rn.sleep(WAIT) lock:take() end)
        go("waits", function() lock:put(1) lock:take() done:close() end)
        done:take()
      end,
      ["a worker that waits for jobs longer than for its own work"] = function()
        local jobs, results = rn.chan(), rn.chan()
        go("the end", function()
          for _ in jobs do
            rn.sleep(WAIT // 2)
            results:put(1)
          end
        end)
        go("asks", function()
          rn.sleep(1)
          for _ = 1, 2 do
            jobs:put(1)
            results:take()
          end
          jobs:close()
        end):take()
      end,
    }
    for name, f in pairs(chains) do
      sampled("looks first at its end: " .. name, function()
        assert.matches("^the end waits in line %d+: sleep; .* for that in line %d+: ", (chain(f)))
      end)
    end

    sampled("looks first at what runs, if that is its end", function()
      assert.matches("^the end runs; main chunk .* waits for that in line %d+: take from answers$", (chain(function()
        local answers = rn.chan():name "answers"
        go("the end", function()
          local t = rn.now()
          repeat until rn.now() - t > WAIT
          answers:put(1)
        end)
        answers:take()
        rn.sleep(WAIT // 2)
        rn.sleep(WAIT // 2) -- other lines, so that none is as long as the take
        rn.sleep(WAIT // 2)
      end)))
    end)

    sampled("names who has what a wait is for, if it is not over", function()
      local lock, never = rn.chan(1):name "lock", rn.chan()
      local holder = go("holder", function() lock:put(1) never:take() end)
      local waits = go("waits", function() lock:put(2) end)
      local profile = rn.profile(function() rn.sleep(WAIT) end)
      rn.cancel(holder)
      rn.cancel(waits)
      assert.matches("put on lock, put last by holder\n", profile:text() .. "\n")
      assert.is_true(sum(stacks(profile), "^waiting;waits;.*;put on lock;put last by holder$") > 0)
    end)

    sampled("says which number had who has what a wait is for, if it ended before the profile began", function()
      local lock = rn.chan(1):name "lock"
      rn.go(function() lock:put(1) end):take()
      local waits = go("waits", function() lock:put(2) end)
      local profile = rn.profile(function() rn.sleep(WAIT) end)
      rn.cancel(waits)
      assert.matches("put on lock, put last by #%d+\n", profile:text() .. "\n")
    end)
  end)

  describe("of what is waited for", function()
    it("has the length of each wait, with its line, its channel, and who has ended it #slow", function()
      local jobs, results = rn.chan():name "jobs", rn.chan():name "results"
      local waited, puts = { take = 0, sleep = 0, put = 0 }, 0
      local function timed(what, f, ...)
        local began = rn.now()
        f(...)
        waited[what] = waited[what] + rn.now() - began
      end
      local function work()
        for _ = 1, 2 do
          timed("take", jobs.take, jobs)
          timed("sleep", rn.sleep, 60)
          puts = puts + 1
          timed("put", results.put, results, 1)
        end
      end
      local profile = rn.profile(function()
        local worker = rn.go(work)
        for i = 1, 2 do
          rn.sleep(30)
          jobs:put(1)
          rn.sleep(100)
          while puts < i do rn.sleep(1) end -- the machine is busy: the put must wait, too
          results:take()
        end
        worker:take()
      end)
      local list, whole = stacks(profile), waited.take + waited.sleep + waited.put
      local line = debug.getinfo(timed, "S").linedefined + 2
      local function of_work(pattern)
        return sum(list, "^waiting;" .. place(work) .. ";", ";line " .. line .. ";" .. pattern) / 1000
      end
      for what, pattern in pairs {
        take = "take from jobs;woken by ", sleep = "sleep$", put = "put on results;woken by ",
      } do
        local got = of_work(pattern)
        -- What the program measures has the time until it runs again, too: on a busy machine that may be long.
        assert.is_true(got > 0 and got < waited[what] + 0.03 * whole, what)
        if whole < 1.03 * 280 then assert_share(waited[what], got, whole) end
      end
      assert.is_true(of_work "sleep$" > 0.97 * 120)
    end)

    it("counts the time that another go block computes, and not the own time before", function()
      local ch, theirs, used = rn.chan():name "ch", 0, 0
      local function spin(ms)
        local began = rn.now()
        repeat local _ = ("x"):rep(1000) until rn.now() - began >= ms
        return rn.now() - began
      end
      local profile = rn.profile(function()
        local taker = rn.go(function()
          for _ = 1, 3 do
            spin(20)
            ch:take()
          end
        end)
        rn.go(function()
          for _ = 1, 3 do
            local began = os.clock()
            theirs = theirs + spin(60)
            used = used + os.clock() - began
            ch:put(1)
            rn.yield()
          end
        end)
        taker:take()
      end)
      local waited = sum(stacks(profile), "^waiting;.*take from ch;") / 1000
      assert.is_true(waited > used * 970 and waited < profile.elapsed, ("%g of %g"):format(waited, profile.elapsed))
      -- While other programs have the processor, no signal comes that tells the time.
      if profile.elapsed < 1.03 * 240 then assert.is_true(math.abs(theirs - waited) < 0.2 * theirs) end
    end)

    it("has 10,000 go blocks of one line in one place, and their waits in proportion #heavy", function()
      local stops = {}
      for i = 1, 10000 do stops[i] = rn.chan() end
      local slept, begun = nil, 0
      local profile = rn.profile(function()
        for i = 1, #stops do
          rn.go(function()
            if i % 2 == 0 then rn.rename("worker " .. i) end
            begun = begun + 1
            stops[i]:take()
          end)
        end
        while begun < #stops do rn.sleep(1) end
        slept = rn.now()
        rn.sleep(100)
        slept = rn.now() - slept
      end)
      for _, stop in ipairs(stops) do stop:close() end
      local list = stacks(profile)
      local named, unnamed = sum(list, "^waiting;worker %*;"), sum(list, "^waiting;[^;]*spec.lua:%d+;line")
      assert.is_true(named + unnamed > 0.97 * slept * 10000 * 1000)
      assert.is_true(math.abs(named - unnamed) < 0.6 * (named + unnamed)) -- of some 100 samples
      local n = 0
      for _ in pairs(list) do n = n + 1 end
      assert.is_true(n < 40, n)
    end)

    it("has what still waits at the end", function() eventually(function()
      local never = rn.chan():name "never"
      rn.go(function() never:take() end)
      rn.go(function() rn.alts { never, rn.chan() } end)
      local profile = rn.profile(function() rn.sleep(50) end)
      never:close()
      local list = stacks(profile)
      assert.is_true(sum(list, "^waiting;.*take from never$") >= 40000)
      assert.is_true(sum(list, "^waiting;.*alts: never$") >= 40000)
    end) end)

    it("has takes that end as a channel closes, and takes of a go block's result", function()
      local ch = rn.chan():name "closed"
      local profile = rn.profile(function()
        local taker = rn.go(function()
          rn.rename "the taker"
          ch:take()
        end)
        rn.go(function() taker:take() end)
        rn.yield() -- both wait before the sleep begins
        rn.sleep(50)
        ch:close()
        rn.sleep(0)
      end)
      local list = stacks(profile)
      assert.is_true(sum(list, "^waiting;the taker;.*take from closed;woken by") >= 40000)
      assert.is_true(sum(list, "^waiting;.*take from the result of the taker") >= 40000)
    end)

    it("has puts for which a take makes room, and takes of a promise", function()
      local full, promise = rn.chan(1):name "full", rn.promise_chan():name "promise"
      full:put(0)
      local profile = rn.profile(function()
        rn.go(function() full:put(1) end)
        rn.go(function() promise:take() end)
        rn.sleep(50)
        full:take()
        promise:put(true)
        rn.sleep(0)
      end)
      local list = stacks(profile)
      assert.is_true(sum(list, "^waiting;.*put on full;woken by") >= 40000)
      assert.is_true(sum(list, "^waiting;.*take from promise;woken by") >= 40000)
    end)

    it("has the present wait of the main program, if a go block ends the profile", function()
      local begun, ended = rn.chan(), rn.chan():name "ended"
      local profile
      rn.go(function()
        profile = rn.profile(function()
          begun:put(true)
          rn.sleep(50)
        end)
        ended:put(true)
      end)
      begun:take()
      ended:take()
      assert.is_true(sum(stacks(profile), "^waiting;.*take from ended$") >= 40000)
    end)

    it("measures nothing in virtual time", function()
      local sim = require "runnel.sim"
      local profile = rn.profile(function() sim.run(function() rn.sleep(1e6) end) end)
      assert.is_true(profile.waited < 1e5)
    end)

    it("has the real time that passed, if a simulation makes it", function()
      local sim, profile = require "runnel.sim", nil
      local began = rn.now()
      sim.run(function() profile = rn.profile(function() rn.sleep(1e6) end) end)
      assert.is_true(profile.elapsed > 0 and profile.elapsed <= rn.now() - began)
    end)

    it("has the waits of the library's go blocks below their names, not inside of the library", function()
      local from = rn.chan():name "from"
      rn.pmap(2, tostring, from)
      local profile = rn.profile(function() rn.sleep(30) end)
      from:close()
      local text = profile:text()
      assert.matches("pmap at " .. here:gsub("%p", "%%%0") .. ":%d+[^\n]*, take from from", text)
      assert.not_matches("/runnel/", text)
    end)

    it("knows the library also where its path is long", function()
      local dir <close> = process.directory()
      dir:write("script.lua", [[
        local rn = require "runnel"
        local from = rn.chan():name "from"
        rn.pmap(2, tostring, from)
        print(rn.profile(function() rn.sleep(30) end):text())
      ]])
      local result = process.run(dir.path, ([[
        folder=$(printf '%%050d' 0)
        ln -s '%s/lua' "$folder"
        LUA_PATH="$PWD/$folder/?.lua;;" %s script.lua]]):format(os.getenv "PWD", os.getenv "LUA" or "lua5.4"))
      assert.matches("pmap at script%.lua:3[^\n]*, take from from", result.out)
      assert.not_matches("/runnel/", result.out)
    end)

    it("names processes that a go block waits for", function() eventually(function()
      if not pcall(require, "luv") then return pending "luv is not installed" end
      rn.driver(require "runnel.driver.luv")
      local uv = require "runnel.uv"
      local profile = rn.profile(function()
        rn.go(function() uv.run { "/bin/sleep", "0.05" } end):take()
      end)
      assert.is_true(sum(stacks(profile), "^waiting;.*;uv%.run sleep$") >= 40000)
    end) end)

    it("names requests by their host", function()
      local http = require "runnel.http"
      local server = assert(http.serve(0, function()
        rn.sleep(50)
        return 200, nil, "slow"
      end))
      local url = ("http://user:secret@127.0.0.1:%d/path"):format(server.port)
      local profile = rn.profile(function()
        rn.go(function() http.get(url) end):take()
      end)
      server:close()
      http.close_idle()
      assert.is_true(sum(stacks(profile), "^waiting;.*;http%.get 127%.0%.0%.1:" .. server.port .. "$") >= 40000)
    end)
  end)

  describe("writes", function()
    local dir
    setup(function() dir = process.directory() end)
    teardown(function() dir:remove() end)

    local function written(name)
      rn.profile(function() rn.go(function() rn.sleep(20) end):take() end, { to = dir.path .. "/" .. name })
      return dir:read(name)
    end

    it("stacks, one in a line", function()
      local text = written "out.folded"
      assert.matches("waiting;[^\n]*;sleep %d+\n", text)
      for line in text:gmatch "[^\n]+" do assert.matches("^[^;]+.* %d+$", line) end
    end)

    it("what speedscope reads", function()
      local data = assert(json.decode(written "out.json"))
      local profile, total = data.profiles[1], 0
      assert.equal("https://www.speedscope.app/file-format-schema.json", data["$schema"])
      assert.equal("sampled", profile.type)
      assert.equal(#profile.samples, #profile.weights)
      for i, stack in ipairs(profile.samples) do
        total = total + profile.weights[i]
        for _, frame in ipairs(stack) do assert.is_string(data.shared.frames[frame + 1].name) end
      end
      assert.equal(profile.endValue, total)
    end)

    it("names that are no UTF-8, or have control characters, in each form", function()
      local function write(name)
        rn.profile(function()
          rn.go(function()
            rn.rename "caf\xe9;a\rb\nc"
            local ch = rn.chan():name "\xff"
            rn.go(function()
              rn.sleep(20)
              ch:close()
            end)
            ch:take()
          end):take()
        end, { to = dir.path .. "/" .. name })
        return dir:read(name)
      end
      assert.matches("\nwaiting;café,a,b,c;[^\n\r]*take from ÿ;?[^\n]* %d+\n", "\n" .. write "odd.folded")
      assert.truthy(write("odd.json"):find([["name":"café;a\rb\nc"]], 1, true))
      assert.truthy(write("odd.html"):find([["café;a\rb\nc"]], 1, true))
    end)

    it("a page that needs no network, whatever the names", function()
      rn.profile(function()
        rn.go(function()
          rn.rename "</script><b>%1 $DATA$ \u{2028}"
          rn.sleep(20)
        end):take()
      end, { to = dir.path .. "/out.html" })
      local page = dir:read "out.html"
      assert.is_nil(page:find "src=" or page:find "https?://" or page:find "@import")
      local text = page:match '<script id="data" type="application/json">(.-)</script>'
      local data = assert(json.decode(text))
      assert.is_string(data.sentence)
      local found = false
      for i = 3, #data.waiting do found = found or data.waiting[i][1] == "</script><b>%1 $DATA$ \u{2028}" end
      assert.is_true(found)
    end)
  end)

  it("returns the results of the function behind the profile, and parks with it", function()
    local profile, a, b, c
    rn.go(function()
      profile, a, b, c = rn.profile(function()
        rn.sleep(1)
        return 1, nil, 3
      end)
    end):take()
    assert.same({ 1, nil, 3 }, { a, b, c })
    assert.is_true(profile.elapsed >= 1)
    assert.equal(profile:text(), tostring(profile))
    assert.equal(profile.first, profile:text():match "^[^\n]*")
  end)

  sampled("counts the time that a driver computes as time of the loop", function()
    local used = 0
    local done = rn.chan(1)
    rn.driver {
      alive = function() return true end,
      wait = function()
        local began = os.clock()
        repeat until os.clock() - began >= 0.3 -- signals that come late are a small part of it
        used = os.clock() - began
        done:offer(true)
      end,
    }
    local profile = rn.profile(function() done:take() end)
    rn.driver(nil)
    assert_share(used * 1000, profile.loop, used * 1000)
  end)

  it("says that the system has no timer for it, and can be made once there is one", function()
    if not os.execute "command -v prlimit >/dev/null" then return pending "prlimit is not installed" end
    local dir <close> = process.directory()
    dir:write("script.lua", [[
      local rn = require "runnel"
      local function make() return (rn.profile(function() rn.go(rn.sleep, 20):take() end)) end
      print(pcall(make))
      os.execute "prlimit --sigpending=1000 --pid $PPID"
      print(make().waited > 0)
    ]])
    local lua = os.getenv "LUA" or "lua5.4"
    local result = process.run(dir.path, ("prlimit --sigpending=0:1000 %s script.lua"):format(lua))
    assert.equal("false\tscript.lua:2: profile: Resource temporarily unavailable\ntrue\n", result.out)
  end)

  it("ends with the state when a go block closes that in the middle of it", function()
    local dir <close> = process.directory()
    dir:write("script.lua", [[
      local rn = require "runnel"
      -- Is finalized after the profile, and computes for so long that a signal for samples would come.
      local last = setmetatable({}, { __gc = function()
        local began = os.clock()
        repeat until os.clock() > began + 0.02
        print "closed"
      end })
      rn.go(function() rn.profile(function() os.exit(0, true) end) end):take()
    ]])
    local result = process.run(dir.path, (os.getenv "LUA" or "lua5.4") .. " script.lua")
    assert.same({ out = "closed\n", err = "", status = 0 }, result)
  end)

  it("is nil if the recorder ends it a second time", function()
    assert.is_nil(require("runnel.profile.profile_recorder").finish())
  end)

  it("ends if the function raises, and can be made again", function()
    assert.has_error(function() rn.profile(function() error("wrong", 0) end) end, "wrong")
    assert.is_table((rn.profile(function() end)))
  end)

  sampled("is made in several threads at once", function()
    local function job()
      local in_thread = require "runnel"
      local profile = in_thread.profile(function()
        local x = 0
        for i = 1, 1e7 do x = x + i % 7 end -- not until os.clock() is so much: that counts all threads
      end)
      return profile.ran
    end
    local results = { rn.thread(job), rn.thread(job) }
    local own = rn.profile(function()
      for i, result in ipairs(results) do results[i] = result:take() end
    end)
    assert.is_true(results[1] > 20 and results[2] > 20, table.concat(results, ", "))
    assert.is_true(own.ran < 100)
  end)

  it("works beside a trace, whichever begins first", function()
    local trace = core.internal.trace
    local ch = rn.chan():name "traced"
    local function puts()
      rn.go(function() ch:put(1) end)
      ch:take()
    end
    local function counted()
      for _, edge in ipairs((trace.edges())) do
        if edge.puts > 0 then return edge.puts end
      end
    end
    trace.hold "le"
    rn.profile(puts)
    assert.equal(1, counted())
    trace.release "le"
    rn.profile(function()
      trace.hold "le"
      puts()
    end)
    assert.equal(1, counted())
    trace.release "le"
    rn.profile(function() trace.hold "le" trace.release "le" puts() end)
    assert.same({}, (trace.edges()))
  end)

  it("passes on to a trace what happens to channels, go blocks and timers", function()
    local trace = core.internal.trace
    local function program()
      local ch, buffered, shared = rn.chan():name "plain", rn.chan(1):name "buffered", rn.shared_chan(1)
      shared:name "shared"
      local blocks = {
        rn.go(function() for i = 1, 2 do ch:put(i) buffered:put(i) end end), -- waits for takes, then for room
        rn.go(function() return (shared:take()) end),
        rn.go(function() rn.sleep(1) rn.alts { rn.chan():name "empty", rn.timeout(1) } end),
      }
      for _ = 1, 2 do rn.alts { ch, rn.chan():name "empty" } buffered:take() end
      shared:put(1)
      shared:put(2)
      shared:take()
      local mapped = rn.chan(1, rn.xf.map(tostring)):name "mapped"
      for _, ch_of in ipairs { buffered, mapped } do
        blocks[#blocks + 1] = rn.go(function() for i = 1, 3 do ch_of:put(i) end end) -- waits for room
        rn.yield()
        for _ = 1, 3 do ch_of:take() end
        blocks[#blocks + 1] = rn.go(function() ch_of:take() end) -- waits for a value
        rn.yield()
        ch_of:put(4)
      end
      for _, block in ipairs(blocks) do block:take() end
      rn.timeout(1):take()
      local waits = rn.go(function() ch:take() end)
      rn.yield()
      ch:close()
      waits:take()
      rn.go(error, "an error"):take()
    end
    local function edges_of(call)
      trace.hold "le"
      call()
      local list = {}
      for _, edge in ipairs((trace.edges())) do
        list[#list + 1] = ("%s: %d puts, %d takes, %s"):format(edge.name, edge.puts, edge.takes, edge.result or "")
      end
      trace.release "le"
      table.sort(list)
      return list
    end
    local expected = edges_of(program)
    assert.is_true(#expected > 5)
    assert.same(expected, edges_of(function() rn.profile(program) end))
  end)

  it("says what is wrong with its arguments, at the line that calls it", function()
    local function fails(message, ...)
      local ok, err = pcall(function(...) rn.profile(...) end, ...)
      assert.is_false(ok)
      assert.equal(here .. ":" .. debug.getinfo(1, "l").currentline - 2 .. ": profile: " .. message, err)
    end
    fails("f: a function expected, got nothing; pass the function itself: f, not f()")
    fails('unknown option "out"; known: to', print, { out = "x.html" })
    fails("to: the path of a file ending in .html, .folded or .json expected, got a number", print, { to = 1 })
    fails('to: the path of a file ending in .html, .folded or .json expected, got "x.svg"', print, { to = "x.svg" })
    fails("to: cannot write /nowhere/x.html: No such file or directory", error, { to = "/nowhere/x.html" })
    local profile = rn.profile(function() fails("a profile is being made already", print) end)
    assert.matches("^/nowhere/x.html: ", select(2, profile:write "/nowhere/x.html"))
    local function writes() profile:write "x" end
    assert.same({ false, here .. ":" .. debug.getinfo(writes, "S").linedefined
      .. ': write: the path of a file ending in .html, .folded or .json expected, got "x"' },
      { pcall(writes) })
  end)
end)

describe("runnel --profile", function()
  local dir
  setup(function() dir = process.directory() end)
  teardown(function() dir:remove() end)

  local SCRIPT = [[
    local rn = require "runnel"
    rn.go(function()
      rn.rename "sleeper"
      rn.sleep(30)
    end):take()
  ]]

  local function run(options, text)
    dir:write("script.lua", text)
    os.remove(dir.path .. "/out.folded")
    return process.run(dir.path, ("%s %s script.lua"):format(process.runnel, options))
  end

  for ending, text in pairs {
    ["its last line"] = "", ["an error"] = "error 'wrong'", ["os.exit"] = "os.exit(3)",
    ["os.exit, with the state closed"] = "os.exit(3, true)", ["rn.exit"] = "rn.exit(3)",
    ["SIGTERM"] = "os.execute 'kill $PPID' while true do end",
  } do
    it("writes the file when the program ends by " .. ending, function()
      run("--profile=out.folded", SCRIPT .. text)
      assert.matches("waiting;sleeper;[^\n]*;sleep %d+\n", dir:read "out.folded" or "nothing")
    end)
  end

  it("refuses a file that it cannot write, or whose form it does not know", function()
    assert.matches("%-%-profile: the path of a file ending in .html, .folded or .json expected, got \"out.svg\"",
      run("--profile=out.svg", "").err)
    assert.matches("%-%-profile: cannot write /nowhere/out.html", run("--profile=/nowhere/out.html", "").err)
    assert.matches("'%-%-profile' needs the path of a file", run("--profile", "").err)
  end)
end)
