---Takes from many channels by one go block, as alts does, at a cost that does not depend on how many they are
---(csrc/states/gather.h).

local core = require "runnel.core"
local guard = require "runnel.internal.guard"

local gather, moving = core.internal.gathering, core.internal.moving
local alts, next_value, hide = moving.alts, moving.next, core.internal.trace.hide

local gathering = {}

local function any_shared(chs)
  for _, ch in ipairs(chs) do
    if gather.is_shared(ch) then return true end
  end
  return false
end

-- For channels of other threads, which cannot be gathered: by an alts. Changes the list.
local function by_alts(chs, out)
  local turn = 1 -- the channel that had a value last: each in turn, so that a busy one does not starve the others
  return function()
    turn = turn < #chs and turn + 1 or 2
    local value, i, err = nil, turn, nil
    -- next_value may yield, and then takes nothing if `out` has closed meanwhile.
    if chs[turn] then value = next_value(chs[turn], out, true) end
    if value == nil then
      if out:closed() then return end
      value, i, err = alts(chs)
    end
    local ch = chs[i]
    if value ~= nil then
      turn = i
    elseif i == 1 then
      return
    else
      table.remove(chs, i)
    end
    return value, ch, err
  end
end

local function hold(g, chs, started)
  started:close()
  gather.hold(g, chs)
end

---Begins one, in the go block that is to take. It may have a go block of its own, which ends with `out`, or by close;
---and which closes `out` if it dies.
---@param chs runnel.Channel<any>[] the first is out:done(). The caller does not change the list
---@param out runnel.Channel<any> where the go block puts the values
---@return fun(chs: runnel.Channel<any>[], g: userdata): any, runnel.Channel<any>?, any take takes a value, and returns
---it and its channel; or (nil, ch, err) once ch has closed, which is not taken from any more; nothing once `out` is
---closed: then nothing is taken
---@return userdata? g
function gathering.open(chs, out)
  if any_shared(chs) then return by_alts(chs, out) end
  local g, started = gather.new(#chs), core.chan()
  hide(guard.go_while_open(out, guard.close, out, hold, g, chs, started))
  alts { chs[1], started }
  return gather.take, g
end

---Ends it. It has taken nothing that take has not returned.
---@param g? userdata
function gathering.close(g)
  if g then gather.finish(g) end
end

return gathering
