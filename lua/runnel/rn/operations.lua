---Parts that connect channels: split, map, take, multiplex, broadcast.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local mult = require "runnel.rn.mult"
local pipe = require "runnel.rn.pipe"
local internal = core.internal

local chan, next_value, alts = core.chan, internal.moving.next, internal.moving.alts
local PRIORITY = { priority = true }

---@class runnel.operations
local operations = {}

-- If a source channel of a go block below raises, the go block ends, and the channels that it feeds close with the
-- error.

local function divide(pred, ch, yes, no)
  local put_yes, put_no = ends.sink(yes, "a split"), ends.sink(no, "a split")
  local ops = { yes:done(), no:done(), ch }
  while true do
    local value, i, err = alts(ops, PRIORITY)
    if i < #ops then
      table.remove(ops, i) -- one of the two is closed
      if #ops == 1 then return end
    elseif value == nil then
      ends.close(yes, err, ch) -- the error counts as taken once it is taken from `yes`
      ends.close(no, err)
      return
    else
      local ok, is_yes = guard.call("the predicate of a split", pred, value)
      if ok then
        if is_yes then put_yes(yes, value) else put_no(no, value) end
      end
    end
  end
end

---Distributes the values of a channel to two channels: those for which a predicate is true, and the others. Source:
---core.async's split. Unlike there, if one of the two closes, its values are dropped and the other one goes on; once
---both are closed, nothing more is taken. If the predicate raises, the value is dropped and the error goes to the error
---handler (rn.on_error).
---@generic T
---@param pred fun(v: T): any false and nil count as false
---@param ch runnel.Channel<T> the channel to take from
---@param yes_buf? runnel.BufferLike the buffer of the first result, as for rn.chan; default none
---@param no_buf? runnel.BufferLike the buffer of the second result
---@return runnel.Channel<T> yes closes when `ch` does, with its error if there is one
---@return runnel.Channel<T> no closes likewise
function operations.split(pred, ch, yes_buf, no_buf)
  check.callable(pred, "split: predicate")
  check.chan(ch, "split: channel")
  local yes = check.new_chan(yes_buf, "split: first buffer")
  local no = check.new_chan(no_buf, "split: second buffer")
  guard.started(guard.go_while_open({ yes, no }, guard.close, { yes, no }, divide, pred, ch, yes, no), "split")
  return yes, no
end

-- Whether a take would return nil, or what the end of the channel's transducer makes.
local function is_over(ch) return ch:closed() and #ch == 0 and ch:stats().puts_waiting == 0 end

-- Takes one value from each channel into `values` and returns true. If one of them has closed, returns false, its error
-- and that channel. Each call reuses the tables `ops` and `places`.
local function take_each(chs, values, out, ops, places)
  for i, ch in ipairs(chs) do
    values[i] = nil
    if is_over(ch) then
      local value, err = ch:take()
      if value == nil then return false, err, ch end -- takes nothing from the others
      values[i] = value -- which the end of its transducer has made
    end
  end
  local n = 1
  ops[1], places[1] = out:done(), 0
  for i, ch in ipairs(chs) do
    if values[i] == nil then values[i] = next_value(ch, out, true) end
    if values[i] == nil then
      n = n + 1
      ops[n], places[n] = ch, i
    end
  end
  while n > 1 do
    local value, i, err = alts(ops, PRIORITY)
    if value == nil then return false, err, ops[i] end
    values[places[i]] = value
    table.remove(ops, i)
    table.remove(places, i)
    n = n - 1
  end
  return true
end

local function apply(f, chs, values)
  local result = f(table.unpack(values, 1, #chs))
  if result == nil then error("the function returned nil, which cannot be put on a channel", 0) end
  return result
end

local function map_values(f, chs, out)
  local put = ends.sink(out, "a map")
  local values, ops, places = {}, {}, {}
  while #chs > 0 and not out:closed() do
    local complete, err, from = take_each(chs, values, out, ops, places)
    if not complete then return ends.close(out, err, from) end
    local ok, result = guard.call("the function of a map", apply, f, chs, values)
    if ok then put(out, result) end
  end
  out:close()
end

---Applies a function to the first values of all channels, then to the second values, and so on. Source: core.async's
---map. Unlike there, it ends as soon as one of the channels closes, even if another one has no value ready; if one is
---closed already, nothing is taken from the others. Closing the result ends it, too. If the function raises or returns
---nil, the values are dropped and the error goes to the error handler (rn.on_error).
---@generic R
---@param f fun(...: any): R called with one value of each channel
---@param chs runnel.Channel<any>[] the channels
---@param buf? runnel.BufferLike the buffer of the result, as for rn.chan; default none
---@return runnel.Channel<R> ch closes when any of the channels closes, with its error if there is one
function operations.map(f, chs, buf)
  check.callable(f, "map: function")
  check.chans(chs, "map: channels")
  local out = check.new_chan(buf, "map: buffer")
  guard.started(guard.go_while_open(out, guard.close, out, map_values, f, table.move(chs, 1, #chs, 1, {}), out), "map")
  return out
end

local function take_values(n, ch, out)
  local take, put = ends.source(ch), ends.sink(out, "a take")
  for _ = 1, n do
    local value, _, err = take(ch, out)
    if value == nil then return ends.close(out, err, ch) end
    put(out, value)
  end
  out:close()
end

---Makes a channel of the first n values of another one, and takes no more than those. Source: core.async's take. Unlike
---there, closing the result ends it.
---@generic T
---@param n integer 0 or more
---@param ch runnel.Channel<T> the channel to take from
---@param buf? runnel.BufferLike the buffer of the result, as for rn.chan; default none
---@return runnel.Channel<T> ch closes after n values, or when `ch` does, with its error if there is one
function operations.take(n, ch, buf)
  check.integer(n, 0, "take: n")
  check.chan(ch, "take: channel")
  local out = check.new_chan(buf, "take: buffer")
  guard.started(guard.go(guard.close, out, take_values, n, ch, out), "take")
  return out
end

---Makes one channel to take from instead of several. Of the channels that are ready, each is equally likely to be next.
---Source: multiplex of core.async's lab. Unlike there, the result is a real channel, so one value is taken ahead.
---@generic T
---@param ... runnel.Channel<T> the channels
---@return runnel.Channel<T> ch closes when all of them have closed; at once if there are none
function operations.multiplex(...)
  local chs = { ... }
  for i = 1, select("#", ...) do check.chan(chs[i], "multiplex: channel " .. i) end
  return pipe.merge(chs)
end

---Makes one channel to put on instead of several. It accepts a value when all of them have accepted the one before.
---Source: broadcast of core.async's lab. Unlike there, the result is a real channel.
---@generic T
---@param ... runnel.Channel<T> the channels. One that closes is left out from then on. Closing the result closes them,
---with its error if there is one
---@return runnel.Channel<T> ch closes when all of them have closed; at once if there are none
function operations.broadcast(...)
  local chs = { ... }
  for i = 1, select("#", ...) do check.chan(chs[i], "broadcast: channel " .. i) end
  local ch = chan()
  local m = mult.mult(ch)
  for _, port in ipairs(chs) do m:tap(port) end
  m.on_empty = function() ch:close() end
  if not m.first then ch:close() end
  return ch
end

return operations
