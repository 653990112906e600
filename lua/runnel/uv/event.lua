---Events as channels: signals and ticks.

local check = require "runnel.internal.check"
local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local loop = require "runnel.uv.loop"
local signals = require "runnel.uv.signals"
local raise = core.internal.raise

local uv = loop.uv
local chan = core.chan

-- How many signals wait for a take; later ones are dropped.
local SIGNALS = 16

---@class runnel.uv.event
local event = {}

-- ---- signals ----

local function number_of(name)
  if type(name) ~= "string" then
    return nil, "the name of a signal expected, got " .. check.article(name)
  end
  local full = name:lower()
  if full:sub(1, 3) ~= "sig" then full = "sig" .. full end
  if not uv.constants[full:upper()] then return nil, ("there is no signal %q"):format(name) end
  return full
end

---Makes a channel of the signals that the program gets. These signals have no other effect until the channel closes, or
---is unreachable and no take waits on it. A signal waits until it is taken; a second Ctrl-C (`int`) ends the program if
---the first one has not been taken.
---@param ... string the names of the signals, as in `uv.signal("int", "term")`
---@return runnel.Channel<string> names the names, as they were passed
function event.signal(...)
  local wanted = {}
  for i = 1, math.max(1, select("#", ...)) do
    local name = (select(i, ...))
    local full, problem = number_of(name)
    if not full then raise("signal: " .. problem) end
    wanted[i] = { name = name, full = full }
  end
  loop.check "signal"
  local ch = chan(SIGNALS)
  signals.catch(ch, wanted)
  return ch
end

-- ---- time ----

local function tick(ch, ms)
  local start, n = core.now(), 0
  while true do
    n = math.max(n, (core.now() - start) // ms) + 1
    core.sleep(math.max(0, start + n * ms - core.now()))
    if not ch:put(math.tointeger(n)) then return end
  end
end

---Makes a channel of ticks at a fixed rate: the numbers 1, 2, 3 and so on. A tick waits until it is taken; ticks that
---come due meanwhile are skipped.
---@param ms number from one tick to the next
---@return runnel.Channel<integer> numbers
function event.ticker(ms)
  if type(ms) ~= "number" or not (ms > 0 and ms < math.huge) then
    raise("ticker: a number of ms above 0 expected, got " .. check.describe(ms))
  end
  local ch = chan()
  guard.started(guard.go_while_open(ch, guard.close, ch, tick, ch, ms), "uv.ticker")
  return ch
end

return event
