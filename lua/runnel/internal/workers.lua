---The engine of workers: n workers take values, call a function with each, and put what it returns. pmap and flow use
---it. (The pipelines do not: a job of theirs ends when its channel closes.)
---
---A worker is a table. What works is its go block. It calls the function without pcall: if that raises, the go block
---dies of it, so that the traceback shows only the program's own code, and `died` decides what the worker does next,
---in a new go block. A value belongs to the engine from the take until its results were accepted, or `emit` has got
---them, or `failed` has returned nil for it.
---
---Where nothing special is to be done, a worker loops over `turn`, one C call that puts a result and takes the next
---value. Whatever is special (a pause, values that come first, the end) turns the worker "off": its turns then return
---at once, and it looks at everything here. Workers of which only one may take at a time (in order, or from an
---iterator) do not put by `turn`.

local core = require "runnel.core"
local backoff = require "runnel.internal.backoff"
local guard = require "runnel.internal.guard"
local timed_out = require "runnel.timed_out"
local internal = core.internal

local chan, now, sleep, yield, cancel = core.chan, core.now, core.sleep, core.yield, core.cancel
local is_closed, offer = core.methods.closed, core.methods.offer
local go, take, put, started_by = guard.go, internal.moving.take, internal.moving.put, internal.started
local excuse, is_cancellation, withdraw = internal.excuse, internal.is_cancellation, internal.withdraw_take
local hide = internal.trace.hide -- of channels that only the engine uses
local phase_of, set_off, begin = internal.worker.phase, internal.worker.set_off, internal.worker.begin

local workers = {}

-- What a worker does; nil: what phase_of says.
local TAKE <const> = "take" -- waits for a value
local IDLE <const> = "idle" -- waits until it may take
local GATE <const> = "gate" -- waits until the pool is not paused
local PAUSE <const> = "pause" -- waits before the next try
local JOB <const> = "job" -- calls the function
local SEND <const> = "send" -- in the job: puts a value
local TURN <const> = "turn" -- in the job: waits with a put until the results before it have left
local HANDLER <const> = "handler" -- calls what `failed` has returned
local PUT <const> = "put" -- puts results
local HELD <const> = "held" -- has no go block, and a value that has failed
local MAIN <const> = "main" -- in `main`, outside `run`
local END <const> = "end"

local IN_JOB = { [JOB] = JOB, [SEND] = JOB, [TURN] = JOB, [PAUSE] = JOB }

local NANOSECOND = 1e-6 -- in ms: the clock's unit. The difference of two equal times may be a little off 0, by rounding

-- Results that are not just one value for the output: none; or several, or for a named output, which are in a parcel, a
-- list of values and their outputs. DEFAULT is the output without a name, where something is to be done after the put.
local NOTHING, PARCEL, DEFAULT = {}, {}, {}

---What ends a source after its put, or where it waits, if its pool is to finish. No error.
workers.FINISHED = setmetatable({}, { __tostring = function() return "a source has to end" end })

-- The error of a late job that raised `err` after it was cancelled.
local function late_error(late, err)
  if err ~= late then late.message = ("%s; cancelled, it raised: %s"):format(late.message, tostring(err)) end
  return late
end

-- A function has returned more than one value: if the first is nil it has failed, as Lua's own functions fail.
local function raise_if_nil(result, err)
  if result == nil then error(err, 0) end
end

-- What a worker has in hand between two go blocks: as `hand`.
local function at_rest(worker) return nil, worker.value, worker.seq, worker.result, worker.output end

---@class runnel.internal.WorkersSpec
---@field what string the function that the program has called: names the go blocks, with the line of the call
---@field timed string what takes too long, or fails, in messages
---@field job function job(value) -> result, or nil and an error, which counts as raised; of a source job(put, state)
---@field is_step? boolean job(value, put, state) -> result, output
---@field n integer workers
---@field lazy? boolean start them when they are needed
---@field from? runnel.Channel<any>|function a channel or an iterator; nil: a source, which has one worker and one job
---@field to? runnel.Channel<any>|false
---@field window? integer in order: jobs that were started and not delivered, at most
---@field tries? integer
---@field retry? number
---@field timeout? number
---@field main fun(worker: runnel.internal.Worker, run: function) calls run(worker); may wait
---@field emit fun(value: any, output: any, worker: runnel.internal.Worker) gets what cannot simply be put; may wait
---@field failed fun(worker: runnel.internal.Worker, failure: runnel.internal.Failure): function|"again"|"hold"|nil
---@field done? fun() a value, and all that it led to, is done
---@field ended fun(err: any) all workers have ended

