---Where to look first in a profile, as a sentence; and the longest items, as text.

local decimal = require "runnel.internal.decimal"
local tree = require "runnel.profile.tree"

local first = {}

local function percent(part, whole) return whole > 0 and math.floor(100 * part / whole + 0.5) or 0 end

---@param ns number
---@return string
function first.time(ns)
  if ns >= 1e9 then return decimal.format("%.2f", ns / 1e9) .. " s" end
  if ns >= 1e6 then return decimal.format("%.1f", ns / 1e6) .. " ms" end
  return ("%.0f us"):format(ns / 1e3)
end

-- The library's folder; it ends in "runnel/".
local LIBRARY <const> = debug.getinfo(1, "S").source:match "^@(.*)profile/first%.lua$" or "runnel/"

-- Whether a place is in the library. Lua shortens a long path to "..." and its end.
local function is_library(place)
  local rest = place:match "^%.%.%.(.*runnel/)"
  if rest then return LIBRARY:sub(-#rest) == rest end
  return place:sub(1, #LIBRARY) == LIBRARY
end

-- The innermost node of a path that is a Lua function outside the library; if there is none, the go block.
local function function_of(path)
  for i = #path, 1, -1 do
    local key = path[i].key
    local is_function = key:find ":%d+$" and not (tree.waker(key) or key:find "^take from the result of ")
    if is_function and not is_library(key) then return path[i] end
  end
  return path[1]
end

-- The innermost line of a path, or nil.
local function line_of(path)
  for i = #path, 1, -1 do
    local line = path[i].key:match "^line (%d+)$"
    if line then return line end
  end
end

-- What the wait at the end of a path is for, and who has ended it, or has used up what it is for, or nil.
local function wait_of(path)
  local leaf = path[#path]
  local by = tree.waker(leaf.key)
  local what = by and path[#path - 1].text or leaf.text
  if by and not leaf.key:find "^woken" then what = what .. ", " .. leaf.text end
  return what, by or what:match "^take from the result of (.*)"
end

-- What a node is below which the thread was blocked.
local BLOCKS <const> = "blocks the thread"

---The functions in which Lua code ran, those of C that they call included; the waits; and what has blocked the thread.
---The longest come first.
---@param trees runnel.profile.Trees
---@return { text: string, ns: integer, at: table<string, integer> }[] functions
---@return { text: string, ns: integer, at: table<string, integer> }[] waits `at`: who has ended them
---@return { text: string, ns: integer }[] blocks
function first.longest(trees)
  local functions, waits, blocks = {}, {}, {}
  local function add(list, text, ns)
    if not list[text] then
      list[text] = { text = text, ns = 0, at = {} }
      list[#list + 1] = list[text]
    end
    list[text].ns = list[text].ns + ns
    return list[text]
  end
  tree.walk(trees.running, function(path, node)
    if node.own == 0 then return end
    if node.key == BLOCKS then
      local line, called = line_of(path), path[#path - 1].key:match "^%[C%] (.*)"
      local text = function_of(path).text .. (line and ", line " .. line or "") .. (called and ": " .. called or "")
      add(blocks, text, node.own)
      return
    end
    local entry = add(functions, function_of(path).text, node.own)
    if node ~= function_of(path) then entry.at[node.text] = (entry.at[node.text] or 0) + node.own end
  end)
  tree.walk(trees.waiting, function(path, node)
    if node.own == 0 then return end
    local line, what, by = line_of(path), wait_of(path)
    local entry = add(waits, ("%s, %s%s"):format(function_of(path).text, line and "line " .. line .. ": " or "", what),
      node.own)
    if by and node.key:find "^woken" then entry.at[by] = (entry.at[by] or 0) + node.own end
  end)
  for _, list in ipairs { functions, waits, blocks } do
    table.sort(list, function(a, b)
      if a.ns ~= b.ns then return a.ns > b.ns end
      return a.text < b.text
    end)
  end
  return functions, waits, blocks
end

-- The longest entry of a table of numbers.
local function largest(at)
  local key, most
  for k, ns in pairs(at) do
    if not most or ns > most or ns == most and k < key then key, most = k, ns end
  end
  return key, most or 0
end

local function about_functions(trees, functions)
  local top = functions[1]
  local text = ("Lua code ran for %d %% of the time. Look first at %s: %d %% of that"):format(
    percent(trees.ran, trees.elapsed), top.text, percent(top.ns, trees.running.ns - trees.blocked))
  local where, ns = largest(top.at)
  if where and ns * 2 > top.ns then text = text .. (", most of it in %s"):format((where:gsub("^%[C%] ", ""))) end
  return text .. "."
end

-- The waits below a node, the longest first: each its line, what it is for, and who has ended it.
local function waits_of(node)
  local waits = {}
  tree.walk({ kids = { node } }, function(path, leaf)
    if leaf.own == 0 then return end
    local what, by = wait_of(path)
    waits[#waits + 1] = { line = line_of(path), what = what, by = by, ns = leaf.own }
  end)
  table.sort(waits, function(a, b) return a.ns > b.ns end)
  return waits
end

-- The go blocks in a tree that have this name, or whose function begins at this place.
local function tower_of(root, name)
  local pattern = name:gsub("%d+", "*")
  for _, node in ipairs(root.kids) do
    if node.key == name or node.key == pattern and not name:find ":%d+$" then return node end
  end
  for _, node in ipairs(root.kids) do
    for _, kid in ipairs(node.kids) do
      if kid.key == name then return node end
    end
  end
end

-- The main program's waits, or else the longest ones.
local function start_of(trees)
  for _, node in ipairs(trees.waiting.kids) do
    if node.key:find ":0$" then return node end
  end
  return trees.waiting.kids[1]
end

-- What the go blocks of a tower do if they run for longer than they wait, or nil.
local function running(trees, name, waits_ns)
  local tower = tower_of(trees.running, name)
  return tower and tower.ns > waits_ns and { text = tower.text .. " runs", rest = "" } or nil
end

-- What waits, as { text, rest }: between them comes for what.
local function waiting(node, wait)
  return { text = node.text .. " waits", rest = (wait.line and " in line " .. wait.line or "") .. ": " .. wait.what }
end

-- Follows the waits from the go blocks of a tower to what ends them, and so on, to its end: what runs or waits for the
-- world. Longer waits are tried first; those that lead in a circle, to go blocks that are `seen`, explain nothing.
-- Returns the chain, its end first; or nil.
local function chain_from(trees, node, seen)
  seen[node] = true
  for _, wait in ipairs(waits_of(node)) do
    local next_one = wait.by and tower_of(trees.waiting, wait.by)
    local runs = wait.by and running(trees, wait.by, next_one and next_one.ns or 0)
    local chain
    if runs then chain = { runs }
    elseif next_one and not seen[next_one] then chain = chain_from(trees, next_one, seen)
    elseif not next_one then chain = {} end
    if chain then
      local link = waiting(node, wait)
      if not (runs or next_one) and wait.by and not wait.what:find(wait.by, 1, true) then
        link.rest = link.rest .. ", until woken by " .. tree.text(trees.names, wait.by)
      end
      chain[#chain + 1] = link
      return chain
    end
  end
end

local LINKS <const> = 4 -- of a chain that the sentence names

local function about_waits(trees)
  local node = start_of(trees)
  local chain = chain_from(trees, node, {}) or { waiting(node, waits_of(node)[1]) }
  local parts = {}
  for i, link in ipairs(chain) do
    if i < LINKS or i == #chain then parts[#parts + 1] = link.text .. (i == 1 and "" or " for that") .. link.rest end
    if i == LINKS and i < #chain then parts[#parts + 1] = "and so on" end
  end
  return ("Lua code ran for only %d %% of the time. Look first at what is waited for: %s."):format(
    percent(trees.ran, trees.elapsed), table.concat(parts, "; "))
end

local function about_blocks(trees, blocks)
  return ("Something blocked the thread for %d %% of the time, so that no go block ran: look first at %s. "
    .. "An operation that parks, or a thread, does not."):format(percent(trees.blocked, trees.elapsed), blocks[1].text)
end

local LEAST_SHARE <const> = 10 -- the part of the time, 1 / this, from which on it matters what blocks

---@param trees runnel.profile.Trees
---@return string
function first.sentence(trees)
  local functions, _, blocks = first.longest(trees)
  local busy = trees.ran + trees.loop
  if blocks[1] and trees.blocked * LEAST_SHARE >= trees.elapsed and trees.blocked >= busy then
    return about_blocks(trees, blocks)
  end
  if busy * 2 >= trees.elapsed and trees.loop > trees.ran then
    return ("The scheduler ran for %d %% of the time, Lua code for %d %%: look first at how many small messages there "
      .. "are, and put several values in each."):format(percent(trees.loop, trees.elapsed),
      percent(trees.ran, trees.elapsed))
  elseif functions[1] and (busy * 2 >= trees.elapsed or #trees.waiting.kids == 0) then
    return about_functions(trees, functions)
  elseif #trees.waiting.kids > 0 then
    return about_waits(trees)
  end
  return "Nothing ran, and nothing was waited for."
end

local SHOWN = 10

-- The lines of a list of items.
local function list_lines(lines, title, list, whole, is_waits, names)
  if #list == 0 then return end
  lines[#lines + 1] = title
  for i = 1, math.min(#list, SHOWN) do
    local by, ns = nil, 0
    if is_waits then by, ns = largest(list[i].at) end
    lines[#lines + 1] = ("  %3d %%  %9s  %s%s"):format(percent(list[i].ns, whole), first.time(list[i].ns), list[i].text,
      ns * 2 > list[i].ns and ", until woken by " .. tree.text(names, by) or "")
  end
  if #list > SHOWN then lines[#lines + 1] = ("  and %d more"):format(#list - SHOWN) end
end

---The sentence, and the ten longest functions, waits, and calls that blocked the thread.
---@param trees runnel.profile.Trees
---@return string
function first.text(trees)
  local functions, waits, blocks = first.longest(trees)
  local lines = { first.sentence(trees) }
  list_lines(lines, ("ran, %s of %s:"):format(first.time(trees.running.ns - trees.blocked), first.time(trees.elapsed)),
    functions, trees.running.ns - trees.blocked)
  list_lines(lines, ("blocked the thread, %s of %s:"):format(first.time(trees.blocked), first.time(trees.elapsed)),
    blocks, trees.blocked)
  list_lines(lines, ("waited, %s in all go blocks:"):format(first.time(trees.waiting.ns)), waits, trees.waiting.ns,
    true, trees.names)
  return table.concat(lines, "\n")
end

return first
