-- Leaks: go blocks that are collected while they wait.
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local here = debug.getinfo(1, "S").short_src

-- Leaks that are new since the last call.
local known = {}
local function new_leaks()
  local list = {}
  for _, leak in ipairs(rn.leaks(true)) do
    local key = leak.started .. leak.where .. leak.operation
    if leak.count ~= known[key] then
      list[#list + 1] = leak
      leak.count, known[key] = leak.count - (known[key] or 0), leak.count
    end
  end
  return list
end

local function place(f) return here .. ":" .. debug.getinfo(f, "S").linedefined end

describe("rn.leaks", function()
  before_each(function()
    stage.open()
    new_leaks()
  end)
  after_each(stage.close)

  it("counts go blocks by the line that has started them, with an example of what they waited for", function()
    local function job(ch) return (ch:take()) end
    for i = 1, 1000 do rn.go(job, rn.chan():name("reply " .. i)) end
    rn.run()
    local leaks = new_leaks()
    assert.equal(1, #leaks)
    assert.same({ count = 1000, started = place(job), where = place(job), operation = "take" },
      { count = leaks[1].count, started = leaks[1].started, where = leaks[1].where, operation = leaks[1].operation })
    assert.matches("^take on chan: reply %d+$", leaks[1].example)
  end)

  it("tells waits in different lines apart, the most frequent first", function()
    local function job(i)
      if i % 3 == 0 then rn.chan():put(1)
      else
        rn.alts { rn.chan():name "a", { rn.chan():name "b", 1 } }
      end
    end
    for i = 1, 9 do rn.go(job, i) end
    rn.run()
    local leaks = new_leaks()
    assert.equal(2, #leaks)
    assert.same({ 6, "alts", "alts on chan: a, chan: b" }, { leaks[1].count, leaks[1].operation, leaks[1].example })
    assert.same({ 3, "put" }, { leaks[2].count, leaks[2].operation })
  end)

  it("tells sites apart that differ only in their file, their lines or the operation, in any order", function()
    local jobs, expected = {}, {}
    for _, empty in ipairs { 0, 16, 32 } do
      for operation, call in pairs { take = "ch:take()", put = "ch:put(1)" } do
        for _, file in ipairs { "a.lua", "b.lua" } do
          local text = ("\n"):rep(empty) .. "return function(ch)\n" .. call .. " end"
          jobs[#jobs + 1] = assert(load(text, "@" .. file))()
          expected[("%s:%d %s:%d %s"):format(file, empty + 1, file, empty + 2, operation)] = 50
        end
      end
    end
    for _ = 1, 50 do
      for _, job in ipairs(jobs) do rn.go(job, rn.chan()) end
    end
    rn.run()
    local counts = {}
    for _, leak in ipairs(new_leaks()) do
      counts[leak.started .. " " .. leak.where .. " " .. leak.operation] = leak.count
    end
    assert.same(expected, counts)
  end)

  it("names go blocks of the library after the call that has started them", function()
    rn.pipe(rn.chan(), rn.chan())
    local line = debug.getinfo(1, "l").currentline - 1
    rn.run()
    local leaks = new_leaks()
    assert.equal(1, #leaks)
    assert.same({ 1, ("pipe at %s:%d"):format(here, line) }, { leaks[1].count, leaks[1].started })
  end)

  it("counts none that still wait, are woken after a long time, end, or are cancelled", function()
    local held, ended = { chans = {}, blocks = {} }, 0
    for i = 1, 40 do
      local ch = rn.chan()
      held.chans[i] = ch
      held.blocks[i] = rn.go(function()
        ch:take()
        ended = ended + 1
      end)
    end
    rn.run()
    assert.same({}, new_leaks())
    for i = 1, 20 do held.chans[i]:put(i) end
    for i = 21, 30 do held.chans[i]:close() end
    for i = 31, 40 do rn.cancel(held.blocks[i], "enough") end
    rn.run()
    assert.equal(30, ended)
    held.chans, held.blocks = nil, nil
    assert.same({}, new_leaks())
  end)

  it("counts no callbacks, and leaves their names alone", function()
    local called = 0
    local function call() called = called + 1 end
    local held = { rn.chan() }
    for i = 1, 20 do
      local ch = i == 1 and held[1] or rn.chan()
      ch:take_async(call)
    end
    rn.run()
    assert.same({}, new_leaks())
    local names = {}
    for _, entry in ipairs(stage.entries()) do names[#names + 1] = entry.name end
    assert.same({ place(call) }, names)
    held[1]:put(1)
    rn.run()
    assert.equal(1, called)
  end)

  it("counts none whose coroutine other code closes", function()
    local held = { ch = rn.chan() }
    rn.go(function()
      held.co = coroutine.running()
      held.ch:take()
    end)
    rn.run()
    assert.same({}, new_leaks())
    coroutine.close(held.co)
    held.co, held.ch = nil, nil
    assert.same({}, new_leaks())
  end)

  it("counts none that a finalizer wakes at the last moment", function()
    local woken = false
    do
      local ch = rn.chan()
      rn.go(function() woken = ch:take() end)
      setmetatable({}, { __gc = function() ch:offer(true) end })
    end
    rn.run()
    rn.leaks(true)
    rn.run()
    assert.is_true(woken)
    assert.same({}, new_leaks())
  end)

  it("counts neither hidden go blocks nor, in place of them, others, whatever results they have got before", function()
    local function total()
      local n = 0
      for _, leak in ipairs(rn.leaks(true)) do n = n + leak.count end
      return n
    end
    rn.go(function() rn.chan():take() end)
    rn.run()
    local before = total()
    local first, second = rn.chan(), rn.chan()
    for _ = 1, 3 do
      require "runnel.core".internal.trace.hide(rn.go(function()
        first:take()
        second:take()
      end))
    end
    rn.run()
    first:close()
    rn.run()
    assert.equal(before, total()) -- they are weak roots now
    second:close()
    rn.run()
    assert.equal(before, total())
  end)

  it("does not collect unless it is asked to", function()
    rn.go(function() rn.chan():take() end)
    rn.run()
    collectgarbage "stop"
    local count = #rn.leaks()
    collectgarbage "restart"
    assert.equal(1, #new_leaks())
    assert.is_true(count < #rn.leaks())
  end)

  it("says what is wrong with its argument", function()
    assert.has_error(function() rn.leaks "all" end, "leaks: collect: true or false expected, got a string")
  end)
end)

describe("of the blocking kernels of GoBench, as parts of a program that goes on,", function()
  local goker = require "spec.support.goker"
  local names, bugs = goker.names, goker.bugs

  local function count()
    local n = 0
    for _, leak in ipairs(rn.leaks()) do n = n + leak.count end
    return n
  end

  -- Searches for a schedule after which go blocks of the kernel are collected while they wait.
  local function explore(program, is_correct, seconds)
    return pcall(sim.explore, function()
      local before = count()
      rn.go(program, is_correct)
      rn.sleep(1e6) -- in virtual time: all that happens has happened
      if #rn.ps() == 1 then return end
      rn.leaks(true)
      if count() > before then error("leaked", 0) end
    end, { seconds = seconds, steps = 600, leaks = false })
  end

  for _, name in ipairs(names) do
    it(name .. " is counted", function()
      local ok, message = explore(bugs[name], false, 1000)
      assert.is_false(ok)
      assert.matches("^sim.explore: error: leaked", message)
    end)

    it(name .. " is not, once corrected", function()
      local ok, result = explore(bugs[name], true, 0.02)
      if not ok then error(result, 0) end
    end)
  end
end)
