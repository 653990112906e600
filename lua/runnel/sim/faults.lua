---The faults of a simulated world: which of them happen where is a choice of the search, within a limit for each kind.

local check = require "runnel.internal.check"
local current = require "runnel.internal.world"
local core = require "runnel.core"

local choose, note = core.internal.explore.choose, core.internal.explore.note

-- What there is, for messages.
local NAMES = {
  refuse = true, reset = true, delay = true, short = true, silent = true, dns = true, stale = true, emfile = true,
  enospc = true, eio = true, slow = true, unsynced = true, torn = true, crash = true, leader = true,
  lost = true, twice = true,
}

---@class runnel.sim.Faults
---@field left table<string, integer> how many more of each there may be
---@field more integer how many more of all
---@field total integer how many of all there may be in one run
---@field places integer at how many places a fault could have happened so far
---@field odds integer? where faults are random, one happens at one in this many places; nil: the number is chosen so
---that about as many happen as the limits allow
---@field happened integer how many there were
local Faults = {}
Faults.__index = Faults

-- Whether the world is one of sim.explore, where files take time unless the program says otherwise.
local function is_search() return current.seen ~= nil and current.seen.places ~= nil end

---@param wanted? table<string, integer>
---@param rate? number
---@return runnel.sim.Faults
local function new(wanted, rate)
  check.options(wanted, NAMES, "sim.world: faults")
  local left, total = {}, 0
  for name, n in pairs(wanted or {}) do
    check.integer(n, 0, ("sim.world: faults: %s"):format(name))
    left[name], total = n > 0 and n or nil, total + n
    if current.seen and n > 0 then current.seen.asked[name] = true end
  end
  if is_search() and not (wanted and wanted.slow) then left.slow, total = 1, total + 1 end
  local odds = rate and math.max(1, math.min(1 << 20, 1 / rate // 1)) // 1 | 0 or nil
  return setmetatable({ left = left, more = total, total = total, places = 0, odds = odds, happened = 0 }, Faults)
end

local UNSEARCHED_ODDS = 10

---Whether a fault may happen.
---@param name string
---@return boolean
function Faults:may(name) return self.left[name] ~= nil end

-- A random fault happens at one in this many places.
function Faults:chances()
  if self.odds then return self.odds end
  local places = current.seen and current.seen.places
  if not places then return UNSEARCHED_ODDS end
  return math.max(2, places // self.total)
end

---Chooses whether one of these faults happens here. Returns its name, or nil.
---@param names string[]
---@return string?
function Faults:choose(names)
  if self.more == 0 then return nil end
  local left, seen = self.left, current.seen
  local n, first = 0, nil
  for i = 1, #names do
    local name = names[i]
    if left[name] then
      n = n + 1
      first = first or name
      if seen then seen.possible[name] = true end
    end
  end
  if n == 0 then return nil end
  self.places = self.places + 1
  if current.notes then note(0) end -- the story does not show the choice, but what follows from it
  local chosen = choose(n + 1, self:chances())
  if seen and seen.places and self.places > seen.places then seen.places = self.places end
  if chosen == 1 then return nil end
  local chosen_name = first
  if n > 1 then
    local at = chosen - 1
    for i = 1, #names do
      if left[names[i]] then
        at = at - 1
        if at == 0 then chosen_name = names[i] break end
      end
    end
  end
  local more = left[chosen_name] - 1
  left[chosen_name] = more > 0 and more or nil
  self.more, self.happened = self.more - 1, self.happened + 1
  return chosen_name
end

---In a search, chooses whether something happens that in reality may happen at any time, so that it is no fault.
---@return boolean
function Faults:perhaps()
  if not is_search() then return false end
  return self:way(2) == 2
end

---Chooses one of n ways in which a fault happens.
---@param n integer
---@return integer
function Faults:way(n) -- luacheck: ignore 212
  if current.notes then note(0) end
  return choose(n)
end

return { new = new, NAMES = NAMES }
