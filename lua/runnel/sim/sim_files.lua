---luv's functions for files, on the disk of the simulated host that runs.

local core = require "runnel.core"
local current = require "runnel.internal.world"
local disks = require "runnel.sim.disk"
local handles = require "runnel.sim.handle"
local remove = require "runnel.internal.remove"

local absolute = disks.Disk.absolute

-- The flags of Linux, in case luv is not there. (luv keeps the coroutine that loads it, so that must not be one of a
-- simulation.)
local has_luv, luv = pcall(core.internal.require, "luv")
local O = has_luv and luv.constants or {
  O_RDONLY = 0, O_WRONLY = 1, O_RDWR = 2, O_CREAT = 64, O_EXCL = 128, O_TRUNC = 512, O_APPEND = 1024, O_NONBLOCK = 2048,
}

-- The faults of each operation.
local AT_OPEN, AT_READ = { "emfile", "eio" }, { "eio", "short" }
local AT_WRITE, AT_SYNC = { "enospc", "eio", "short" }, { "eio", "unsynced" }

---An open file.
---@class runnel.sim.OpenFile
---@field inode runnel.sim.Inode
---@field path string
---@field pos integer
---@field flags integer
---@field host runnel.sim.Host
---@field born integer
---@field lua_file? runnel.sim.LuaFile

-- Numbers of descriptors are never used twice, so that a finalizer of an earlier run closes nothing of this one.
local last_fd = 2
local open_files = setmetatable({}, { __mode = "v" }) ---@type table<integer, runnel.sim.OpenFile>

local files = { constants = O }

---A number for a descriptor.
---@return integer
function files.new_fd()
  last_fd = last_fd + 1
  return last_fd
end

local function of_fd(host, fd)
  local open = open_files[fd]
  return open and open.host == host and open.born == host.born and open or nil
end

-- ---- the operations: each gets the host and its arguments, and returns its result, or nil and an error's name ----

local ops = {}
files.ops = ops

local function may_fail(host, faults, what)
  local fault = host.world.faults:choose(faults)
  if fault then host.world:log(host, fault, "%s", what) end
  if fault == "short" then return nil, true end
  return fault and fault:upper()
end

function ops.open(host, path, flags, mode)
  local disk, full = host.disk, absolute(path)
  local fault = may_fail(host, AT_OPEN, path)
  if fault then return nil, fault end
  local inode, err = disk:find(full)
  local access = flags & 3
  if inode and flags & O.O_CREAT ~= 0 and flags & O.O_EXCL ~= 0 then return nil, "EEXIST" end
  if inode and inode.kind == "directory" and access ~= O.O_RDONLY then return nil, "EISDIR" end
  if inode and inode.kind == "socket" then return nil, "ENXIO" end
  if not inode then
    if flags & O.O_CREAT == 0 or err == "ENOTDIR" then return nil, err end
    if path:find "/$" then return nil, "EISDIR" end
    err = disk:check_folder(full)
    if err then return nil, err end
    host.world:may_crash(host)
    inode = disk:make(full, "file", mode or 0x1B6)
  elseif flags & O.O_TRUNC ~= 0 and access ~= O.O_RDONLY then
    host.world:may_crash(host)
    disk:truncate(inode, 0)
  end
  local fd = files.new_fd()
  local open = { inode = inode, path = full, pos = 0, flags = flags, host = host, born = host.born }
  open_files[fd], host.open_files[fd] = open, open
  return fd
end

function ops.close(host, fd)
  local stream = host.pipes[fd]
  if stream then
    host.pipes[fd] = nil
    stream:close()
    return true
  end
  if not of_fd(host, fd) then return nil, "EBADF" end
  open_files[fd], host.open_files[fd] = nil, nil
  return true
end

function ops.read(host, fd, size, offset)
  local open = of_fd(host, fd)
  if not open or open.flags & 3 == O.O_WRONLY then return nil, "EBADF" end
  if open.inode.kind == "directory" then return nil, "EISDIR" end
  local fault, is_short = may_fail(host, AT_READ, open.path)
  if fault then return nil, fault end
  local is_at = offset and offset >= 0
  local pos = is_at and offset or open.pos
  if is_short then size = math.min(size, 1) end
  local data = open.inode.data:read(pos, size)
  if not is_at then open.pos = pos + #data end
  return data
end

