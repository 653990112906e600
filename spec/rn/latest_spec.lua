local rn = require "runnel"
local raises = require "spec.support.raises"
local search = require "spec.support.search"
local stage = require "spec.support.stage"

describe("latest", function()
  before_each(stage.open)
  after_each(stage.close)

  it("gives whoever comes late the present value, and then each change", stage.within(function()
    local levels = rn.chan()
    local level = rn.latest(levels, "info")
    assert.equal("info", level:get())
    local early = level:tap()
    assert.equal("info", early:take())
    levels:put "debug"
    assert.equal("debug", early:take())
    local late = level:tap()
    assert.equal("debug", late:take())
    assert.is_nil(late:poll())
    levels:put(false)
    assert.is_false(early:take())
    assert.is_false(late:take())
    assert.is_false(level:get())
    levels:close()
    assert.is_nil(late:take())
  end))

  it("waits for a first value if there is none", stage.within(function()
    local source = rn.chan()
    local latest = rn.latest(source)
    assert.is_nil(latest:get())
    local tap = latest:tap()
    assert.is_nil(tap:poll())
    source:put(1)
    assert.equal(1, tap:take())
    source:close()
  end))

  it("makes nobody wait for a slow tap, which gets only the newest value", stage.within(function()
    local source = rn.chan()
    local latest = rn.latest(source)
    local slow, all = latest:tap(), latest:tap(rn.chan(10))
    for i = 1, 5 do source:put(i) end
    source:close()
    assert.same({ 5 }, stage.drain(slow))
    assert.same({ 1, 2, 3, 4, 5 }, stage.drain(all))
  end))

  it("passes on the error of its source, also to later taps, and reports it if there is none", stage.sim(function()
    local source = rn.chan()
    local latest = rn.latest(source)
    local tap = latest:tap()
    source:put(1)
    source:close "ECONNRESET"
    assert.equal(1, tap:take())
    assert.same({ nil, "ECONNRESET" }, { tap:take() })
    local later = latest:tap()
    assert.equal(1, later:take())
    assert.same({ nil, "ECONNRESET" }, { later:take() })
    assert.same({}, stage.heard())
  end))

  -- The error counts as handled once a take gets it from the first tap that is open, or else from the first later one.
  for _, case in ipairs {
    { taps = 0, later = 0, taken = {}, reports = 1 },
    { taps = 0, later = 1, taken = {}, reports = 1 },
    { taps = 0, later = 1, taken = { 1 }, reports = 0 },
    { taps = 0, later = 2, taken = { 1 }, reports = 0 },
    { taps = 0, later = 2, taken = { 2 }, reports = 1 },
    { taps = 1, later = 1, taken = { 1 }, reports = 0 },
    { taps = 1, later = 1, taken = { 2 }, reports = 1 },
    { taps = 2, later = 0, taken = {}, reports = 1 },
    { taps = 2, later = 0, taken = { 1 }, reports = 0 },
    { taps = 2, later = 1, taken = { 2, 3 }, reports = 1 },
  } do
    it(("reports an error once, or not if it was taken: of %d taps and %d later ones, from %s"):format(case.taps,
      case.later, #case.taken > 0 and table.concat(case.taken, ", ") or "none"), function()
      assert.equal(case.reports, #stage.report_texts(function()
        local source, taps = rn.chan(), {}
        local latest = rn.latest(source)
        for i = 1, case.taps do taps[i] = latest:tap() end
        source:close "gone"
        rn.yield()
        for _ = 1, case.later do taps[#taps + 1] = latest:tap() end
        for _, i in ipairs(case.taken) do assert.same({ nil, "gone" }, { taps[i]:take() }) end
        for _, tap in ipairs(taps) do assert.is_true(tap:closed()) end
      end))
    end)
  end

  it("shows the line of its call", function()
    local source = rn.chan()
    rn.latest(source)
    assert.same({ "latest at " .. stage.here(-1) }, stage.others())
    source:close()
    rn.yield()
  end)

  it("forgets taps that were closed", stage.within(function()
    local source = rn.chan()
    local latest = rn.latest(source)
    for i = 1, 100 do
      latest:tap():close()
      source:put(i)
    end
    assert.is_true(#latest.taps <= 1) -- the last one was closed after the last value but one
    latest:tap()
    source:close()
    stage.settle()
    assert.same({}, latest.taps)
  end))

  it("forgets taps that were closed, also if no value comes", stage.within(function()
    local source = rn.chan()
    local latest = rn.latest(source, "only")
    local open = {}
    for i = 1, 1000 do
      local tap <close> = latest:tap()
      assert.equal("only", tap:take())
      if i % 100 == 0 then open[#open + 1] = latest:tap() end
    end
    assert.is_true(#latest.taps < 50)
    source:put "next"
    stage.settle()
    for _, tap in ipairs(open) do assert.equal("next", tap:take()) end
    source:close()
  end))

  it("shows each tap the newest value last, whenever it comes, in every order", function()
    search.finds_nothing(function()
      local source = rn.chan()
      local latest = rn.latest(source)
      rn.go(function()
        for i = 1, 3 do source:put(i) end
        source:close()
      end)
      local readers = {}
      for i = 1, 2 do
        readers[i] = rn.go(function()
          local last = 0
          for value in latest:tap() do
            assert(value > last, "a value comes twice, or an older one after a newer one")
            last = value
          end
          return last
        end)
      end
      for i = 1, 2 do assert(readers[i]:take() == 3, "the newest value is missing") end
    end)
  end)

  it("says at the caller's line what is wrong", function()
    raises("latest: channel: a channel expected, got a number", function() rn.latest(1) end)
    local latest = rn.latest(rn.chan())
    raises("latest:tap: to: a channel expected, got a number", function() latest:tap(1) end)
    raises("latest.get: call it with a colon", function() latest.get() end)
    raises("latest.tap: call it with a colon", function() latest.tap() end)
  end)

  it("passes the error on to a tap that is open: once taken there, it is not reported", function()
    local reports = stage.report_texts(function()
      local from = rn.chan()
      local latest = rn.latest(from, 0)
      local first, second = latest:tap(), latest:tap()
      first:close()
      from:close "gone"
      assert.same({ 0, nil, "gone" }, { second:take(), second:take() })
    end)
    assert.same({}, reports)
  end)
end)
