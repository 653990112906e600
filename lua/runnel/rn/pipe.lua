---From channels to a channel: pipe, merge.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local sign = require "runnel.internal.sign"

local next_value, alts, yield = core.internal.moving.next, core.internal.moving.alts, core.yield
local offer = core.methods.offer
local PRIORITY = { priority = true }

---@class runnel.pipe
local pipe = {}

-- Moves values until `from` or `to` closes. If `to` closes, it stops waiting for `from`, too.
local function forward(from, to, close)
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
  guard.started(guard.go(guard.close, close ~= false and to, forward, from, to, close), "pipe")
  return to
end

-- The go block of a merge. `ops` is `out:done()` and after it the channels that are still open.
local function gather(ops, out)
  local put_op = { out }
  local put_ops = { ops[1], put_op }
  local putting, reason

  -- When `out` is full its taker is usually about to run, so this yields to it first. Returns false when `out` is
  -- closed.
  local function wait_and_put(value)
    yield()
    local accepted = offer(out, value)
    if accepted ~= nil then return accepted end
    put_op[2] = value
    accepted = alts(put_ops, PRIORITY)
    put_op[2] = nil
    return accepted and not out:closed() -- it may have accepted the value and closed since
  end

  local function move_values()
    local offer, next_value = offer, next_value -- luacheck: ignore 431
    local n = #ops
    local turn = 2 -- the channel to poll first: each in turn, so that a busy one does not starve the others
    -- Once `out` is closed nothing more is taken. It can close only while this waits; next_value, too, may yield.
    while n > 1 do
      local value, i, err = next_value(ops[turn], out, true), turn, nil
      if value == nil then
        if out:closed() then return end
        value, i, err = alts(ops)
      end
      if value ~= nil then
        putting = true
        if not offer(out, value) and not wait_and_put(value) then return end
        putting = false
        turn = i < n and i + 1 or 2
      elseif i == 1 then
        return
      else
        if err ~= nil then core.internal.pass_on(err, reason == nil and out, ops[i]) end
        if reason == nil then reason = err end
        table.remove(ops, i)
        n, turn = n - 1, 2
      end
    end
    return reason
  end

  while not out:closed() do
    putting = false
    local ok, err = guard.call("a merge", move_values)
    if ok or not putting then ends.close(out, err) end -- if `out` raised, only the value that was being put is lost
  end
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
