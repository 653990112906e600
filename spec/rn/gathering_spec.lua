-- Merges and mixes against a model: one go block that takes by alts.
local core = require "runnel.core"
local explore = require "runnel.search.explore"
local guard = require "runnel.internal.guard"
local long = require "spec.support.long"
local patience = require "spec.support.patience"
local policy = require "spec.support.policy"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

-- ---- the model ----

-- What a mix is, without regard to its cost. `ways` says of each input whether its values are put ("put"), dropped
-- ("drop") or not taken (nil); `change` wakes it.
local function model(inputs, out, ways, change, closes)
  guard.go(guard.close, out, function()
    local open = { table.unpack(inputs) }
    while not out:closed() do
      local ops = { out:done(), change }
      for _, ch in ipairs(open) do
        if ways[ch] then ops[#ops + 1] = ch end
      end
      if closes and #open == 0 then return out:close() end
      local value, port = rn.alts(ops)
      if value == nil and port ~= out:done() then
        for i, ch in ipairs(open) do
          if ch == port then table.remove(open, i) end
        end
      elseif value ~= nil and port ~= change and ways[port] ~= "drop" then
        core.internal.moving.put_while_open(out, value)
      end
    end
  end)
end

-- Two ways to make the same: of the library, and of the model. Each returns the output, and a function that sets an
-- input to "put", "drop" or "pause".
local kinds = {
  merge = {
    library = function(inputs, size) return rn.merge(inputs, size) end,
    model = function(inputs, size)
      local out, ways = rn.chan(size), {}
      for _, ch in ipairs(inputs) do ways[ch] = "put" end
      model(inputs, out, ways, rn.chan(), true)
      return out
    end,
  },
  mix = {
    library = function(inputs, size)
      local out = rn.chan(size)
      local m = rn.mix(out)
      for _, ch in ipairs(inputs) do m:admix(ch) end
      return out, function(ch, way) m:toggle { [ch] = { mute = way == "drop", pause = way == "pause" } } end
    end,
    model = function(inputs, size)
      local out, ways, change = rn.chan(size), {}, rn.chan(rn.sliding_buffer(1))
      for _, ch in ipairs(inputs) do ways[ch] = "put" end
      model(inputs, out, ways, change)
      return out, function(ch, way)
        ways[ch] = way ~= "pause" and way or nil
        change:offer(true)
      end
    end,
  },
}

-- ---- small programs ----

-- A random program: of each input its buffer and how many values it gets, the buffer of the output, how many values are
-- taken before it is closed (or all), and a change of an input after so many.
local function draw()
  local p = { inputs = {}, size = math.random(0, 1), takes = math.random(0, 3), closes = math.random(2) == 1 }
  for i = 1, math.random(1, 2) do p.inputs[i] = { size = math.random(0, 1), n = math.random(1, 2) } end
  p.change = math.random(3) == 1 and { at = math.random(0, p.takes), way = ({ "drop", "pause" })[math.random(2)] }
  return p
end

-- Runs it once, and returns what has happened, as a text.
local function run(p, make)
  local inputs, log = {}, {}
  for i, input in ipairs(p.inputs) do inputs[i] = rn.chan(input.size) end
  local out, set = make(inputs, p.size)
  for i, input in ipairs(p.inputs) do
    rn.go(function()
      for k = 1, input.n do
        if not inputs[i]:offer(i * 10 + k) then inputs[i]:put(i * 10 + k) end
      end
      inputs[i]:close()
    end)
  end
  local function note()
    for _, ch in ipairs(inputs) do
      local stats = ch:stats()
      log[#log + 1] = ("%d/%d"):format(stats.take_total, stats.takes_waiting)
    end
  end
  rn.sleep(1)
  for i = 0, p.takes do
    if i > 0 then log[#log + 1] = tostring((out:poll())) end
    if set and p.change and p.change.at == i then set(inputs[1], p.change.way) end
    if i % 2 == 0 then
      rn.sleep(1)
      note()
    end
  end
  if p.closes then out:close() end
  rn.sleep(1)
  note()
  out:close()
  rn.sleep(1)
  note()
  for _, ch in ipairs(inputs) do
    for _ in ch do end
  end
  return table.concat(log, " ")
end

-- Searches end after so many schedules, whatever the speed of the machine.
local MOST <const> = 3000

-- What has happened in the schedules of a search, and whether these were all.
local function outcomes(p, make)
  local seen, usual = {}, explore.most_schedules
  explore.most_schedules = MOST
  local ok, found = pcall(sim.explore, function() seen[run(p, make)] = true end, { seconds = 600 })
  explore.most_schedules = usual
  assert(ok, found)
  return seen, found.all
end

describe("inputs that take turns", function()
  before_each(stage.open)
  after_each(stage.close)

  for _, kind in ipairs { "merge", "mix" } do
    it(("do nothing that one go block with an alts could not do: %s, in every order"):format(kind), function()
      local seed = tonumber(os.getenv "SEED" or "") or 1
      math.randomseed(seed)
      local compared = 0
      for i = 1, long.times(20, 500) do
        local p = draw()
        local may, is_all = outcomes(p, kinds[kind].model)
        for outcome in pairs(is_all and outcomes(p, kinds[kind].library) or {}) do
          compared = compared + 1
          assert(may[outcome], ("SEED=%d, program %d: %s"):format(seed, i, outcome))
        end
      end
      assert.is_true(compared > 20, compared)
    end)
  end

  for _, kind in ipairs { "merge", "mix" } do
    local make = kinds[kind].library

    it(("have one value at a time: %s of a thousand"):format(kind), stage.sim(function()
      local inputs, accepted = {}, 0
      for i = 1, 1000 do inputs[i] = rn.chan() end
      local out = make(inputs)
      rn.sleep(1)
      for i = 1, 1000 do
        rn.go(function()
          if inputs[i]:put(i) then accepted = accepted + 1 end
        end)
      end
      for n = 1, 1001 do
        rn.sleep(1)
        assert.equal(math.min(n, 1000), accepted)
        if n <= 1000 then assert.is_number(out:take()) end
      end
      out:close()
    end))

    it(("stay in the queues of idle inputs: %s"):format(kind), stage.sim(function()
      local busy, idle, got = rn.chan(), rn.chan(), nil
      local out = make { busy, idle }
      rn.sleep(1)
      rn.go(function() got = idle:take() end)
      for i = 1, 100 do
        busy:put(i)
        assert.equal(i, out:take())
      end
      idle:put "first"
      assert.equal("first", out:take())
      idle:put "second"
      rn.sleep(1)
      assert.equal("second", got)
      out:close()
    end))

    it(("take an offer, unless one has a value: %s"):format(kind), stage.sim(function()
      local a, b = rn.chan(), rn.chan()
      local out = make { a, b }
      rn.sleep(1)
      assert.is_true(a:offer(1))
      assert.is_not_true(b:offer(2))
      rn.sleep(1)
      assert.is_not_true(b:offer(2))
      assert.equal(1, out:take())
      rn.sleep(1)
      assert.is_true(b:offer(3))
      assert.equal(3, out:take())
      out:close()
    end))
  end

  it("pass their turn on when they are paused", stage.sim(function()
    local a, b, out = rn.chan(2), rn.chan(), rn.chan()
    local m = rn.mix(out)
    m:admix(a)
    m:admix(b)
    a:put(1)
    a:put(2)
    rn.sleep(1) -- it waits to put 1
    m:toggle { [a] = { pause = true } }
    rn.go(function() b:put(3) end)
    assert.equal(1, out:take())
    assert.equal(3, out:take())
    rn.sleep(1)
    assert.is_nil(out:poll())
    m:toggle { [a] = { pause = false } }
    assert.equal(2, out:take())
    out:close()
  end))

  for _, kind in ipairs { "merge", "mix" } do
    local make = kinds[kind].library

    it(("take after the collector has passed many times: %s"):format(kind), function()
      local inputs = {}
      for i = 1, 20 do inputs[i] = rn.chan(i % 2) end
      local out = make(inputs)
      for round = 1, 4 do
        for _ = 1, round do
          rn.sleep(2)
          collectgarbage()
        end
        for i, ch in ipairs(inputs) do
          ch:put(i)
          assert.equal(i, out:take())
        end
      end
      out:close()
    end)

    it(("end when nothing can reach the inputs and the output: %s"):format(kind), function()
      for _ = 1, 20 do make { rn.chan(), rn.chan(1) } end
      rn.sleep(1)
      assert.is_true(#stage.others() >= 20)
      patience.wait_for(function()
        rn.sleep(2)
        collectgarbage()
        return #stage.others() == 0
      end)
    end)
  end

  it("pass on the error of an input that closes while another value is put, and of one that closes while they wait",
    stage.sim(function()
      for late = 0, 1 do
        local a = rn.chan()
        local b = rn.go(function()
          rn.sleep(2 + late * 2)
          error("broken", 0)
        end)
        local out = rn.merge { a, b }
        rn.sleep(1)
        a:put(1)
        rn.sleep(2) -- it waits to put 1
        assert.equal(1, out:take())
        rn.sleep(2)
        a:close()
        assert.same({ nil, "broken" }, { out:take() })
        assert.same({}, stage.heard())
      end
    end))

  it("are shown as one go block that waits for all of them", stage.sim(function()
    local inputs = { rn.chan(), rn.chan(), rn.chan() }
    local out = rn.merge(inputs)
    rn.sleep(1)
    local rows = {}
    for _, row in ipairs(rn.ps()) do
      if row.name:find("merge", 1, true) then rows[#rows + 1] = row end
    end
    assert.equal(1, #rows)
    assert.equal("alts", rows[1].operation)
    for i, ch in ipairs(inputs) do assert.equal(ch, rows[1].channels[i + 1]) end
    out:close()
  end))

  it("end when the go block that takes is cancelled, with its error", stage.sim(function()
    local a, b = rn.chan(), rn.chan()
    local out = rn.merge { a, b }
    rn.go(function() a:put(1) end)
    rn.go(function() b:put(2) end)
    rn.sleep(1)
    for _, row in ipairs(rn.ps()) do
      if row.operation == "put" and row.name:find "merge" then rn.cancel(row.result, "stop") end
    end
    assert.same({ nil, "stop" }, { out:take() })
    rn.sleep(1)
    assert.is_true(a:closed() or a:stats().takes_waiting == 0)
    assert.equal(0, b:stats().takes_waiting)
    assert.equal(2, b:take())
  end))

  it("end when the buffer policy of an input closes the output while it is asked", stage.sim(function()
    local out
    local input = rn.chan(policy.queue(1, { count = function()
      if out then out:close() end
      return 0
    end }))
    local other = rn.chan()
    out = rn.merge { other, input }
    rn.sleep(1)
    assert.is_nil(out:take())
    assert.same({ 0, 0 }, { other:stats().takes_waiting, input:stats().takes_waiting })
  end))

  it("take from channels of other threads as well, and lose nothing", function()
    local a, b, plain = rn.shared_chan(), rn.shared_chan(2), rn.chan()
    local out = rn.merge { a, b, plain }
    for i = 1, 3 do
      rn.go(function()
        local ch = ({ a, b, plain })[i]
        for k = 1, 20 do ch:put(i * 100 + k) end
        ch:close()
      end)
    end
    local last, n = {}, 0
    for value in out do
      local i = value // 100
      assert.equal((last[i] or 0) + 1, value % 100)
      last[i], n = value % 100, n + 1
    end
    assert.equal(60, n)
  end)
end)
