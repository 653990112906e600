---The trees of a profile, made from those that the core has recorded: with sums and texts, in a fixed order. Children
---whose names differ only in numbers, as those of go blocks that are named "worker 17", are one. All texts are UTF-8,
---which the forms of a profile need, whatever the names of go blocks, channels and files are.

local short = require "runnel.internal.short"

---@class runnel.profile.Node
---@field text string what is shown
---@field key string its name in the core's tree
---@field ns integer the time of the node and of all below it
---@field own integer that of the node alone
---@field kids runnel.profile.Node[] the longest first

local tree = {}

local ALIKE = 5 -- this many children, or more, whose names differ only in numbers become one

-- Whether the name of a node is a place, whose number is that of a line.
local function is_place(key) return key:find ":%d+$" or key:find "^line %d+$" end

-- Adds the children of a node of the core to those of another, with names in UTF-8. Returns the other.
local function merge(into, from)
  for key, value in pairs(from) do
    local name = type(key) == "string" and short.utf8(key) or key -- the keys of times are integers
    if type(value) == "table" then
      into[name] = merge(into[name] or {}, value)
    else
      into[name] = (into[name] or 0) + value
    end
  end
  return into
end

-- The children of a node of the core, those that are alike merged.
local function folded(node)
  local groups, result = {}, {}
  for key, kid in pairs(node) do
    if type(kid) == "table" then
      local pattern = is_place(key) and key or key:gsub("%d+", "*")
      groups[pattern] = groups[pattern] or {}
      table.insert(groups[pattern], key)
    end
  end
  for pattern, keys in pairs(groups) do
    if #keys < ALIKE then
      for _, key in ipairs(keys) do result[key] = node[key] end
    else
      result[pattern] = {}
      for _, key in ipairs(keys) do merge(result[pattern], node[key]) end
    end
  end
  return result
end

---Who has ended a wait, or has used up what it is for: a name with which a path begins, or a place. Nil if the node is
---not that of one.
---@param key string
---@return string?
function tree.waker(key) return key:match "^woken by (.*)" or key:match "^%a+ last by (.*)" end

---The text of a function's place: "spin (app.lua:3)".
---@param names table<string, string> "file:line" -> name
---@param key string
---@return string
function tree.text(names, key)
  local file, line = key:match "^(.*):(%d+)$"
  if not file or tree.waker(key) then return key end
  if line == "0" then return ("main chunk (%s)"):format(file) end
  return names[key] and ("%s (%s)"):format(names[key], key) or key
end

-- Makes a node of one of the core's, without the calls of the function at the place `hidden`. `slot` is the key of its
-- own time.
local function make(raw, key, slot, names, hidden)
  local node = { key = key, text = tree.text(names, key), own = raw[slot] or 0, kids = {} }
  node.ns = node.own
  for name, kid in pairs(folded(raw)) do
    local made = make(kid, name, slot, names, hidden)
    if name ~= hidden and made.ns > 0 then
      node.ns = node.ns + made.ns
      node.kids[#node.kids + 1] = made
    end
  end
  table.sort(node.kids, function(a, b)
    if a.ns ~= b.ns then return a.ns > b.ns end
    return a.key < b.key
  end)
  return node
end

---@class runnel.profile.Trees
---@field running runnel.profile.Node
---@field waiting runnel.profile.Node
---@field names table<string, string>
---@field ran integer ns
---@field loop integer ns
---@field blocked integer ns
---@field waited integer ns
---@field elapsed integer ns

---@param raw table what the core's `stop` has returned
---@param hidden string "file:line" of a function whose calls are left out
---@return runnel.profile.Trees
function tree.make(raw, hidden)
  local names = {}
  for place, name in pairs(raw.names) do
    if type(place) == "string" then names[short.utf8(place)] = short.utf8(name) end
  end
  hidden = short.utf8(hidden)
  local made = { names = names, ran = raw.ran, loop = raw.loop, blocked = raw.blocked, waited = raw.waited,
    elapsed = raw.elapsed }
  made.running = make(merge({}, raw.running), "running", 1, names, hidden)
  made.waiting = make(merge({}, raw.waiting), "waiting", 2, names, hidden)
  if raw.loop > 0 then
    table.insert(made.running.kids, { key = "scheduler", text = "the scheduler and its driver", ns = raw.loop,
      own = raw.loop, kids = {} })
    made.running.ns = made.running.ns + raw.loop
  end
  return made
end

---Calls f(path, node) for each node below a root, those with time of their own or not, the parents first. `path` is the
---list of the nodes from below the root to it; it changes afterwards.
---@param root runnel.profile.Node
---@param f fun(path: runnel.profile.Node[], node: runnel.profile.Node)
function tree.walk(root, f)
  local path = {}
  local function visit(node)
    path[#path + 1] = node
    f(path, node)
    for _, kid in ipairs(node.kids) do visit(kid) end
    path[#path] = nil
  end
  for _, kid in ipairs(root.kids) do visit(kid) end
end

return tree
