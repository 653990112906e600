---Makes the stages and edges of a flow from its description; adds stages to a flow that runs, and removes them.

local core = require "runnel.core"
local edges = require "runnel.flow.edges"
local ending = require "runnel.flow.flow_ending"
local graph = require "runnel.flow.topology"
local specs = require "runnel.flow.spec"
local stages = require "runnel.flow.flow_stage"
local raise = core.internal.raise

local change = {}

-- The stages' names in the order of the edges, and then the others.
local function order(texts, given)
  local list, seen = {}, { ["*"] = true }
  local function add(name)
    if not seen[name] then
      seen[name] = true
      list[#list + 1] = name
    end
  end
  for _, text in ipairs(texts) do
    add(text.from)
    add(text.to)
  end
  local rest = {}
  for name in pairs(given) do rest[#rest + 1] = name end
  table.sort(rest)
  for _, name in ipairs(rest) do add(name) end
  return list
end

-- Parses a description: the stages by name, and the edges.
local function read(given, what)
  local by_name, texts, n = {}, {}, 0
  for key, value in pairs(given) do
    if type(key) == "string" then
      by_name[key] = specs.stage(key, value)
    elseif math.type(key) == "integer" then
      n = math.max(n, key)
    else
      raise(("%s: %s is neither the name of a stage nor an edge"):format(what, tostring(key)))
    end
  end
  for i = 1, n do
    for _, text in ipairs(edges.parse(given[i], what)) do texts[#texts + 1] = text end
  end
  if next(by_name) == nil then raise(what .. ": there are no stages") end
  return by_name, texts
end

-- Makes the stages, and adds them to the flow. Returns them.
local function make(flow, by_name, texts)
  local is_led, list = {}, {}
  for _, text in ipairs(texts) do is_led[text.to] = true end
  local names = order(texts, by_name)
  for _, name in ipairs(names) do
    if not by_name[name] and not flow.by_name[name] then
      raise(("flow: an edge names %q, which is not a stage"):format(name))
    end
  end
  for _, name in ipairs(names) do
    if by_name[name] then
      local stage = stages.new(flow, name, by_name[name], is_led[name] or false)
      flow.stages[#flow.stages + 1], flow.by_name[name] = stage, stage
      list[#list + 1] = stage
    end
  end
  return list
end

-- Calls f(found) for the edges of each text. Those from all stages come last: they leave out the stages behind their
-- target.
local function each_edge(flow, texts, what, f)
  for _, is_star in ipairs { false, true } do
    for _, text in ipairs(texts) do
      if (text.from == "*") == is_star then
        for _, found in ipairs(graph.resolve(flow, text, what)) do f(found, text) end
      end
    end
  end
end

---Makes the stages of a new flow.
---@param flow runnel.Flow
---@param given table
function change.fill(flow, given)
  local by_name, texts = read(given, "flow")
  make(flow, by_name, texts)
  flow.living = #flow.stages
  each_edge(flow, texts, "flow", function(found) graph.add(table.unpack(found)) end)
  graph.settle(flow)
  for _, stage in ipairs(flow.stages) do stage:prepare() end
  for _, stage in ipairs(flow.stages) do stage:route() end
end

-- Removes a stage from the lists of its flow. A list is replaced, since it may be iterated over.
local function forget(flow, stage)
  local list = {}
  for _, one in ipairs(flow.stages) do
    if one ~= stage then list[#list + 1] = one end
  end
  flow.stages = list
  if flow.by_name[stage.name] == stage then flow.by_name[stage.name] = nil end
end

-- Adds edges one by one, so that each is checked with those before it. Those that were added are in `added` if it
-- raises.
local function add_edges(flow, texts, what, added)
  each_edge(flow, texts, what, function(found, text)
    graph.check_connect(found[1], found[3], text.text, what)
    graph.add(table.unpack(found))
    added[#added + 1] = found
  end)
end

local function remove_edges(added)
  for _, found in ipairs(added) do graph.remove(table.unpack(found)) end
end

local function feed_edges(added)
  for _, found in ipairs(added) do graph.feed(found[3].to, found[1]) end
end

---Adds edges. Either all are added, or an error is raised and none is.
---@param flow runnel.Flow
---@param text string
function change.connect(flow, text)
  local texts, added = edges.parse(text, "connect"), {}
  do
    local undo <close> = setmetatable({}, { __close = function(_, err) -- luacheck: ignore 211
      if err ~= nil then remove_edges(added) end
    end })
    add_edges(flow, texts, "connect", added)
  end
  feed_edges(added)
end

-- Makes the stages and edges; those edges that were added are in `added` if it raises.
local function add_all(flow, by_name, texts, added)
  local list, is_fed = make(flow, by_name, texts), {}
  add_edges(flow, texts, "add", added)
  for _, found in ipairs(added) do is_fed[found[3].to] = true end
  for _, stage in ipairs(list) do
    if not stage.is_source and not stage.is_input and not is_fed[stage] then graph.raise_unfed("add", stage) end
  end
end

---Adds stages and edges. Either all are added, or an error is raised and none is.
---@param flow runnel.Flow
---@param given table as for a new flow
function change.add(flow, given)
  if flow.state ~= "new" and flow.state ~= "running" then
    raise(("add: flow %s %s"):format(flow.name, flow.state == "ended" and "has ended" or "is being drained"))
  end
  local by_name, texts = read(given, "add")
  for name in pairs(by_name) do
    if flow.by_name[name] then raise(("add: flow %s has a stage %q already"):format(flow.name, name)) end
  end
  local before, added = flow.stages, {}
  flow.stages = { table.unpack(before) }
  do
    local undo <close> = setmetatable({}, { __close = function(_, err) -- luacheck: ignore 211
      if err == nil then return end
      remove_edges(added)
      for name in pairs(by_name) do flow.by_name[name] = nil end
      flow.stages = before
    end })
    add_all(flow, by_name, texts, added)
  end
  local list = table.move(flow.stages, #before + 1, #flow.stages, 1, {})
  for _, stage in ipairs(list) do
    if stage.is_input then graph.feed(stage) end
  end
  feed_edges(added)
  for _, stage in ipairs(list) do stage:prepare() end
  for _, stage in ipairs(flow.stages) do stage:route() end
  flow.living = flow.living + #list
  if flow.state == "new" then return end
  for _, stage in ipairs(list) do stage.pool:start() end
end

-- Raises if a stage or a cycle behind the one to be removed has no other input that stays.
local function check_behind(flow, stage)
  local going = {} -- by stage or cycle: how many that lead to it are removed
  for _, from in ipairs(flow.stages) do
    if from == stage or from.is_leaving and not from.ended then
      graph.each(from, function(edge)
        local target = edge.to.cycle or edge.to
        going[target] = (going[target] or 0) + 1
      end)
    end
  end
  graph.each(stage, function(edge)
    local to = edge.to --[[@as runnel.flow.Stage]]
    local target = to.cycle or to
    if target.feeders <= going[target] and not to.ended and not to.closed then
      raise(('remove: nothing but %s leads to stage %s, which would end: connect another one first, as in '
        .. 'f:connect "a > %s", or remove %s first'):format(stage.name, to.name, to.name, to.name))
    end
  end)
end

---Removes a stage: nothing more comes to it; it leaves the flow when it is done with the values that it has. A source
---is cancelled where it waits.
---@param flow runnel.Flow
---@param name string
function change.remove(flow, name)
  local stage = graph.stage(flow, name, "remove")
  if flow.state == "new" then raise(("remove: flow %s was not started"):format(flow.name)) end
  if stage.ended then return forget(flow, stage) end
  if stage.cycle then raise(("remove: stage %s is in a cycle"):format(name)) end
  if stage.paused then
    raise(("remove: stage %s %s: resume it first, so that its values go on"):format(name,
      stage.held and "holds a value" or "is paused"))
  end
  check_behind(flow, stage)
  stage.is_leaving = true
  stage.on_end = function() forget(flow, stage) end
  for _, from in ipairs(flow.stages) do
    graph.each(from, function(edge, output)
      if edge.to ~= stage then return end
      graph.remove(from, output, edge)
      if not from.ended then graph.unfeed(stage, from) end
    end)
  end
  if stage.is_input then graph.unfeed(stage) end
  if stage.is_source then ending.end_source(stage) end
end

return change
