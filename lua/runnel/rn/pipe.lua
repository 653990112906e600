---From channels to a channel: pipe, merge.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"
local gathering = require "runnel.workers.gathering"
local guard = require "runnel.internal.guard"
local sign = require "runnel.internal.sign"

---@class runnel.pipe
local pipe = {}

---Moves values from one channel to another. Source: core.async's pipe. Unlike there, it stops waiting for `from` as
---soon as `to` closes, so that no value is taken and lost.
---@generic T
---@param from runnel.Channel<any> the channel to take from
---@param to runnel.Channel<T> the channel to put on
---@param close? boolean false: leave `to` open when `from` closes; true or nil: close it, with the error of `from` if
---there is one
---@return runnel.Channel<T> to
function pipe.pipe(from, to, close)
  check.chan(from, "pipe: from")
  check.chan(to, "pipe: to")
  check.boolean_or_nil(close, "pipe: close")
  guard.started(guard.go(guard.close, close ~= false and to, ends.forward, from, to, close), "pipe")
  return to
end

-- Moves the values of a merge. `chs` is `out:done()` and after it the inputs. Returns the first of their errors once
-- all have closed.
local function move_values(chs, out)
  local left, reason = #chs - 1, nil
  local put = ends.sink(out, "a merge")
  local take, g = gathering.open(chs, out)
  while left > 0 do
    local value, ch, err = take(chs, g)
    if value ~= nil then
      if not put(out, value) then return end
    elseif ch then
      if err ~= nil then core.internal.pass_on(err, reason == nil and out, ch) end
      if reason == nil then reason = err end
      left = left - 1
    else
      return
    end
  end
  return reason
end

-- The go block of a merge. If an input raises, the merge ends.
local function gather(chs, out)
  local _, err = guard.call("a merge", move_values, chs, out)
  ends.close(out, err)
end

---Makes a channel of the values of several channels, in the order in which they arrive. Source: core.async's merge.
---@generic T
---@param chs runnel.Channel<T>[] the channels
---@param buf? runnel.BufferLike the buffer of the result, as for rn.chan
---@return runnel.Channel<T> ch closes when all of them have closed, with the first of their errors
function pipe.merge(chs, buf)
  sign.dot(chs, "rn", "merge")
  check.chans(chs, "merge: channels")
  local out = check.new_chan(buf, "merge: buffer")
  guard.started(guard.go(guard.close, out, gather, { out:done(), table.unpack(chs) }, out), "merge")
  return out
end

return pipe
