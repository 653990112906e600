---Puts the values of a stage where the engine cannot simply put them on one channel.

local core = require "runnel.core"
local cycle = require "runnel.flow.cycle"
local graph = require "runnel.flow.topology"

local offer, put, raise = core.methods.offer, core.internal.moving.put, core.internal.raise

local putting = {}

-- Keeps a value that the input of a stage has not accepted, because its edge was disconnected or the flow was stopped.
local function give(to, value)
  if to.flow.stopped or to.ended then return to.flow:lose(to, { value = value }) end
  to:receive(value)
end

-- Values that a worker copies to several edges, one after the other. If its go block is killed meanwhile, and some
-- edges have got the value, the others get it without a wait: a put happens on all edges or on none.
local Copies = {}

function Copies.__close(copies, err)
  if err == nil then return end
  if copies.counted then cycle.leave(copies.counted) end
  if copies.i == 1 then return end
  for i = copies.i, #copies.edges do
    local edge = copies.edges[i]
    if edge.to then give(edge.to, copies.value) else offer(edge.tap, copies.value) end
  end
  -- The worker's next go block repeats puts that are not the program's function's own.
  local worker = copies.worker
  if copies.is_helper then return end
  worker.was_put = worker.is_emitting or copies.pool:state_of(worker) == "put"
end

local function put_on(edge, value, copies)
  local to = edge.to
  if not to then
    offer(edge.tap, value)
  elseif edge.grows or to.flow.stopped then
    give(to, value)
  else
    local group = to.cycle
    if group then
      cycle.enter(group)
      copies.counted = group
    end
    local accepted = put(to.input, value)
    copies.counted = false
    if not accepted then give(to, value) end
    if group and not accepted then cycle.leave(group) end
  end
end

---Puts a value on all edges of an output; may wait. A value for an output without an edge is dropped.
---@param stage runnel.flow.Stage
---@param value any
---@param output string|nil
---@param worker table
---@param is_helper? boolean a go block puts that the worker's call has started
function putting.emit(stage, value, output, worker, is_helper)
  local edges = stage.outs[output or "out"]
  if not edges then
    if output == nil or stage.outputs[output] then return end
    local problem = graph.no_output(stage, output, "put")
    if stage.pool:state_of(worker) == "put" then error(problem, 0) end -- a result that its function has returned
    raise(problem)
  end
  if worker.was_put and not is_helper then
    worker.was_put = false
    return
  end
  local copies <close> = setmetatable({
    pool = stage.pool, worker = worker, edges = edges, value = value, i = 1, counted = false,
    is_helper = is_helper,
  }, Copies)
  for i = 1, #edges do
    copies.i = i
    put_on(edges[i], value, copies)
  end
end

return putting
