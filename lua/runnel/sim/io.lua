---Lua's files on the disk of a simulated host: what io.open, io.lines, os.remove, os.rename and os.tmpname do there.
---As C's they have a buffer: what is written is in the file once that is full or flushed, the file is closed, or the
---program exits; and what was read ahead does not change any more.

local current = require "runnel.internal.world"
local files = require "runnel.sim.sim_files"
local raise = require("runnel.core").internal.raise

local O = files.constants

local BLOCK <const> = 4096 -- bytes of a buffer, and of a read, as of glibc

local simulated = {}

-- The errors that a program may get, with the number and the text of Linux.
local ERRORS = {
  ENOENT = { 2, "No such file or directory" }, EIO = { 5, "Input/output error" }, EBADF = { 9, "Bad file descriptor" },
  EEXIST = { 17, "File exists" }, ENOTDIR = { 20, "Not a directory" }, EISDIR = { 21, "Is a directory" },
  EINVAL = { 22, "Invalid argument" }, EMFILE = { 24, "Too many open files" },
  ENOSPC = { 28, "No space left on device" }, ENOTEMPTY = { 39, "Directory not empty" },
}

-- Returns true, or what functions of Lua return for the error of a function of luv.
local function as_lua(path, result, _, name)
  if result then return true end
  local number, text = ERRORS[name][1], ERRORS[name][2]
  return nil, path and path .. ": " .. text or text, number
end

---os.remove
---@param path string
function simulated.remove(path)
  local result, err, name = files.fs_unlink(path)
  if name == "EISDIR" then result, err, name = files.fs_rmdir(path) end
  return as_lua(path, result, err, name)
end

---os.rename
---@param from string
---@param to string
function simulated.rename(from, to) return as_lua(nil, files.fs_rename(from, to)) end

local names = 0

---The names of os.tmpname begin again.
function simulated.begin() names = 0 end

---os.tmpname: makes the file, too.
function simulated.tmpname()
  local path, fd, name, _
  repeat
    names = names + 1
    path = "/tmp/lua_" .. names
    fd, _, name = files.fs_open(path, O.O_RDWR | O.O_CREAT | O.O_EXCL, 0x180)
  until name ~= "EEXIST"
  if not fd then raise("unable to generate a unique filename") end
  files.fs_close(fd)
  return path
end

-- ---- files ----

---@class runnel.sim.LuaFile
---@field fd? integer nil once it is closed
---@field open runnel.sim.OpenFile
---@field pos integer up to where it was read or written, without what is in the buffers
---@field appends boolean
---@field writes boolean its mode allows for that
---@field ahead string what was read and not handed out; empty while something was written and not flushed
---@field unwritten string what was written and not flushed
---@field buffer string the mode of setvbuf
---@field failed? string the name of the error of a read
local File = { __name = "FILE*" }
File.__index = File

local MODES = {
  ["r"] = O.O_RDONLY, ["r+"] = O.O_RDWR, ["w"] = O.O_WRONLY | O.O_CREAT | O.O_TRUNC,
  ["w+"] = O.O_RDWR | O.O_CREAT | O.O_TRUNC, ["a"] = O.O_WRONLY | O.O_CREAT | O.O_APPEND,
  ["a+"] = O.O_RDWR | O.O_CREAT | O.O_APPEND,
}

-- An error as the checks of Lua's C functions raise it, at the program's line.
local function bad(n, what, why) raise(("bad argument #%d to '%s' (%s)"):format(n, what, why)) end

local NO_INTEGER <const> = "number has no integer representation"

-- A string, or a number as one.
local function check_string(value, n, what)
  if type(value) == "string" then return value end
  if type(value) ~= "number" then bad(n, what, "string expected, got " .. type(value)) end
  return tostring(value)
end

---io.open
---@param path string
---@param mode? string
function simulated.open(path, mode)
  path = check_string(path, 1, "open")
  local flags = MODES[(mode or "r"):gsub("b*$", "")]
  if not flags then bad(2, "open", "invalid mode") end
  local fd, err, name = files.fs_open(path, flags, 0x1B6)
  if not fd then return as_lua(path, fd, err, name) end
  local open = current.world:here().open_files[fd]
  local self = setmetatable({ fd = fd, open = open, pos = 0, appends = flags & O.O_APPEND ~= 0,
    writes = flags & 3 ~= O.O_RDONLY, ahead = "", unwritten = "", buffer = "full" }, File)
  open.lua_file = self
  if flags & 3 == O.O_WRONLY and self.appends then self.pos = files.fs_fstat(fd).size end
  return self
end

---io.type
function simulated.type(value)
  if getmetatable(value) ~= File then return nil end
  return value.fd and "file" or "closed file"
