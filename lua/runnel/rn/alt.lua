---alt: alts with a function for each operation.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local sign = require "runnel.internal.sign"
local raise = core.internal.raise

local alts_index = core.internal.alts_index
---@class runnel.alt
local select_alt = {}

---Does exactly one of several operations and calls its function. Source: core.async's alt!.
---
---    local answer = rn.alt {
---      { results, function(v) return v end },          -- take
---      { { log, "waiting" }, function(ok) return ok end }, -- put
---      { rn.timeout(1000), function() return nil, "timeout" end },
---      priority = true,                                -- try in this order; else each is equally likely
---      default = function() return nil, "nothing ready" end, -- instead of waiting
---    }
---
---@param clauses table a list of `{operation, function(value, port, err)}`; an operation is a channel to take from, or
---`{channel, value}` to put. Optional fields: `priority` (boolean) and `default` (function)
---@return any ... what the chosen function returns. The function may park
function select_alt.alt(clauses)
  sign.dot(clauses, "rn", "alt")
  if type(clauses) ~= "table" then
    raise(("alt: a list of clauses expected, got %s; write rn.alt { { channel, function }, ... }")
      :format(check.article(clauses)))
  end
  -- Copies the clauses, because the caller may change them while this waits.
  local ops, ports, functions = {}, {}, {}
  for i = 1, #clauses do
    local clause = clauses[i]
    if type(clause) ~= "table" or clause[1] == nil then
      local what = type(clause) == "table" and "has no operation" or "is " .. check.article(clause)
      raise(("alt: clause %d %s; write {channel, function} or {{channel, value}, function}"):format(i, what))
    end
    local op, f = clause[1], clause[2]
    check.callable(f, "alt: clause " .. i)
    ops[i], functions[i] = op, f
    ports[i] = type(op) == "table" and op[1] or op
  end
  for key in next, clauses, #clauses > 0 and #clauses or nil do
    local number = math.tointeger(key)
    if number and (number < 1 or number > #clauses) then
      raise(("alt: clause %d is nil, although the list goes on"):format(#clauses + 1))
    elseif not number and key ~= "priority" and key ~= "default" then
      raise("alt: " .. check.unknown(key, { default = true, priority = true }))
    end
  end
  local default = clauses.default
  check.callable_or_nil(default, "alt: default")
  local value, chosen, err = alts_index(ops, { priority = clauses.priority, nowait = default ~= nil })
  if chosen == "default" then return default() end
  return functions[chosen](value, ports[chosen], err)
end

return select_alt
