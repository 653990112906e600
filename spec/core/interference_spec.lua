local long = require "spec.support.long"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

-- Blocks that do random things to a few channels while they are meddled with: coroutines closed and resumed by others,
-- channels dropped, finalizers that use them, the collector at any moment. Whatever happens, no value is taken twice,
-- the scheduler goes on, and in the end nothing is left.
local function interfere(seed)
  local function below(n) return math.random(n) end
  math.randomseed(seed)
  local chans, coroutines, seen, count = {}, {}, {}, 0
  local function new_chan()
    local kind = below(7)
    if kind == 1 then return rn.chan(below(3)) end
    if kind == 2 then return rn.chan(rn.sliding_buffer(2)) end
    if kind == 3 then return rn.chan(rn.priority_buffer(2, function() return false end)) end
    if kind == 4 then return rn.chan(2, function(rf) return function(...) return rf(...) end end) end
    return rn.chan()
  end
  for i = 1, 6 do chans[i] = new_chan() end
  local function any() return chans[below(6)] end
  local function value()
    count = count + 1
    return count
  end
  local function take(v)
    if v == nil or v == true or v == false or v == "default" then return end
    assert(not seen[v], "taken twice")
    seen[v] = true
  end

  local act
  local acts = {
    function() any():put(value()) end,
    function() take((any():take())) end,
    function() any():put(value()) end,
    function() take((any():take())) end,
    function() any():offer(value()) end,
    function() take((any():poll())) end,
    function()
      local v = rn.alts({ any(), { any(), value() }, any(), rn.timeout(below(30)) }, { priority = below(2) == 1 })
      take(v)
    end,
    function() take((rn.alts { any(), any() })) end,
    function() rn.sleep(below(20) / 4) end,
    function() rn.yield() end,
    function() if below(4) == 1 then any():close(below(2) == 1 and "why" or nil) end end,
    function() chans[below(6)] = new_chan() end, -- drops a channel and the operations that wait on it
    function() any():take_async(take) end,
    function() any():put_async(value()) end,
    function() if below(3) == 1 then error "on purpose" end end,
    function() pcall(error, "caught") end,
    function()
      local co = coroutines[below(#coroutines)]
      if co ~= coroutine.running() and coroutine.status(co) == "suspended" then coroutine.close(co) end
    end,
    function()
      local co = coroutines[below(#coroutines)]
      if co ~= coroutine.running() and coroutine.status(co) == "suspended" then coroutine.resume(co, 1, 2, 3) end
    end,
    function()
      local ch = any()
      setmetatable({}, { __gc = function()
        local what = below(5)
        if what == 1 then ch:close() elseif what == 2 then take((ch:poll())) else ch:offer(value()) end
        if what == 3 then rn.go(act, 2) end
      end })
    end,
    function() collectgarbage "step" end,
    function() if below(5) == 1 then collectgarbage() end end,
    function() rn.go(act, below(5)) end,
    function()
      local ch, mine = any(), any()
      local _ <close> = setmetatable({}, { __close = function()
        take((mine:poll()))
        ch:offer(value())
      end })
      take((mine:take()))
    end,
    function() rn.go(act, below(3)):take() end,
    function() rn.pipe(any(), rn.chan(rn.sliding_buffer(1))) end, -- to nobody
    function() any():done():take() end,
    function() assert(#rn.ps() > 0) end,
  }
  function act(n)
    coroutines[#coroutines + 1] = coroutine.running()
    if #coroutines > 20 then table.remove(coroutines, below(19)) end
    for _ = 1, n do acts[below(#acts)]() end
  end

  for _ = 1, 15 do rn.go(act, 30) end
  for _ = 1, 60 do
    rn.sleep(1)
    if below(10) == 1 then collectgarbage() end
  end
  for i = 1, 6 do chans[i] = rn.chan() end
  coroutines = {}
  rn.sleep(1000)
end

describe("go blocks that interfere with each other at random", function()
  before_each(stage.open)
  after_each(stage.close)

  for _, mode in ipairs { "incremental", "generational" } do
    it(("leave everything consistent, with the %s collector #ci"):format(mode), function()
      collectgarbage(mode)
      for seed = 1, long.times(60, 1500) do
        local ok, err = pcall(sim.run, interfere, { seed = seed, shuffle = seed % 2 == 0 }, seed)
        if not ok then error(("with seed %d: %s"):format(seed, tostring(err)), 0) end
        for _, heard in ipairs(stage.heard()) do
          if tostring(heard.err):find "twice" then error(("with seed %d: %s"):format(seed, heard.err), 0) end
        end
        if seed % 10 == 0 then
          for _ = 1, 4 do collectgarbage() end
          stage.heard()
          -- What finalizers have started is all that may be left.
          rn.run()
          for _ = 1, 4 do collectgarbage() end
          stage.heard()
        end
      end
      collectgarbage "incremental"
      for _ = 1, 4 do
        rn.run()
        for _ = 1, 4 do collectgarbage() end
      end
      stage.heard()
      assert.same({}, stage.others())
    end)
  end
end)
