---The two ends of what runs between channels: where values come from, and where they go.

local core = require "runnel.core"

local alts = core.alts
local PRIORITY = { priority = true }

local ends = {}

---A function that takes the next value of `from`, or gives nil, and then the error of its closing, once `from` or `to`
---is closed. Nothing is taken once `to` is.
---@param from any
---@param to any
---@return fun(): any, any
function ends.source(from, to)
  local ops = { to:done(), from }
  return function()
    if to:closed() then return nil end
    local next_value = from:poll()
    if next_value ~= nil then return next_value end
    local value, _, err = alts(ops, PRIORITY)
    return value, err
  end
end

---A function that puts a value on `to`, and gives false once that is closed, even while it waits: nobody may ever take
---again, and no go block is to stay behind. Several go blocks may use it.
---@param to any
---@return fun(value: any): boolean
function ends.sink(to)
  local done = to:done()
  return function(value)
    local accepted = to:offer(value)
    if accepted ~= nil then return accepted end
    return (alts({ done, { to, value } }, PRIORITY)) or false
  end
end

return ends