end

local function check_open(self)
  if not self.fd then raise("attempt to use a closed file") end
end

-- ---- writing ----

-- Returns true; or nil and an error's name.
local function write_out(self, data)
  while data ~= "" do
    local n, _, name = files.fs_write(self.fd, data, self.pos)
    if not n then return nil, name end
    data = data:sub(n + 1)
    self.pos = self.appends and files.fs_fstat(self.fd).size or self.pos + n
  end
  return true
end

-- Writes what is in the buffer. As in glibc it is lost if that fails.
local function flush(self)
  local data = self.unwritten
  self.unwritten = ""
  return write_out(self, data)
end

-- The next read or write of the file begins where the program has got to.
local function forget_ahead(self)
  self.pos, self.ahead = self.pos - #self.ahead, ""
end

-- How many bytes do not stay in the buffer: whole blocks if it is full; all lines; or everything.
local function how_many(self, data)
  if self.buffer == "no" then return #data end
  local n = self.buffer == "line" and #(data:match "^.*\n" or "") or 0
  local more = #data - n
  return more > BLOCK and n + more - more % BLOCK or n
end

-- A number as io.write has it.
local function number_text(value)
  if math.type(value) == "float" and _VERSION == "Lua 5.4" then return ("%.14g"):format(value) end
  return tostring(value)
end

function File:write(...)
  check_open(self)
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    local text = type(value) == "number" and number_text(value) or check_string(value, i, "write")
    if text ~= "" and not self.writes then return as_lua(nil, nil, nil, "EBADF") end
    forget_ahead(self)
    local data = self.unwritten .. text
    local n = how_many(self, data)
    self.unwritten = "" -- is lost if the write fails
    local ok, name = write_out(self, data:sub(1, n))
    if not ok then return as_lua(nil, nil, nil, name) end
    self.unwritten = data:sub(n + 1)
  end
  return self
end

function File:flush()
  check_open(self)
  local ok, name = flush(self)
  return as_lua(nil, ok, nil, name)
end

local BUFFERS = { no = true, full = true, line = true }

function File:setvbuf(mode)
  check_open(self)
  if not BUFFERS[mode] then bad(1, "setvbuf", ("invalid option '%s'"):format(tostring(mode))) end
  local ok, name = true, nil
  if mode == "no" then ok, name = flush(self) end
  self.buffer = mode
  return as_lua(nil, ok, nil, name)
end

-- ---- reading ----

-- Reads more into the buffer. Returns false at the end, and if it fails.
local function fill(self, size)
  local ok, data, name, _ = true, nil, nil, nil
  if self.unwritten ~= "" then ok, name = flush(self) end
  if ok then data, _, name = files.fs_read(self.fd, size or BLOCK, self.pos) end
  if not data then
    self.failed, self.ahead = name, ""
    return false
  end
  self.pos, self.ahead = self.pos + #data, self.ahead .. data
  return data ~= ""
end

-- Takes the first n bytes of the buffer.
local function cut(self, n)
  local text = self.ahead:sub(1, n)
  self.ahead = self.ahead:sub(n + 1)
  return text
end

