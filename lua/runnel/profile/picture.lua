---The data of a profile's flame graph.

local first = require "runnel.profile.first"
local json = require "runnel.json"

local picture = {}

-- Nodes with less than the total divided by this are left out.
local PARTS <const> = 5000

-- A node: its text, its ns, and its children.
local function node_of(node, least)
  local list = json.array { node.text, node.ns }
  for _, kid in ipairs(node.kids) do
    if kid.ns >= least then list[#list + 1] = node_of(kid, least) end
  end
  return list
end

local function encode(trees, parts)
  local data = { sentence = first.sentence(trees), elapsed = trees.elapsed, ran = trees.ran, loop = trees.loop,
    blocked = trees.blocked,
    running = node_of(trees.running, trees.running.ns // parts),
    waiting = node_of(trees.waiting, trees.waiting.ns // parts), parts = parts }
  local text, problem = json.encode(data)
  if not text then error(problem, 0) end
  return (text:gsub("<", "\\u003c")) -- it may be in a page
end

---The data as JSON: `sentence`; `elapsed`, `ran`, `loop` and `blocked` in ns; `running` and `waiting`, trees of [text,
---ns, children...]; and `parts`: nodes with less than the total of their tree divided by this are left out.
---@param trees runnel.profile.Trees
---@param most? integer the most bytes of the text: of a longer one more nodes are left out
---@return string
function picture.data(trees, most)
  local parts = PARTS
  local text = encode(trees, parts)
  while most and #text > most and parts > 1 do
    parts = parts // 2
    text = encode(trees, parts)
  end
  return text
end

return picture
