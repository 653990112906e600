---The graph of a running program: which go blocks put on which channels, and which take from them. Go blocks with the
---same name are one node with a count. Counting starts with the first call, since it costs time.

local core = require "runnel.core"
local class = require "runnel.internal.class"
local forms = require "runnel.tracing.graph_forms"
local in_parts = require "runnel.tracing.in_parts"
local raise = core.internal.raise
local recorder = core.internal.trace
local check = require "runnel.internal.check"
local sign = require "runnel.internal.sign"

---@class runnel.tracing.graph
local graph = {}

---@class runnel.graph.Node
---@field kind "go"|"channel"
---@field key string identifies it in edges: "go NAME", "channel ID" or "result NAME"
---@field name string
---@field count? integer of go blocks: how many there are now with this name; of channels that share a node: how many
---@field parked? table<string, integer> of go blocks: how many there are by operation or state: take, put, alts, idle
---(as in rn.ps), sleeping, ready, running
---@field id? integer of a channel, or the first of several
---@field values? integer of a channel: values in its buffer
---@field capacity? integer of a channel: values that it holds; nil for the results of go blocks
---@field buffer? string of a channel: the kind of its buffer
---@field puts_waiting? integer of a channel: puts that wait
---@field takes_waiting? integer of a channel: takes that wait
---@field closed? boolean of a channel
---@field channel? runnel.Channel<any> of a single channel: the channel

---@class runnel.graph.Edge
---@field from string key of the node that the values come from
---@field to string key of the node that they go to
---@field total integer values so far
---@field rate number|nil values a second since the last call; nil at the first

---@class runnel.graph.Graph
---@field nodes runnel.graph.Node[]
---@field edges runnel.graph.Edge[]
---@field findings string[] sentences such as "parse is the bottleneck: its input (chan: a) is full, its ..."
---@field lost integer puts and takes that were not counted, because there are too many edges
---@field dot fun(self: runnel.graph.Graph): string in DOT, for graphviz
---@field mermaid fun(self: runnel.graph.Graph): string in Mermaid, for Markdown
---@field text fun(self: runnel.graph.Graph): string in boxes, for a terminal

-- ---- nodes and edges ----

local function title(stats)
  if stats.name then return "chan: " .. stats.name end
  return stats.line and ("chan: #%d (%s)"):format(stats.id, stats.line) or "chan: #" .. stats.id
end

-- The go blocks that put on each channel and that take from it: id -> { n =, ends = set of texts }.
local function ends_of(edges)
  local all = in_parts.map()
  local function add(id, text)
    local found = all[id] or { n = 0, ends = {} }
    all[id] = found
    if found.ends[text] then return end
    found.ends[text] = true
    found.n = found.n + 1
  end
  for i, edge in ipairs(edges) do
    in_parts.rest(i)
    if edge.channel and edge.puts > 0 then add(edge.channel, "put " .. edge.name) end
    if edge.channel and edge.takes > 0 then add(edge.channel, "take " .. edge.name) end
  end
  return all
end

local NO_ENDS = { n = 0, ends = {} }

local function covers(more, less)
  for text in pairs(less.ends) do
    if not more.ends[text] then return false end
  end
  return true
end

