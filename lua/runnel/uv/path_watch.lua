---Watches a path, and not a file: whatever is at the path, whatever replaces it, and whether there is anything.
---
---A watch of the system is the watch of an inode, which goes away with it. So this watches all that decides what is at
---the path: each folder on the way, for the next name in it, also those of symbolic links; and the file or folder where
---the way ends. If a name on the way is made, removed or renamed, it begins anew.

local folder_watch = require "runnel.uv.folder_watch"
local loop = require "runnel.uv.loop"

local uv = loop.uv

-- How many symbolic links a path may have, as on Linux.
local MOST_LINKS = 40

-- What an error of the system means for a watch.
local LIMITS = {
  ENOSPC = "ENOSPC: the system's limit of watches is reached (on Linux fs.inotify.max_user_watches)",
  EMFILE = "EMFILE: no descriptor, or no instance of inotify, is left for a watch",
}

local CHANGE = { change = true }

---What has happened.
---@class runnel.uv.Happened
---@field change? boolean contents or attributes have changed
---@field rename? boolean it was made, removed or renamed
---@field missing? boolean nothing is at the path now

---Why there will be a look: a name on the way was made, removed or renamed; the way may be another one; contents or
---attributes of what is at the path have changed.
---@alias runnel.uv.Due "name"|"way"|"change"

---@class runnel.uv.PathWatch
---@field path string absolute
---@field handles any[] luv's, for the root and the end of the way; those that are not needed now are stopped
---@field used integer how many handles are active
---@field entries runnel.uv.FolderEntry[] for the folders on the way
---@field on_event fun(name: string?, what: runnel.uv.Happened) `name`: in the folder that is at the path
---@field on_error fun(err: string) the watch cannot go on
---@field id? string of the inode at the path; nil: there is none
---@field problem? string why there is none
---@field due table<runnel.uv.Due, true> why there will be a look; empty: there will be none
---@field look_due fun() looks
---@field is_shut boolean the file at the path cannot be watched itself, since this program may not read it
---@field is_blind boolean a folder on the way cannot be watched, since this program may not read it
---@field is_closed boolean
local PathWatch = {}
PathWatch.__index = PathWatch

-- Looks what is at the path after the loop's turn, so that the events of one act, as a rename, are one.
---@param why runnel.uv.Due
local function look_later(self, why)
  local due = self.due
  if next(due) == nil then loop.after_turn(self.look_due) end
  due[why] = true
end

-- Calls `f` for each event of what is at a place, by a handle of its own. Returns nil and the name of an error if that
-- fails.
local function start(self, place, f)
  local handle = self.handles[self.used + 1]
  if not handle then
    handle = uv.new_fs_event()
    loop.made_inside(handle)
    self.handles[self.used + 1] = handle
  end
  local ok, err, name = handle:start(place, {}, function(problem, file, what)
    if loop.over or self.is_closed then return end
    folder_watch.count()
    if problem then return look_later(self, "way") end
    f(what.change and CHANGE or what, file) -- libuv says "rename", too, if the mode of a folder changes
  end)
  if not ok then return nil, name or err end
  self.used = self.used + 1
  return true
end

-- Calls `f` for each event of a name in a folder, or of all names, and of the folder itself, by the handle of all that
-- watch it. The root is watched by a handle of each watch, for which the program waits, and of which messages tell.
local function start_in(self, folder, name, f)
  if folder == "" then return start(self, "/.", f) end
  local entry, err = folder_watch.add(folder, name, function(problem, file, what)
    if self.is_closed then return end
    if problem then return look_later(self, "way") end
    f(what.change and CHANGE or what, file)
  end)
  if not entry then return nil, err end
  table.insert(self.entries, entry)
  return true
end

-- Watches a name in a folder. `"/."`: events of the folder itself have the name "." then.
local function watch_name(self, folder, name)
  return start_in(self, folder, name, function(what, file)
    if file == name then
      if what.rename then return look_later(self, "name") end
      if self.is_shut then look_later(self, "change") end -- else it is watched itself
      if self.is_shut or self.is_blind then look_later(self, "way") end
    elseif file == "." or file == nil then
      look_later(self, "way")
    end
  end)
end

-- Watches what is at the end of the way. Returns nil and the name of an error if that fails.
local function watch_end(self, place, is_folder)
  local function on_event(what, file)
    if is_folder and file ~= "." then return self.on_event(file, what) end
    if what.change then look_later(self, "change") end
    if what.rename or self.is_blind then look_later(self, "way") end
  end
  if is_folder then return start_in(self, place, nil, on_event) end
  return start(self, place, on_event)
end

