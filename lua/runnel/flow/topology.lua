---The edges of a flow and their cycles.

local core = require "runnel.core"
local cycle = require "runnel.flow.cycle"
local raise = core.internal.raise

---An edge: from an output of a stage to a stage, or to a tap.
---@class runnel.flow.Edge
---@field to runnel.flow.Stage|nil nil: a tap
---@field tap runnel.Channel<any>|nil
---@field grows boolean|nil puts on it never wait
---@field is_over boolean|nil the stage that it leads from has ended, and does not count as a feeder any more

local graph = {}

-- ---- looking ----

---Calls f(edge, output) for each edge to a stage that leaves a stage.
---@param stage runnel.flow.Stage
---@param f fun(edge: runnel.flow.Edge, output: string)
function graph.each(stage, f)
  for _, output in ipairs(stage.outputs) do
    for _, edge in ipairs(stage.outs[output] or {}) do
      if edge.to then f(edge, output) end
    end
  end
end

---The stages that one leads to, itself included, as a set.
---@param stage runnel.flow.Stage
---@return table<runnel.flow.Stage, true>
function graph.reach(stage)
  local found = {}
  local function visit(one)
    if found[one] then return end
    found[one] = true
    graph.each(one, function(edge) visit(edge.to) end)
  end
  visit(stage)
  return found
end

---A stage by its name.
---@param flow runnel.Flow
---@param name string
---@param what string
---@return runnel.flow.Stage
function graph.stage(flow, name, what)
  local stage = flow.by_name[name]
  if stage then return stage end
  local known = {}
  for i, one in ipairs(flow.stages) do known[i] = one.name end
  table.sort(known)
  raise(("%s: flow %s has no stage %q; it has %s"):format(what, flow.name, tostring(name), table.concat(known, ", ")))
end

---Raises the error of a stage without an output of that name.
---@return string
function graph.no_output(stage, output, what)
  return ('%s: stage %s has no output %q; name it in outs = { "%s" }'):format(what, stage.name, output, output)
end

---Raises if a stage has no output of that name.
function graph.check_output(stage, output, what)
  if not stage.outputs[output] then raise(graph.no_output(stage, output, what)) end
end

-- ---- changing ----

-- Lists of edges are replaced, never changed, because a put may be iterating over one.
local function set(stage, output, list)
  stage.outs[output] = list[1] and list or nil
  stage:route()
end

