-- Calls that look at everything let the others run meanwhile.
local rn = require "runnel"
local stage = require "spec.support.stage"

local N <const> = 9000

-- N go blocks that wait, each on a channel of its own.
local function many()
  local chs = {}
  for i = 1, N do
    chs[i] = rn.chan()
    rn.go(function() return chs[i]:take() end)
  end
  rn.sleep(1)
  return chs
end

local function finish(chs)
  for _, ch in ipairs(chs) do ch:close() end
  rn.graph(false)
  rn.metrics(false)
end

-- Calls f, and returns how many turns another go block had meanwhile, and what f has returned.
local function turns_of(f)
  local turns, stop = 0, false
  rn.go(function()
    while not stop do
      turns = turns + 1
      rn.yield()
    end
  end)
  rn.yield()
  local before = turns
  local result = f()
  stop = true
  return turns - before, result
end

-- What walks over all go blocks or channels, and how many rows it does between two turns, at most.
local CALLS = {
  ["rn.ps"] = { rows = 500, call = function() return #rn.ps() end },
  ["rn.graph, the first call"] = { rows = 500, call = rn.graph },
  ["rn.graph"] = { rows = 100, before = rn.graph, call = rn.graph },
  ["rn.metrics, the first call"] = { rows = 500, call = rn.metrics },
  ["rn.metrics"] = { rows = 500, before = rn.metrics, call = function() return rn.metrics().go_blocks.parked end },
}

describe("a call that looks at everything", function()
  before_each(stage.open)
  after_each(stage.close)

  for name, one in pairs(CALLS) do
    it("lets the others run #ci: " .. name, stage.sim(function()
      local chs = many()
      if one.before then one.before() end
      local turns, n = turns_of(one.call)
      assert.is_true(turns >= N // one.rows - 1, turns)
      assert.is_true(type(n) == "table" or n >= N, n)
      finish(chs)
    end))
  end

  it("runs them outside of go blocks, too", function()
    local chs, ran = {}, false
    for i = 1, N do
      chs[i] = rn.chan()
      rn.go(function() return chs[i]:take() end)
    end
    rn.go(function() ran = true end)
    assert.is_true(#rn.ps() >= N)
    assert.is_true(ran)
    finish(chs)
    rn.run()
  end)

  it("gives the whole answer where nothing can wait", stage.sim(function()
    local chs, n = many(), nil
    local ch = rn.chan(1)
    ch:put(1)
    local turns = turns_of(function()
      ch:take_async(function() n = #rn.ps() end)
      return n
    end)
    assert.equal(0, turns)
    assert.is_true(n > N)
    finish(chs)
  end))

  it("has a few rows at once, without a turn", stage.sim(function()
    local ch = rn.chan()
    for _ = 1, 400 do rn.go(function() ch:take() end) end
    rn.yield()
    assert.equal(0, (turns_of(rn.ps)))
    ch:close()
  end))

  it("lists each go block once, in order, that lives all the time, whatever the others do", stage.sim(function()
    local chs, stop = many(), false
    local stays = {}
    for _, row in ipairs(rn.ps()) do stays[row.id] = true end
    local ended = 0
    rn.go(function() -- ends every other one, starts new ones, and collects
      for i = 2, N, 2 do
        chs[i]:close()
        ended = ended + 1
        if i % 100 == 0 then
          rn.go(function() rn.sleep(1) end)
          rn.yield()
        end
        if i % 1000 == 0 then collectgarbage() end
        if stop then return end
      end
    end)
    local seen, last = {}, 0
    for _, row in ipairs(rn.ps()) do
      assert.is_true(row.id > last)
      last = row.id
      seen[row.id] = true
    end
    stop = true
    assert.is_true(ended > 0)
    rn.sleep(2)
    for _, row in ipairs(rn.ps()) do assert(seen[row.id] or not stays[row.id], "one is missing") end
    finish(chs)
  end))
end)
