-- How go blocks end under attack. Other code resumes, closes, cancels and hooks them; hooks raise; `__close` of their
-- variables parks, raises or yields; all of it at any depth of nested C calls. Still each go block must end once, with
-- a value or an error, the other go blocks must not be affected, and the scheduler must stay consistent.
-- Run by tests/runner.c; see tests/adversary_support.lua.

local t = t -- luacheck: globals t
local rn = require "runnel"
local sim = require "runnel.sim"
local support = require "tests.adversary_support"

local random = math.random

local function one_of(list) return list[random(#list)] end

-- ---- programs ----

local KINDS = {
  "take", "put", "alts", "alts_time", "sleep", "yield", "result", "lost", "lost_timed", "other", "returns", "raises",
  "leaves", "scope",
}
local DEEDS = { "nothing", "sleep", "yield", "put", "alts", "raise", "leave", "catch", "collect", "spawn", "go" }
local EVENTS = { "c", "r", "l", "cr", "crl", "count" }
local MEDDLES = { "resume", "resume", "close", "close", "wrap", "cancel", "cancel", "hook", "look", "set", "run" }
local FROM = { "here", "here", "go", "coroutine", "finalizer", "deep" }

local function list_of(n, make)
  local list = {}
  for i = 1, n do list[i] = make() end
  return list
end

local function hook() return { event = one_of(EVENTS), at = random(12) } end

local function spawn()
  return {
    "spawn", kind = one_of(KINDS), pcall = random(3) == 1, depth = random(4) == 1 and random(150, 200) or nil,
    closes = list_of(random(0, 3), function() return one_of(DEEDS) end), hook = random(6) == 1 and hook() or nil,
  }
end

local function step()
  local n = random(12)
  if n <= 4 then return spawn() end
  if n <= 8 then
    return { "meddle", how = one_of(MEDDLES), from = one_of(FROM), block = random(20), hook = hook() }
  end
  if n == 9 then return { "serve", times = random(3) } end
  if n == 10 then return { "collect", times = random(3) } end
  if n == 11 then return { "deep", depth = random(150, 200) } end
  return { "turn", times = random(4) }
end

local function generate()
  local program = list_of(random(3, 30), step)
  program.sim = random(2) == 1
  program.leaves = program.sim and random(4) == 1
  return program
end

-- ---- playing them ----

-- Calls f(...) below `depth` nested C calls; returns what pcall returns.
local function at_depth(depth, f, ...)
  if depth <= 1 then return pcall(f, ...) end
  return select(2, pcall(at_depth, depth - 1, f, ...))
end

local function set_hook(hook_step, co)
  local n = 0
  local function raise()
    n = n + 1
    if n >= hook_step.at then error("hook", 0) end
  end
  local mask, count = hook_step.event, 0
  if mask == "count" then mask, count = "", 1 end
  if co then debug.sethook(co, raise, mask, count) else debug.sethook(raise, mask, count) end
end

-- A running program.
local Play = {}
Play.__index = Play

function Play:turn()
  if self.sim then rn.sleep(1) else rn.step() end
end

-- What variables do when they are closed.
local deeds = {
  nothing = function() end,
  sleep = function() rn.sleep(0.1) end,
  yield = function() rn.yield() end,
  put = function(play) play.ch:put "closing" end,
  alts = function(play) rn.alts { play.ch, play.other, rn.timeout(1) } end,
  raise = function() error("closing", 0) end,
  leave = function() coroutine.yield "nothing" end,
  catch = function(play) pcall(play.other.take, play.other) end,
  collect = function() collectgarbage() end,
  spawn = function(play) play.strays[#play.strays + 1] = rn.go(rn.yield) end,
  go = function() rn.go(function() return "inner" end):take() end,
}

local function wait_for_ever() return rn.chan():take() end

local kinds = {
  take = function(play) return play.ch:take() end,
  put = function(play) return play.ch:put "value" end,
  alts = function(play) return (rn.alts { play.ch, { play.other, 1 } }) end,
  alts_time = function(play) return (rn.alts { play.ch, rn.timeout(1), rn.chan() }) end,
  sleep = function() rn.sleep(0.2) end,
  yield = function() for _ = 1, 3 do rn.yield() end end,
  result = function(play) return rn.go(rn.sleep, play.leaves and 100 or 0.1):take() end,
  lost = function() return rn.go(wait_for_ever):take() end,
  lost_timed = function() return (rn.alts { rn.go(wait_for_ever), rn.timeout(2) }) end,
  other = function(play) return (rn.alts { one_of(play.blocks).result, one_of(play.blocks).result }) end,
  returns = function() return "returned" end,
  raises = function() error("raised", 0) end,
  leaves = function() coroutine.yield "nothing" end,
  scope = function()
    return rn.scope(function(s)
      s:go(rn.sleep, 0.2)
      s:go(function() rn.chan():take() end)
      rn.sleep(0.1)
    end, { timeout = 1 })
  end,
}

-- Runs f(...) with variables that do these deeds when they are closed.
local function with_variables(play, closes, i, f, ...)
  if i > #closes then return f(...) end
  local _ <close> = setmetatable({}, {
    __close = function()
      play.open = play.open - 1
      deeds[closes[i]](play)
    end,
  })
  play.open = play.open + 1
  return with_variables(play, closes, i + 1, f, ...) -- not a tail call, because there is a variable to close
end

local steps = {}

function steps.spawn(play, made)
  local block = { made = made }
  play.blocks[#play.blocks + 1] = block
  block.result = rn.go(function()
    block.co = coroutine.running()
    if block.is_ours == nil then block.is_ours = true end
    if made.hook then set_hook(made.hook) end
    local function body()
      local function wait() return kinds[made.kind](play) end
      if made.pcall then return select(2, pcall(wait)) end
      return wait()
    end
    if made.depth then return select(2, at_depth(made.depth, with_variables, play, made.closes, 1, body)) end
    return with_variables(play, made.closes, 1, body)
  end)
  -- Before the go block has begun, only the debug library gives access to its coroutine.
  block.co = debug.getuservalue(block.result, 1)
end

-- In meddles, whose errors are caught: what finish() then raises.
local function check(play, ok, what)
  if not ok then play.wrong = what end
end

local meddles = {
  resume = function(co, block, _, play)
    local list = table.pack(coroutine.resume(co, "meddled"))
    for i = 2, block.is_ours and list.n or 0 do
      check(play, type(list[i]) ~= "userdata" or rn.is_chan(list[i]), "resume has shown something internal")
    end
  end,
  close = function(co, block)
    if debug.gethook(co) then block.is_hooked = true end
    coroutine.close(co)
  end,
  wrap = function(co) pcall(coroutine.wrap(function() return coroutine.resume(co) end)) end,
  cancel = function(_, block) rn.cancel(block.result, "cancelled") end,
  hook = function(co, _, made) set_hook(made.hook, co) end,
  look = function(co, _, _, play)
    check(play, type(coroutine.status(co)) == "string" and type(debug.traceback(co)) == "string", "no traceback")
    for level = 0, 5 do
      if not debug.getinfo(co, level) then break end
      for i = 1, 5 do debug.getlocal(co, level, i) end
    end
    for _, entry in ipairs(rn.ps()) do check(play, type(entry.name) == "string", "rn.ps gives no name") end
  end,
  set = function(co)
    for level = 1, 5 do
      local info = debug.getinfo(co, level, "S")
      if not info then break end
      local name = debug.getlocal(co, level, 1)
      -- Not what a for loop has for itself: Lua relies on its type.
      if info.what == "Lua" and name and not name:find "^%(" then debug.setlocal(co, level, 1, false) end
    end
  end,
  run = function(_, _, _, play) if not play.sim then rn.run() end end,
}

function steps.meddle(play, made)
  local block = play.blocks[(made.block - 1) % #play.blocks + 1]
  if not block then return end
  local ran
  local function meddle()
    ran = true
    -- Where a stranger begins it, Lua returns with its results the guard, which is at the bottom of its stack.
    if made.how == "resume" or made.how == "wrap" then block.is_ours = block.is_ours or false end
    -- Lua raises an error for some operations on dead and running coroutines.
    pcall(meddles[made.how], block.co, block, made, play)
  end
  if made.how == "set" and coroutine.status(block.co) ~= "suspended" then return end
  if made.from == "here" then meddle()
  elseif made.from == "deep" then at_depth(170, meddle)
  elseif made.from == "coroutine" then coroutine.wrap(meddle)()
  elseif made.from == "go" then
    rn.go(meddle)
    play:turn()
  else
    setmetatable({}, { __gc = function() if not ran then meddle() end end })
    collectgarbage()
  end
end

function steps.serve(play, made)
  for _ = 1, made.times do
    play.ch:offer "served"
    play.ch:poll()
    play.other:poll()
  end
end

function steps.collect(_, made) for _ = 1, made.times do collectgarbage() end end

function steps.turn(play, made) for _ = 1, made.times do play:turn() end end

-- Runs go blocks below nested C calls.
function steps.deep(play, made)
  at_depth(made.depth, function()
    if play.sim then
      local inner = rn.go(function() return "inner" end)
      assert(inner:take() == "inner")
    else
      assert(rn.run(function() return rn.go(function() return "inner" end):take() end) == "inner")
    end
  end)
end

-- Checks that go blocks that nobody has attacked work as usual.
local function check_innocent(play)
  local ch, n = rn.chan(), 0
  local putter = rn.go(function()
    for i = 1, 5 do ch:put(i) end
    ch:close()
    return "put"
  end)
  local taker = rn.go(function()
    for v in ch do
      n = n + 1
      assert(v == n)
    end
    return "taken"
  end)
  for _ = 1, 20 do play:turn() end
  assert(n == 5 and putter:poll() == "put" and taker:poll() == "taken", "a go block that nobody attacked has failed")
end

-- Ends the go blocks that are left, and checks how each has ended.
function Play:finish()
  check_innocent(self)
  for _ = 1, 40 do
    local alive = false
    for _, block in ipairs(self.blocks) do
      if not block.result:closed() then
        alive = true
        rn.cancel(block.result, "the end")
      end
    end
    for _, stray in ipairs(self.strays) do alive = alive or not stray:closed() end
    if not alive then break end
    self:turn()
    self.ch:poll()
    self.other:poll()
  end
  for i, block in ipairs(self.blocks) do
    -- A hook that raises may keep the guard from being called, which ends a go block that other code closes.
    local is_lost = block.is_hooked and coroutine.status(block.co) == "dead"
    assert(block.result:closed() or is_lost, ("go block %d (%s) has not ended"):format(i, block.made.kind))
    block.result:poll()
    assert(block.result:poll() == nil, "a result was delivered twice")
  end
  check_innocent(self)
  assert(not self.wrong, self.wrong)
end

local function play(program)
  rn.on_error(function() end)
  local here = setmetatable({
    ch = rn.chan(), other = rn.chan(1), blocks = {}, strays = {}, open = 0, sim = program.sim,
    leaves = program.leaves,
  }, Play)
  local function all()
    for _, made in ipairs(program) do
      if made[1] ~= "meddle" or #here.blocks > 0 then steps[made[1]](here, made) end
      if not program.sim then t.invariants() end
    end
    if not program.leaves then here:finish() end
  end
  if program.sim then sim.run(all) else all() end
  if not program.leaves then return end
  -- The simulation has dropped the go blocks that were ready or asleep; others still wait, some of them for those.
  for _, block in ipairs(here.blocks) do pcall(coroutine.close, block.co) end
  t.invariants()
end

support.main({ name = "go", generate = generate, play = play }, ...)