-- Puts the names of a path on a stack, the first on top.
local function push_names(stack, path)
  local names = {}
  for name in path:gmatch "[^/]+" do names[#names + 1] = name end
  for i = #names, 1, -1 do stack[#stack + 1] = names[i] end
end

-- The error that a name cannot be watched.
local function limit(err, folder)
  if err ~= "EACCES" then return LIMITS[err] or err end
  return ("EACCES: permission denied: its folder %s must be readable"):format(folder == "" and "/" or folder)
end

-- Walks from the root to the end of the path, and watches each step before it looks. Returns the stat of what is there
-- and its place without links; or nil and the name of an error that says why nothing is there; or nil, nil and an
-- error, since it cannot be watched.
local function walk(self)
  local stack, place, links, stat = {}, "", 0, nil
  push_names(stack, self.path)
  while true do
    local name = table.remove(stack)
    if not name then break end
    if stat and stat.type ~= "directory" then return nil, "ENOTDIR" end
    if name == ".." then
      place = place:match "^(.*)/" or ""
    elseif name ~= "." then
      local watched, err = watch_name(self, place, name)
      local next_place = place .. "/" .. name
      local found, problem, cause = uv.fs_lstat(next_place)
      stat = found
      if not watched and err ~= "ENOENT" and err ~= "ENOTDIR" then
        -- What happens to the file itself tells that it goes, but then its successor must be there already.
        self.is_blind = true
        if err ~= "EACCES" or not stat or stat.type == "link" then return nil, nil, limit(err, place) end
      end
      if not stat then return nil, cause or problem end
      if stat.type == "link" then
        links = links + 1
        if links > MOST_LINKS then return nil, "ELOOP" end
        local target = uv.fs_readlink(next_place)
        if not target then return nil, "ENOENT" end -- it has just gone, which is an event
        push_names(stack, target)
        if target:sub(1, 1) == "/" then place = "" end
        stat = nil
      else
        place = next_place
      end
    end
  end
  if not stat then stat = uv.fs_lstat(place .. "/.") end -- the root, or the path ends with ".."
  return stat, stat and place or "ENOENT"
end

local function leave_folders(self)
  for _, entry in ipairs(self.entries) do folder_watch.remove(entry) end
  self.entries = {}
end

-- Stops all watches and begins anew. Returns an error if that is not possible.
local function begin(self)
  for i = 1, self.used do self.handles[i]:stop() end
  leave_folders(self)
  self.used, self.is_shut, self.is_blind = 0, false, false
  local stat, place, err = walk(self)
  if err then return err end
  self.id, self.problem = stat and folder_watch.id_of(stat), not stat and place or nil
  if not stat then return nil end
  local watched
  watched, err = watch_end(self, place, stat.type == "directory")
  if watched or err == "ENOENT" or err == "ENOTDIR" then return nil end
  if err ~= "EACCES" or self.is_blind then return limit(err, place:match "^(.*)/") end
  self.is_shut = true -- its folder tells of its changes
  return nil
end

-- Looks what is at the path now, and tells what has happened.
function PathWatch:look()
  local due, before = self.due, self.id
  local is_named, is_new_way, has_changed = due.name, due.way, due.change
  due.name, due.way, due.change = nil, nil, nil
  local err = (is_named or is_new_way) and begin(self)
  if err then
    self:close()
    return self.on_error(err)
  end
  if not self.id then
    if before then self.on_event(nil, { rename = true, missing = true }) end
  elseif is_named or self.id ~= before then
    self.on_event(nil, { change = true, rename = true })
  elseif has_changed then
    self.on_event(nil, CHANGE)
  end
end

---Ends the watch.
function PathWatch:close()
  if self.is_closed then return end
  self.is_closed = true
  leave_folders(self)
  for _, handle in ipairs(self.handles) do
    handle:stop()
    loop.close(handle)
  end
end

local path_watch = { limit = limit }

---Begins to watch a path. Tells by `id` and `problem` whether something is there.
---@param path string
---@param what string the function that the program has called
---@param on_event fun(name: string?, what: runnel.uv.Happened)
---@param on_error fun(err: string) is called at most once
---@return runnel.uv.PathWatch? watch
---@return string? err
function path_watch.new(path, what, on_event, on_error)
  local cwd, problem = "", nil
  if path == "" then return nil, "ENOENT" end -- and not the working directory
  if path:sub(1, 1) ~= "/" then cwd, problem = uv.cwd() end
  if not cwd then return nil, problem end
  local self = setmetatable({
    path = cwd .. "/" .. path, handles = { loop.made(uv.new_fs_event(), what, path) }, used = 0, entries = {},
    on_event = on_event, on_error = on_error, due = {}, is_closed = false, is_shut = false, is_blind = false, id = nil,
    problem = nil,
  }, PathWatch)
  function self.look_due()
    if not self.is_closed and not loop.over then self:look() end
  end
  local err = begin(self)
  if not err and self.is_shut then err = "EACCES" end
  if not err then return self end
  self:close()
  return nil, err
end

return path_watch
