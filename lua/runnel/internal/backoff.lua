---How often a failing operation is tried, and the delay before the next try: for retry and pmap.

local core = require "runnel.core"
local check = require "runnel.internal.check"

local random = core.internal.seed -- seeded by a simulation, unlike math.random

local TRIES, FIRST, LONGEST = 3, 100, 60000

local backoff = {}

---Checks the options `tries` and `backoff`.
---@param opts { tries?: integer, backoff?: number }
---@param what string the function that has them
---@param default? integer how many tries there are if the options do not tell; default 3
---@return integer tries
---@return number first ms
function backoff.options(opts, what, default)
  local tries, first = opts.tries, opts.backoff
  if tries == nil then tries = default or TRIES end
  check.integer(tries, 1, what .. ": tries")
  if first == nil then first = FIRST end
  check.ms(first, 0, what .. ": backoff")
  return tries, first
end

---The delay after a failed try: `first` ms after the first, doubled after each further one, up to a minute, or `first`
---if that is longer. A random part between half and all of that, so that callers that failed together do not retry
---together.
---@param first number
---@param tried integer how many tries have failed
---@return number ms
function backoff.pause(first, tried)
  local whole = first
  if tried > 1 then -- 0 times a power that is infinite would be no number
    whole = math.min(first * 2.0 ^ math.min(tried - 1, 1000), math.max(first, LONGEST))
  end
  return whole / 2 * (1 + random() / 0xFFFFFFFF)
end

return backoff