---Adds an edge or a tap to an output.
---@param stage runnel.flow.Stage
---@param output string
---@param edge runnel.flow.Edge
function graph.add(stage, output, edge)
  local list = { table.unpack(stage.outs[output] or {}) }
  list[#list + 1] = edge
  set(stage, output, list)
end

---Removes an edge or a tap.
---@return boolean removed
function graph.remove(stage, output, edge)
  local list, before = {}, stage.outs[output] or {}
  for _, one in ipairs(before) do
    if one ~= edge then list[#list + 1] = one end
  end
  if #list == #before then return false end
  set(stage, output, list)
  return true
end

---The edge from an output of a stage to another stage.
---@return runnel.flow.Edge?
function graph.find(stage, output, to)
  for _, edge in ipairs(stage.outs[output] or {}) do
    if edge.to == to then return edge end
  end
end

-- The stages at the beginning of a text's edge; * stands for all but the target and the stages behind it.
local function sources(flow, text, what)
  if text.from ~= "*" then return { graph.stage(flow, text.from, what) } end
  local behind, list = graph.reach(graph.stage(flow, text.to, what)), {}
  for _, stage in ipairs(flow.stages) do
    if not behind[stage] then list[#list + 1] = stage end
  end
  return list
end

---The edges of a text, checked: each as { stage, output, edge }.
---@param flow runnel.Flow
---@param text runnel.flow.EdgeText
---@param what string
---@return table[]
function graph.resolve(flow, text, what)
  local to = graph.stage(flow, text.to, what)
  if to.is_source then raise(("%s: %q: %s is a source; nothing leads to it"):format(what, text.text, to.name)) end
  local list = {}
  for _, from in ipairs(sources(flow, text, what)) do
    graph.check_output(from, text.output, what)
    if from.channel and text.output == "out" then
      raise(("%s: %q: the channel %s is an output; nothing leads from it"):format(what, text.text, from.name))
    end
    if graph.find(from, text.output, to) then
      raise(("%s: %q: that edge is there already"):format(what, text.text))
    end
    list[#list + 1] = { from, text.output, { to = to, grows = text.grows } }
  end
  return list
end

---Raises if an edge cannot be added to a flow that may run: one of its stages has ended, or it would close a cycle.
---@param from runnel.flow.Stage
---@param edge runnel.flow.Edge
---@param text string
---@param what string
function graph.check_connect(from, edge, text, what)
  local to = edge.to --[[@as runnel.flow.Stage]]
  if from.ended then raise(("%s: %q: stage %s has ended"):format(what, text, from.name)) end
  to:check_open(what)
  if not graph.reach(to)[from] then return end
  if not from.cycle or from.cycle ~= to.cycle then
    raise(("%s: %q would close a cycle; name its edges in flow(...)"):format(what, text))
  elseif not edge.grows then
    raise(("%s: %q: an edge within a cycle must grow, as in \"a >> b\""):format(what, text))
  end
end

---Raises the error of a stage without an input.
function graph.raise_unfed(what, stage)
  raise(("%s: nothing leads to stage %s: name it in an edge, give it a source, or set input = true")
    :format(what, stage.name))
end

-- ---- cycles ----

-- The groups of stages that lead to each other (Tarjan's strongly connected components).
local function components(flow)
  local count, number, low, stack, on_stack, groups = 0, {}, {}, {}, {}, {}
  local function visit(stage)
    count = count + 1
    number[stage], low[stage] = count, count
    stack[#stack + 1], on_stack[stage] = stage, true
    local is_loop = false
    graph.each(stage, function(edge)
      local to = edge.to
      is_loop = is_loop or to == stage
      if not number[to] then
        visit(to)
        low[stage] = math.min(low[stage], low[to])
      elseif on_stack[to] then
        low[stage] = math.min(low[stage], number[to])
      end
    end)
    if low[stage] < number[stage] then return end
    local group = {}
    repeat
      local one = table.remove(stack)
      on_stack[one] = nil
      table.insert(group, 1, one)
    until one == stage
    if group[2] or is_loop then groups[#groups + 1] = group end
  end
  for _, stage in ipairs(flow.stages) do
    if not number[stage] then visit(stage) end
  end
  return groups
end

-- Whether stages form a circle of edges that do not grow; returns the names on it.
local function stuck(group)
  local state, way = {}, {}
  local is_in = {}
  for _, stage in ipairs(group) do is_in[stage] = true end
  local function visit(stage)
    if state[stage] == "done" then return nil end
    way[#way + 1] = stage.name
    if state[stage] then return way end
    state[stage] = "open"
    local found
    graph.each(stage, function(edge)
      if not found and is_in[edge.to] and not edge.grows then found = visit(edge.to) end
    end)
    if found then return found end
    state[stage], way[#way] = "done", nil
  end
  for _, stage in ipairs(group) do
    local found = visit(stage)
    if found then return table.concat(found, " > ") end
  end
end

---Finds the cycles, and counts the inputs of each stage and each cycle. Raises if a cycle could fill up.
---@param flow runnel.Flow
function graph.settle(flow)
  for _, group in ipairs(components(flow)) do
    local way = stuck(group)
    if way then
      raise(('flow: %s is a cycle, which could fill up and stop; one edge of it must grow, as in "a >> b"')
        :format(way))
    end
    local one = cycle.new(group)
    for _, stage in ipairs(group) do
      if stage.flush and stage.n > 1 then
        raise(("flow: stage %s: a stage with `flush` in a cycle has one worker"):format(stage.name))
      end
      stage.cycle = one
    end
  end
  for _, stage in ipairs(flow.stages) do
    if stage.is_input then graph.feed(stage) end
    graph.each(stage, function(edge) graph.feed(edge.to, stage) end)
  end
  for _, stage in ipairs(flow.stages) do
    local feeders = stage.cycle and stage.cycle.feeders or stage.feeders
    if not stage.is_source and feeders == 0 then
      graph.raise_unfed("flow", stage)
    end
  end
end

---Counts one more input of a stage. Edges within a cycle do not count.
---@param stage runnel.flow.Stage
---@param from? runnel.flow.Stage
function graph.feed(stage, from)
  local group = stage.cycle
  if not group then
    stage.feeders = stage.feeders + 1
  elseif not (from and from.cycle == group) then
    group.feeders = group.feeders + 1
  end
end

---An input of a stage has ended or was disconnected.
---@param stage runnel.flow.Stage
---@param from? runnel.flow.Stage
---@param edge? runnel.flow.Edge counts once only, in case memory runs out and this is called again
function graph.unfeed(stage, from, edge)
  local group = stage.cycle
  if group and from and from.cycle == group then return end
  local target = group or stage
  if not (edge and edge.is_over) then target.feeders = target.feeders - 1 end
  if edge then edge.is_over = true end
  if group then
    cycle.look(group)
  elseif stage.feeders == 0 then
    stage:close_input()
  end
end

return graph