---@class runnel.internal.Failure
---@field phase "take"|"job"|"put"|"handler"|"main"
---@field value any
---@field seq? integer
---@field err any
---@field traceback? string
---@field tries integer
---@field block runnel.Channel<any>|false the go block that has died of it, if that is to be reported

---A worker. While it runs, `hand` tells what it has in hand: what it does, the value of its job, the number of that,
---and in a put the result and its output. `from` and `to` are for reports of deadlocks.
---@class runnel.internal.Worker
---@field number integer counts the workers of a pool
---@field block runnel.Channel<any>|false its go block
---@field put fun(value: any, output: any): true the put function of its jobs
---@field state any the program's; `main` sets it
---@field held? runnel.internal.Failure
---@field dropped? boolean the result of its job is dropped, and its failure, too
---@field retired? boolean
---@field next? string with what its next go block begins, if that is not a take

---Makes a pool of workers; nothing runs before its method start.
---@param spec runnel.internal.WorkersSpec
---@return runnel.internal.Pool
function workers.new(spec)
  local n, from, to, job, is_step, lazy = spec.n, spec.from, spec.to or false, spec.job, spec.is_step, spec.lazy
  local tries, retry, timeout, window = spec.tries or 1, spec.retry, spec.timeout, spec.window
  local main, emit, failed, done = spec.main, spec.emit, spec.failed, spec.done
  local is_source, is_channel = from == nil, core.is_chan(from)
  local keeps = tries > 1 or timeout -- what a step puts leaves when it returns
  local in_order = window and n > 1
  if not in_order then window = math.huge end
  local in_turn = in_order or not (is_source or is_channel) or false -- only one worker at a time takes

  local list, numbers = {}, 0 -- the workers
  ---@class runnel.internal.Pool
  ---@field err any the error with which the input has closed
  local pool = { workers = list, origin = internal.origin(spec.what), err = nil }

  local paused, finishing, gate = false, false, nil
  -- Values that are taken before those of the input; how many of them are from the method `first`, which come before
  -- those of `grow`; and how many values were taken from here or from an iterator.
  local first, first_at, last_at, injected, taken = {}, 1, 0, 0, 0
  local plain, plain_step -- nothing is to be done for a job but to call it; but to call it as a step
  local newest -- the worker that was added last

  -- In turn: who takes; who was called to (true: the first idle one); how many are idle, and where they wait.
  local taker, called, idle, calls = nil, false, 0, hide(chan(1))
  -- In order: jobs that were started; of how many the results have left; results that wait, by the number of their job;
  -- and where steps wait that put before their turn.
  local started, delivered, results, parcels, turns = 0, 0, {}, {}, {}

  local function is_over(worker) return worker.retired or finishing and first_at > last_at end

  -- Lets a worker look at everything, also if it waits for a value.
  local function nudge(worker)
    set_off(worker.turn, true)
    local at = pool:look(worker)
    if at == IDLE then withdraw(worker.block, calls)
    elseif at == TAKE and is_channel then withdraw(worker.block, from) end
  end

  local function nudge_all()
    for i = 1, #list do nudge(list[i]) end
  end

  -- ---- starting workers ----

  local died, body, put_specially

  local function spawn(worker)
    begin(worker.turn)
    set_off(worker.turn, not is_source) -- it first looks at everything
    worker.at, worker.hand = MAIN, at_rest
    worker.block = go(died, worker, body, worker)
    started_by(worker.block, pool.origin)
  end

  local function put_on(worker)
    worker.to = to
    internal.worker.bind(worker.put, not (keeps or in_order) and to)
  end

  local function set_plain()
    local special = timeout or done
    plain, plain_step = not (special or is_step), is_step and not (special or keeps)
  end

  local add_worker

  -- Starts a worker because no other waits for a value, unless one has been started and has not begun.
  local function add_another()
    if #list < n and newest.at ~= MAIN and not finishing then add_worker() end
  end

  function add_worker()
    local worker = {
      number = numbers + 1, from = is_channel and from or nil, tried = 0,
      turn = internal.worker.new(lazy and not in_turn and add_another),
      block = false, put = false, to = to, at = nil, hand = at_rest, value = nil, seq = nil, result = nil, output = nil,
      next = nil, instead = nil, kept = nil, late = false, deadline = false, dropped = false, retired = false,
    }
    worker.put = internal.worker.put(worker.turn, function(value, output) put_specially(worker, value, output) end)
    put_on(worker)
    spawn(worker)
    numbers = worker.number
    list[#list + 1] = worker
    newest = worker
    return worker
  end

  -- ---- the time limit ----

  local watcher -- the go block that cancels late jobs

  local function watch()
    while true do
      local next_late
      for i = 1, #list do
        local worker = list[i]
        if worker.deadline and (not next_late or worker.deadline < next_late.deadline) then next_late = worker end
      end
      if not next_late then break end
      local left = next_late.deadline - now()
      if left >= NANOSECOND then
        sleep(left)
      else
        next_late.deadline = false
        next_late.late = timed_out.new(("%s had not ended after %s ms"):format(spec.timed, timeout))
        cancel(next_late.block, next_late.late)
      end
    end
    watcher = nil
  end

  local function watch_over(worker)
    worker.deadline = now() + timeout
    if not watcher then watcher = started_by(go(function() watcher = nil end, false, watch), pool.origin) end
  end

  -- ---- taking ----

  -- No more values come from the input.
  local function end_input(err)
    finishing = true
    if err ~= nil then pool.err = err end
    if gate then
      gate:close()
      gate = paused and hide(chan()) or nil
    end
    nudge_all()
  end

  local function wait_resumed(worker)
    local at = worker.at
    worker.at = GATE
    take(gate)
    worker.at = at
  end

  -- The next value, where more is to be looked at than the input; or nil: the worker is to end, or `works_in_turn` is
  -- not what the pool does any more.
  local function next_value(worker, works_in_turn)
    local value
    while value == nil and not is_over(worker) and in_turn == works_in_turn do
      if paused and (is_channel or not finishing) then
        wait_resumed(worker)
      elseif first_at <= last_at then
        value = first[first_at]
        first[first_at] = nil
        first_at, injected, taken = first_at + 1, math.max(injected - 1, 0), taken + 1
      elseif is_channel then
        local was_closed = is_closed(from)
        local err
        set_off(worker.turn, false)
        value, err = worker.turn(from)
        if was_closed and value == nil and phase_of(worker.turn) == TAKE then end_input(err) end
      else
        worker.at = TAKE
        value = from()
        worker.at = nil
        if value == nil then end_input() else taken = taken + 1 end
        if paused and not finishing and value ~= nil then -- it was called before the pause
          first_at, injected = first_at - 1, injected + 1
          first[first_at], value = value, nil
        end
      end
    end
    if value ~= nil then begin(worker.turn) end
    return value
  end

  -- In turn: lets a worker take the next value, an idle one or a new one, unless one is about to.
  local function call_next()
    if taker or called or finishing and first_at > last_at or started - delivered >= window then return end
    if idle > 0 then
      called = true
      offer(calls, true)
    elseif #list < n then
      called = add_worker()
    end
  end

  -- ---- jobs ----

  -- Calls the job, with all that may belong to it.
  local function do_job(worker, value)
    local result, output
    if timeout then watch_over(worker) end
    if is_source then result, output = job(worker.put, worker.state)
    elseif is_step then result, output = job(value, worker.put, worker.state)
    else
      result, output = job(value)
      if output ~= nil then output = raise_if_nil(result, output) end
    end
    worker.deadline, worker.tried = false, 0
    if worker.late then
      worker.late = false
      pcall(yield) -- if the job has not waited since it was cancelled, the cancellation is raised here, and caught
    end
    local kept = worker.kept
    if worker.dropped then return nil end
    if kept then
      if result ~= nil then kept[kept.last + 1], kept[kept.last + 2], kept.last = result, output, kept.last + 2 end
      worker.kept = nil
      return PARCEL, kept
    end
    return result, output or done and DEFAULT
  end

  -- What a worker does first whose go block has died in a job.
  local function call_again(worker, value)
    local how = worker.next
    worker.next = nil
    local result, output
    if how == HANDLER then
      worker.at = HANDLER
      result, output = worker.instead()
      if done and output == nil then output = DEFAULT end
    else
      if how == PAUSE then
        worker.at = PAUSE
        sleep(backoff.pause(retry, worker.tried))
      end
      worker.at = nil
      result, output = do_job(worker, value)
    end
    worker.at = nil
    return result, output
  end

  -- ---- putting ----

  local function send(worker, value, output)
    if output == nil and to and put(to, value) then return end
    emit(value, output, worker)
  end

  -- Puts the results of a job.
  local function send_results(worker, result, output)
    worker.at = PUT
    if result == PARCEL then
      while output.at <= output.last do
        send(worker, output[output.at], output[output.at + 1])
        output.at = output.at + 2
      end
    elseif result ~= nil then
      if output == DEFAULT then output = nil end
      send(worker, result, output)
    end
    worker.at = nil
    if done then done() end
  end

  function put_specially(worker, value, output)
    if keeps and worker.at == nil and not is_source then
      local kept = worker.kept or { at = 1, last = 0 }
      kept[kept.last + 1], kept[kept.last + 2], kept.last = value, output, kept.last + 2
      worker.kept = kept
      return
    end
    if is_source then
      while paused and not finishing do wait_resumed(worker) end
      set_off(worker.turn, finishing)
    end
    local _, _, seq = worker.hand(worker)
    if seq and seq ~= delivered + 1 then
      local at = worker.at
      worker.at, turns[seq] = TURN, hide(chan())
      take(turns[seq])
      worker.at = at
    end
    send(worker, value, output)
    if is_source and finishing then error(workers.FINISHED, 0) end
  end

  -- ---- what workers do ----

  -- Any number of workers take and put at the same time.
  local function work_at_once(worker)
    local turn, value, result, output = worker.turn, worker.value, worker.result, worker.output
    local job_put = worker.put
    worker.hand = function() return nil, value, nil, result, output end
    local puts = worker.next == PUT
    worker.at = nil
    if puts then worker.next = nil
    elseif worker.next then result, output = call_again(worker, value)
    elseif is_source then result, output = do_job(worker) end
    if puts or result ~= nil or output then send_results(worker, result, output) end
    result, output = nil, nil
    while not is_source do
      value = turn(from, to, result)
      if value == nil then
        local at = phase_of(turn)
        if result ~= nil and (at == JOB or at == PUT) and not worker.dropped then send_results(worker, result) end
        result = nil
        value = next_value(worker, false)
        if value == nil then break end
      end
      if worker.dropped then break end -- since it was handed the value
      if plain then
        result, output = job(value)
        if output ~= nil then output = raise_if_nil(result, output) end
      else
        if plain_step then result, output = job(value, job_put, worker.state)
        else result, output = do_job(worker, value) end
        if output then -- it is no single value for the usual output
          send_results(worker, result, output)
          result, output = nil, nil
        end
      end
    end
  end

  -- The number of a job that has begun before there was an order.
  local function number_it()
    if not in_order then return nil end
    started = started + 1
    return started
  end

  -- Only one worker at a time takes; in order, only one puts.
  local function work_in_turn(worker)
    local turn, value, seq, result, output = worker.turn, worker.value, worker.seq, worker.result, worker.output
    local at
    local get = is_channel and turn or guard.nothing
    local puts = worker.next == PUT
    worker.hand = function() return at, value, seq, result, output end
    if taker == worker then taker = nil end
    if worker.next then seq = seq or number_it() end
    if puts then worker.next = nil
    elseif worker.next then result, output = call_again(worker, value) end
    worker.at = nil
    local has_value = puts or value ~= nil
    while true do
      if not has_value then
        while taker or called and called ~= worker or started - delivered >= window do
          if worker.retired or finishing and first_at > last_at then return end
          at, idle = IDLE, idle + 1
          if take(calls) then called = false end
          idle = idle - 1
        end
        taker, called, at = worker, false, TAKE
        value = get(from)
        if value == nil then
          at = nil
          value = next_value(worker, true)
        end
        taker = nil
        if value == nil or worker.dropped then break end
        at = nil
        started = started + 1
        if in_order then seq = started end
        if called or idle == 0 or started - delivered >= window then
          call_next()
        else
          called = true
          offer(calls, true)
        end
        if plain then
          result, output = job(value)
          if output ~= nil then output = raise_if_nil(result, output) end
        else
          result, output = do_job(worker, value)
        end
      end
      has_value = false
      if finishing and worker.dropped then break end
      at = PUT
      if not in_order then
        send_results(worker, result, output)
      elseif seq == delivered + 1 then
        repeat
          if output then send_results(worker, result, output)
          elseif result ~= nil and not (to and put(to, result)) then emit(result, nil, worker) end
          delivered, value, seq = seq, nil, seq + 1
          result, output = results[seq], nil
          if result == nil then break end
          if not (taker or called) then call_next() end
          results[seq] = nil
          if result == NOTHING then result = nil
          elseif result == PARCEL then output, parcels[seq] = parcels[seq], nil end
        until false
        if is_step and turns[seq] then
          turns[seq]:close()
          turns[seq] = nil
        end
      elseif output then
        if result ~= PARCEL then
          if output == DEFAULT then output = nil end
          output = { result, output, at = 1, last = result == nil and 0 or 2 }
        end
        results[seq], parcels[seq] = PARCEL, output
      else
        if result == nil then result = NOTHING end
        results[seq] = result
      end
      value, seq, result, output = nil, nil, nil, nil
    end
  end

  -- Works until the worker is to end.
  local function run(worker)
    local ends = worker.next == END
    if ends then worker.next = nil end
    while not (ends or worker.dropped) do
      if in_turn then work_in_turn(worker) else work_at_once(worker) end
      worker.hand, worker.value, worker.seq, worker.result, worker.output = at_rest, nil, nil, nil, nil
      ends = is_source or is_over(worker)
    end
    if is_source then finishing = true end
    worker.at = MAIN
  end

  -- ---- ends ----

  local function leave(worker)
    worker.at, worker.block = END, false
    for i = 1, #list do
      if list[i] == worker then
        table.remove(list, i)
        break
      end
    end
    if in_turn then call_next() end
    if #list > 0 or not finishing then return end
    if watcher then cancel(watcher) end
    spec.ended(pool.err)
  end

  function body(worker)
    main(worker, run)
    leave(worker)
  end

  -- A worker whose go block has died of a failure; returns what is next, or nil if the worker is to end.
  local function what_next(worker, failure, is_cancelled)
    local late, phase, err = worker.late, failure.phase, failure.err
    if late then
      if failure.block then excuse(failure.block, err) end
      failure.err, failure.block, worker.late = late_error(late, err), false, false
    end
    if worker.dropped then return nil end
    if err == workers.FINISHED and (is_source or phase == TAKE) then return END end
    if phase == JOB and failure.tries < tries and (late or not is_cancelled) then
      worker.tried = failure.tries
      return PAUSE
    end
    worker.tried = 0
    return failed(worker, failure)
  end

  local function decide(worker, err, block, is_reported, trace)
    local at, value, seq, result, output = pool:look(worker)
    local phase = IN_JOB[at] or (at == IDLE or at == GATE) and TAKE or at
    if at == IDLE then idle = idle - 1
    elseif at == TURN then turns[seq] = nil end
    if at == GATE and value ~= nil then phase = JOB end
    if phase ~= TAKE and phase ~= MAIN then seq = seq or number_it() end
    called = false -- maybe it was this one; nothing is wrong if another one is called, too
    if taker == worker then taker = nil end
    worker.value, worker.seq, worker.result, worker.output = value, seq, result, output
    worker.kept, worker.block, worker.deadline = nil, false, false

    local is_cancelled = is_cancellation(block, err)
    local failure = {
      phase = phase, value = value, seq = seq, err = err, traceback = trace, tries = worker.tried + 1,
      block = is_reported and block,
    }
    if err == nil or not (is_reported or is_cancelled) then
      failure.err = spec.timed .. " raised nil, called coroutine.yield, or had its coroutine closed"
      failure.block = false
    end
    local what = what_next(worker, failure, is_cancelled)
    if what == nil then return false end
    if failure.block then excuse(block, err) end
    if what == "hold" then
      worker.held, worker.at, worker.hand = failure, HELD, at_rest
      return true
    end
    if type(what) == "function" then
      worker.instead, worker.next = what, HANDLER
    elseif what == END or what == PAUSE then
      worker.next = what
    elseif phase ~= MAIN then
      worker.next = phase == PUT and PUT or phase ~= TAKE and JOB or nil
    end
    spawn(worker)
    return true
  end

  -- The give_up of a worker's go block.
  function died(worker, err, block, is_reported, trace)
    local ok, goes_on = pcall(decide, worker, err, block, is_reported, trace)
    if ok and goes_on then
      if in_turn then call_next() end
      return
    end
    if not ok then -- memory has run out
      finishing = true
      if pool.err == nil then pool.err = goes_on end
    end
    leave(worker)
  end

  -- ---- the methods ----

  ---What a worker does, the value of its job, the number of that job, and in a put the result and its output.
  ---@param worker runnel.internal.Worker
  function pool:look(worker)
    local at, value, seq, result, output = worker.hand(worker)
    at = worker.at or at or phase_of(worker.turn)
    if at == TAKE or at == "off" then return TAKE end
    return at, value, seq, result, output
  end

  ---Starts the workers.
  function pool:start()
    set_plain()
    for _ = 1, lazy and 1 or n do add_worker() end
  end

  ---Jobs that have begun finish; nothing else is taken.
  function pool:pause()
    if paused then return end
    paused, gate = true, hide(chan())
    nudge_all()
  end

  ---Waits while the pool is paused.
  function pool:wait_resumed()
    while paused do take(gate) end
  end

  -- Lets a held worker go on; `instead`: with this function instead of the job.
  local function revive(worker, instead)
    local phase = worker.held.phase
    worker.held, worker.instead = nil, instead
    if instead then worker.next = HANDLER
    elseif phase ~= MAIN then worker.next = phase == PUT and PUT or phase ~= TAKE and JOB or nil end
    spawn(worker)
  end

  ---Ends a pause. Held workers try their values again.
  function pool:resume()
    if paused then
      paused = false
      gate:close()
      gate = nil
    end
    for _, worker in ipairs { table.unpack(list) } do
      if worker.held then revive(worker) end
    end
    if in_turn then call_next() end
  end

  ---A held worker goes on without its value, which the caller has from now on; its results are those of a function.
  ---@param worker runnel.internal.Worker
  ---@param instead fun(): any, any
  function pool:release(worker, instead) revive(worker, instead) end

  ---Changes how many workers there are. Those that are too many end after their job.
  ---@param count integer
  function pool:resize(count)
    if spec.window and count > 1 and not in_order and not is_source then
      in_order, in_turn, window = true, true, spec.window
      taker = list[1] -- nobody takes until this one has looked, which may have a job
      for _, worker in ipairs(list) do put_on(worker) end
    end
    n = count
    for i = n + 1, #list do
      list[i].retired = true
      nudge(list[i])
    end
    if in_turn then
      nudge_all()
      call_next()
    elseif not lazy then
      while #list < n do add_worker() end
    end
  end

  ---From the next call on the workers call another function.
  ---@param f function
  ---@param step? boolean
  function pool:replace(f, step)
    job, is_step = f, step or false
    set_plain()
  end

  ---From the next put on the workers put on another channel; false: `emit` gets everything.
  ---@param ch runnel.Channel<any>|false
  function pool:set_output(ch)
    to = ch
    for _, worker in ipairs(list) do put_on(worker) end
  end

  -- A value was added to those that come first.
  local function came_first()
    last_at = last_at + 1
    nudge_all()
    if in_turn then call_next() end
  end

  ---Adds a value that is taken before those of `grow`, and those of the input.
  ---@param value any
  function pool:first(value)
    local at = first_at + injected
    table.move(first, at, last_at, at + 1)
    first[at], injected = value, injected + 1
    came_first()
  end

  ---Adds a value that is taken before those of the input.
  ---@param value any
  function pool:grow(value)
    first[last_at + 1] = value
    came_first()
  end

  ---How many values were taken.
  ---@return integer
  function pool:taken() return taken + (is_channel and from:stats().take_total or 0) end

  ---Removes all values that come first and wait.
  ---@return any[] values
  function pool:drop_first()
    local values = table.move(first, first_at, last_at, 1, {})
    first, first_at, last_at, injected = {}, 1, 0, 0
    return values
  end

  ---How many such values wait.
  function pool:queued() return last_at - first_at + 1 end

  ---Takes no more values from the input.
  function pool:finish()
    if finishing then return end
    end_input()
    if #list == 0 then spec.ended(pool.err) end
  end

  return pool
end

return workers
