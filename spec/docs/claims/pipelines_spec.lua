-- What the documents say of pipelines, tries, frontiers and flows.

local rn = require "runnel"
local flow = require "runnel.flow"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local claim = require "spec.support.docs.claims"(it)

-- The time between each two calls of f, in virtual ms.
local function pauses(f)
  return sim.run(function()
    local times, list = {}, {}
    f(function() times[#times + 1] = sim.elapsed() end)
    for i = 2, #times do list[i - 1] = times[i] - times[i - 1] end
    return list
  end)
end

-- A function for a pmap of whose calls n run at most, and a function that returns the largest n.
local function counted(f)
  local running, most = 0, 0
  return function(...)
    running = running + 1
    most = math.max(most, running)
    local result = f(...)
    running = running - 1
    return result
  end, function() return most end
end

local function numbers(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

describe("the documents say of pipelines", function()
  -- How many of 128 jobs run on average if one in a hundred takes 20 ms and the others take 1 ms.
  local function average(window)
    return sim.run(function()
      local running, area, last = 0, 0, 0
      local function change(by)
        area, last = area + running * (sim.elapsed() - last), sim.elapsed()
        running = running + by
      end
      local results = rn.pmap(128, function(i)
        change(1)
        rn.sleep(math.random(100) == 1 and 20 or 1)
        change(-1)
        return i
      end, numbers(20000), { window = window })
      for _ in results do end
      return area / sim.elapsed()
    end)
  end

  claim("113 jobs run on average; with a window of 128, 14.", function()
    local all, few = average(nil), average(128)
    assert.is_true(all > 111 and all < 115, all)
    assert.is_true(few > 13 and few < 15, few)
  end)

  claim("twice as long each time, up to a minute; of that a random part between the half and the whole", function()
    local list = pauses(function(called)
      pcall(rn.retry, function()
        called()
        error "no"
      end, { tries = 14, backoff = 100 })
    end)
    assert.equal(13, #list)
    for i, ms in ipairs(list) do
      local whole = math.min(100 * 2 ^ (i - 1), 60000)
      assert.is_true(ms >= whole / 2 - 1e-6 and ms <= whole + 1e-6, ("pause %d is %g ms"):format(i, ms))
    end
  end)

  claim("`timeout` is for each try. Meanwhile the job keeps its place in the order, and counts as one of the "
    .. "`n`.", function()
    sim.run(function()
      local tries = 0
      local call, most = counted(function(v)
        if v > 1 then return v end
        local _ <close> = setmetatable({}, { __close = function() tries = tries + 1 end })
        rn.sleep(tries == 2 and 1 or 1000)
        return v
      end)
      local results = rn.pmap(1, call, { 1, 2, 3 }, { tries = 3, backoff = 10, timeout = 100 })
      local list = rn.into({}, results):take()
      assert.same({ 1, 2, 3 }, list)
      assert.is_true(most() <= 3) -- two tries did not get to the end of counted
      assert.is_true(sim.elapsed() >= 201 and sim.elapsed() < 250, sim.elapsed())
    end)
  end)

  claim("`ex_handler` gets the error of the last try.", function()
    sim.run(function()
      local tries, errors = 0, {}
      local results = rn.pmap(1, function()
        tries = tries + 1
        error("try " .. tries, 0)
      end, { 1 }, { tries = 3, ex_handler = function(err) errors[#errors + 1] = err end })
      results:take()
      assert.same({ "try 3" }, errors)
    end)
  end)

  claim("`rn.retry` does the same for a single call, and gives it the arguments after the options", function()
    assert.same({ 1, 2 }, { rn.retry(function(a, b) return a, b end, {}, 1, 2) })
  end)

  claim("It fails by raising an error, or by returning nil and one", function()
    sim.run(function()
      local tries = 0
      local function fails()
        tries = tries + 1
        return nil, "no"
      end
      assert.is_false(pcall(rn.retry, fails))
      assert.equal(3, tries)
    end)
  end)

  claim("Cancelling the go block that calls `rn.retry` ends the try or the wait at once, and nothing is "
    .. "tried again.", function()
    sim.run(function()
      local tries = 0
      local function fails()
        tries = tries + 1
        error "no"
      end
      local block = rn.go(rn.retry, fails, { tries = 10, backoff = 1000 })
      rn.sleep(1)
      rn.cancel(block)
      block:take()
      assert.equal(1, sim.elapsed())
      rn.sleep(60000)
      assert.equal(1, tries)
    end)
  end)

  claim("Each value once: `add` returns false for one that was there before.", function()
    local added = {}
    local results = rn.frontier(2, function(v, add)
      if v < 3 then
        added[#added + 1] = add(v + 1)
        added[#added + 1] = add(1)
      end
      return v
    end, { 1 })
    local list = rn.into({}, results):take()
    table.sort(list)
    assert.same({ 1, 2, 3 }, list)
    assert.same({ true, false, true, false }, added)
  end)

  claim("no further value is taken, the jobs of later values are cancelled, the results of earlier values are "
    .. "still put, and then the channel closes with the error", function()
    sim.run(function()
      local started, ended = {}, {}
      local results = rn.pmap(3, function(v)
        started[#started + 1] = v
        rn.sleep(v == 2 and 1 or 10)
        if v == 2 then error("second", 0) end
        ended[#ended + 1] = v
        return v
      end, numbers(10))
      local list = {}
      for v in results do list[#list + 1] = v end
      assert.same({ 1 }, list)
      assert.equal("second", select(2, results:take()))
      rn.sleep(100)
      assert.same({ 1, 2, 3 }, started)
      assert.same({ 1 }, ended)
    end)
  end)

  claim("Closing the channel of results cancels the jobs that run, without waiting until they have ended; no further "
    .. "value is taken.", function()
    sim.run(function()
      local from = rn.to_chan(numbers(10))
      local started, ended = 0, 0
      local results = rn.pmap(2, function()
        started = started + 1
        rn.sleep(10)
        ended = ended + 1
      end, from)
      rn.sleep(5)
      results:close()
      rn.sleep(100)
      assert.same({ 2, 0 }, { started, ended })
    end)
  end)

  claim("When `to` is closed, no further value is taken, and no job is started but for a value that was taken just "
    .. "before. The jobs that run finish, and their results are dropped.", function()
    sim.run(function()
      local started, ended = 0, 0
      local to = rn.pipeline_async(2, rn.chan(), function(_, result)
        started = started + 1
        rn.sleep(10)
        ended = ended + 1
        result:close()
      end, rn.to_chan(numbers(10)))
      rn.sleep(5)
      to:close()
      rn.sleep(100)
      assert.same({ 2, 2 }, { started, ended })
    end)
  end)

  claim("`window` is how many started jobs may have results that were not put yet.", function()
    sim.run(function()
      local started = 0
      local results <close> = rn.pmap(2, function(v)
        started = started + 1
        return v
      end, numbers(100), { window = 7 })
      rn.sleep(10)
      assert.equal(7, started)
      assert.equal(1, results:take())
    end)
  end)

  claim("`rn.pmap` has a window of `16 * n`", function()
    sim.run(function()
      local started = 0
      local results <close> = rn.pmap(2, function()
        started = started + 1
        return started
      end, numbers(100))
      rn.sleep(10)
      assert.equal(32, started)
      assert.equal(1, results:take())
    end)
  end)

  claim("Where the order does not matter, the unordered functions always run `n` jobs while there is work.", function()
    sim.run(function()
      local call, most = counted(function(v)
        rn.sleep(v == 1 and 1000 or 1)
        return v
      end)
      local count = 0
      for v in rn.pmap_unordered(4, call, numbers(300)) do
        count = count + 1
        if v == 300 then break end
      end
      assert.equal(299, count) -- all others, while the first one runs
      assert.equal(100, sim.elapsed())
      assert.equal(4, most())
    end)
  end)
end)

describe("the documents say of flows", function()
  claim("how many may wait for the stage, before puts wait", function()
    sim.run(function()
      local put = 0
      local f <close> = flow("f", {
        source = { source = function(send)
          for i = 1, 100 do
            send(i)
            put = i
          end
        end },
        sink = function() rn.sleep(1000000) end,
        "source > sink",
      }):start()
      rn.sleep(10)
      assert.equal(17, put) -- 16 in the buffer, one in the stage
      f:stop()
    end)
  end)

  claim("A channel with copies of what the stage puts, or `\"stage.output\"`; it keeps the last n (100).", function()
    sim.run(function()
      local f = flow("f", { numbers = { from = numbers(300) }, same = function(v) return v end, "numbers > same" })
      local tap = f:tap "same"
      f:wait()
      local list = rn.into({}, tap):take()
      assert.equal(100, #list)
      assert.equal(300, list[100])
    end)
  end)

  claim("Gives values to a stage, before all that wait there. Never waits", function()
    sim.run(function()
      local got = {}
      local f = flow("f", { numbers = { from = numbers(50) }, slow = function(v)
        rn.sleep(10)
        got[#got + 1] = v
      end, "numbers > slow" }):start()
      rn.sleep(5)
      f:inject("slow", "first")
      f:wait()
      assert.equal("first", got[2])
    end)
  end)

  claim("An error once the input of the stage has ended, as when all its sources have", function()
    sim.run(function()
      local f = flow("f", { numbers = { from = { 1 } }, slow = function() rn.sleep(10) end, "numbers > slow" }):start()
      rn.sleep(5)
      raises("the input of stage slow has ended", function() f:inject("slow", 2) end)
      f:wait()
    end)
  end)

  claim("What is put on an output without an edge is dropped.", function()
    sim.run(function()
      local count = 0
      flow("f", { numbers = { from = numbers(50) }, same = function(v)
        count = count + 1
        return v
      end, "numbers > same" }):wait()
      assert.equal(50, count)
    end)
  end)

  claim("A list, an iterator or a channel", function()
    sim.run(function()
      local sum = 0
      local i = 0
      for _, from in ipairs { { 1, 2 }, rn.to_chan { 3, 4 }, function()
        i = i + 1
        if i < 3 then return i end
      end } do
        flow("f", { numbers = { from = from }, add = function(v) sum = sum + v end, "numbers > add" }):wait()
      end
      assert.equal(13, sum)
    end)
  end)

  claim("once a call has ended, its `put` raises an error and has not put", function()
    sim.run(function()
      local later
      flow("f", { numbers = { from = { 1 } }, step = { step = function(_, put) later = put end }, sink = function() end,
        "numbers > step > sink" }):wait()
      raises("", function() later(1) end)
    end)
  end)
end)