function ops.write(host, fd, data, offset)
  local open = of_fd(host, fd)
  if not open or open.flags & 3 == O.O_RDONLY then return nil, "EBADF" end
  if type(data) == "table" then data = table.concat(data) end
  local world = host.world
  world:may_crash(host)
  local fault, is_short = may_fail(host, AT_WRITE, open.path)
  if fault then return nil, fault end
  if is_short then data = data:sub(1, math.max(1, #data // 2)) end
  local is_at = offset and offset >= 0
  local pos = open.flags & O.O_APPEND ~= 0 and open.inode.data.size or is_at and offset or open.pos
  host.disk:write(open.inode, pos, data)
  if not is_at then open.pos = pos + #data end
  world:may_crash(host)
  return #data
end

---Syncs a file. Returns its path; or nil, and the name of an error. (fsync also tells it in the story.)
function files.sync(host, fd)
  local open = of_fd(host, fd)
  if not open then return nil, "EBADF" end
  local fault = may_fail(host, AT_SYNC, open.path)
  if fault == "UNSYNCED" then return open.path end
  if fault then
    host.disk:fail_sync(open.inode)
    return nil, fault
  end
  host.world:may_crash(host)
  host.disk:sync(open.inode)
  return open.path
end

function ops.fsync(host, fd)
  local path, err = files.sync(host, fd)
  if not path then return nil, err end
  host.world:log(host, nil, "syncs %s", path)
  return true
end

function ops.ftruncate(host, fd, size)
  local open = of_fd(host, fd)
  if not open then return nil, "EBADF" end
  if open.flags & 3 == O.O_RDONLY then return nil, "EINVAL" end
  host.world:may_crash(host)
  host.disk:truncate(open.inode, size)
  return true
end

local TYPES = { file = 0x8000, directory = 0x4000, socket = 0xC000 }

local function stat_of(inode)
  return { type = inode.kind, size = inode.kind == "file" and inode.data.size or 0, ino = inode.ino, dev = 1,
    mode = TYPES[inode.kind] | inode.mode, nlink = 1, uid = 0, gid = 0, mtime = { sec = inode.changed, nsec = 0 } }
end

function ops.fstat(host, fd)
  local open = of_fd(host, fd)
  if not open then return nil, "EBADF" end
  return stat_of(open.inode)
end

function ops.stat(host, path)
  local inode, err = host.disk:find(absolute(path))
  if not inode then return nil, err end
  return stat_of(inode)
end

-- There are no symbolic links.
ops.lstat = ops.stat

function ops.chmod(host, path, mode)
  local inode, err = host.disk:find(absolute(path))
  if not inode then return nil, err end
  host.disk:chmod(inode, mode)
  return true
end

function ops.unlink(host, path)
  local full = absolute(path)
  local inode, err = host.disk:find(full)
  if not inode then return nil, err end
  if inode.kind == "directory" then return nil, "EISDIR" end
  host.world:may_crash(host)
  host.disk:remove(full)
  return true
end

function ops.mkdir(host, path, mode)
  local full = absolute(path)
  if host.disk.names[full] then return nil, "EEXIST" end
  local err = host.disk:check_folder(full)
  if err then return nil, err end
  host.disk:make(full, "directory", mode)
  return true
end

function ops.rmdir(host, path)
  local full = absolute(path)
  local inode, err = host.disk:find(full)
  if not inode then return nil, err end
  if inode.kind ~= "directory" then return nil, "ENOTDIR" end
  if #host.disk:list(full) > 0 then return nil, "ENOTEMPTY" end
  host.disk:remove(full)
  return true
end

function ops.rename(host, from, to)
  local disk, a, b = host.disk, absolute(from), absolute(to)
  local problem = disk:check_folder(a) or disk:check_folder(b) -- Linux looks up the folders first
  if problem then return nil, problem end
  local inode, err = disk:find(a)
  if not inode then return nil, err end
  local other = disk:find(b)
  if to:find "/$" and inode.kind ~= "directory" then return nil, "ENOTDIR" end
  if a == b then return true end
  if inode.kind == "directory" and b:sub(1, #a + 1) == a .. "/" then return nil, "EINVAL" end
  if a:sub(1, #b + 1) == b .. "/" then return nil, "ENOTEMPTY" end
  if other and other.kind == "directory" and inode.kind ~= "directory" then return nil, "EISDIR" end
  if other and other.kind ~= "directory" and inode.kind == "directory" then return nil, "ENOTDIR" end
  if other and other.kind == "directory" and #disk:list(b) > 0 then return nil, "ENOTEMPTY" end
  host.world:may_crash(host)
  disk:move(a, b)
  host.world:log(host, nil, "renames %s to %s", from, to)
  host.world:may_crash(host)
  return true
end

-- There are no links.
function ops.realpath(host, path)
  local full = absolute(path)
  local inode, err = host.disk:find(full)
  if not inode then return nil, err end
  return full
end

function ops.scandir(host, path)
  local full = absolute(path)
  local fault = may_fail(host, AT_OPEN, path)
  if fault then return nil, fault end
  local inode, err = host.disk:find(full)
  if not inode then return nil, err end
  if inode.kind ~= "directory" then return nil, "ENOTDIR" end
  local list = {}
  for i, name in ipairs(host.disk:list(full)) do
    list[i] = { name, host.disk.names[full == "/" and "/" .. name or full .. "/" .. name].kind }
  end
  return setmetatable({ list = list, at = 0 }, { __name = "runnel.sim.scan" })
end

-- ---- as luv has them: at once, or with a callback ----

-- What luv adds to the text of an error.
local function named(op, a, b)
  if op == "rename" then return a .. " -> " .. b end
  return type(a) == "string" and a or nil
end

-- The error of a path that is empty, or has a slash at its end although no folder is there.
local function wrong_path(host, path)
  if type(path) ~= "string" then return nil end -- a descriptor
  if path == "" then return "ENOENT" end
  local inode = path:find "/$" and host.disk.names[absolute(path)]
  return inode and inode.kind ~= "directory" and "ENOTDIR" or nil
end

local function perform(host, op, on_end, args)
  local result, err = nil, wrong_path(host, args[1]) or op == "rename" and wrong_path(host, args[2]) or nil
  if not err then result, err = ops[op](host, table.unpack(args, 1, 4)) end
  if on_end == nil then
    if err then return handles.fail(err, named(op, args[1], args[2])) end
    return result
  end
  if err then
    local _, text = handles.fail(err, named(op, args[1], args[2]))
    return on_end(text)
  end
  on_end(nil, result)
end

-- How many arguments each has before the callback.
local ARGUMENTS = {
  open = 3, close = 1, read = 3, write = 3, fsync = 1, ftruncate = 2, fstat = 1, stat = 1, lstat = 1,
  chmod = 2, unlink = 1, mkdir = 2, rmdir = 1, realpath = 1, rename = 2, scandir = 1,
}

for op, n in pairs(ARGUMENTS) do
  files["fs_" .. op] = function(...)
    local args = { ... }
    local on_end = args[n + 1]
    local host = current.world:here()
    if not on_end and type(args[select("#", ...)]) == "function" then on_end = args[select("#", ...)] end
    if not on_end then return perform(host, op, nil, args) end
    current.world:on_disk(host, function() perform(host, op, on_end, args) end)
    return {}
  end
end

function files.fs_scandir_next(scan)
  scan.at = scan.at + 1
  local entry = scan.list[scan.at]
  if entry then return entry[1], entry[2] end
end

function files.guess_handle(fd)
  return of_fd(current.world:here(), fd) and "file" or "unknown"
end

-- ---- changes of files ----

---@class runnel.sim.Watch: runnel.sim.Handle
---@field inode? runnel.sim.Inode
---@field own_name? string as events of the inode itself name it: the last part of the path of the watch
---@field on_change? fun(err: string?, name: string?, what: table?)
local Watch = handles.class "runnel.sim.watch"

function files.new_fs_event() return handles.new(Watch) end

function Watch:start(path, _, on_change)
  local full = absolute(path)
  local inode, err = self.host.disk:find(full)
  if not inode then return handles.fail(err --[[@as string]]) end
  self:stop()
  self.inode, self.own_name, self.on_change = inode, path:match "[^/]*$", on_change
  table.insert(self.host.disk.watches, self)
  return 0
end

function Watch:stop()
  remove(self.host.disk.watches, self)
  self.on_change = nil
  return 0
end

local function call(self, change)
  if self.on_change then self.on_change(nil, change.name, { [change.what] = true }) end
end

---Calls the callback for a change.
---@param name string
---@param what "change"|"rename"
function Watch:tell(name, what) self:later(0, call, self, { name = name, what = what }) end

function Watch:stopped() self:stop() end

return files
