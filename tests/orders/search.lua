---The outcomes of a program in all orders, and with sim.explore's option share = "channels".

local core = require "runnel.core"
local current = require "runnel.internal.world"
local programs = require "tests.orders.programs"

local explorer = core.internal.explore
local search = {}

-- Programs with more orders are left out. A search with the option may begin again a few times.
local MOST, AGAIN = 3000, 10

-- The kind of an error: what comes after that names lines, and go blocks in the order of their numbers.
local function ending(ok, err)
  if ok then return nil end
  return tostring(err):match "^[^\n]*"
end

---@param program tests.Program
---@param shares boolean
---@return table<string, true>? outcomes nil if there are too many orders
---@return integer orders
---@return string? problem
function search.outcomes(program, shares)
  local run, outcome = programs.runner(program)
  local e = explorer.new(1000, false)
  if shares then explorer.share(e, not program.leaks) end
  local most = shares and MOST * AGAIN or MOST
  local found, n, runs, keys, problem = {}, 0, 0, {}, nil
  local before = core.on_error(function() end)
  repeat
    local ok, _, err, at = current.run(nil, explorer.run, e, run, program.leaks, "path", 0)
    local is_asleep = shares and select(2, explorer.shared(e))
    if at then error("astray: " .. tostring(at)) end
    runs = runs + 1
    if not is_asleep then
      n = n + 1
      found[outcome(ending(ok, err))] = true
    end
    local goes_on = explorer.backtrack(e)
  until not goes_on or runs > most
  for seed = 1, shares and runs <= most and 6 or 0 do
    local ok, _, err = current.run(nil, explorer.run, e, run, program.leaks, nil, 1, seed)
    if not found[outcome(ending(ok, err))] then problem = "an unknown outcome: " .. outcome(ending(ok, err)) end
    local key = explorer.shared(e)
    keys[#keys + 1] = key
  end
  for _, key in ipairs(keys) do
    if not explorer.is_known(e, key) then problem = "an unknown order of what depends on each other" end
  end
  core.on_error(before)
  if runs > most then return nil, runs end
  return found, n, problem
end

---Compares both searches of the program with this seed.
---@param seed integer
---@return string? difference
---@return integer? orders nil: it has too many
---@return integer? reduced
function search.compare(seed)
  local program = programs.random(seed)
  local all, orders = search.outcomes(program, false)
  if not all then return nil end
  local some, reduced, problem = search.outcomes(program, true)
  local lines = {}
  for outcome in pairs(all) do
    if not (some or all)[outcome] then lines[#lines + 1] = "not found: " .. outcome end
  end
  for outcome in pairs(some or {}) do
    if not all[outcome] then lines[#lines + 1] = "only there: " .. outcome end
  end
  if not some then lines[1] = "it has more orders with share than without" end
  lines[#lines + 1] = problem
  local text = ("seed %d\n%s\n%d orders, %d with share = \"channels\"\n%s"):format(seed, program.text, orders, reduced,
    table.concat(lines, "\n"))
  return lines[1] and text or nil, orders, reduced
end

return search