-- Groups channels made at the same line. A channel belongs to a group if each go block that puts on it or takes from it
-- does the same with the group's first channel. So channels that a program makes for each job are one group, although
-- some have had no take yet.
local function alike(list, ends)
  list = in_parts.sort(list, function(a, b)
    local more, less = (ends[a.id] or NO_ENDS).n, (ends[b.id] or NO_ENDS).n
    if more ~= less then return more > less end
    return a.id < b.id
  end)
  local lists = {}
  for k, stats in ipairs(list) do
    in_parts.rest(k)
    local found
    for i = 1, math.min(#lists, 16) do
      if covers(ends[lists[i][1].id] or NO_ENDS, ends[stats.id] or NO_ENDS) then
        found = lists[i]
        break
      end
    end
    if not found then
      found = {}
      lists[#lists + 1] = found
    end
    found[#found + 1] = stats
  end
  return lists
end

-- The node of channels that are alike, or of one channel.
local function channel_node(list, name)
  local first, is_closed = list[1], true
  local sums = { values = 0, capacity = 0, puts_waiting = 0, takes_waiting = 0 }
  for i, stats in ipairs(list) do
    in_parts.rest(i)
    is_closed = is_closed and stats.closed
    for field, sum in pairs(sums) do sums[field] = sum + (stats[field] or 0) end
  end
  return { kind = "channel", key = "channel " .. first.id, id = first.id, name = name,
    values = sums.values, capacity = sums.capacity, buffer = first.buffer, puts_waiting = sums.puts_waiting,
    takes_waiting = sums.takes_waiting, closed = is_closed, count = #list > 1 and #list or nil,
    channel = #list == 1 and first.channel or nil }
end

-- Adds a node for each channel that has a name, and for each group of channels without one. by_key then has the node of
-- each channel.
local function add_channels(nodes, by_key, edges)
  local places, order, ends = {}, {}, ends_of(edges)
  for stats, ch, name, unnamed in in_parts.channels() do
    stats.channel, stats.line = ch, unnamed and name or nil
    local place = not stats.name and stats.line or stats.id
    if not places[place] then
      places[place] = {}
      order[#order + 1] = place
    end
    table.insert(places[place], stats)
  end
  for i, place in ipairs(order) do
    in_parts.rest(i)
    for _, list in ipairs(alike(places[place], ends)) do
      local node = channel_node(list, #list > 1 and "chan: " .. place or title(list[1]))
      nodes[#nodes + 1] = node
      for k, stats in ipairs(list) do
        in_parts.rest(k)
        by_key["channel " .. stats.id] = node
      end
    end
  end
end

local function go_node(nodes, by_key, name)
  local key = "go " .. name
  local node = by_key[key]
  if not node then
    node = { kind = "go", key = key, name = name, count = 0, parked = {} }
    nodes[#nodes + 1] = node
    by_key[key] = node
  end
  return node
end

-- The name that edges of a go block have.
local function name_of(entry)
  local name = recorder.name(entry.result)
  return name ~= "?" and name or entry.name
end

local function add_blocks(nodes, by_key)
  for i, entry in ipairs(core.ps()) do
    in_parts.rest(i)
    local node = go_node(nodes, by_key, name_of(entry))
    node.count = node.count + 1
    local what = entry.operation or entry.state
    node.parked[what] = (node.parked[what] or 0) + 1
  end
end

local last = { time = nil, totals = {} } -- of the last call, for rates

local function add_edges(nodes, by_key, list, edges)
  local now = core.now()
  local elapsed = last.time and now > last.time and (now - last.time) / 1000 or nil
  local totals, by_ends = {}, {}
  local function add(from, to, total)
    if total == 0 then return end
    local key = from .. "\0" .. to
    totals[key] = (totals[key] or 0) + total
    local edge = by_ends[key]
    if not edge then
      edge = { from = from, to = to }
      by_ends[key] = edge
      edges[#edges + 1] = edge
    end
    edge.total = totals[key]
    -- Of channels that share a node some may have been collected meanwhile.
    edge.rate = elapsed and math.max(totals[key] - (last.totals[key] or 0), 0) / elapsed or nil
  end
  for _, edge in ipairs(list) do
    local key = edge.channel and "channel " .. edge.channel or "result " .. edge.result
    -- An untaken result of a go block needs no node.
    if not edge.channel and not by_key[key] and edge.takes > 0 then
      by_key[key] = { kind = "channel", key = key, name = "result of " .. edge.result }
      nodes[#nodes + 1] = by_key[key]
    end
  end
  for i, edge in ipairs(list) do
    in_parts.rest(i)
    local key = edge.channel and "channel " .. edge.channel or "result " .. edge.result
    local node = by_key[key]
    if node then -- else the channel has been collected
      local name = go_node(nodes, by_key, edge.name).key
      add(name, node.key, edge.puts)
      add(node.key, name, edge.takes)
    end
  end
  last = { time = now, totals = totals }
end

-- ---- findings ----

-- The names of channels, for a sentence.
local function names_of(channels)
  local names = {}
  for i, node in ipairs(channels) do names[i] = node.name end
  return table.concat(names, ", ")
end

local function find(nodes, by_key, edges)
  local inputs, outputs, findings = {}, {}, {}
  for i, edge in ipairs(edges) do
    in_parts.rest(i)
    local from, to = by_key[edge.from], by_key[edge.to]
    local side, node, ch = outputs, from, to
    if from.kind == "channel" then side, node, ch = inputs, to, from end
    side[node] = side[node] or {}
    if ch.id then side[node][ch] = true end
  end
  -- A channel between go blocks of one name is inside that stage.
  for node, channels in pairs(inputs) do
    for ch in pairs(channels) do
      if outputs[node] and outputs[node][ch] then
        channels[ch], outputs[node][ch] = nil, nil
      end
    end
  end
  local function all(channels, holds)
    local met = {}
    for ch in pairs(channels or {}) do
      if holds(ch) then met[#met + 1] = ch end
    end
    table.sort(met, function(a, b) return a.id < b.id end)
    return met
  end
  for i, node in ipairs(nodes) do
    in_parts.rest(i)
    if node.kind == "go" then
      local full, empty = all(inputs[node], forms.is_full), all(outputs[node], forms.is_empty)
      local blocked = all(outputs[node], forms.is_full)
      local is_paused = node.count > 0 and node.parked.idle == node.count
      if #full > 0 and #blocked == 0 and not is_paused then
        local text = ("%s is the bottleneck: its input (%s) is full"):format(node.name, names_of(full))
        if #empty > 0 then text = ("%s, its output (%s) empty"):format(text, names_of(empty)) end
        findings[#findings + 1] = text
      end
    end
  end
  return findings
end

-- ---- the graph ----

local Graph = {} -- the metatable of graphs
Graph.__sign = "g"

local holding = false

---Starts or stops counting.
---@param on boolean
function graph.count(on)
  if on == holding then return end
  holding = on
  last = { time = on and core.now() or nil, totals = {} }
  if on then in_parts.hold "e" else recorder.release "e" end
end

---Returns the graph. A long one is made in parts, between which other go blocks run: each number in it was true at some
---time during the call. The first call starts counting what go blocks put and take, so its graph has no edges
---unless the monitor has been counting. `rn.graph(false)` stops counting.
---@param on? boolean false stops counting
---@return runnel.graph.Graph? graph nil for false
function graph.graph(on)
  if on ~= nil and type(on) ~= "boolean" then
    raise("graph: true, false or nothing expected, got " .. check.article(on))
  end
  if on == false then
    graph.count(false)
    return nil
  end
  graph.count(true)
  local nodes, by_key, edges = {}, in_parts.map(), {}
  local list, lost = recorder.edges()
  list = in_parts.sort(list, function(a, b)
    if a.channel ~= b.channel then return (a.channel or math.huge) < (b.channel or math.huge) end
    return a.name < b.name or a.name == b.name and (a.result or "") < (b.result or "")
  end)
  add_channels(nodes, by_key, list)
  add_blocks(nodes, by_key)
  add_edges(nodes, by_key, list, edges)
  local used = {}
  for _, edge in ipairs(edges) do used[edge.from], used[edge.to] = true, true end
  -- Go blocks that neither put nor take are shown, too; the main program only if it does.
  local shown = {}
  for i, node in ipairs(nodes) do
    in_parts.rest(i)
    if used[node.key] or node.kind == "go" and (node.count or 0) > 0 or node.id then shown[#shown + 1] = node end
  end
  return setmetatable({ nodes = shown, edges = edges, findings = find(shown, by_key, edges), lost = lost }, Graph)
end

---The forms in which a graph can be written.
---@type table<string, fun(g: runnel.graph.Graph): string>
graph.forms = { dot = forms.dot, mermaid = forms.mermaid, text = forms.text }
for name, form in pairs(graph.forms) do
  graph[name] = form
  Graph[name] = function(g)
    sign.own(g, "g", name)
    return form(g)
  end
end

class.finish(Graph)

return graph
