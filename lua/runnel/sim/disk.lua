---The disk of a simulated host: files by path, and what of them would survive a crash.
---
---A write is in memory until the file is synced. Changes of names (a new file, a rename, a removal) are in memory, too,
---until something is synced after them: the file system has a journal. A crash drops what is in memory, unless the
---fault torn says that some of it survives.

local contents = require "runnel.sim.contents"
local current = require "runnel.internal.world"

---A file, directory or Unix socket.
---@class runnel.sim.Inode
---@field kind "file"|"directory"|"socket"
---@field path string where it is, or was last
---@field ino integer
---@field mode integer
---@field data runnel.sim.Contents what a read gets
---@field synced runnel.sim.Contents what is on the disk
---@field writes runnel.sim.Write[] those since it was synced
---@field is_dirty boolean it is in the list of those that have unsynced data
---@field has_lost boolean a sync has failed, so that a part of the data reaches the disk only if it is written again
---@field changed number when it was written last, ms

---A write that was not synced.
---@class runnel.sim.Write
---@field pos integer where
---@field data? string what; nil: the file was made longer or shorter, so that `pos` is its size

---@class runnel.sim.Disk
---@field host runnel.sim.Host
---@field names table<string, runnel.sim.Inode> by absolute path
---@field order string[] the paths in the order in which they were made
---@field undo table[] unsynced changes of names: { path, inode before or nil }
---@field dirty runnel.sim.Inode[] files with unsynced data
---@field last_ino integer
---@field watches runnel.sim.Watch[]
local Disk = {}
Disk.__index = Disk

local TORN = { "torn" }

-- What is there before any program runs.
local FOLDERS = { "/", "/tmp", "/run", "/home", "/etc", "/var" }

