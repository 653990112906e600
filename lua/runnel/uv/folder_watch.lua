---Watches folders. All that want to know of one folder share a handle of luv, so that an event costs the same however
---many files of the folder are watched: luv would call each of their handles for it.

local current = require "runnel.internal.world"
local loop = require "runnel.uv.loop"

local uv = loop.uv

-- The system keeps only so many events that were not read (on Linux 16,384 of all watches), and libuv does not tell
-- that some were lost. After as many as this in one turn some may be.
local MANY = 8192

-- The name of those that hear of all names.
local ALL = {}

---@alias runnel.uv.OnFolderEvent fun(problem: string?, name: string?, what: runnel.uv.Happened)

---One that wants to know of a folder.
---@class runnel.uv.FolderEntry
---@field package folder runnel.uv.WatchedFolder
---@field package name string|table
---@field package number integer the folder's entries are called in this order
---@field package f? runnel.uv.OnFolderEvent nil once it is removed

---@class runnel.uv.WatchedFolder
---@field place string
---@field id string of its inode
---@field handle any luv's
---@field among table<string, runnel.uv.WatchedFolder> where new entries find it at its place
---@field by_name table<string|table, runnel.uv.FolderEntry[]>
---@field left integer the number of entries
---@field last integer the number of the last entry

-- The watched folders, by their places: the real ones, and those of simulated hosts, which end with the host.
local real, simulated = {}, setmetatable({}, { __mode = "k" })

local function folders_here()
  if not current.world then return real end
  local host = current.world:here()
  local own = simulated[host]
  if not own or own.born ~= host.born then
    own = { born = host.born, folders = {} }
    simulated[host] = own
  end
  return own.folders
end

-- The inode may not be at its place any more: who comes now looks again.
local function forget(folder)
  if folder.among[folder.place] == folder then folder.among[folder.place] = nil end
end

-- Tells the entries. Any may be removed meanwhile.
local function tell(folder, problem, name, what)
  local named, all, list = folder.by_name[name or ALL], folder.by_name[ALL], {}
  if name and not all and not (named and named[2]) then -- as nearly always
    if named then named[1].f(problem, name, what) end
    return
  end
  for key, entries in pairs(folder.by_name) do
    if not name or key == name or key == ALL then table.move(entries, 1, #entries, #list + 1, list) end
  end
  table.sort(list, function(a, b) return a.number < b.number end)
  for _, entry in ipairs(list) do
    if entry.f then entry.f(problem, name, what) end
  end
end

-- How many events have come in this turn.
local events = 0

---@class runnel.uv.folder_watch
---@field on_many table<table, fun()> what is called after a turn with too many events
local folder_watch = { on_many = {} }

---Counts an event, if somebody wants to know when there are too many.
function folder_watch.count()
  if not next(folder_watch.on_many) then return end
  events = events + 1
  if events > 1 then return end
  loop.after_turn(function()
    local was_many = events >= MANY
    events = 0
    if not was_many or loop.over then return end
    for _, f in pairs(folder_watch.on_many) do f() end
  end)
end

---Names inodes. One that is made where another was removed may have its number.
---@param stat table luv's
---@return string
function folder_watch.id_of(stat)
  local born = stat.birthtime or { sec = 0, nsec = 0 }
  return ("%d %d %d %d"):format(stat.dev, stat.ino, born.sec, born.nsec)
end

local function id_at(place)
  local stat, err, name = uv.fs_stat(place .. "/.")
  if not stat then return nil, name or err end
  return folder_watch.id_of(stat)
end

-- Begins to watch the folder at a place, which has this id. Returns nil and the name of an error if that fails.
local function begin(place, id)
  local self = {
    place = place, id = id, handle = uv.new_fs_event(), among = folders_here(), by_name = {}, left = 0, last = 0,
  }
  loop.made_inside(self.handle)
  local ok, err, cause = self.handle:start(place .. "/.", {}, function(problem, file, what)
    if loop.over then return end
    folder_watch.count()
    local name = not problem and file ~= "." and file or nil
    if not name then forget(self) end
    tell(self, problem, name, what)
  end)
  if ok then return self end
  loop.close(self.handle)
  return nil, cause or err
end

---Calls a function for the events of a name in a folder, or of all names, and for those of the folder itself, for which
---the name is nil.
---@param place string its path without links and without a "/" at its end
---@param name? string nil: all
---@param f runnel.uv.OnFolderEvent
---@return runnel.uv.FolderEntry? entry
---@return string? err the name of an error
function folder_watch.add(place, name, f)
  local id, problem = id_at(place)
  if not id then return nil, problem end
  local folders = folders_here()
  local folder = folders[place]
  if not folder or folder.id ~= id or folder.handle:is_closing() then
    folder, problem = begin(place, id)
    if not folder then return nil, problem end
    folders[place] = id_at(place) == id and folder or nil -- else it may have begun with another one
  end
  folder.left, folder.last = folder.left + 1, folder.last + 1
  local entry = { folder = folder, name = name or ALL, number = folder.last, f = f }
  local list = folder.by_name[entry.name] or {}
  list[#list + 1] = entry
  folder.by_name[entry.name] = list
  return entry
end

---Ends that. Does nothing the second time.
---@param entry runnel.uv.FolderEntry
function folder_watch.remove(entry)
  if not entry.f then return end
  entry.f = nil
  local folder = entry.folder
  local list = folder.by_name[entry.name]
  for i = #list, 1, -1 do
    if list[i] == entry then table.remove(list, i) end
  end
  if #list == 0 then folder.by_name[entry.name] = nil end
  folder.left = folder.left - 1
  if folder.left > 0 then return end
  forget(folder)
  if folder.handle:is_closing() then return end
  folder.handle:stop()
  loop.close(folder.handle)
end

return folder_watch
