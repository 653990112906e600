-- The engine of workers (runnel.workers.workers). What pmap makes of it is in pmap_spec.lua, flows in spec/flow.

local core = require "runnel.core"
local time_limit = require "runnel.internal.time_limit"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local workers = require "runnel.workers.workers"

local internal = core.internal

local function numbers(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

-- A pool that adds 100 to 1, 2, ..., n, with what `spec` changes; its output closes when it has ended.
local function pool_of(spec)
  local from, to = spec.from == nil and rn.to_chan(numbers(spec.values or 6)) or nil, spec.to or rn.chan(100)
  local seen = { failures = {}, emitted = {}, ended = false }
  local all = {
    what = "a stage", timed = "a job", n = 1, from = from, to = to, job = function(v) return v + 100 end,
    main = function(worker, run) run(worker) end,
    emit = function(value, output) seen.emitted[#seen.emitted + 1] = { value, output } end,
    failed = function(_, failure)
      seen.failures[#seen.failures + 1] = failure
      return "hold"
    end,
    ended = function(err)
      seen.ended = true
      to:close(err)
    end,
  }
  spec.values = nil
  for key, value in pairs(spec) do all[key] = value end
  if spec.from == false then all.from = nil end
  return workers.new(all), to, seen
end

local function drained(ch)
  local list = {}
  for v in ch do list[#list + 1] = v end
  return table.concat(list, " ")
end

describe("the engine of workers", function()
  before_each(stage.open)
  after_each(stage.close)

  it("pauses: jobs that have begun finish, nothing else is taken; and resumes", function()
    for _, n in ipairs { 1, 3 } do
      for _, window in ipairs { false, 8 } do
        sim.each_seed(20, function()
          local begun = 0
          local pool, to = pool_of { n = n, window = window, job = function(v)
            begun = begun + 1
            rn.sleep(10)
            return v
          end }
          pool:start()
          rn.sleep(5)
          pool:pause()
          assert.equal(n, begun)
          rn.sleep(100)
          assert.equal(n, begun)
          assert.equal(n, #to)
          pool:resume()
          local list = rn.into({}, to):take()
          if not window then table.sort(list) end
          assert.same(numbers(6), list)
        end)
      end
    end
  end)

  it("withdraws only the takes of a paused pool, so that others get the values", stage.sim(function()
    local from = rn.chan()
    local pool = pool_of { from = from }
    pool:start()
    rn.yield()
    pool:pause()
    rn.yield()
    assert.equal("gate", (pool:state_of(pool.workers[1])))
    assert.is_nil(from:offer(1)) -- nobody takes
    local other = rn.go(function() return from:take() end)
    rn.yield()
    assert.is_true(from:offer(2))
    assert.equal(2, other:take())
    from:close()
    pool:resume()
    rn.sleep(1)
  end))

  it("takes values that come first, also while it is paused or waits", stage.sim(function()
    local from = rn.chan()
    local pool, to = pool_of { from = from }
    pool:start()
    rn.yield()
    pool:first(1)
    pool:grow(3)
    assert.equal(2, pool:queued())
    rn.yield()
    assert.equal(101, to:take())
    assert.equal(103, to:take())
    pool:pause()
    pool:grow(6)
    pool:first(4)
    pool:first(5)
    rn.sleep(1)
    assert.equal(0, #to)
    pool:resume()
    from:close()
    assert.equal("104 105 106", drained(to))
  end))

  it("changes how many workers there are, in order too, and nothing is lost", function()
    for _, window in ipairs { false, 64 } do
      sim.each_seed(30, function(seed)
        local running, peak = 0, 0
        local pool, to = pool_of { values = 60, window = window, job = function(v)
          running = running + 1
          peak = math.max(peak, running)
          rn.sleep(v * 7919 % 13 + 1)
          running = running - 1
          return v
        end }
        pool:start()
        for i = 1, 4 do
          rn.sleep(seed % 7 + 1)
          pool:resize((i * seed) % 5 + 1)
        end
        pool:resize(5)
        local list = rn.into({}, to):take()
        if not window then table.sort(list) end
        assert.same(numbers(60), list)
        assert.is_true(peak > 1 and peak <= 5, peak)
        assert.same({}, stage.others())
      end)
    end
  end)

  it("calls another function from the next call on, also for a value that is held", stage.sim(function()
    local pool, to, seen = pool_of { values = 3, job = function(v)
      if v == 2 then error "broken" end
      return v
    end }
    pool:start()
    rn.sleep(1)
    assert.equal("held", (pool:state_of(pool.workers[1])))
    assert.equal(2, seen.failures[1].value)
    assert.matches("broken", seen.failures[1].err)
    assert.matches("workers_spec", seen.failures[1].traceback)
    assert.same({}, stage.heard())
    pool:replace(function(v, put)
      put(v * 10)
      return v, "odd"
    end, true)
    pool:resume()
    assert.equal("1 20 30", drained(to))
    assert.same({ { 2, "odd" }, { 3, "odd" } }, seen.emitted)
  end))

  it("forgets what a failed try has put, and keeps the place of its value", function()
    sim.each_seed(20, function()
      local tried = {}
      local pool, to = pool_of { n = 3, window = 8, tries = 3, retry = 5, is_step = true, job = function(v, put)
        tried[v] = (tried[v] or 0) + 1
        put(v * 10)
        rn.sleep(v % 2)
        if tried[v] < v % 3 then error "again" end
        put(v * 10 + tried[v])
      end }
      pool:start()
      assert.equal("10 11 20 22 30 31 40 41 50 52 60 61", drained(to))
    end)
  end)

  it("writes the traceback of the last try only, in any order #ci", stage.sim(function()
    local large = {}
    for i = 1, 100000 do large["field" .. i] = i end
    package.loaded["a large module"] = large
    local calls = 0
    local function time(tries, window)
      local traces = {}
      local function job() -- fails in a function that no earlier traceback has
        calls = calls + 1
        load(("error 'again %d'"):format(calls))()
      end
      local pool = pool_of { n = 1, window = window, tries = tries, retry = 0, job = job,
        failed = function(_, failure)
          traces[#traces + 1] = failure.traceback
          return function() end
        end }
      local began = os.clock()
      pool:start()
      rn.sleep(1000)
      assert.equal(6, #traces)
      assert.matches("in %l+ 'error'", traces[1])
      return os.clock() - began
    end
    for _, window in ipairs { false, 8 } do
      local one, many = time(1, window), time(20, window)
      assert(many < 4 * one, ("%.4f s with one try, %.4f s with 20"):format(one, many))
    end
    package.loaded["a large module"] = nil
  end))

  it("lets steps put in their turn", function()
    sim.each_seed(20, function()
      local pool, to = pool_of { n = 4, window = 8, is_step = true, job = function(v, put)
        rn.sleep(v * 31 % 7)
        put(v)
        rn.sleep(v * 17 % 5)
        put(-v)
      end }
      pool:start()
      assert.equal("1 -1 2 -2 3 -3 4 -4 5 -5 6 -6", drained(to))
    end)
  end)

  it("puts again what a worker was putting when it was killed, once", function()
    for _, window in ipairs { false, 8 } do
      sim.each_seed(20, function(seed)
        local to = rn.chan()
        local pool = pool_of { n = 2, window = window, to = to, failed = function() return "again" end,
          ended = function() to:close() end }
        pool:start()
        rn.yield()
        for _ = 1, seed % 3 + 1 do
          for _, worker in ipairs(pool.workers) do rn.cancel(worker.block, "killed") end
          rn.yield()
        end
        local list = rn.into({}, to):take()
        table.sort(list)
        assert.same({ 101, 102, 103, 104, 105, 106 }, list)
      end)
    end
  end)

  it("has sources, whose puts complete before they end", stage.sim(function()
    local to = rn.chan()
    local pool, _, seen = pool_of { from = false, to = to, job = function(put)
      local i = 0
      while true do
        i = i + 1
        put(i)
      end
    end }
    pool:start()
    assert.equal(1, to:take())
    rn.yield()
    pool:finish()
    assert.is_false(seen.ended)
    assert.equal(2, to:take()) -- it waited with this one
    rn.yield()
    assert.equal(3, to:take()) -- and had this one already
    rn.sleep(1)
    assert.is_true(seen.ended)
    assert.same({}, seen.failures)
    assert.same({}, stage.others())
  end))

  it("releases a held worker without its value", stage.sim(function()
    local pool, to = pool_of { n = 2, window = 8, job = function(v)
      if v == 2 then error "broken" end
      return v
    end }
    pool:start()
    rn.sleep(1)
    for _, worker in ipairs(pool.workers) do
      if worker.held then pool:release(worker, function() return "left" end) end
    end
    assert.equal("1 left 3 4 5 6", drained(to))
  end))

  it("goes on when a window of results has left at once", stage.sim(function()
    local to = rn.chan(1000)
    local pool, _, seen = pool_of { values = 600, n = 16, window = 256, to = to, job = function(v)
      if v == 1 then rn.sleep(10) end
      return v
    end }
    pool:start()
    rn.sleep(20)
    assert.is_true(seen.ended)
    assert.equal(600, #to)
    assert.same({}, stage.others())
  end))

  it("has channels of its own that graphs leave out", stage.sim(function()
    rn.graph()
    local from, to = rn.chan():name "from", rn.chan():name "to"
    local pool = pool_of { n = 3, window = 8, from = from, to = to, job = function(v)
      rn.sleep(1)
      return v
    end, ended = function() to:close() end }
    pool:start()
    rn.go(function()
      for i = 1, 10 do from:put(i) end
      from:close()
    end)
    for i = 1, 10 do
      if i == 5 then
        pool:pause()
        rn.sleep(5)
        pool:resume()
      end
      assert.equal(i, to:take())
    end
    local names = {}
    for _, node in ipairs(rn.graph().nodes) do
      if node.kind == "channel" then names[#names + 1] = node.name end
    end
    table.sort(names)
    assert.same({ "chan: from", "chan: to" }, names)
  end))

  it("lets a worker leave at the same cost, however many there are", function()
    -- VM instructions of a worker from the end of its work on. The last one that was started leaves first.
    local function cost(n)
      local count, to = 0, nil
      sim.run(function()
        local pool
        pool, to = pool_of { n = n, values = n, to = rn.chan(n), job = function(v)
          rn.sleep(n - v)
          return v
        end, main = function(worker, run)
          run(worker)
          debug.sethook(function() count = count + 1 end, "", 1)
        end }
        pool:start()
        assert.equal(n, #stage.drain(to))
      end)
      return count / n
    end
    local few, many = cost(50), cost(500)
    assert.is_true(many < 1.5 * few, ("%.0f instructions among 50, %.0f among 500"):format(few, many))
  end)

  it("finds the jobs that are late at the same cost, however many run", function()
    -- How often the limit looks at the deadline of a worker.
    local function cost(n)
      local reads, cancelled = 0, 0
      sim.run(function()
        local late = time_limit.new("a job had not ended", n)
        for _ = 1, n do
          local fields = { block = rn.go(function()
            local _ <close> = setmetatable({}, { __close = function() cancelled = cancelled + 1 end })
            rn.sleep(3 * n)
          end) }
          late:begin(setmetatable({}, { __newindex = fields, __index = function(_, key)
            if key == "deadline" then reads = reads + 1 end
            return fields[key]
          end }))
          rn.sleep(1)
        end
        rn.sleep(n + 1)
      end)
      assert.equal(n, cancelled)
      return reads / n
    end
    local few, many = cost(50), cost(500)
    assert.is_true(many < 1.5 * few, ("%.0f reads among 50, %.0f among 500"):format(few, many))
  end)

  it("keeps as many workers as it is to have, whichever have left", stage.sim(function()
    local pool, to = pool_of { n = 4, values = 20, job = function(v)
      rn.sleep(v == 1 and 1 or 10)
      if v == 1 then error("ends its worker", 0) end
      return v
    end, failed = function(_, failure) internal.excuse(failure.block, failure.err) end }
    pool:start()
    rn.yield()
    pool:resize(2) -- two end after their jobs
    rn.sleep(5) -- the first one has ended
    pool:resize(1)
    assert.equal(19, #stage.drain(to))
  end))

  it("is no bottleneck while it is paused", stage.sim(function()
    rn.graph()
    local from, to = rn.chan(2):name "from", rn.chan(2):name "to"
    local pool = pool_of { from = from, to = to, job = function(v)
      rn.sleep(10)
      return v
    end }
    pool:start()
    rn.go(function()
      for i = 1, 10 do from:put(i) end
      from:close()
    end)
    rn.go(function()
      for _ in to do rn.yield() end
    end)
    rn.sleep(15)
    assert.matches("^a stage at .* is the bottleneck", rn.graph().findings[1])
    pool:pause()
    rn.sleep(20)
    assert.same({}, rn.graph().findings)
    pool:resume()
    rn.sleep(100)
  end))

  it("names its go blocks after the line of the program, whenever they are started", stage.sim(function()
    local pool = pool_of { from = rn.chan() }
    rn.go(function() pool:start() end)
    rn.sleep(1)
    local entry = internal.state(pool.workers[1].block)
    assert.matches("^a stage at spec/internal/workers_spec.lua:%d+", entry.name)
    assert.equal("take", entry.operation)
    local block = pool.workers[1].block
    pool:finish()
    rn.sleep(1)
    assert.is_nil(internal.state(block))
  end))
end)
