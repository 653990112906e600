---How a worker gets its next value in special cases: after a pause, with early values, at its end, and from an
---iterator.

local core = require "runnel.core"
local internal = core.internal

local chan, is_closed = core.chan, core.methods.closed
local take, hide = internal.moving.take, internal.trace.hide
local phase_of, set_off, begin = internal.worker.phase, internal.worker.set_off, internal.worker.begin

local taking = {}

---Whether a worker is to end.
---@param worker runnel.internal.Worker
---@return boolean
function taking.is_over(worker)
  local pool = worker.pool
  return worker.retired or pool.finishing and pool.early:count() == 0
end

---Ends the input.
---@param pool runnel.internal.Pool
---@param err? any the error with which it has closed
function taking.end_input(pool, err)
  pool.finishing = true
  if err ~= nil then pool.err = err end
  if pool.gate then
    pool.gate:close()
    pool.gate = pool.paused and hide(chan()) or nil
  end
  pool:nudge_all()
end

---Waits for the end of a pause.
---@param worker runnel.internal.Worker
---@param is_helper? boolean it is not the worker's own go block that waits
function taking.wait_resumed(worker, is_helper)
  if is_helper then return take(worker.pool.gate) end
  local at = worker.at
  worker.at = "gate"
  take(worker.pool.gate)
  worker.at = at
end

local function by_exchange(worker, pool)
  local from = pool.from
  local was_closed = not pool.is_channel or is_closed(from)
  set_off(worker.exchange, false)
  local value, err = worker.exchange(from)
  if was_closed and value == nil and phase_of(worker.exchange) == "take" then taking.end_input(pool, err) end
  return value
end

local function from_iterator(worker, pool)
  worker.at = "take"
  local value = pool.from()
  worker.at = nil
  if value == nil then
    taking.end_input(pool)
  elseif pool.paused and not pool.finishing then -- it was called before the pause
    pool.early:give_back(value)
    return nil
  else
    pool.got = pool.got + 1
  end
  return value
end

---The next value; or nil: the worker is to end, or the pool has changed between order and no order.
---@param worker runnel.internal.Worker
---@param order runnel.internal.Order|nil
---@return any
function taking.next_value(worker, order)
  local pool = worker.pool
  local value
  while value == nil and not taking.is_over(worker) and pool.order == order do
    if pool.paused and (pool.is_channel or not pool.finishing) then
      taking.wait_resumed(worker)
    else
      value = pool.early:take()
      if value ~= nil then pool.got = pool.got + 1
      elseif pool.by_exchange then value = by_exchange(worker, pool)
      else value = from_iterator(worker, pool) end
    end
  end
  if value ~= nil then begin(worker.exchange) end
  return value
end

return taking