---An absolute path without "." and "..". It ends before a zero byte, as io.open of a real system has it.
---@param path string
---@return string
function Disk.absolute(path)
  local parts = {}
  for part in path:match "^[^\0]*":gmatch "[^/]+" do
    if part == ".." then parts[#parts] = nil elseif part ~= "." then parts[#parts + 1] = part end
  end
  return "/" .. table.concat(parts, "/")
end

---@param path string absolute
---@return string folder
---@return string name
function Disk.split(path)
  local folder, name = path:match "^(.*)/([^/]*)$"
  return folder == "" and "/" or folder, name
end

local function new_inode(self, path, kind, mode)
  self.last_ino = self.last_ino + 1
  return { kind = kind, path = path, ino = self.last_ino, mode = mode, data = contents.new(), synced = contents.new(),
    writes = {}, is_dirty = false, has_lost = false, changed = 0 }
end

---@param host runnel.sim.Host
---@return runnel.sim.Disk
local function new(host)
  local self = setmetatable({ host = host, names = {}, undo = {}, dirty = {}, last_ino = 0, watches = {} }, Disk)
  for _, path in ipairs(FOLDERS) do self.names[path] = new_inode(self, path, "directory", 0x1ED) end
  return self
end

-- ---- names ----

---The inode of a path, or nil and the name of an error.
---@param path string absolute
---@return runnel.sim.Inode? inode
---@return string? err
function Disk:find(path)
  local inode = self.names[path]
  if inode then return inode end
  while path ~= "/" do -- a folder of it may be no folder
    path = Disk.split(path)
    local folder = self.names[path]
    if folder then return nil, folder.kind == "directory" and "ENOENT" or "ENOTDIR" end
  end
  return nil, "ENOENT"
end

---Whether a new name can be there: nil, or the name of an error.
---@param path string
---@return string? err
function Disk:check_folder(path)
  local folder, err = self:find((Disk.split(path)))
  if not folder then return err end
  if folder.kind ~= "directory" then return "ENOTDIR" end
end

-- Sets which inode a path has; nil: none.
local function set_name(self, path, inode)
  self.undo[#self.undo + 1] = { path, self.names[path] or false }
  self.names[path] = inode
  if inode then inode.path = path end
end

---Removes a name.
---@param path string
function Disk:remove(path)
  local inode = self.names[path]
  set_name(self, path, nil)
  if inode then self:tell(path, inode, "rename") end
end

---@param path string
---@param kind "file"|"directory"|"socket"
---@param mode integer
---@return runnel.sim.Inode
function Disk:make(path, kind, mode)
  local inode = new_inode(self, path, kind, mode)
  set_name(self, path, inode)
  self:tell(path, nil, "rename")
  return inode
end

---The names in a folder, sorted.
---@param path string
---@return string[]
function Disk:list(path)
  local prefix, names = path == "/" and "/" or path .. "/", {}
  for name in pairs(self.names) do
    if #name > #prefix and name:sub(1, #prefix) == prefix and not name:find("/", #prefix + 1, true) then
      names[#names + 1] = name:sub(#prefix + 1)
    end
  end
  table.sort(names)
  return names
end

---Moves a path, and what is below it.
---@param from string
---@param to string
function Disk:move(from, to)
  local inode, replaced = self.names[from], self.names[to]
  local below = {}
  if inode.kind == "directory" then
    for name in pairs(self.names) do
      if name:sub(1, #from + 1) == from .. "/" then below[#below + 1] = name end
    end
    table.sort(below)
  end
  set_name(self, from, nil)
  set_name(self, to, inode)
  for _, name in ipairs(below) do
    local file = self.names[name]
    set_name(self, name, nil)
    set_name(self, to .. name:sub(#from + 1), file)
  end
  self:tell(from, nil, "rename")
  self:tell(to, inode, "rename")
  if replaced then self:tell(nil, replaced, "rename") end
end

-- ---- data ----

local function apply(data, write)
  if write.data then data:write(write.pos, write.data) else data:resize(write.pos) end
end

local function change(self, inode, write)
  apply(inode.data, write)
  inode.changed = inode.changed + 1
  inode.writes[#inode.writes + 1] = write
  if not inode.is_dirty then
    inode.is_dirty = true
    self.dirty[#self.dirty + 1] = inode
  end
  self:tell(inode.path, inode, "change")
end

---Writes to a file, in memory.
---@param inode runnel.sim.Inode
---@param pos integer
---@param data string
function Disk:write(inode, pos, data) change(self, inode, { pos = pos, data = data }) end

---Makes a file longer or shorter, in memory.
---@param inode runnel.sim.Inode
---@param size integer
function Disk:truncate(inode, size) change(self, inode, { pos = size }) end

---Sets the mode of a file or folder.
---@param inode runnel.sim.Inode
---@param mode integer
function Disk:chmod(inode, mode)
  inode.mode = mode
  self:tell(inode.path, inode, "change")
end

-- Whether one of the writes has changed the size only.
local function has_resized(writes)
  for _, write in ipairs(writes) do
    if not write.data then return true end
  end
  return false
end

---Writes a file to the disk, and all changes of names.
---@param inode runnel.sim.Inode
function Disk:sync(inode)
  local data, synced = inode.data, inode.synced
  if inode.has_lost then
    for _, write in ipairs(inode.writes) do apply(synced, write) end
    inode.has_lost = not synced:equals(data)
  elseif has_resized(inode.writes) then
    inode.synced = data:copy()
  else
    for _, write in ipairs(inode.writes) do synced:take(data, write.pos, #write.data) end
  end
  inode.writes = {}
  self:sync_names()
end

---A sync of a file has failed. As on Linux, the system takes what was to be written as done: reads get it until a
---crash, and no later sync writes it.
---@param inode runnel.sim.Inode
function Disk:fail_sync(inode) -- luacheck: ignore 212
  inode.writes, inode.has_lost = {}, not inode.data:equals(inode.synced)
end

---Writes all changes of names to the disk.
function Disk:sync_names() self.undo = {} end

-- ---- a crash ----

local MOST_TORN = 8 -- writes of a file from which one is chosen, the last ones

-- What is left of unsynced data: by a choice, the writes before one, and the first half of that; or only that one,
-- since a disk writes in any order.
local function torn(self, inode)
  local writes = inode.writes
  local n = math.min(#writes, MOST_TORN)
  local way = self.host.world.faults:way(2 * n) - 1
  local at, only = #writes - way // 2, way % 2 == 1
  local data, last = inode.synced:copy(), writes[at]
  for i = only and at or 1, only and at or at - 1 do apply(data, writes[i]) end
  if not only and last.data then data:write(last.pos, last.data:sub(1, #last.data // 2)) end
  return data
end

---Drops what was not synced. By the fault torn, some of it survives: changes of names without the data, or both, and
---data only in part.
function Disk:crash()
  local world, way = self.host.world, 1
  local dirty = {}
  for _, inode in ipairs(self.dirty) do
    if not inode.data:equals(inode.synced) then dirty[#dirty + 1] = inode end
  end
  if #dirty + #self.undo > 0 and world.faults:choose(TORN) then way = 1 + world.faults:way(2) end
  if way == 1 then
    for i = #self.undo, 1, -1 do
      local path, before = self.undo[i][1], self.undo[i][2]
      self.names[path] = before or nil
      if before then before.path = path end
    end
  elseif current.notes then
    world:log(self.host, "torn", "of what was not synced, names survive%s",
      way == 2 and " and data is lost" or ", and data in part")
  end
  for _, inode in ipairs(dirty) do
    if way == 3 and #inode.writes > 0 then inode.synced = torn(self, inode) end
    inode.data, inode.writes, inode.has_lost = inode.synced:copy(), {}, false
  end
  for _, inode in ipairs(self.dirty) do inode.is_dirty = false end
  self.dirty, self.undo, self.watches = {}, {}, {}
end

-- ---- watches ----

---Tells the watches of an inode, and of the folder in which it is, what has happened. As on Linux a watch belongs to an
---inode and not to a path.
---@param path? string of which the folder's watches learn
---@param inode? runnel.sim.Inode whose own watches learn it
---@param what "change"|"rename"
function Disk:tell(path, inode, what)
  if #self.watches == 0 then return end
  local folder, name
  if path then folder, name = Disk.split(path) end
  for _, watch in ipairs(self.watches) do
    if folder and watch.inode == self.names[folder] then watch:tell(name, what) end
    if watch.inode == inode then watch:tell(watch.own_name, what) end
  end
end

-- ---- for tests ----

---Sets the contents of a file, synced; makes the folders in which it is.
---@param path string
---@param data string
function Disk:put(path, data)
  path = Disk.absolute(path)
  local folder = Disk.split(path)
  local parts = ""
  for part in folder:gmatch "[^/]+" do
    parts = parts .. "/" .. part
    if not self.names[parts] then self:make(parts, "directory", 0x1ED) end
  end
  local inode = self.names[path] or self:make(path, "file", 0x1A4)
  self:truncate(inode, 0)
  self:write(inode, 0, data)
  self:sync(inode)
end

---The contents of a file, or nil.
---@param path string
---@return string?
function Disk:get(path)
  local inode = self.names[Disk.absolute(path)]
  return inode and inode.kind == "file" and inode.data:text() or nil
end

return { new = new, Disk = Disk }
