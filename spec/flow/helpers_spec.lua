-- Go blocks that a step or a source starts, and that put for it. The random flows have them, too.

local rn = require "runnel"
local flow = require "runnel.flow"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local MODES = {
  { n = 1 }, { n = 3 }, { n = 3, ordered = false }, { n = 1, tries = 2, backoff = 1 },
  { n = 3, tries = 2, backoff = 1 }, { n = 3, timeout = 1000 },
}

local function name_of(mode)
  return ("n = %d, ordered = %s, tries = %s, timeout = %s"):format(mode.n, mode.ordered, mode.tries, mode.timeout)
end

-- A flow from the numbers 1 to 6 through a step to a list.
local function flow_of(mode, step)
  local got = {}
  local options = { step = step }
  for key, value in pairs(mode) do options[key] = value end
  local f = flow("job", {
    numbers = { from = { 1, 2, 3, 4, 5, 6 } },
    step = options,
    save = { buffer = 1, function(value)
      rn.sleep(1)
      got[#got + 1] = value
    end },
    "numbers > step > save",
  }):start()
  return f, got
end

-- Puts the value twice, from two go blocks.
local function put_from_two(value, put)
  rn.scope(function(scope)
    for i = 0, 1 do
      scope:go(function()
        rn.sleep(7 * value % 5 + 1)
        put(value * 10 + i)
      end)
    end
  end)
end

local function sorted(list)
  table.sort(list)
  return list
end

local function tens(list)
  local firsts = {}
  for i, value in ipairs(list) do firsts[i] = value // 10 end
  return firsts
end

local ALL = { 10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61 }
local IN_ORDER = { 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6 }

describe("go blocks that put for a step", function()
  before_each(stage.open)
  after_each(stage.close)

  for _, mode in ipairs(MODES) do
    it("put in its turn, at the same time: " .. name_of(mode), function()
      sim.each_seed(10, function()
        local f, got = flow_of(mode, put_from_two)
        assert.is_true(f:wait())
        if mode.ordered ~= false then assert.same(IN_ORDER, tens(got)) end
        assert.same(ALL, sorted(got))
        assert.same({}, stage.others())
      end)
    end)

    it("hold up no stop, and what they have put is left: " .. name_of(mode), function()
      sim.each_seed(10, function(seed)
        local begun = {}
        local f, got = flow_of(mode, function(value, put)
          begun[value] = true
          put_from_two(value, put)
          begun[value] = false
        end)
        rn.sleep(seed)
        for _, entry in ipairs(f:stop()) do
          if entry.stage == "save" then got[#got + 1] = entry.value end
          if entry.stage == "step" then begun[entry.value] = nil end
        end
        local counts = {}
        for _, value in ipairs(got) do counts[value] = (counts[value] or 0) + 1 end
        for value, runs in pairs(begun) do
          assert.is_false(runs)
          assert.same({ 1, 1 }, { counts[value * 10], counts[value * 10 + 1] })
        end
        rn.sleep(1) -- those that were cancelled end
        assert.same({}, stage.others())
      end)
    end)

    it("get an error for a put after its end, and have not put: " .. name_of(mode), function()
      sim.each_seed(10, function()
        local refused = {}
        local f, got = flow_of(mode, function(value, put)
          rn.go(function()
            rn.sleep(5)
            local ok, err = pcall(put, value * 10)
            if not ok then refused[#refused + 1] = err end
          end)
          rn.sleep(value == 6 and 10 or 1)
        end)
        f:wait()
        rn.sleep(10)
        assert.same({ 60 }, got)
        assert.equal(5, #refused)
        for _, err in ipairs(refused) do
          assert.equal("put: the value was not put: flow: a call of job.step has ended; let it wait for the go blocks "
            .. "that put, as by rn.scope", err)
        end
      end)
    end)
  end

  it("get an error that names the line of their put", stage.sim(function()
    local err
    flow_of({}, function(value, put)
      rn.go(function()
        rn.sleep(10)
        local _
        _, err = pcall(function() put(value) end)
      end)
    end):wait()
    rn.sleep(20)
    assert.matches("helpers_spec.lua:%d+: put: the value was not put", err)
  end))

  it("put nothing for a later try of a value", function()
    sim.each_seed(10, function()
      local tried = 0
      local f, got = flow_of({ tries = 2, backoff = 1 }, function(value, put)
        if value ~= 1 then return end
        tried = tried + 1
        rn.go(pcall, function()
          rn.sleep(3)
          put("late")
        end)
        if tried == 1 then error "again" end
        rn.sleep(1)
        return "done"
      end)
      f:wait()
      assert.same({ "done" }, got)
    end)
  end)

  it("may be older than the call, as one that serves all calls", stage.sim(function()
    local asked = rn.chan()
    rn.go(function()
      for request in asked do
        request.put(request.value)
        request.done:close()
      end
    end)
    local f, got = flow_of({ n = 3 }, function(value, put)
      local done = rn.chan()
      asked:put { value = value, put = put, done = done }
      done:take()
    end)
    f:wait()
    asked:close()
    assert.same({ 1, 2, 3, 4, 5, 6 }, got)
  end))

  it("put into a cycle", function()
    for _, mode in ipairs(MODES) do
      sim.each_seed(5, function()
        local got = {}
        local options = { step = function(value, put)
          got[#got + 1] = value
          if value > 3 then return end
          rn.scope(function(scope)
            for i = 1, 2 do scope:go(put, value + i) end
          end)
        end }
        for key, value in pairs(mode) do options[key] = value end
        assert.is_true(flow("job", { one = { from = { 1 } }, grow = options, "one > grow >> grow" }):wait())
        assert.same({ 1, 2, 3, 3, 4, 4, 4, 5, 5 }, sorted(got))
      end)
    end
  end)
end)

describe("go blocks that put for a source", function()
  before_each(stage.open)
  after_each(stage.close)

  it("wait while it is paused, and end when the flow is drained", stage.sim(function()
    local got = {}
    local f = flow("job", {
      numbers = { source = function(put)
        rn.scope(function(scope)
          for i = 1, 2 do
            scope:go(function()
              while true do
                put(i)
                rn.sleep(1)
              end
            end)
          end
        end)
      end },
      save = function(value) got[#got + 1] = value end,
      "numbers > save",
    }):start()
    rn.sleep(5)
    f:pause "numbers"
    rn.sleep(5)
    local count = #got
    rn.sleep(5)
    assert.equal(count, #got)
    f:resume "numbers"
    rn.sleep(5)
    assert.is_true(#got > count)
    assert.is_true(f:drain())
    assert.same({}, stage.others())
  end))
end)
