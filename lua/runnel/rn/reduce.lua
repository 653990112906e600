---Between channels and lists: into, reduce, transduce, onto_chan, to_chan.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local sign = require "runnel.internal.sign"
local raise = core.internal.raise

local chan, cancel, is_reduced = core.chan, core.cancel, core.is_reduced
local on_close, has_ended = core.internal.on_close, core.internal.has_ended
local take, put_while_open = core.internal.moving.take, core.internal.moving.put_while_open

---@class runnel.reduce
local reducers = {}

-- Calls `f(...)` in a go block and returns a channel of its result. `f` returns a value, or nil and the error that `ch`
-- closed with; the result channel then closes with that error, which counts as not taken until a take from there gets
-- it. Closing that channel ends the go block.
local function answer(what, ch, f, ...)
  local out = chan(1)
  guard.started(guard.go_while_open(out, guard.close, out, function(...)
    local value, err = f(...)
    if value ~= nil then put_while_open(out, value) end
    ends.close(out, err, ch)
  end, ...), what)
  return out
end

---Takes all values of a channel into a list. Source: core.async's into.
---@generic T
---@param list T[] the list to append to, which is also the result
---@param ch runnel.Channel<T> the channel to take from until it closes
---@return runnel.Channel<T[]> ch a channel of one value, the list; or, if `ch` closed with an error, it closes with
---that error
function reducers.into(list, ch)
  sign.dot(list, "rn", "into")
  check.table(list, "into: list")
  check.chan(ch, "into: channel")
  return answer("into", ch, function()
    local n = #list
    while true do
      local value, err = take(ch)
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
    local value, err = take(ch)
    if value == nil then
      if err ~= nil then return nil, err end
      return acc
    end
    acc = f(acc, value)
    if is_reduced(acc) then return acc[1] end
  end
end

---Reduces all values of a channel. Source: core.async's reduce.
---@param f fun(acc: any, v: any): any returns the next accumulator; `rn.reduced(v)` ends the reduction with v
---@param init any the first accumulator
---@param ch runnel.Channel<any> the channel to take from until it closes
---@return runnel.Channel<any> ch a channel of one value, the last accumulator (no value if that is nil); or, if `ch`
---closed with an error, it closes with that error
function reducers.reduce(f, init, ch)
  check.callable(f, "reduce: function")
  check.chan(ch, "reduce: channel")
  return answer("reduce", ch, reduce, f, init, ch)
end

---Reduces all values of a channel through a transducer. Source: core.async's transduce.
---@param xf runnel.Transducer the transducer
---@param f fun(acc: any, v: any): any as for reduce; at the end it is called once more, as `f(acc)`, and returns the
---result. rn.xf.completing makes such a function of one that takes two arguments only
---@param init any the first accumulator
---@param ch runnel.Channel<any> the channel to take from until it closes
---@return runnel.Channel<any> ch as for reduce
function reducers.transduce(xf, f, init, ch)
  check.callable(xf, "transduce: transducer")
  check.callable(f, "transduce: function")
  check.chan(ch, "transduce: channel")
  return answer("transduce", ch, function()
    local step = xf(f)
    local acc, err = reduce(step, init, ch)
    if err ~= nil then return nil, err end
    return (step(acc)) -- a second result would be an error
  end)
end

-- An iterator over a list, or the iterator itself.
local function values_of(source, what)
  local next_value, got = ends.iterator(source)
  if next_value then return next_value end
  raise(what .. ": a list or an iterator function expected, got " .. got)
end

local function copy(ch, next_value, closing)
  for value in next_value do
    if not put_while_open(ch, value) then break end
  end
  if closing then closing:close() end
end

-- Puts the values of an iterator on a channel, in a go block. The program's iterators, unlike a list's, may wait.
local function onto(what, ch, next_value, is_list, close)
  local closing = close ~= false and ch
  if is_list then return guard.started(guard.go(guard.close, closing, copy, ch, next_value, closing), what) end
  return guard.started(guard.go_while_open(ch, guard.close, closing, copy, ch, next_value, closing), what)
end

---Puts all elements of a list, or all values of an iterator, on a channel. Source: core.async's onto-chan!.
---@generic T
---@param ch runnel.Channel<T> the channel
---@param source T[]|fun(): T? a list without holes, or an iterator, which is called until it returns nil
---@param close? boolean false: leave `ch` open at the end; true or nil: close it, with the error if the iterator raises
---one
---@return runnel.Channel<any> ch a channel that closes when all values have been put, or `ch` has closed; closing it
---ends the puts
function reducers.onto_chan(ch, source, close)
  check.chan(ch, "onto_chan: channel")
  local next_value = values_of(source, "onto_chan") -- first: onto_chan(ch, pairs(list)) has the list as `close`
  check.boolean_or_nil(close, "onto_chan: close")
  local block = onto("onto_chan", ch, next_value, next_value ~= source, close)
  pcall(on_close, block, function() -- if memory has run out, closing it has no effect
    if not has_ended(block) then cancel(block, "the channel that onto_chan has returned was closed") end
  end)
  return block
end

---Makes a channel of the elements of a list, or the values of an iterator. It closes after the last one. Source:
---core.async's to-chan!.
---@generic T
---@param source T[]|fun(): T? as for onto_chan
---@return runnel.Channel<T> ch
function reducers.to_chan(source)
  sign.dot(source, "rn", "to_chan")
  local ch, next_value = chan(), values_of(source, "to_chan")
  onto("to_chan", ch, next_value, next_value ~= source)
  return ch
end

return reducers
