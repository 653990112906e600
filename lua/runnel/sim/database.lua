---The files of runnel.sqlite on the disk of a simulated host: what the file system of the C module (csrc/sqlite/disk.c)
---calls; and the locks of runnel.store.
---
---SQLite calls these functions from C, so they never park. If a fault ends the host in one of them, SQLite gets an
---error of the disk from this call and from all later ones. When the C function has returned to Lua, the go block
---stops (Connection:settle).

local os = os
local core = require "runnel.core"
local current = require "runnel.internal.world"
local disks = require "runnel.sim.disk"
local files = require "runnel.sim.sim_files"
local handles = require "runnel.sim.handle"
local remove = require "runnel.internal.remove"
local thread = require "runnel.sqlite.sim_thread"

local ops, O = files.ops, files.constants
local absolute = disks.Disk.absolute

---A connection of SQLite.
---@class runnel.sim.Connection: runnel.sim.Handle
---@field core any the database of the C module
---@field lib table the C module
---@field path string of the file
---@field open table<integer, runnel.sim.OpenDatabaseFile> its files
---@field jobs table<table, true> those that may have begun a transaction
---@field depth integer how many calls from SQLite are running
---@field over boolean its host has ended, or it is closed
---@field bug any an error in one of the functions below
---@field busy integer its busy timeout, ms
---@field refuses boolean the next lock that another connection may have is refused
---@field has_written? boolean since those who wait for changes were told
---@field has_log boolean it has a write-ahead log, so that readers and a writer do not wait for each other
local Connection = handles.class "runnel.sim.database"

---A file that SQLite has opened.
---@class runnel.sim.OpenDatabaseFile
---@field fd integer
---@field inode runnel.sim.Inode
---@field connection runnel.sim.Connection
---@field level integer of its lock: SHARED or more, or 0
---@field shared table<integer, "share"|"exclude"> its locks on the memory
---@field memory any the memory that it shares with others; nil before it is used

-- Levels of locks (sqlite3.h).
local SHARED <const>, RESERVED <const>, PENDING <const>, EXCLUSIVE <const> = 1, 2, 3, 4

