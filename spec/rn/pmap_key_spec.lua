-- The option key of pmap, pmap_unordered and the stages of flows: jobs of a key in order, one at a time.

local flow = require "runnel.flow"
local long = require "spec.support.long"
local raises = require "spec.support.raises"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local function key_of(v) return v.key end

-- Values with keys, as in "aab".
local function values(keys)
  local list = {}
  for key in keys:gmatch "." do list[#list + 1] = { key = key ~= "-" and key or nil, i = #list + 1 } end
  return list
end

local function numbers(results)
  local list = {}
  for v in results do list[#list + 1] = v.i end
  return list
end

-- Checks jobs while they run: never more than n, one of a key at a time, in the order of the values; and that a job
-- waits only for its key, or because n run. Once one has failed for which there is no handler, those of later values do
-- not begin any more, and all others still do.
local function checker(list, n)
  local running, of_key, last, done, failed = 0, {}, {}, {}, math.huge
  local check = { most = 0 }

  function check.begin(v)
    assert(v.i < failed, "a job begins after one before it has failed")
    running = running + 1
    check.most = math.max(check.most, running)
    assert(running <= n, "too many jobs run")
    if v.key then
      assert(not of_key[v.key], "two jobs of a key run")
      assert(v.i >= (last[v.key] or 0), "the jobs of a key are out of order")
      of_key[v.key], last[v.key] = true, v.i
    end
  end

  function check.finish(v)
    running, done[v] = running - 1, true
    if v.key then of_key[v.key] = nil end
  end

  -- A job fails, and there is no handler.
  ---@param place integer jobs from this place on are not to begin any more
  function check.fail(place) failed = math.min(failed, place) end

  -- Once nothing is ready.
  function check.at_rest()
    if running == n then return end
    local seen = {}
    for _, v in ipairs(list) do
      if v.i < failed and not done[v] and v.key and not seen[v.key] then
        seen[v.key] = true
        assert(of_key[v.key], "a job waits, though its key is free and fewer than n run: " .. v.i)
      end
    end
  end

  return check
end

describe("pmap with keys", function()
  before_each(stage.open)
  after_each(stage.close)

  it("runs jobs of a key in order, one at a time, and those of other keys meanwhile", stage.within(function()
    local log = {}
    local function job(v)
      log[#log + 1] = "+" .. v.key .. v.i
      rn.sleep(v.key == "a" and 100 or 10)
      log[#log + 1] = "-" .. v.key .. v.i
      return v
    end
    assert.same({ 3, 1, 2 }, numbers(rn.pmap_unordered(2, job, values "aab", { key = key_of })))
    assert.equal("+a1 +b3 -b3 -a1 +a2 -a2", table.concat(log, " "))
    assert.equal(200, rn.now())
    assert.same({ 1, 2, 3 }, numbers(rn.pmap(2, job, values "aab", { key = key_of })))
    assert.equal(400, rn.now())
  end))

  it("lets jobs without a key wait for no other one", stage.within(function()
    local n = numbers(rn.pmap_unordered(4, function(v)
      rn.sleep(10)
      return v
    end, values "----", { key = key_of }))
    assert.equal(4, #n)
    assert.equal(10, rn.now())
  end))

  it("keeps the place of a job, and its key, through all its tries", stage.within(function()
    local tries, log = 0, {}
    local results = rn.pmap_unordered(3, function(v)
      log[#log + 1] = v.i
      if v.i == 1 then
        tries = tries + 1
        if tries < 3 then error "not yet" end
      end
      rn.sleep(1)
      return v
    end, values "aab", { key = key_of, tries = 3, backoff = 10 })
    assert.same({ 3, 1, 2 }, numbers(results))
    assert.same({ 1, 3, 1, 1, 2 }, log)
  end))

  it("counts the time of a job from its begin, and not from its wait for the key", stage.within(function()
    local late = {}
    local results = rn.pmap(2, function(v)
      rn.sleep(v.i == 3 and 100 or 30)
      return v
    end, values "aaaa", { key = key_of, timeout = 50, ex_handler = function(err, v)
      late[#late + 1] = v.i
      assert.is_true(rn.is_timeout(err))
    end })
    assert.same({ 1, 2, 4 }, numbers(results))
    assert.same({ 3 }, late)
    assert.equal(30 + 30 + 50 + 30, rn.now())
  end))

  it("goes on with a key whose job has failed or was cancelled, if there is a handler", stage.within(function()
    local results = rn.pmap_unordered(2, function(v)
      if v.i == 1 then error "oops" end
      rn.sleep(10)
      return v
    end, values "aaa", { key = key_of, ex_handler = function() return { i = 0 } end })
    assert.same({ 0, 2, 3 }, numbers(results))
  end))

  it("begins no job once its channel is closed, also one that had its turn", function()
    sim.each_seed(20, function()
      for _, waits in ipairs { true, false } do
        local begun = 0
        local results = rn.pmap(waits and 2 or 1, function(v)
          begun = begun + 1
          if waits then rn.sleep(10) end
          return v
        end, values(waits and "ababab" or "aaaa"), { key = key_of, window = not waits and 1 or nil })
        results:take()
        results:close()
        local before = begun
        rn.sleep(100)
        assert.equal(before, begun)
      end
    end)
  end)

  it("without a handler puts what was before the error, and then closes with it", stage.sim(function()
    local begun = {}
    local results = rn.pmap(2, function(v)
      begun[#begun + 1] = v.i
      rn.sleep(v.key == "a" and 20 or 25)
      if v.key == "b" then error("oops", 0) end
      return v
    end, values "aabaa", { key = key_of })
    assert.same({ 1, 2 }, numbers(results))
    assert.same({ nil, "oops" }, { results:take() })
    assert.same({ 1, 3, 2 }, begun)
    assert.same({}, stage.others())
  end))

  it("begins jobs that waited for their key when a later one failed, but those of later values not any more",
    stage.within(function()
      local begun = {}
      local results = rn.pmap(3, function(v)
        begun[#begun + 1] = v.i
        rn.sleep(v.key == "a" and 20 or 10)
        if v.key == "b" then error("oops", 0) end
        return v
      end, values "aabcca", { key = key_of })
      assert.same({ 1, 2 }, numbers(results))
      assert.same({ nil, "oops" }, { results:take() })
      assert.same({ 1, 3, 4, 2 }, begun)
      assert.equal(40, rn.now())
    end))

  it("takes at most 16 n values more than are done, so that memory stays bounded", stage.within(function()
    local taken, gate = 0, rn.chan()
    local function source()
      taken = taken + 1
      return { key = "a", i = taken }
    end
    local results = rn.pmap_unordered(2, function() gate:take() end, source, { key = key_of })
    rn.sleep(10)
    assert.equal(32, taken)
    results:close()
    rn.sleep(1)
    gate:close()
  end))

  it("reports what is wrong with a key function", stage.sim(function()
    local results = rn.pmap(1, print, { 1 }, { key = function() error("no key", 0) end })
    assert.same({ nil, "no key" }, { results:take() })
    results = rn.pmap(1, print, { 1 }, { key = function() return 0 / 0 end })
    assert.matches("^pmap: key: nan is no key", select(2, results:take()))
    results = rn.pmap(2, function() rn.sleep(1) end, { 1, 2, 3 }, { key = function(v)
      if v == 1 then rn.sleep(5) end
      return v
    end })
    assert.matches("^pmap: key: it has waited", select(2, results:take()))
    raises("pmap: key: a function expected, got a string", function() rn.pmap(1, print, {}, { key = "id" }) end)
    raises('frontier: unknown option "key"', function() rn.frontier(1, print, {}, { key = key_of }) end)
  end))

  it("gives each job its turn, and forgets those that have left, whoever is killed where", function()
    local lanes = require "runnel.workers.lanes"
    local KEYS <const> = 3
    for seed = 1, 100 do
      local n, count = seed % 3 + 1, 12
      local pool = lanes.new("pmap", n, function(job) return job.key end)
      local running, most, done, last, busy = 0, 0, {}, {}, {}
      local function work(i)
        local job = { key = math.random(KEYS + 1) }
        if job.key > KEYS then job.key = nil end
        local key = job.key or -i
        local worker = { lane = false, has_place = false, gate = false, at = "call" }
        local leaving <close> = setmetatable({}, { __close = function() pool:leave(worker) end }) -- luacheck: ignore
        pool:enter(worker, job)
        assert(not busy[key] and i > (last[key] or 0), "a key's jobs are not one at a time and in order")
        running, busy[key], last[key] = running + 1, true, i
        most = math.max(most, running)
        local ending <close> = setmetatable({}, { __close = function() -- luacheck: ignore
          running, busy[key] = running - 1, nil
        end })
        rn.sleep(math.random(5))
        if math.random(2) == 1 then pool:enter(worker, job) end -- it is tried again
        assert(worker.at == "call", "it waits no longer")
        rn.sleep(math.random(5))
        done[i] = true
      end
      stage.run(function()
        local blocks, killed = {}, {}
        for i = 1, count do
          blocks[i] = rn.go(work, i)
          if math.random(2) == 1 then rn.sleep(6 * math.random()) end
        end
        for i = 1, count do
          if math.random(3) == 1 and not done[i] then
            rn.cancel(blocks[i], "killed")
            killed[i] = true
          end
          if math.random(4) == 1 then rn.sleep(math.random(5)) end
        end
        for i = 1, count do
          local _, err = blocks[i]:take()
          assert.equal(killed[i] and not done[i] and "killed" or nil, err)
        end
      end, { seed = seed })
      assert.is_true(most <= n, "seed " .. seed)
      assert.same({ 0, 0, {}, {} }, { pool.running, pool.waiting, pool.ready, pool.by_key }, "seed " .. seed)
    end
  end)

  it("does so in random programs: with slow and failing jobs, tries, limits and leaving consumers", function()
    local random = math.random
    for seed = 1, long.times(300, 6000) do
      math.randomseed(seed)
      local keys, list = random(4), {}
      local n, ordered = random(4), random(2) == 1
      for i = 1, random(0, 16 * n) do
        local key = random(0, keys)
        list[i] = {
          key = key > 0 and key or nil, i = i, ms = random(0, 30) + i / 1000, fails = random(6) == 1, tried = 0,
        }
      end
      local check = checker(list, n)
      local tries, timeout = random(2), random(3) == 1 and 20 or nil
      for _, v in ipairs(list) do v.fails = v.fails or v.ms > (timeout or math.huge) end
      local handler = random(4) > 1 and function() rn.sleep(random(0, 2)) end or nil
      local leaves = random(5) == 1 and random(0, 10)
      local results
      local ok, err = pcall(sim.run, function()
        results = rn[ordered and "pmap" or "pmap_unordered"](n, function(v)
          check.begin(v)
          v.tried = v.tried + 1
          local _ <close> = setmetatable({}, { __close = function()
            check.finish(v)
            if v.fails and v.tried == tries and not handler then check.fail(ordered and v.i or 0) end
          end })
          rn.sleep(v.ms)
          if v.fails then error("fails", 0) end
          return v
        end, rn.to_chan(list), { key = key_of, tries = tries, backoff = tries > 1 and 3 or nil, timeout = timeout,
          ex_handler = handler, buffer = 100 })
        -- Jobs end at whole microseconds, so nothing is ready between two of them. A job that pauses before its next
        -- try, and one whose handler runs, have a place, and do not count as running.
        local watch = rn.go(function()
          rn.sleep(0.0005)
          while tries == 1 and not handler and not results:closed() do
            check.at_rest()
            rn.sleep(2)
          end
          return true
        end)
        local of_key, got = {}, {}
        for v in results do
          got[#got + 1] = v.i
          assert(not v.key or v.i > (of_key[v.key] or 0), "the results of a key are out of order")
          of_key[v.key or 0] = v.i
          if #got == leaves then
            results:close()
            break
          end
        end
        assert(watch:take())
        rn.sleep(1000)
        local left = stage.others()
        assert(#left == 0, "left behind: " .. tostring(left[1]))
        local wanted, failed = {}, nil -- failed: the first value with an error
        for _, v in ipairs(list) do
          if not v.fails then wanted[#wanted + 1] = v.i
          elseif not (handler or failed) then
            failed = v
            if ordered then break end
          end
        end
        local _, err = results:take()
        if #got == leaves then
          wanted = ordered and table.move(wanted, 1, leaves, 1, {}) or got
        elseif failed and not ordered then
          assert(err ~= nil, "there is no error")
          wanted = got
        else
          local wants = failed and (failed.ms > (timeout or math.huge) and "timeout" or "fails") or nil
          assert((rn.is_timeout(err) and "timeout" or err) == wants, err)
          if not ordered then table.sort(got) end
        end
        assert(table.concat(got, " ") == table.concat(wanted, " "), "the results are not those of all values")
      end, { seed = seed, shuffle = random(2) == 1 })
      stage.heard()
      if not ok then error(("seed %d: %s"):format(seed, err), 0) end
    end
  end)

  it("does so in every order", function()
    search.finds_bug("two jobs of a key run", function(is_keyed)
      local list = values "aab"
      local check = checker(list, 2)
      local n = 0
      for _ in rn.pmap_unordered(2, function(v)
        check.begin(v)
        rn.yield()
        check.finish(v)
        return v
      end, rn.to_chan(list), { key = is_keyed and key_of or nil }) do n = n + 1 end
      assert(n == 3)
    end)
  end)
end)

describe("a stage of a flow with keys", function()
  before_each(stage.open)
  after_each(stage.close)

  it("works on values of a key in order, one at a time, and on others meanwhile", stage.within(function()
    for _, ordered in ipairs { true, false } do
      local got, list = {}, values "aabab"
      local check = checker(list, 2)
      flow("f", {
        from = { from = list },
        work = { function(v)
          check.begin(v)
          rn.sleep(v.key == "a" and 100 or 10)
          check.finish(v)
          return v
        end, n = 2, key = key_of, ordered = ordered },
        to = function(v) got[#got + 1] = v.i end,
        "from > work > to",
      }):wait()
      assert.same(ordered and { 1, 2, 3, 4, 5 } or { 3, 5, 1, 2, 4 }, got)
    end
    assert.equal(600, rn.now())
  end))

  it("shows those that wait for their key as waiting, and can be resized", stage.within(function()
    local gate = rn.chan()
    local f = flow("f", {
      from = { from = values "aaab" }, work = { function() gate:take() end, n = 3, key = key_of }, "from > work",
    }):start()
    rn.sleep(1)
    local row = f:stats()[2]
    assert.same({ 3, 2, 2 }, { row.workers, row.busy, row.waiting })
    f:workers("work", 1)
    gate:close()
    assert.is_true(f:wait())
  end))

  it("keeps the key of a value that it holds, until it is resumed", stage.sim(function()
    local fails, got = true, {}
    local f = flow("f", {
      from = { from = values "aab" },
      work = { function(v)
        if v.i == 1 and fails then error("oops", 0) end
        got[#got + 1] = v.i
      end, n = 2, key = key_of, ordered = false },
      "from > work",
    }):start()
    rn.sleep(10)
    assert.is_nil(got[2])
    fails = false
    f:resume()
    f:wait()
    assert.equal(3, #got)
    for i, v in ipairs(got) do
      if v == 2 then assert.is_true(got[1] == 1 or got[i - 1] == 1) end
    end
    stage.heard()
  end))

  -- A later job that puts early holds a place until its turn comes: the oldest must not wait for that place.
  it("does not deadlock, if steps put before their turn, in any order", function()
    search.finds_nothing(function()
      local got = {}
      flow("f", {
        from = { from = values "aabab" },
        work = { step = function(v, put)
          put(v)
          rn.yield()
        end, n = 1 + sim.choose(2), key = key_of },
        to = function(v) got[#got + 1] = v.i end,
        "from > work > to",
      }):wait()
      assert(table.concat(got) == "12345", table.concat(got, " "))
    end)
  end)

  it("has no state of workers, and says so", function()
    raises("flow: stage a: key: the stage cannot have init",
      function() flow("f", { a = { print, key = key_of, init = print }, "a" }) end)
    raises("flow: stage a: key: a function expected, got a number",
      function() flow("f", { a = { print, key = 1 }, "a" }) end)
  end)
end)
