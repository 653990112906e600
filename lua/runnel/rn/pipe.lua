---From channels to a channel: pipe, merge.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"
local gathering = require "runnel.workers.gathering"
local guard = require "runnel.internal.guard"
local sign = require "runnel.internal.sign"

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

-- An input of a merge has ended, the last one with the result.
local function input_ended(g, ch, is_over, err)
  if not is_over then return end
  if err ~= nil then core.internal.pass_on(err, g.reason == nil and g[1], ch) end
  if g.reason == nil then g.reason = err end
  g.left = g.left - 1
  if g.left == 0 then ends.close(g[1], g.reason) end
end

-- Starts a go block for each input, and makes them end when the result closes.
local function start_all(g, chs)
  local blocks = {}
  core.internal.on_close(g[1], function()
    for i, block in ipairs(blocks) do gathering.nudge(g, block, chs[i]) end
  end)
  for i, ch in ipairs(chs) do blocks[i] = guard.started(gathering.start(g, ch, input_ended), "merge") end
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
  local g = gathering.new(out, "a merge")
  g.left = #chs
  if g.left == 0 then out:close() end
  local ok, err = pcall(start_all, g, { table.unpack(chs) })
  if not ok then
    out:close() -- those that were started end, before they have taken anything
    error(err, 0)
  end
  return out
end

return pipe
