---The forms in which the graph of a program is written: DOT, Mermaid, and boxes for a terminal.

local width = require "runnel.internal.width"

---@class runnel.tracing.graph_forms
local forms = {}

---Whether puts wait on a channel.
---@param node runnel.graph.Node
---@return boolean
function forms.is_full(node)
  return not node.closed and (node.puts_waiting or 0) > 0
end

---Whether a channel has no values, and takes wait.
---@param node runnel.graph.Node
---@return boolean
function forms.is_empty(node)
  return not node.closed and (node.values or 0) == 0 and (node.takes_waiting or 0) > 0
end

local function fill(node)
  if not node.id or node.buffer == "none" then return "" end
  if node.buffer == "policy" then return ("%d values"):format(node.values) end
  return ("%d/%d"):format(node.values, node.capacity)
end

-- The lines of text for a node.
local function lines_of(node)
  local count = node.count or 0
  local lines = { count > 1 and ("%s ×%d"):format(node.name, count) or node.name }
  if node.kind == "go" then return lines end
  local parts = {}
  if fill(node) ~= "" then parts[1] = fill(node) end
  for _, what in ipairs { "put", "take" } do
    local n = node[what .. "s_waiting"] or 0
    if n > 0 then parts[#parts + 1] = ("%d %s%s waiting"):format(n, what, n == 1 and "" or "s") end
  end
  if node.closed then parts[#parts + 1] = "closed" end
  if #parts > 0 then lines[2] = table.concat(parts, ", ") end
  return lines
end

local function amount(edge)
  if not edge.rate then return ("%d"):format(edge.total) end
  return ("%d (%.0f/s)"):format(edge.total, edge.rate)
end

-- The colour of a channel: red if puts wait, blue if takes wait.
local function colour(node)
  if node.kind == "go" then return nil end
  if forms.is_full(node) then return "#f4b6b0" end
  if forms.is_empty(node) then return "#cfe3f7" end
  return nil
end

local function numbered(g)
  local numbers = {}
  for i, node in ipairs(g.nodes) do numbers[node.key] = i end
  return numbers
end

local function dot_string(text) return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", "\\n"):gsub("%c", "?") .. '"' end

---The graph in DOT, for graphviz.
---@param g runnel.graph.Graph
---@return string
function forms.dot(g)
  local out, numbers = { "digraph runnel {", "  rankdir=LR;", "  node [fontname=\"sans-serif\"];" }, numbered(g)
  for _, text in ipairs(g.findings) do out[#out + 1] = "  // " .. text:gsub("%c", "?") end
  for i, node in ipairs(g.nodes) do
    local fillcolor = colour(node)
    out[#out + 1] = ("  n%d [label=%s, shape=%s%s];"):format(i, dot_string(table.concat(lines_of(node), "\n")),
      node.kind == "go" and "box" or "ellipse", fillcolor and
      (', style=filled, fillcolor="%s"'):format(fillcolor) or "")
  end
  for _, edge in ipairs(g.edges) do
    out[#out + 1] = ("  n%d -> n%d [label=%s];"):format(numbers[edge.from], numbers[edge.to], dot_string(amount(edge)))
  end
  out[#out + 1] = "}\n"
  return table.concat(out, "\n")
end

local ENTITIES = { ['"'] = "#quot;", ["<"] = "#lt;", [">"] = "#gt;", ["#"] = "#35;", ["&"] = "#amp;" }

local function mermaid_string(text)
  return '"' .. text:gsub('["<>#&]', ENTITIES):gsub("\n", "<br/>"):gsub("%c", "?") .. '"'
end

---The graph in Mermaid, for Markdown.
---@param g runnel.graph.Graph
---@return string
function forms.mermaid(g)
  local out, numbers = { "flowchart LR" }, numbered(g)
  for _, text in ipairs(g.findings) do out[#out + 1] = "  %% " .. text:gsub("%c", "?") end
  for i, node in ipairs(g.nodes) do
    local text = mermaid_string(table.concat(lines_of(node), "\n"))
    out[#out + 1] = (node.kind == "go" and "  n%d[%s]" or "  n%d([%s])"):format(i, text)
    if colour(node) then out[#out + 1] = ("  style n%d fill:%s"):format(i, colour(node)) end
  end
  for _, edge in ipairs(g.edges) do
    out[#out + 1] = ("  n%d -->|%s| n%d"):format(numbers[edge.from], mermaid_string(amount(edge)), numbers[edge.to])
  end
  return table.concat(out, "\n") .. "\n"
end

local BAR = 8 -- cells of a bar that shows how full a buffer is

local function bar(node)
  if not node.capacity or node.capacity == 0 or node.buffer == "policy" then return nil end
  local full = math.min(BAR, math.ceil(node.values * BAR / node.capacity))
  return ("█"):rep(full) .. ("░"):rep(BAR - full)
end

---The graph in boxes, for a terminal: each go block that takes or puts in a box, with its channels on both sides.
---@param g runnel.graph.Graph
---@return string
function forms.text(g)
  local by_key, incoming, outgoing, out = {}, {}, {}, {}
  for _, node in ipairs(g.nodes) do by_key[node.key], incoming[node.key], outgoing[node.key] = node, {}, {} end
  for _, edge in ipairs(g.edges) do
    table.insert(incoming[edge.to], edge)
    table.insert(outgoing[edge.from], edge)
  end
  local function say(edge, other, arrow)
    local node = by_key[other]
    local lines = lines_of(node)
    local name = width.plain(lines[1])
    return table.concat({ arrow, amount(edge), arrow, name, bar(node) or "", lines[2] or "" }, " "):gsub(" +", " ")
  end
  for _, node in ipairs(g.nodes) do
    if node.kind == "go" then
      local lines = { width.plain(lines_of(node)[1]) }
      for _, edge in ipairs(incoming[node.key]) do lines[#lines + 1] = say(edge, edge.from, "<-") end
      for _, edge in ipairs(outgoing[node.key]) do lines[#lines + 1] = say(edge, edge.to, "->") end
      local widest = 0
      for _, line in ipairs(lines) do widest = math.max(widest, width.of(line)) end
      out[#out + 1] = "┌─" .. ("─"):rep(widest) .. "─┐"
      for i, line in ipairs(lines) do
        out[#out + 1] = "│ " .. line .. (" "):rep(widest - width.of(line)) .. " │"
        if i == 1 and #lines > 1 then out[#out + 1] = "├─" .. ("─"):rep(widest) .. "─┤" end
      end
      out[#out + 1] = "└─" .. ("─"):rep(widest) .. "─┘"
    end
  end
  for _, text in ipairs(g.findings) do out[#out + 1] = width.plain(text) end
  if g.lost > 0 then out[#out + 1] = ("%d puts and takes were not counted: there are too many edges"):format(g.lost) end
  return table.concat(out, "\n") .. "\n"
end

return forms
