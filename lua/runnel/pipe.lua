---From channels to a channel: pipe, merge.

local core = require "runnel.core"
local check = require "runnel.check"
local ends = require "runnel.ends"
local guard = require "runnel.guard"

local poll, alts, yield = core.internal.moving.poll, core.internal.moving.alts, core.yield
local offer = core.methods.offer
local PRIORITY = { priority = true }

---@class runnel.pipe
local pipe = {}

-- Moves values until `from` or `to` is closed. Closing `to` ends the wait, for `from` as for a taker.
local function forward(from, to, close)
  local take, put = ends.source(from, to), ends.sink(to, "a pipe")
  while true do
    local value, err = take()
    if value == nil then
      ends.close(close ~= false and to, err)
      return
    end
    if not put(value) then return end
  end
end

---Moves values from one channel to another. Source: core.async's pipe; other than there it stops waiting for `from` as
---soon as `to` is closed, so that nothing is taken and lost.
---@generic T
---@param from runnel.Channel<any> the channel to take from
---@param to runnel.Channel<T> the channel to put on
---@param close? boolean false: leave `to` open when `from` closes; true or nil: close it, with the error of `from`
---if it has one
---@return runnel.Channel<T> to
function pipe.pipe(from, to, close)
  check.chan(from, "pipe: from")
  check.chan(to, "pipe: to")
  check.close(close, "pipe")
  guard.started(guard.go(guard.close, close ~= false and to, forward, from, to, close), "pipe")
  return to
end

-- The go block of a merge; `ops` begins with the closing of `out`, and then has the channels that are open.
local function gather(ops, out)
  local put_op = { out }
  local put_ops = { ops[1], put_op }
  local putting, reason

  -- Most often `out` is full because whoever takes from it is about to. Returns false when it is closed.
  local function wait_and_put(value)
    yield()
    local accepted = offer(out, value)
    if accepted ~= nil then return accepted end
    put_op[2] = value
    accepted = alts(put_ops, PRIORITY)
    put_op[2] = nil
    return accepted and not out:closed() -- which it may be by now, although it has accepted the value
  end

  local function move_values()
    local offer, poll = offer, poll -- luacheck: ignore 431
    local n = #ops
    local turn = 2 -- the channel that is looked at first: each in turn, so that none is kept waiting by the others
    -- Nothing is taken once `out` is closed, which can only happen while this waits, or others run within poll.
    while n > 1 do
      local value, i, err = poll(ops[turn], out), turn, nil
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
        if err ~= nil then core.internal.pass_on(err, reason == nil and out or nil) end
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
    if ok or not putting then out:close(err) end -- where `out` has refused a value by an error, only that is lost
  end
end

---All values of several channels on one, in the order in which they come. Source: core.async's merge.
---@generic T
---@param chs runnel.Channel<T>[] the channels
---@param buf? runnel.BufferLike the buffer of the result, as for rn.chan
---@return runnel.Channel<T> ch closes when all of them have closed, with the first error among theirs
function pipe.merge(chs, buf)
  check.chans(chs, "merge: channels")
  local out = check.new_chan(buf, "merge: buffer")
  guard.started(guard.go(guard.close, out, gather, { out:done(), table.unpack(chs) }, out), "merge")
  return out
end

return pipe
