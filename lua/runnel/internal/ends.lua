---The source and the sink of a go block that moves values between channels. An error raised by a channel (that is, by
---its buffer policy) does not end the go block; only cancellation does.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local internal = core.internal

local next_value, is_plain, move = internal.moving.next, internal.moving.is_plain, internal.job.deliver
local put_while_open, is_cancelled = internal.moving.put_while_open, internal.is_cancelled
local pass_on = internal.pass_on

local ends = {}

---Iterators that cannot be called alone: what is left of `f(pairs(list))` and `f(ipairs(list))`. In a simulation, each
---pairs has one of its own (runnel.internal.ordered).
ends.NEED_STATE = setmetatable({ [next] = true, [(ipairs {})] = true }, { __mode = "k" })

---An iterator over a list, or the iterator itself.
---@param source any a list without holes, or an iterator
---@return (fun(): any)? next_value nil where the source is neither
---@return string? got what it is instead, for a message
function ends.iterator(source)
  if ends.NEED_STATE[source] then
    return nil, "one that needs what pairs and ipairs return beside it: pass the list itself"
  end
  if check.is_callable(source) then return source end
  if type(source) ~= "table" then return nil, check.article(source) end
  if check.has_only_keys(source) then
    return nil, "a table with keys but no values 1, 2, ..."
  end
  local hole = check.hole_of(source)
  if hole then
    return nil, ("a list with a hole: element %d is nil, although the list goes on; use false, or leave it out")
      :format(hole)
  end
  local i = 1
  return function()
    local value = source[i]
    if value ~= nil then i = i + 1 end -- several workers may find the end
    return value
  end
end

local function unless_failed(ok, value, _, err)
  if ok then return value, nil, err end
  if is_cancelled(value) then error(value, 0) end
  return nil, nil, value
end

---Makes a function that takes the next value from `from`. Once `from` is closed and drained, or `to` is closed, it
---returns nil, nil and the error of the close, if any. Once `to` is closed, it takes nothing more. If `from` raises an
---error, that counts as the error with which `from` closed. The function yields after at most 128 values.
---@param from runnel.Channel<any>
---@return fun(from: runnel.Channel<any>, to: runnel.Channel<any>): any, any, any next_value to be called with both
function ends.source(from)
  if is_plain(from) then return next_value end
  return function(_, to) return unless_failed(pcall(next_value, from, to)) end
end

---Makes a function that puts a value on `to` and returns whether it was accepted. If `to` closes while the put waits,
---the function returns false, so that the go block can end. If `to` raises, the value is dropped and the error is
---reported.
---@param to runnel.Channel<any>
---@param what string the putting function, for the error handler
---@return fun(to: runnel.Channel<any>, value: any): boolean put
function ends.sink(to, what)
  if is_plain(to) then return put_while_open end
  return function(_, value)
    local ok, accepted = guard.call(what, put_while_open, to, value)
    return not ok or accepted
  end
end

---Makes a function that moves all values of a channel to `to`, and returns nil and the error with which that channel
---was closed, if any. Once `to` is closed it drops the values. If `to` raises, it drops the value and reports the
---error. The table passed to the go block's give_up must hold the channel meanwhile.
---@param to runnel.Channel<any>
---@param what string the moving function, for the error handler
---@return fun(from: runnel.Channel<any>, to: runnel.Channel<any>): nil, any move to be called with `to`
function ends.mover(to, what)
  if is_plain(to) then return move end
  return function(from)
    local ok, _, err
    repeat ok, _, err = guard.call(what, move, from, to) until ok
    return nil, err
  end
end

---Closes a channel that will have no more takes, and drops what waits there, so that puts that wait end, and later ones
---return false.
---@param ch runnel.Channel<any>
function ends.drop(ch)
  ch:close()
  while ch:poll() ~= nil do end -- luacheck: ignore 542
end

---A `<close>` variable that drops the channel `ch` (ends.drop).
ends.Dropping = { __close = function(self) ends.drop(self.ch) end }

---Closes a channel with an error taken from another one. The error then counts as not taken until a take from `to`
---returns it. Without `to` it is reported.
---@param to runnel.Channel<any>|nil|false nil or false: there is no channel to close
---@param err any nil: none
---@param from? runnel.Channel<any> the channel from which it was taken; nil: the error is reported elsewhere
function ends.close(to, err, from)
  if err ~= nil then pass_on(err, to, from) end
  guard.close(to, err)
end

---Moves values until `from` or `to` closes. If `to` closes, it stops waiting for `from`, too. Parks.
---@param from runnel.Channel<any>
---@param to runnel.Channel<any>
---@param close? boolean false: leave `to` open when `from` closes, whose error is reported then; else close it, with
---that error
function ends.forward(from, to, close)
  local take, put = ends.source(from), ends.sink(to, "a pipe")
  while true do
    local value, _, err = take(from, to)
    if value == nil then
      ends.close(close ~= false and to, err, from)
      return
    end
    if not put(to, value) then return end
  end
end

return ends
