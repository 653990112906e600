---From channels to a channel: pipe, merge.

local core = require "runnel.core"
local check = require "runnel.check"
local ends = require "runnel.ends"

local go = core.go

---@class runnel.pipe
local pipe = {}

-- Moves values until `from` or `to` is closed. Closing `to` ends the wait, for `from` as for a taker.
local function forward(from, to, close)
  local take, put = ends.source(from, to), ends.sink(to, "a pipe")
  while true do
    local value, err = take()
    if value == nil then
      if close ~= false then to:close(err) end
      return
    end
    if not put(value) then return end
  end
end

---Moves values from one channel to another. Source: core.async's pipe; other than there it stops waiting for `from` as
---soon as `to` is closed, so that nothing is taken and lost.
---@param from runnel.Channel the channel to take from
---@param to runnel.Channel the channel to put on
---@param close? boolean whether to close `to` when `from` closes, with its error if it has one; default true
---@return runnel.Channel to
function pipe.pipe(from, to, close)
  check.chan(from, "pipe: from")
  check.chan(to, "pipe: to")
  go(forward, from, to, close)
  return to
end

---All values of several channels on one, in the order in which they come. Source: core.async's merge.
---@param chs runnel.Channel[] the channels
---@param buf? runnel.BufferLike the buffer of the result, as for rn.chan
---@return runnel.Channel ch closes when all of them have closed, with the first error among theirs
function pipe.merge(chs, buf)
  check.chans(chs, "merge: channels")
  local out = check.new_chan(buf, "merge: buffer")
  local put = ends.sink(out, "a merge")
  local ops = { out:done(), table.unpack(chs) }
  go(function()
    local first_err
    -- Closing `out` must not compete with what is ready: nothing is taken after it.
    while #ops > 1 and not out:closed() do
      local value, i, err = core.alts_index(ops)
      if i == 1 then return end
      if value == nil then
        if first_err == nil then first_err = err end
        table.remove(ops, i)
      elseif not put(value) then
        return
      end
    end
    out:close(first_err)
  end)
  return out
end

return pipe
