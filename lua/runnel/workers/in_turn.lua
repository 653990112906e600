---Workers that take one at a time: from an iterator that may wait, which only one go block may call at a time; or so
---that the results leave in the order of the values. In order they also put one at a time: the worker with the next
---result puts it, and then the results that wait behind it.
---
---A worker that has taken a value calls another one to take the next, before it calls the job, which may wait.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local jobs = require "runnel.workers.calls"
local taking = require "runnel.workers.taking"
local internal = core.internal

local chan, offer, poll = core.chan, core.methods.offer, core.methods.poll
local take, put, hide = internal.moving.take, internal.moving.put, internal.trace.hide
local call_job, raise_if_nil, send_results = jobs.call, jobs.raise_if_nil, jobs.send_results
local NOTHING, PARCEL = jobs.NOTHING, jobs.PARCEL

local in_turn = {}

---@class runnel.internal.Order
---@field calls runnel.Channel<any> where workers wait until they may take
---@field keeps_order boolean
---@field work fun(worker: runnel.internal.Worker) works until the worker is to end
---@field call_next fun() lets a worker take the next value, an idle one or a new one, unless one is about to
---@field number fun(): integer|nil the number of a job that has begun before there was an order
---@field wait fun(worker: runnel.internal.Worker, seq: integer, is_helper: boolean|nil) a job that puts waits until
---those before it have ended; is_helper: a go block that the job has started does
---@field died fun(worker: runnel.internal.Worker, at: string) a go block has died

---@param pool runnel.internal.Pool
---@param window integer|nil in order: jobs that were started and not delivered, at most; nil: not in order
---@param first runnel.internal.Worker|nil this one takes before any other does; it may still have a job
---@return runnel.internal.Order
function in_turn.new(pool, window, first)
  local keeps_order, most = window ~= nil, window or math.huge
  local list, from, emit = pool.workers, pool.from, pool.emit
  -- The taking worker; the worker called to take (true: the first idle one); how many are idle, and where they wait.
  local taker, called, idle, calls = first, false, 0, hide(chan(1))
  -- In order: how many jobs were started; of how many the results have left; the results that wait, by the number of
  -- their job, and their parcels; where steps and their go blocks wait that put before their turn, and whether any ever
  -- did.
  local started, delivered, results, parcels, turns, has_turns = 0, 0, {}, {}, {}, false

  local function call_next()
    if taker or called or started - delivered >= most or pool.finishing and pool.early:count() == 0 then return end
    if idle > 0 then
      called = true
      offer(calls, true)
    elseif #list < pool.n then
      called = pool:add_worker()
    end
  end

  local function number()
    if not keeps_order then return nil end
    started = started + 1
    return started
  end

  local function wait(worker, seq, is_helper)
    if seq == delivered + 1 then return end
    turns[seq], has_turns = turns[seq] or hide(chan()), true
    if is_helper then return take(turns[seq]) end
    local at = worker.at
    worker.at = "turn"
    take(turns[seq])
    worker.at = at
  end

  local function died(worker, at)
    if at == "idle" then idle = idle - 1 end
    called = false -- perhaps another worker was called, which does no harm
    if taker == worker then taker = nil end
  end

  local function work(worker)
    local value, seq, result, output = worker.value, worker.seq, worker.result, worker.output
    local at
    local get_value = pool.by_exchange and worker.exchange or guard.nothing
    local puts = worker.next == "put"
    worker.hand = function() return at, value, seq, result, output end
    if taker == worker then taker = nil end
    if worker.next then seq = seq or number() end
    if puts then worker.next = nil
    elseif worker.next then result, output = jobs.call_again(worker, value) end
    worker.at = nil
    local has_value = puts or value ~= nil
    while true do
      if not has_value then
        while taker or called and called ~= worker or started - delivered >= most do
          if worker.retired or pool.finishing and taking.is_over(worker) then return end
          at, idle = "idle", idle + 1
          -- Nothing may run before it waits: it would miss a nudge. Only a take that can complete lets others run.
          if poll(calls) or take(calls) then called = false end
          idle = idle - 1
        end
        taker, called, at = worker, false, "take"
        value = get_value(from)
        if value == nil then
          at = nil
          value = taking.next_value(worker, pool.order)
        end
        taker = nil
        if value == nil then break end
        at = nil
        started = started + 1
        if keeps_order then seq = started end
        if called or idle == 0 or started - delivered >= most then
          call_next()
        else
          called = true
          offer(calls, true)
        end
        local job = worker.job
        if job then
          result, output = job(value)
          if output ~= nil then output = raise_if_nil(result, output) end
        elseif worker.dropped then
          break
        else
          result, output = call_job(worker, value)
        end
      end
      has_value = false
      at = "put"
      if not keeps_order then
        if worker.dropped then break end
        send_results(worker, result, output)
      elseif seq == delivered + 1 then
        repeat
          local to = worker.to
          if output then send_results(worker, result, output)
          elseif result ~= nil and not (to and put(to, result)) then emit(result, nil, worker) end
          delivered, value, seq = seq, nil, seq + 1
          if has_turns and turns[seq] then
            turns[seq]:close()
            turns[seq] = nil
          end
          result, output = results[seq], nil
          if result == nil then break end
          if not (taker or called) then call_next() end
          results[seq] = nil
          if result == NOTHING then result = nil
          elseif result == PARCEL then output, parcels[seq] = parcels[seq], nil end
        until false
      elseif output then
        results[seq], parcels[seq] = PARCEL, result == PARCEL and output or jobs.parcel(result, output)
      else
        if result == nil then result = NOTHING end
        results[seq] = result
      end
      value, seq, result, output = nil, nil, nil, nil
    end
  end

  return {
    calls = calls, keeps_order = keeps_order, work = work, call_next = call_next, number = number, wait = wait,
    died = died,
  }
end

return in_turn
