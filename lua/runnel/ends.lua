---The two ends of what runs between channels: where values come from, and where they go. Neither end raises: what runs
---between them must not stop because a channel fails (a buffer policy that raises, or too many who wait on it).

local core = require "runnel.core"
local guard = require "runnel.guard"

local alts = core.alts
local PRIORITY = { priority = true }

local ends = {}

local function next_of(from, to, ops)
  if to:closed() then return nil end
  local next_value = from:poll()
  if next_value ~= nil then return next_value end
  local value, _, err = alts(ops, PRIORITY)
  return value, err
end

local function unless_failed(ok, value, err)
  if ok then return value, err end
  return nil, value
end

---A function that takes the next value of `from`, or gives nil, and then the error of its closing, once `from` or `to`
---is closed. Nothing is taken once `to` is. Where `from` raises, that is the error of its closing.
---@param from runnel.Channel<any>
---@param to runnel.Channel<any>
---@return fun(): any, any
function ends.source(from, to)
  local ops = { to:done(), from }
  return function() return unless_failed(pcall(next_of, from, to, ops)) end
end

-- `ops` and `put` are tables to use: alts copies them at once, so that any number of go blocks may wait with them.
local function put_on(to, ops, put, value)
  local accepted = to:offer(value)
  if accepted ~= nil then return accepted end
  put[2] = value
  accepted = alts(ops, PRIORITY)
  put[2] = nil
  return accepted or false
end

---A function that puts a value on `to`, and gives false once that is closed, even while it waits: nobody may ever take
---again, and no go block is to stay behind. Where `to` raises, the value is dropped and the error handler told.
---@param to runnel.Channel<any>
---@param what string for the error handler: who puts
---@return fun(value: any): boolean
function ends.sink(to, what)
  local put = { to }
  local ops = { to:done(), put }
  return function(value)
    local ok, accepted = guard.call(what, put_on, to, ops, put, value)
    return not ok or accepted
  end
end

return ends