-- The lock of the writer among those on the memory (SQLite's wal.c).
local WRITER <const> = 0

-- ---- locks ----

-- The open files of an inode, but for those of connections that are over.
local function living(inode)
  local list = {}
  for _, file in ipairs(inode.users or {}) do
    local connection = file.connection
    if not connection.over and connection:lives() then list[#list + 1] = file end
  end
  inode.users = list
  return list
end

-- Whether the lock of another file has at least that level.
local function is_locked(file, level)
  for _, other in ipairs(living(file.inode)) do
    if other ~= file and other.level >= level then return true end
  end
  return false
end

-- Whether another connection has a lock just now, whose statement runs at the same time.
local function is_refused(self)
  local refuses = self.refuses
  self.refuses = false
  return refuses
end

local calls = {}

function calls.lock(self, file, _, level)
  if level <= file.level then return true end
  if (level >= RESERVED or not self.has_log) and is_refused(self) then return false end
  if is_locked(file, level == SHARED and PENDING or RESERVED) then return false end
  if level == EXCLUSIVE and is_locked(file, SHARED) then
    file.level = PENDING -- no further readers
    return false
  end
  file.level = level
  return true
end

function calls.unlock(_, file, _, level)
  file.level = math.min(file.level, level)
  return true
end

function calls.is_reserved(_, file) return file.level >= RESERVED or is_locked(file, RESERVED) end

-- Locks n places of the memory from `first` on; returns whether no other file has locked one.
local function lock_memory(file, how, first, n)
  for _, other in ipairs(living(file.inode)) do
    for at = first, first + n - 1 do
      local its = other ~= file and other.shared[at]
      if its and (how == "exclude" or its == "exclude") then return false end
    end
  end
  for at = first, first + n - 1 do file.shared[at] = how end
  return true
end

function calls.share(_, file, _, first, n) return lock_memory(file, "share", first, n) end

function calls.exclude(self, file, _, first, n)
  if first == WRITER and is_refused(self) then return false end
  return lock_memory(file, "exclude", first, n)
end

function calls.unshare(_, file, _, first, n)
  for at = first, first + n - 1 do file.shared[at] = nil end
  return true
end

-- The memory that the connections to a file share. It is a new one if no other uses it.
function calls.memory(self, file)
  self.has_log = true
  for _, other in ipairs(living(file.inode)) do file.memory = file.memory or other.memory end
  file.memory = file.memory or self.lib.memory()
  return file.memory
end

function calls.forget(_, file)
  file.memory, file.shared = nil, {}
  return true
end

-- ---- files ----

function calls.open(self, _, path, creates, is_readonly)
  local name = path or os.tmpname() -- without a path: a file that nothing else uses
  local flags = (is_readonly ~= 0 and O.O_RDONLY or O.O_RDWR) | (creates ~= 0 and O.O_CREAT or 0)
  local fd, err = ops.open(self.host, name, flags, 0x1A4)
  if not fd then return nil, err end
  if not path then ops.unlink(self.host, name) end
  local file = { fd = fd, inode = self.host.open_files[fd].inode, connection = self, level = 0, shared = {} }
  self.open[fd] = file
  local users = living(file.inode)
  users[#users + 1] = file
  return fd
end

function calls.close(self, file)
  remove(living(file.inode), file)
  self.open[file.fd] = nil
  return ops.close(self.host, file.fd)
end

function calls.read(self, file, _, size, offset)
  local parts, n = {}, 0
  repeat -- a read may be short
    local data, err = ops.read(self.host, file.fd, size - n, offset + n)
    if not data then return nil, err end
    parts[#parts + 1], n = data, n + #data
  until n == size or data == ""
  return table.concat(parts)
end

function calls.write(self, file, data, _, offset)
  self.has_written = true
  local n = 0
  repeat
    local written, err = ops.write(self.host, file.fd, n == 0 and data or data:sub(n + 1), offset + n)
    if not written then return nil, err end
    n = n + written
  until n == #data
  return true
end

function calls.truncate(self, file, _, size) return ops.ftruncate(self.host, file.fd, size) end

function calls.sync(self, file)
  local path, err = files.sync(self.host, file.fd)
  return path ~= nil or nil, err
end

function calls.size(_, file) return file.inode.data.size end

function calls.delete(self, _, path, syncs)
  local ok, err = ops.unlink(self.host, path)
  if not ok and err ~= "ENOENT" then return nil, err end
  if syncs ~= 0 then self.host.disk:sync_names() end
  return true
end

-- Whether there is a file that is not empty.
function calls.access(self, _, path)
  local inode = self.host.disk:find(absolute(path))
  return inode ~= nil and inode.data.size > 0
end

function calls.full_path(_, _, path) return absolute(path) end

function calls.time() return os.time() * 1000 end

-- ---- a connection ----

-- Closes the database of the C module, unless it is at work.
local function drop(self)
  self.over = true
  if self.depth == 0 and self.core then self.core:close() end
end

---The connection is closed, or its host has crashed.
function Connection:stopped()
  drop(self)
  remove(self.world.databases, self)
  self.has_written = true -- its locks are free
  self:tell_changes()
end

---The channels of those who wait for changes of the file, on any host of the machine.
---@return runnel.Channel<boolean>[]
function Connection:listeners()
  local machine, path = self.host.machine, absolute(self.path)
  machine.bells[path] = machine.bells[path] or {}
  return machine.bells[path]
end

---Tells them, if the connection has written since.
function Connection:tell_changes()
  if not self.has_written then return end
  self.has_written = false
  thread.tell(self:listeners())
end

---The clock of the host was set: those who wait for changes look again.
function Connection:clock_moved() thread.tell(self:listeners()) end

---Call it before the C module works. A statement takes no time here, so that no other one finds its locks. In reality
---it does, and a connection that does not wait for locks fails: in a search, this is a choice if another connection to
---the file has work to do.
function Connection:meet_others()
  self.refuses = false
  if self.busy > 0 then return end
  local path = absolute(self.path)
  for _, other in ipairs(self.world.databases) do
    local is_at_work = other ~= self and other.core and current.awake[other.core] and other:lives()
    if is_at_work and other.host.machine == self.host.machine and absolute(other.path) == path then
      self.refuses = self.world.faults:perhaps()
      return
    end
  end
end

-- What SQLite calls: returns the result, or nil and the name of an error.
local function call(self, operation, id, text, a, b)
  if self.over or not self:lives() then return nil, "EIO" end
  local before = current.unwinds
  current.unwinds = true -- a crash ends the call by an error
  self.depth = self.depth + 1
  local ok, result, err = pcall(calls[operation], self, self.open[id], text, a, b)
  self.depth = self.depth - 1
  current.unwinds = before
  if ok then return result, err end
  if self:lives() then self.bug = self.bug or result end
  return nil, "EIO"
end

local SHOWN = 80 -- characters of a statement in a story

---Call it before a function of the C module: only go blocks of its host can use a connection.
---@param what string the function that the program has called
---@param sql? string what it does, for the story
function Connection:begin(what, sql)
  if not self:lives() or self.world:here() ~= self.host then
    core.internal.raise(("%s: the database was opened on the simulated host %s, and only that can use it"):format(what,
      self.host.name))
  end
  if not sql or not current.notes then return end
  local text = what == "open" and "open " .. self.path or sql:gsub("%s+", " "):gsub("^ ", "")
  self.world:log(self.host, nil, "%s", #text > SHOWN and text:sub(1, SHOWN) .. "..." or text)
end

---Call it after a function of the C module: never returns if the host has ended meanwhile.
function Connection:settle()
  if self.bug then error(self.bug, 0) end
  if self:lives() then return end
  drop(self)
  self.world:end_running()
end

---Keeps a job that may begin a transaction until `done`, so that no collector decides when the disk is written to.
---@param job table
function Connection:keep(job) self.jobs[job] = true end

---@param job table
function Connection:done(job)
  self.jobs[job] = nil
  self:settle()
end

-- ---- locks of a store ----

---In place of csrc/sqlite/locks.c: locks between the processes of a machine, which end with them.
---@class runnel.sim.Locks
---@field host runnel.sim.Host
---@field born integer
---@field list table<string, runnel.sim.Locks> the owner of each lock
---@field is_closed? boolean
local Locks = {}
Locks.__index = Locks

---@param text string
---@return boolean
function Locks:try(text)
  local owner = self.list[text]
  if owner and owner ~= self and not owner.is_closed and owner.host.born == owner.born then return false end
  self.list[text] = self
  return true
end

---@param text string
function Locks:release(text)
  if self.list[text] == self then self.list[text] = nil end
end

function Locks:close() self.is_closed = true end

---@param path string
---@return runnel.sim.Locks
function Connection:locks(path)
  local of_machine = self.host.machine.locks
  path = absolute(path)
  of_machine[path] = of_machine[path] or {}
  return setmetatable({ host = self.host, born = self.born, list = of_machine[path] }, Locks)
end

-- ---- making one ----

local database = {}

---Makes the connection of a database on the host that runs.
---@param lib table the C module
---@param path string of the file
---@param busy integer its busy timeout, ms
---@param open fun(disk: function): any makes the database of the C module
---@return runnel.sim.Connection
function database.new(lib, path, busy, open)
  if not current.world:here() then
    core.internal.raise("open: this go block belongs to no host of the simulated world: start it in the function of "
      .. "world:host(name, f)")
  end
  local self = handles.new(Connection)
  self.lib, self.path, self.open, self.jobs, self.depth, self.over = lib, path, {}, {}, 0, false
  self.busy, self.refuses, self.has_log = busy, false, false
  table.insert(self.world.databases, self)
  self.core = open(function(...) return call(self, ...) end)
  return self
end

return database
