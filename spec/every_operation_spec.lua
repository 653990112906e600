---Every operation of the manual that starts go blocks, ended in each state in which these wait: by closing what it
---returns, and by cancelling each of its go blocks. Nothing may stay behind or be reported, and what was cancelled must
---close what it feeds with the reason.

local rn = require "runnel"
local endings = require "spec.support.endings"
local long = require "spec.support.long"
local pages = require "spec.support.docs.pages"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

local names = sorted_keys(endings.operations)

-- ---- what is left ----

-- The entries of ps for go blocks of the library.
local function blocks()
  local list = {}
  for _, entry in ipairs(stage.entries()) do
    if entry.name:find "^[%a_]+ at " then list[#list + 1] = entry end
  end
  return list
end

local function is_left() return #blocks() > 0 end

local function assert_none(when)
  -- What waits on channels that nothing else can reach is garbage: the first cycles note what was parked.
  for _ = 1, 4 do
    if is_left() then collectgarbage() end
  end
  for _, entry in ipairs(blocks()) do
    error(("%s, a go block is left: %s: %s at %s"):format(when, entry.name, entry.operation or entry.state,
      entry.where), 0)
  end
end

-- What takers get at the end of channels: a list of { is_over, err, count }, which fills as they run.
local function take_all(chs, pause)
  local found = {}
  for i, ch in ipairs(chs) do
    found[i] = { is_over = false, err = nil, count = 0 }
    rn.go(function()
      rn.rename "test taker"
      local value, err
      repeat
        if pause then pause() end
        value, err = ch:take()
        if value ~= nil then found[i].count = found[i].count + 1 end
      until value == nil
      found[i].is_over, found[i].err = true, err
    end)
  end
  return found
end

-- ---- ending ----

local function close(started)
  if started.close then return started.close() end
  for _, ch in ipairs(started.outs) do ch:close() end
end

local function close_sources(s)
  for _, ch in ipairs(s.sources) do ch:close() end
end

-- Closes what an operation returns, and checks that it ends.
local function check_close(started, s)
  close(started)
  stage.settle()
  if started.jobs_finish then s.release() end
  if started.ends_with_source then
    s.release()
    close_sources(s)
  end
  rn.sleep(100)
  assert_none "closed"
end

-- Cancels a go block, and checks what follows.
local function check_cancel(started, s, entry, found)
  rn.cancel(entry.result, "killed")
  entry = nil -- luacheck: ignore
  stage.settle()
  found = found or take_all(started.outs)
  s.release()
  rn.sleep(1000)
  local killed = 0
  for i, one in ipairs(found) do
    local is_whole = started.is_finite and one.count == (started.values or one.count)
    if one.is_over and (one.err == "killed" or one.err == nil and is_whole) then killed = killed + 1
    elseif not (started.is_shared or started.is_handled) then
      error(("output %d: %s"):format(i, one.is_over and "closed with " .. tostring(one.err) or "not closed"), 0)
    end
  end
  if killed == 0 and not started.is_handled then error("no output has closed with the reason", 0) end
  close_sources(s)
  rn.sleep(100)
  assert_none "cancelled"
end

-- ---- states ----

local function never() return false end

local function always() return true end

-- In which its go blocks wait, some time after it was started.
local states = {
  ["for a value"] = { false, never },
  ["to put"] = { true, never },
  ["in a function of the program's"] = { true, always },
  ["behind the first call of such a function"] = { true, function(call) return call == 1 end },
}

-- Calls f(started, setting) with an operation in that state.
local function within(name, state, f)
  stage.forget()
  sim.run(function()
    local s = endings.setting(table.unpack(states[state]))
    local started = endings.operations[name](s)
    rn.sleep(100)
    f(started, s)
  end)
  local heard = stage.heard()
  if #heard > 0 then error(("%s was reported: %s"):format(heard[1].err, heard[1].trace), 0) end
end

-- The functions of the manual's tables that start no go block of the library which feeds a channel, or that are tried
-- elsewhere: a new function must be here or among the operations.
local OTHERS = {
  ["start none"] = [[after alt alts buffer cancel chan cores counter driver dropping_buffer each_line exit file
    gauge go graph histogram is_chan is_reduced is_timeout leaks metrics now on_error priority_buffer profile
    promise_chan ps reduced rename run shared_chan sleep sliding_buffer step timeout timers trace traceparent
    unblocking_buffer xf yield]],
  ["of mults, mixes and publications"] = [[admix solo_mode sub tap toggle unmix unmix_all unsub unsub_all untap
    untap_all]],
  ["in calls of the program's, which it cancels"] = "retry scope shield supervise",
  ["in spec/rn/thread_spec.lua"] = "thread threads",
}

-- The functions that the first column of a table in the manual names.
local function in_the_manual()
  local found = {}
  for _, path in ipairs(pages.of "docs/manual") do
    for head in pages.read(path):gmatch "\n| (`[^|]*) |" do
      for name in head:gmatch "`rn%.([%l_]+)" do found[name] = true end
    end
  end
  return found
end

describe("every operation that starts go blocks,", function()
  before_each(stage.open)
  after_each(stage.close)

  it("as the manual lists them, is among those that are tried here", function()
    local known = {}
    for _, list in pairs(OTHERS) do
      for name in list:gmatch "[%l_]+" do
        known[name] = true
        assert.is_not_nil(rn[name], name)
      end
    end
    for _, name in ipairs(names) do known[name:match "^[%l_]+"] = true end
    local listed = in_the_manual()
    for name in pairs(listed) do assert.is_true(known[name], "rn." .. name .. " is not tried") end
    for name in pairs(rn) do assert.is_true(known[name], "rn." .. name .. " is not tried") end
    for _, name in ipairs(names) do assert.is_true(listed[name:match "^[%l_]+"], name) end
  end)

  for _, name in ipairs(names) do
    describe(name, function()
      for _, state in ipairs(sorted_keys(states)) do
        it("ends once its result is closed while it waits " .. state, function() within(name, state, check_close) end)

        it("closes its targets with the reason if a go block is cancelled that waits " .. state, function()
          local at, n = 1, 1
          while at <= n do
            within(name, state, function(started, s)
              local list = blocks()
              n = #list
              if list[at] then check_cancel(started, s, list[at]) end
            end)
            at = at + 1
          end
        end)
      end
    end)
  end

  -- rn.retry and rn.scope wait for go blocks of the program's: what ends is the call.
  for name, call in pairs {
    retry = function(s) rn.retry(function(v) return s.f(v) end, { timeout = 1e6 }, 1) end,
    ["retry between two tries"] = function() rn.retry(error, { backoff = 1000 }, "bad", 0) end,
    scope = function(s)
      rn.scope(function(scope)
        scope:go(s.f, 1)
        rn.chan():take()
      end, { timeout = 1e6 })
    end,
    ["shield with a grace that is over"] = function(s)
      rn.shield(function() s.f(1) end, { grace = 10 })
    end,
    ["supervise while its children run"] = function(s)
      rn.supervise { { "a", function() s.f(1) end }, { "b", function() s.f(2) end } }
    end,
    ["supervise between two starts"] = function()
      rn.supervise({ { "a", error, again = "always" } }, { backoff = 1000, ex_handler = function() end })
    end,
  } do
    it(name .. " ends, with all that it has started, once its caller is cancelled", stage.within(function()
      local s = endings.setting(true, always)
      local caller = rn.go(call, s)
      rn.sleep(10)
      rn.cancel(caller, "killed")
      assert.same({ nil, "killed" }, { caller:take() })
      assert.same({}, stage.others())
      local passed = sim.elapsed()
      assert.is_true(passed < 100)
    end))
  end

  -- A source that nothing else can reach is garbage once what takes from it has ended.
  for name, start in pairs {
    rate = function(from) return rn.rate(from, 10, 100) end,
    batch = function(from) return rn.batch(from, 2, 5) end,
    pipe = function(from) return rn.pipe(from, rn.chan()) end,
    pmap = function(from) return rn.pmap(2, function(v) return v end, from) end,
  } do
    it(name .. " leaves no source behind that only it could reach, once its result is closed", stage.sim(function()
      local out = start(rn.pipe(rn.to_chan(function() return 1 end), rn.chan()))
      out:take()
      out:close()
      rn.sleep(1)
      assert_none "closed"
    end))
  end

  -- A random operation in a random state is closed or one of its go blocks is cancelled, while its sources and its
  -- takers go on.
  local function random_program(seed)
    local random = math.random
    math.randomseed(seed)
    local name, slow = names[random(#names)], random(4)
    local parked, moment, cancels = random(12), random(0, 40), random(2) == 1
    local function pause()
      if random(slow) > 1 then rn.sleep(random(0, 4)) end
    end
    stage.forget()
    local ok, err = pcall(sim.run, function()
      local s = endings.setting(random(5) > 1, function(call) return call == parked end, pause)
      local started = endings.operations[name](s)
      local found = take_all(started.outs, pause)
      rn.sleep(moment)
      local list = blocks()
      if not cancels or #list == 0 then return check_close(started, s) end
      check_cancel(started, s, list[random(#list)], found)
    end, { seed = seed, shuffle = random(2) == 1 })
    local heard = stage.heard()
    if ok and #heard > 0 then ok, err = false, ("%s was reported: %s"):format(heard[1].err, heard[1].trace) end
    if not ok then error(("seed %d, %s, %s: %s"):format(seed, name, cancels and "cancelled" or "closed", err), 0) end
  end

  it("whatever the state, the moment and the order", function()
    for seed = 1, long.times(400, 8000) do random_program(seed) end
  end)
end)
