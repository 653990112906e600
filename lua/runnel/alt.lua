---alt: alts with a function for each operation.

local core = require "runnel.core"
local check = require "runnel.check"

local alts_index = core.alts_index
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
---@param clauses table list of `{operation, function(value, port, err)}`; an operation is a channel to take from, or
---`{channel, value}` to put; the fields `priority` (boolean) and `default` (function)
---@return any ... what the chosen function returns; as a tail call, so that it may park
function select_alt.alt(clauses)
  check.table(clauses, "alt")
  local ops = {}
  for i = 1, #clauses do
    local clause = clauses[i]
    if type(clause) ~= "table" then
      local hint = "write {channel, function} or {{channel, value}, function}"
      error(("alt: clause %d is a %s; %s"):format(i, type(clause), hint), 2)
    end
    check.callable(clause[2], "alt: clause " .. i)
    ops[i] = clause[1]
  end
  local default = clauses.default
  check.callable_or_nil(default, "alt: default")
  local value, chosen, err = alts_index(ops, { priority = clauses.priority, nowait = default ~= nil })
  if chosen == "default" then return default() end
  local op = ops[chosen]
  return clauses[chosen][2](value, core.is_chan(op) and op or op[1], err)
end

return select_alt
