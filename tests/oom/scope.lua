-- Scopes: results, an error, a timeout, cancelling from within and from outside, nested ones. None of their go blocks
-- is left when they have ended.
local t = ...
local rn = require "runnel"

local N = 5
local results, outcomes, living, begun = {}, {}, {}, {}
for i = 1, N do results[i], outcomes[i], living[i], begun[i] = false, "none", 0, 0 end
local oops = { "oops" }
local REASON = { "reason" }
local FOREVER, never = math.huge, rn.chan() -- a wait that only cancelling ends
local left = 0

local guards = {}
for i = 1, N do guards[i] = setmetatable({}, { __close = function() living[i] = living[i] - 1 end }) end

-- Counts the go block as one of scope i while it runs.
local function work(i, ms, err)
  living[i] = living[i] + 1
  begun[i] = begun[i] + 1
  local guard <close> = guards[i]
  if guard and ms == FOREVER then never:take() end
  rn.sleep(ms)
  if err then error(err) end
  return i
end

local bodies = {
  function(s)
    local a, b = s:go(work, 1, 0), s:go(work, 1, 1)
    return a:take(), b:take()
  end,
  function(s)
    s:go(work, 2, FOREVER)
    s:go(work, 2, 0, oops)
    work(2, FOREVER)
  end,
  function(s)
    s:go(work, 3, FOREVER)
    work(3, FOREVER)
  end,
  function(s)
    for _ = 1, 3 do s:go(work, 4, FOREVER) end
    rn.yield()
    s:cancel(REASON)
    return "enough"
  end,
  function(s)
    s:go(work, 5, FOREVER)
    rn.scope(function(inner)
      inner:go(work, 5, FOREVER)
      work(5, FOREVER)
    end)
  end,
}
local OPTS = { [1] = { timeout = 200 }, [3] = { timeout = 0 } }

local function attempt()
  for i = 1, N do
    local go = i == N and rn.go or t.go -- who cancels a go block, as below, has given its error up
    results[i] = go(function()
      local ok, a = pcall(rn.scope, bodies[i], OPTS[i])
      if living[i] ~= 0 then left = left + 1 end
      outcomes[i] = ok and "fine" or a
    end)
  end
  rn.yield()
  rn.yield()
  rn.yield()
  rn.cancel(results[N], REASON)
  for i = 1, N do
    for _ in results[i] do error "no result" end -- a loop leaves the error to be reported
  end
end

local function check()
  -- A scope that could not cancel its go blocks, for lack of memory, still waits for them. Cancels them now.
  for _ = 1, 5 do
    for _, entry in ipairs(rn.ps()) do rn.cancel(entry.result, "cleared away") end
    rn.yield()
  end
  -- Without memory to wait, a scope cancels its go blocks and does not wait for them.
  assert(left == 0 or t.refused() > 0, "a go block has outlived its scope")
  for i = 1, N do assert(living[i] == 0, "a go block has not ended") end
  assert(#rn.ps() == 0, "a go block is left")
  if t.refused() > 0 then return end
  assert(outcomes[1] == "fine" and outcomes[2] == oops and outcomes[4] == "fine" and outcomes[5] == REASON)
  assert(rn.is_timeout(outcomes[3]))
  assert(t.reports() == 0 and begun[4] == 3 and begun[5] == 3)
end

return attempt, check
