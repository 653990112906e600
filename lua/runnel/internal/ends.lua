---What a go block that moves values between channels takes from, its source, and puts on, its sink. An error that a
---channel raises (because its buffer policy did) does not end the go block; only its cancellation does.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local internal = core.internal

local poll, alts, is_cancelled = internal.moving.poll, internal.moving.alts, internal.moving.is_cancelled
local offer, pass_on = core.methods.offer, internal.pass_on
local PRIORITY = { priority = true }

local ends = {}

---An iterator over a list, or the iterator itself.
---@param source any a list (up to its first nil), or an iterator
---@return (fun(): any)? next_value nil where the source is neither
function ends.iterator(source)
  if check.is_callable(source) then return source end
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

---Makes a function that takes the next value from `from`. Once `from` is closed and drained, or `to` is closed, it
---returns nil and the error of the close, if any. Once `to` is closed, it takes nothing more. An error that `from`
---raises is treated as the error with which it closed. The function lets other go blocks run after 128 values.
---@param from runnel.Channel<any>
---@param to runnel.Channel<any>
---@return fun(): any, any
function ends.source(from, to)
  local ops = { to:done(), from }
  return function() return unless_failed(pcall(next_of, from, to, ops)) end
end

-- Each call reuses the tables `ops` and `put`. Several go blocks may share them, because alts copies them at once.
local function put_on(to, ops, put, value)
  local accepted = offer(to, value)
  if accepted ~= nil then return accepted end
  put[2] = value
  accepted = alts(ops, PRIORITY)
  put[2] = nil
  return accepted or false
end

---Makes a function that puts a value on `to` and returns whether it was accepted. If `to` closes while the put waits,
---the function returns false, so that the go block can end. If `to` raises, the value is dropped and the error is
---reported.
---@param to runnel.Channel<any>
---@param what string what the error handler calls the one who puts
---@return fun(value: any): boolean
function ends.sink(to, what)
  local put = { to }
  local ops = { to:done(), put }
  return function(value)
    local ok, accepted = guard.call(what, put_on, to, ops, put, value)
    return not ok or accepted
  end
end

---Closes a channel with an error that was just taken from another one. The error then counts as not taken until
---somebody takes it from `to`. Without `to` it is reported.
---@param to runnel.Channel<any>|nil|false nil or false: there is no channel to close
---@param err any
function ends.close(to, err)
  if err ~= nil then pass_on(err, to or nil) end
  guard.close(to, err)
end

return ends
