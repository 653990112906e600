---Watches the folders below a folder, for uv.watch with `deep`.
---
---A watch of the system is that of one folder. So this has one for each, and adds one when a folder is made or comes;
---what is in it by then is told, too, since the system tells only what happens from then on. Links are not followed.
---
---After so many events in one turn that the system may have lost some, this looks at the whole tree again, and tells a
---change without a name.

local folder_watch = require "runnel.uv.folder_watch"
local loop = require "runnel.uv.loop"
local path_watch = require "runnel.uv.path_watch"

local uv = loop.uv

local RENAME, CHANGE = { rename = true }, { change = true }

---@class runnel.uv.TreeNode
---@field entry runnel.uv.FolderEntry
---@field id string of the folder

---@class runnel.uv.TreeWatch
---@field package root string the folder at the top, whose own events are path_watch's
---@field package nodes table<string, runnel.uv.TreeNode> the folders below, by their paths from there
---@field package on_event fun(name: string?, what: runnel.uv.Happened)
---@field package on_error fun(err: string, path: string)
---@field package is_closed boolean
local Tree = {}
Tree.__index = Tree

-- Ends the watches of a folder and of those below it; "": of all.
local function leave(self, folder)
  local below = folder .. "/"
  for path, node in pairs(self.nodes) do
    if folder == "" or path == folder or path:sub(1, #below) == below then
      folder_watch.remove(node.entry)
      self.nodes[path] = nil
    end
  end
end

-- The folder at a path from the root; nil if there is none.
local function folder_at(self, path)
  local stat = uv.fs_lstat(self.root .. "/" .. path)
  return stat and stat.type == "directory" and folder_watch.id_of(stat) or nil
end

local function fail(self, err, path)
  self:close()
  self.on_error(path_watch.limit(err, "/" .. path), path)
end

local enter, look

-- Calls f(path, may_be_folder) for what is in a folder.
local function each(self, folder, f)
  local found = uv.fs_scandir(self.root .. "/" .. folder)
  if not found then return end
  local names, kinds = loop.entries(found)
  for i, name in ipairs(names) do
    if self.is_closed then return end
    f(folder == "" and name or folder .. "/" .. name, kinds[i] == "directory" or kinds[i] == "unknown")
  end
end

-- Watches what is in a folder. `tells`: it is new, and so is all that is in it.
local function enter_all(self, folder, tells)
  each(self, folder, function(path, may_be_folder)
    if tells then self.on_event(path, RENAME) end
    if may_be_folder then look(self, path, tells) end
  end)
end

-- Events may have been lost.
local function look_at_all(self)
  self.on_event(nil, CHANGE)
  local known = { "" }
  for path in pairs(self.nodes) do known[#known + 1] = path end
  table.sort(known) -- so that a simulation can be replayed
  for _, folder in ipairs(known) do
    if folder ~= "" then look(self, folder, true) end
    each(self, folder, function(path, may_be_folder)
      if may_be_folder then look(self, path, true) end
    end)
  end
end

-- Begins to watch a folder.
function enter(self, folder, id, tells)
  local entry, err = folder_watch.add(self.root .. "/" .. folder, nil, function(problem, file, what)
    if self.is_closed then return end
    if problem or not file then return look(self, folder, true) end
    local path = folder .. "/" .. file
    self.on_event(path, what.change and CHANGE or what)
    if what.rename then look(self, path, true) end
  end)
  if entry then
    self.nodes[folder] = { entry = entry, id = id }
    return enter_all(self, folder, tells)
  end
  if err ~= "ENOENT" and err ~= "ENOTDIR" then fail(self, err, folder) end -- else it has just gone
end

-- Looks whether there is a folder at a path, and begins or ends its watch.
function look(self, path, tells)
  if self.is_closed then return end
  local id, node = folder_at(self, path), self.nodes[path]
  if node and node.id ~= id then leave(self, path) end
  if id and not self.nodes[path] then enter(self, path, id, tells) end
end

---What path_watch tells of the folder at the top.
---@param name? string
---@param what runnel.uv.Happened
function Tree:happened(name, what)
  self.on_event(name, what)
  if self.is_closed or not what.rename then return end
  if name then return look(self, name, true) end
  leave(self, "")
  if not what.missing then enter_all(self, "", true) end
end

---Ends all watches.
function Tree:close()
  if self.is_closed then return end
  leave(self, "")
  self.is_closed, folder_watch.on_many[self] = true, nil
end

local tree_watch = {}

---Begins to watch the folders below a folder.
---@param root string absolute
---@param on_event fun(name: string?, what: runnel.uv.Happened) `name`: the path from the root
---@param on_error fun(err: string, folder: string) the watch cannot go on; it is closed. Called at most once
---@return runnel.uv.TreeWatch
function tree_watch.new(root, on_event, on_error)
  return setmetatable({
    root = root, nodes = {}, on_event = on_event, on_error = on_error, is_closed = false,
  }, Tree)
end

---Begins: watches the folders that are there.
function Tree:begin()
  folder_watch.on_many[self] = function() look_at_all(self) end
  enter_all(self, "", false)
end

return tree_watch
