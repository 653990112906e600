---Searches with sim.explore, for specs. A spec checks which failure is found, and not how short its story is: the
---schedule is not made shorter, since that takes longer than the search.

local explore = require "runnel.search.explore"
local long = require "spec.support.long"
local patience = require "spec.support.patience"
local sim = require "runnel.sim"

local search = {}

-- The limits of searches, in s: of one that ends when it finds a bug; of one that must find nothing.
local LONG <const>, SHORT <const> = 60, long.times(0.05, 2)

---A search that must fail. Raises unless the message matches.
---@param pattern string
---@param test fun()
---@param opts? table further options of sim.explore
---@return string message
function search.finds(pattern, test, opts)
  local options = { seconds = LONG * patience.factor() }
  for name, value in pairs(opts or {}) do options[name] = value end
  local before = explore.shortening
  explore.shortening = 0
  local ok, message = pcall(sim.explore, test, options)
  explore.shortening = before
  if ok then error("the search has found nothing: " .. tostring(message), 2) end
  if not tostring(message):find(pattern) then
    error(("it has found, in place of %q: %s"):format(pattern, message), 2)
  end
  return message
end

---A search for a while that must find nothing. On a slow machine, the time may be over before a run had a place for
---each fault: then it takes longer.
---@param test fun()
function search.finds_nothing(test)
  local seconds = SHORT * patience.factor()
  local ok, problem
  repeat
    ok, problem = pcall(sim.explore, test, { seconds = seconds })
    seconds = 4 * seconds
  until ok or not tostring(problem):find "no run had a place for it" or seconds > LONG
  if not ok then error(problem, 0) end
end

---Searches that must find a bug in test(false), and nothing in test(true), the program without the bug.
---@param pattern string
---@param test fun(is_mended: boolean)
---@return string message
function search.finds_bug(pattern, test)
  local message = search.finds(pattern, function() test(false) end)
  search.finds_nothing(function() test(true) end)
  return message
end

---A search of all schedules, none of which may fail.
---@param test fun()
function search.all(test)
  local explored = sim.explore(test, { seconds = 5 * LONG })
  if not explored.all then error("the time was not enough: " .. tostring(explored), 2) end
end

---A search of all schedules in the long form, else for a while, none of which may fail.
---@param test fun()
function search.all_if_long(test)
  return (long.is_long and search.all or search.finds_nothing)(test)
end

return search