-- Up to n bytes; nil at the end.
local function read_bytes(self, n)
  local parts, missing = {}, n - #self.ahead
  while missing > 0 do
    parts[#parts + 1] = cut(self, #self.ahead)
    if not fill(self, math.max(BLOCK, missing - missing % BLOCK)) then break end
    missing = missing - #self.ahead
  end
  parts[#parts + 1] = cut(self, missing < 0 and #self.ahead + missing or #self.ahead)
  local text = table.concat(parts)
  return text ~= "" and text or nil
end

-- A line; `with_end`: with its line break.
local function read_line(self, with_end)
  local to = self.ahead:find("\n", 1, true)
  while not to do
    local from = #self.ahead + 1
    if not fill(self) then break end
    to = self.ahead:find("\n", from, true)
  end
  if not to and self.ahead == "" then return nil end
  local line = cut(self, to or #self.ahead)
  return to and not with_end and line:sub(1, -2) or line
end

-- The first byte of the buffer, which is read if it is empty; "" at the end.
local function peek(self)
  if self.ahead == "" then fill(self) end
  return self.ahead:sub(1, 1)
end

local LONGEST_NUMBER <const> = 200 -- bytes, in Lua

-- A numeral, by the steps of Lua: it ends before the first byte that cannot go on, and is lost if it is none.
local function read_number(self)
  local text, n = "", 0
  while peek(self):find "^%s" do cut(self, 1) end
  local function accept(pattern)
    if not peek(self):find(pattern) then return false end
    if n >= LONGEST_NUMBER then
      text = ""
      return false
    end
    text, n = text .. cut(self, 1), n + 1
    return true
  end
  local function digits(pattern)
    local count = 0
    while accept(pattern) do count = count + 1 end
    return count
  end
  accept "^[+-]"
  local has_zero, is_hex = accept "^0", false
  if has_zero then is_hex = accept "^[xX]" end
  local digit = is_hex and "^%x" or "^%d"
  local count = (has_zero and not is_hex and 1 or 0) + digits(digit)
  if accept "^%." then count = count + digits(digit) end
  if count > 0 and accept(is_hex and "^[pP]" or "^[eE]") then
    accept "^[+-]"
    digits "^%d"
  end
  return tonumber(text)
end

-- What a format reads; nil: there is none.
local function read_one(self, format, i)
  if type(format) == "number" then
    local n = math.tointeger(format) or bad(i, "read", NO_INTEGER)
    if n == 0 then return peek(self) ~= "" and "" or nil end
    return read_bytes(self, n)
  end
  local letter = check_string(format, i, "read"):gsub("^%*", ""):sub(1, 1)
  if letter == "a" then return read_bytes(self, math.maxinteger) or "" end
  if letter == "n" then return read_number(self) end
  if letter ~= "l" and letter ~= "L" then bad(i, "read", "invalid format") end
  return read_line(self, letter == "L")
end

local function read(self, formats)
  self.failed = nil
  local results, n = {}, 0
  repeat
    n = n + 1
    results[n] = read_one(self, formats[n], n)
  until results[n] == nil or n == formats.n
  if self.failed then return as_lua(nil, nil, nil, self.failed) end
  return table.unpack(results, 1, n)
end

local function formats_of(...)
  return select("#", ...) == 0 and { "l", n = 1 } or table.pack(...)
end

function File:read(...)
  check_open(self)
  return read(self, formats_of(...))
end

-- The iterator over what a file has in these formats. A read that fails is an error, as in a real loop.
local function iterator(self, formats, closes)
  return function()
    if not self.fd then raise("file is already closed") end
    local results = table.pack(read(self, formats))
    if results[1] ~= nil then return table.unpack(results, 1, results.n) end
    if results.n > 1 then raise(results[2]) end
    if closes then self:close() end
  end
end

function File:lines(...)
  check_open(self)
  return iterator(self, formats_of(...), false)
end

-- ---- the position, and the end ----

local FROM = { set = true, cur = true, ["end"] = true }

function File:seek(whence, offset)
  check_open(self)
  if not FROM[whence or "cur"] then bad(1, "seek", ("invalid option '%s'"):format(tostring(whence))) end
  local by = math.tointeger(tonumber(offset or 0)) or bad(2, "seek", type(offset) == "number" and NO_INTEGER
    or "number expected, got " .. type(offset))
  local ok, name = flush(self)
  if not ok then return as_lua(nil, nil, nil, name) end
  forget_ahead(self)
  local from = whence == "set" and 0 or whence == "end" and files.fs_fstat(self.fd).size or self.pos
  if from + by < 0 then return as_lua(nil, nil, nil, "EINVAL") end
  self.pos = from + by
  return self.pos
end

function File:close()
  check_open(self)
  local ok, name = flush(self)
  files.fs_close(self.fd)
  self.fd = nil
  return as_lua(nil, ok, nil, name)
end

function File:__close()
  if self.fd then self:close() end
end

function File:__tostring() return self.fd and "file" or "file (closed)" end

---io.lines
---@param path string
---@param ... any formats
function simulated.lines(path, ...)
  path = check_string(path, 1, "lines")
  local file, err = simulated.open(path)
  if not file then raise(("cannot open file '%s' (%s)"):format(path, err:sub(#path + 3))) end
  return iterator(file, formats_of(...), true), nil, nil, file
end

-- The files of a program that has something in a buffer, in the order in which they were opened.
local function unflushed(host)
  local list = {}
  for _, open in pairs(host.open_files) do
    local file = open.lua_file
    if file and file.fd and file.unwritten ~= "" then list[#list + 1] = file end
  end
  table.sort(list, function(a, b) return a.fd < b.fd end)
  return list
end

---The running program exits: what is in its buffers is written. Nobody hears of errors.
---@param host runnel.sim.Host
function simulated.flush(host)
  for _, file in ipairs(unflushed(host)) do flush(file) end
end

---The same for a program that has exited before, without anybody having looked.
---@param host runnel.sim.Host
function simulated.has_exited(host)
  for _, file in ipairs(unflushed(host)) do
    local inode = file.open.inode
    host.disk:write(inode, file.appends and inode.data.size or file.pos, file.unwritten)
    file.unwritten = ""
  end
end

return simulated
