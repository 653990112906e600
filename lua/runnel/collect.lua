---Between channels and lists: into, reduce, transduce, onto_chan, to_chan.

local core = require "runnel.core"
local check = require "runnel.check"

local chan, go, is_reduced = core.chan, core.go, core.is_reduced
---@class runnel.collect
local collect = {}

-- Calls `f(...)`, which returns a value or nil and an error, in a go block; returns a channel of that value, or closed
-- with that error. An error that came down a channel is passed on, not raised: it is known where it arose.
local function answer(f, ...)
  local out = chan(1)
  go(function(...)
    local out <close> = out -- luacheck: ignore 431 (closes with the error if f raises)
    local value, err = f(...)
    if value ~= nil then out:put(value) end
    out:close(err)
  end, ...)
  return out
end

---Takes all values of a channel into a list. Source: core.async's into.
---@generic T
---@param list T[] appended to, and the result
---@param ch runnel.Channel<T> the channel, taken from until it closes
---@return runnel.Channel<T[]> ch a channel of one value, the list; if `ch` was closed with an error, closed with that
---error
function collect.into(list, ch)
  check.table(list, "into: list")
  check.chan(ch, "into: channel")
  return answer(function()
    local n = #list
    while true do
      local value, err = ch:take()
      if value == nil then
        if err ~= nil then return nil, err end
        return list
      end
      n = n + 1
      list[n] = value
    end
  end)
end

-- Reduces the channel in the running go block; returns the accumulator, or nil and the error that closed the channel.
local function reduce(f, acc, ch)
  while true do
    local value, err = ch:take()
    if value == nil then
      if err ~= nil then return nil, err end
      return acc
    end
    acc = f(acc, value)
    if is_reduced(acc) then return acc[1] end
  end
end

---Reduces all values of a channel. Source: core.async's reduce.
---@param f fun(acc: any, v: any): any the next accumulator; `rn.reduced(v)` ends with v
---@param init any the first accumulator
---@param ch runnel.Channel<any> the channel, taken from until it closes
---@return runnel.Channel<any> ch a channel of one value, the last accumulator (none if that is nil); if `ch` was closed
---with an error, closed with that error
function collect.reduce(f, init, ch)
  check.callable(f, "reduce: function")
  check.chan(ch, "reduce: channel")
  return answer(reduce, f, init, ch)
end

---Reduces all values of a channel through a transducer. Source: core.async's transduce.
---@param xf runnel.Transducer the transducer
---@param f fun(acc: any, v: any): any as for reduce; called as `f(acc)` once at the end
---@param init any the first accumulator
---@param ch runnel.Channel<any> the channel, taken from until it closes
---@return runnel.Channel<any> ch a channel of one value, or closed with an error, as for reduce
function collect.transduce(xf, f, init, ch)
  check.callable(xf, "transduce: transducer")
  check.callable(f, "transduce: function")
  check.chan(ch, "transduce: channel")
  return answer(function()
    local step = xf(f)
    local acc, err = reduce(step, init, ch)
    if err ~= nil then return nil, err end
    return step(acc)
  end)
end

local function callable(value)
  local meta = getmetatable(value)
  return type(value) == "function" or type(meta) == "table" and meta.__call ~= nil
end

-- An iterator over a list, or the iterator itself.
local function values_of(source, what)
  if callable(source) then return source end
  if type(source) ~= "table" then
    local got = source == nil and "nothing" or "a " .. type(source)
    error(what .. ": a list or an iterator function expected, got " .. got, 3)
  end
  local i = 0
  return function()
    i = i + 1
    return source[i]
  end
end

local function copy(ch, next_value)
  for value in next_value do
    if not ch:put(value) then return end
  end
end

-- Where the iterator fails the channel closes with its error.
local function copy_and_close(ch, next_value)
  local closing <close> = ch
  copy(closing, next_value)
end

local function onto(ch, next_value, close) return go(close == false and copy or copy_and_close, ch, next_value) end

---Puts all elements of a list, or values of an iterator, onto a channel. Source: core.async's onto-chan!.
---@generic T
---@param ch runnel.Channel<T> the channel
---@param source T[]|fun(): T? a list (up to its first nil), or an iterator, called for values until it gives nil
---@param close? boolean whether to close `ch` afterwards, with its error if an iterator raises one; default true
---@return runnel.Channel<any> ch a channel that closes when all is copied, or `ch` was closed
function collect.onto_chan(ch, source, close)
  check.chan(ch, "onto_chan: channel")
  return onto(ch, values_of(source, "onto_chan"), close)
end

---A channel of the elements of a list, or of the values of an iterator; it closes after the last. Source: core.async's
---to-chan!.
---@generic T
---@param source T[]|fun(): T? as for onto_chan
---@return runnel.Channel<T> ch
function collect.to_chan(source)
  local ch = core.chan()
  onto(ch, values_of(source, "to_chan"))
  return ch
end

return collect
