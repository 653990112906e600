---Workers that take one at a time: from an iterator that may wait, which only one go block may call at a time; or so
---that the results leave in the order of the values. In order they also put one at a time: the worker with the next
---result puts it, and then the results that wait behind it.
---
---What a worker does (its state's `at`), and what leads on:
---
---    idle  waits on `calls`. A call, that it may take  -> take. It is retired, or the input has ended -> leaves `work`
---    take  is the taker: waits for a value. A value: it calls the next worker to take, before its job, which may wait
---          -> job. The input has ended, or the pool is paused or changes -> leaves `work`
---    job   its function runs (`at` is nil). It returns -> put
---    put   not in order: puts its results -> idle. In order: if its turn has come it puts its results, and those that
---          wait behind it; else it leaves its results to the worker whose turn comes first -> idle
---
---What holds whenever one of them waits:
---
--- 1. There is at most one taker, and at most one call under way. While there is either, nobody else is called.
--- 2. If there is neither, and a value may be taken, somebody is about to call call_next: whatever makes this true does
---    so. That is a worker that has taken a value, has put results, has died or left (workers.lua: died, leave), and a
---    pool that gets early values or more workers, or is resumed.
--- 3. In order, each job has a number, from 1 to `started`. The results up to `delivered` have left. The job
---    `delivered + 1` runs, or its worker is putting: so only one worker puts. Results of later jobs are in `results`,
---    where NOTHING stands for none.
--- 4. In order, at most `window` jobs are between: nobody takes when `started - delivered` has reached that.
---
---When the input ends, taking.end_input makes all workers look at the pool again: those that are idle leave, the others
---after their job. A worker that dies at that moment has perhaps not told all of them, so workers.lua: died tells them
---again. Its own job goes on in its next go block; if failure.decide ends the worker instead, its number is never
---delivered, and no result after it is put.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local calls_of = require "runnel.workers.calls"
local taking = require "runnel.workers.taking"
local internal = core.internal

local chan, offer, poll = core.chan, core.methods.offer, core.methods.poll
local take, put, hide = internal.moving.take, internal.moving.put, internal.trace.hide
local call, call_again, raise_if_nil = calls_of.call, calls_of.call_again, calls_of.raise_if_nil
local send_results, parcel_of = calls_of.send_results, calls_of.parcel
local NOTHING, PARCEL = calls_of.NOTHING, calls_of.PARCEL

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
  local list, from, emit, lanes = pool.workers, pool.from, pool.emit, pool.lanes

  -- Who takes.
  local taker = first -- the worker that waits for a value
  local called = false -- true: a call waits in `calls`; a worker: this new one is to take, and has not begun
  local calls, idle = hide(chan(1)), 0 -- where idle workers wait for a call; how many do

  -- In order, by the numbers of the jobs.
  local started, delivered = 0, 0 -- how many have begun; of how many the results have left
  local results, parcels = {}, {} -- what waits for its turn: a result, NOTHING, or PARCEL and in `parcels` the list
  local turns, has_turns = {}, false -- where jobs wait that put before their turn; whether any ever did

  -- ---- who takes ----

  -- Lets a worker take the next value.
  local function call_next()
    if taker or called or started - delivered >= most or pool.finishing and pool.early:count() == 0 then return end
    if idle > 0 then
      called = true
      offer(calls, true)
    elseif #list < pool.n then
      called = pool:add_worker()
    end
  end

  -- ---- the order ----

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

  -- The turn of a job has come: lets it put, if it waits for that.
  local function wake_turn(seq)
    if not turns[seq] then return end
    turns[seq]:close()
    turns[seq] = nil
  end

  -- ---- a worker ----

  -- A go block of a worker has died. It is neither idle, nor called, nor the taker any more; the caller calls the next
  -- one, if the input has not ended. Perhaps another worker was called, too, which does no harm: the second one to come
  -- waits again.
  local function died(worker, at)
    if at == "idle" then idle = idle - 1 end
    called = false
    if taker == worker then taker = nil end
  end

  local function work(worker)
    -- The job that it has, of which `hand` tells others: its value, its number, and once it has ended its results.
    local value, seq, result, output = worker.value, worker.seq, worker.result, worker.output
    local at
    worker.hand = function() return at, value, seq, result, output end

    local get_value = pool.by_exchange and worker.exchange or guard.nothing
    if taker == worker then taker = nil end

    -- What the go block before this one has left: results to put, or a job to be called again.
    local again = worker.next
    if again then seq = seq or number() end
    if again == "put" then worker.next = nil
    elseif again then result, output = call_again(worker, value) end
    worker.at = nil
    local has_job = again ~= nil -- also without a value: what a handler returns for a take that has failed

    while true do
      if not has_job then
        if lanes then lanes:leave(worker) end
        -- idle -> take. Nothing may run between the look at the pool and the wait: the worker would miss a nudge
        -- (workers.lua). So it polls first, since only a take that can complete lets others run.
        while taker or called and called ~= worker or started - delivered >= most do
          if worker.retired or pool.finishing and taking.is_over(worker) then return end
          at, idle = "idle", idle + 1
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

        -- take -> job. It calls the next worker as call_next does; the usual case is here, as a call costs.
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
          result, output = call(worker, value)
        end
      end

      -- job -> put
      has_job = false
      at = "put"
      if not keeps_order then
        if worker.dropped then break end
        send_results(worker, result, output)
      elseif seq ~= delivered + 1 then
        -- Leaves its results to the worker whose turn comes before it.
        if output then
          results[seq], parcels[seq] = PARCEL, result == PARCEL and output or parcel_of(result, output)
        else
          if result == nil then result = NOTHING end
          results[seq] = result
        end
      else
        -- Puts its results, and those that wait behind them. It takes them over one by one, so that `hand` tells of
        -- those that it has.
        repeat
          local to = worker.to
          if output then send_results(worker, result, output)
          elseif result ~= nil and not (to and put(to, result)) then emit(result, nil, worker) end
          delivered, value, seq = seq, nil, seq + 1
          if has_turns then wake_turn(seq) end
          result, output = results[seq], nil
          if result == nil then break end
          if not (taker or called) then call_next() end
          results[seq] = nil
          if result == NOTHING then result = nil
          elseif result == PARCEL then output, parcels[seq] = parcels[seq], nil end
        until false
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
