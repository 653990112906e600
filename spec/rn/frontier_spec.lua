-- rn.frontier: pmap over values to which the function itself adds.

local rn = require "runnel"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"

local test = stage.sim

describe("frontier", function()
  -- The results in order.
  local function sorted(ch)
    local list = stage.drain(ch)
    table.sort(list)
    return list
  end

  -- The divisors of a number, by dividing by primes.
  local function divide(n, add)
    rn.sleep(n % 7)
    for _, prime in ipairs { 2, 3, 5 } do
      if n % prime == 0 then add(n // prime) end
    end
    return n
  end

  it("refuses a value when all calls have ended, and one that is not equal to itself", test(function()
    local late, err
    sorted(rn.frontier(1, function(v, add)
      late, err = add, select(2, pcall(add, 0 / 0))
      return v
    end, { 1 }))
    assert.equal("add: nan cannot be used, because it is not equal to itself", err)
    raises("^add: all calls of the frontier have ended, so nothing can be added: add values before f returns$",
      function() late(2) end)
  end))

  it("visits what can be reached, each value once, n at a time", test(function()
    local running, most = 0, 0
    local function visit(n, add)
      running = running + 1
      most = math.max(most, running)
      local result = divide(n, add)
      running = running - 1
      return result
    end
    for _, n in ipairs { 1, 3, 100 } do
      most = 0
      assert.same({ 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60 }, sorted(rn.frontier(n, visit, { 60, 60, 30 })))
      assert.is_true(most <= n)
      assert.is_true(n == 1 or most > 1)
    end
  end))

  it("ends at once without values", test(function()
    assert.same({}, stage.drain(rn.frontier(2, print, {})))
  end))

  it("says whether a value is new, and leaves out results that are nil", test(function()
    local news = {}
    local results = rn.frontier(1, function(v, add)
      if v > 3 then return end
      news[#news + 1] = add(v + 1)
      news[#news + 1] = add(v + 1)
      return v
    end, { 1 })
    assert.same({ 1, 2, 3 }, stage.drain(results))
    assert.same({ true, false, true, false, true, false }, news)
  end))

  it("lets thousands of values wait", test(function()
    local results = rn.frontier(1, function(v, add)
      for i = 1, v == 0 and 20000 or 0 do add(i) end
      return 1
    end, { 0 })
    assert.equal(20001, #stage.drain(results))
  end))

  it("ends when calls fail, too", test(function()
    local function visit(n, add)
      add(n + 1)
      if n == 3 then rn.sleep(1000) end
      if n == 4 then return end
      assert(n < 6, "six")
      return n
    end
    local failed = {}
    local opts = { timeout = 10, ex_handler = function(err, v)
      failed[v] = tostring(err)
      if v == 6 then return 60 end
    end }
    assert.same({ 1, 2, 5, 60 }, sorted(rn.frontier(2, function(n, add)
      if n > 6 then return end
      return visit(n, add)
    end, { 1 }, opts)))
    assert.match("10 ms", failed[3])
    assert.match("six", failed[6])
    local function ignore() end
    local results = rn.frontier(2, function(n, add) return visit(n, n < 6 and add or ignore) end, { 5 })
    assert.same({ 5 }, stage.drain(results))
    assert.match("six", (select(2, results:take())))
  end))

  it("counts nil with an error as a failure, with tries and without", test(function()
    local calls = 0
    local function visit(v)
      calls = calls + 1
      if v == 2 then return nil, "two" end
      return v
    end
    local function instead(err) return err end
    for _, opts in ipairs { { ex_handler = instead }, { ex_handler = instead, tries = 2 } } do
      local results = stage.drain(rn.frontier(1, visit, { 1, 2 }, opts))
      assert.same({ 1, "two" }, results)
    end
    assert.equal(5, calls)
  end))

  it("tries a call again, and counts it as open meanwhile", test(function()
    local tries = 0
    local function visit(v, add)
      tries = tries + 1
      if tries < 3 then error("not yet", 0) end
      if v == 1 then add(2) end
      return v
    end
    assert.same({ 1, 2 }, stage.drain(rn.frontier(4, visit, { 1 }, { tries = 3, backoff = 10 })))
    assert.equal(4, tries)
  end))

  it("cancels its calls when the results are closed", test(function()
    local ended = 0
    local results = rn.frontier(3, function(v)
      local _ <close> = setmetatable({}, { __close = function() ended = ended + 1 end })
      rn.sleep(v * 1000)
      return v
    end, { 1, 5, 6, 7, 8 })
    assert.equal(1, results:take())
    results:close()
    rn.sleep(1)
    assert.equal(4, ended)
  end))

  it("checks its arguments at the caller's line", function()
    raises("^frontier: n: an integer", function() rn.frontier(0, print, {}) end)
    raises("^frontier: f: a function", function() rn.frontier(1, "f", {}) end)
    raises("^frontier: values: a table expected, got nothing", function() rn.frontier(1, print) end)
    raises("^frontier: values: element 2 is nil, although the list goes on$",
      function() rn.frontier(1, print, { 1, nil, 3 }) end)
    raises("^frontier: values: a list expected, got a table with keys but no values 1, 2, ...$",
      function() rn.frontier(1, print, { first = 1 }) end)
    raises("^frontier: values: element 2 is nan, which is not equal to itself$",
      function() rn.frontier(1, print, { 1, 0 / 0 }) end)
    raises("^frontier: .*window", function() rn.frontier(1, print, {}, { window = 3 }) end)
  end)
end)
