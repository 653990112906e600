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

---A search that must find nothing, and is long enough: on a slow machine, the time may be over before a run had a place
---for each fault, or before the runs have shown what they must show. Then it is repeated, and takes longer.
---@param is_enough fun(result: any): any gets what sim.explore returns
---@param test fun()
---@param opts? table further options of sim.explore; `seconds`: of the first search
---@return any result the last one
function search.until_enough(is_enough, test, opts)
  local options = { seconds = SHORT * patience.factor() }
  for name, value in pairs(opts or {}) do options[name] = value end
  local is_over = patience.limit(1000 * LONG)
  while true do
    local ok, result = pcall(sim.explore, test, options)
    local is_done = ok and (result.all or is_enough(result))
    if is_done or is_over() then return ok and result or error(result, 0) end
    if not ok and not tostring(result):find "no run had a place for" then error(result, 0) end
    options.seconds = 4 * options.seconds
  end
end

---A search for a while that must find nothing.
---@param test fun()
function search.finds_nothing(test)
  search.until_enough(function() return true end, test)
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
