---The two ends of a go block that moves values between channels: the source and the sink. Neither raises, except when
---the go block is cancelled: an error of a channel (a buffer policy that raises) must not stop the go block.

local core = require "runnel.core"
local guard = require "runnel.guard"
local internal = core.internal

local poll, alts, is_cancelled = internal.moving.poll, internal.moving.alts, internal.moving.is_cancelled
local offer, pass_on = core.methods.offer, internal.pass_on
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

---Makes a function that takes the next value of `from`. Once `from` or `to` is closed it returns nil and the error of
---the close, if any; after `to` is closed it takes nothing. An error that `from` raises counts as the error of its
---close. Now and then the function lets other go blocks run.
---@param from runnel.Channel<any>
---@param to runnel.Channel<any>
---@return fun(): any, any
function ends.source(from, to)
  local ops = { to:done(), from }
  return function() return unless_failed(pcall(next_of, from, to, ops)) end
end

-- `ops` and `put` are tables that each call uses again: alts copies them at once, so several go blocks may share them.
local function put_on(to, ops, put, value)
  local accepted = offer(to, value)
  if accepted ~= nil then return accepted end
  put[2] = value
  accepted = alts(ops, PRIORITY)
  put[2] = nil
  return accepted or false
end

---Makes a function that puts a value on `to` and returns whether it was accepted. When `to` closes, also a waiting put
---returns false, so that no go block is left behind. If `to` raises, the value is dropped and the error is reported.
---@param to runnel.Channel<any>
---@param what string what puts, for the error handler
---@return fun(value: any): boolean
function ends.sink(to, what)
  local put = { to }
  local ops = { to:done(), put }
  return function(value)
    local ok, accepted = guard.call(what, put_on, to, ops, put, value)
    return not ok or accepted
  end
end

---Closes a channel, and passes on an error that was just taken from another one: it then counts as not taken until
---somebody takes it from `to`. Without `to` the error is reported.
---@param to runnel.Channel<any>|nil|false nil or false: closes nothing
---@param err any
function ends.close(to, err)
  if err ~= nil then pass_on(err, to or nil) end
  guard.close(to, err)
end

return ends
