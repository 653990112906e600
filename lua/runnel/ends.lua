---The two ends of what runs between channels: where values come from, and where they go. Neither end raises, but for
---the error with which the go block is cancelled: what runs between them must not stop because a channel fails (a
---buffer policy that raises).

local core = require "runnel.core"
local guard = require "runnel.guard"

local poll, alts, is_cancelled = core.moving.poll, core.moving.alts, core.moving.is_cancelled
local offer, pass_on = core.methods.offer, core.pass_on
local PRIORITY = { priority = true }

local ends = {}

local function is_callable(value)
  local meta = getmetatable(value)
  return type(value) == "function" or type(meta) == "table" and meta.__call ~= nil
end

---An iterator over a list, or the iterator itself.
---@param source any a list (up to its first nil), or an iterator
---@return (fun(): any)? next_value nil where the source is neither
function ends.iterator(source)
  if is_callable(source) then return source end
  if type(source) ~= "table" then return nil end
  local i = 0
  return function()
    i = i + 1
    return source[i]
  end
end

local function next_of(from, to, ops)
  local value = poll(from, to)
  if value ~= nil then return value end
  local _, err
  value, _, err = alts(ops, PRIORITY)
  return value, err
end

local function unless_failed(ok, value, err)
  if ok then return value, err end
  if is_cancelled(value) then error(value, 0) end
  return nil, value
end

---A function that takes the next value of `from`, or gives nil, and then the error of its closing, once `from` or `to`
---is closed. Nothing is taken once `to` is. Where `from` raises, that is the error of its closing. Now and then it lets
---other go blocks run.
---@param from runnel.Channel<any>
---@param to runnel.Channel<any>
---@return fun(): any, any
function ends.source(from, to)
  local ops = { to:done(), from }
  return function() return unless_failed(pcall(next_of, from, to, ops)) end
end

-- `ops` and `put` are tables to use: alts copies them at once, so that any number of go blocks may wait with them.
local function put_on(to, ops, put, value)
  local accepted = offer(to, value)
  if accepted ~= nil then return accepted end
  put[2] = value
  accepted = alts(ops, PRIORITY)
  put[2] = nil
  return accepted or false
end

---A function that puts a value on `to`, and gives false once that is closed, even while it waits: nobody may ever take
---again, and no go block is to stay behind. Where `to` raises, the value is dropped and the error handler called.
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

---Closes a channel with the error that has just been taken from another one, if there is one: whoever takes it from
---there has heard of it. One that goes no further is reported.
---@param to runnel.Channel<any>|nil|false nothing is closed without one
---@param err any
function ends.close(to, err)
  if err ~= nil then pass_on(err, to or nil) end
  guard.close(to, err)
end

return ends
