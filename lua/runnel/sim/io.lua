---Lua's files on the disk of a simulated host: what io.open, io.lines, os.remove and os.rename do there. Unlike real
---ones they have no buffer: what is written is in the file at once, though not on the disk.

local files = require "runnel.sim.sim_files"

local O = files.constants

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

-- ---- files ----

---@class runnel.sim.LuaFile
---@field fd? integer nil once it is closed
---@field pos integer
---@field appends boolean
local File = { __name = "FILE*" }
File.__index = File

local MODES = {
  ["r"] = O.O_RDONLY, ["r+"] = O.O_RDWR, ["w"] = O.O_WRONLY | O.O_CREAT | O.O_TRUNC,
  ["w+"] = O.O_RDWR | O.O_CREAT | O.O_TRUNC, ["a"] = O.O_WRONLY | O.O_CREAT | O.O_APPEND,
  ["a+"] = O.O_RDWR | O.O_CREAT | O.O_APPEND,
}

---io.open
---@param path string
---@param mode? string
function simulated.open(path, mode)
  local flags = MODES[(mode or "r"):gsub("b$", "")]
  if not flags then error("bad argument #2 to 'open' (invalid mode)", 2) end
  local fd, err, name = files.fs_open(path, flags, 0x1B6)
  if not fd then return as_lua(path, fd, err, name) end
  return setmetatable({ fd = fd, pos = 0, appends = flags & O.O_APPEND ~= 0 }, File)
end

---io.type
function simulated.type(value)
  if getmetatable(value) ~= File then return nil end
  return value.fd and "file" or "closed file"
end

local function check_open(self)
  if not self.fd then error("attempt to use a closed file", 3) end
end

-- All that is behind the position; or nil and an error's name. Reads again after a short read.
local function rest(self)
  local parts, pos = {}, self.pos
  while true do
    local data, _, name = files.fs_read(self.fd, 1 << 30, pos)
    if not data then return nil, name end
    if data == "" then return table.concat(parts) end
    parts[#parts + 1], pos = data, pos + #data
  end
end

-- The next piece in a format, and how many bytes that takes; nil: there is none.
local function piece(text, format)
  if math.type(format) == "integer" then
    if text == "" then return nil, 0 end
    return text:sub(1, format), math.min(format, #text)
  end
  local letter = tostring(format):gsub("^%*", ""):sub(1, 1)
  if letter == "a" then return text, #text end
  if letter == "n" then
    local space, number = text:match "^(%s*)([+-]?[%x.xXpP+-]*)"
    return tonumber(number), #space + #number
  end
  if letter ~= "l" and letter ~= "L" then error("bad argument #1 to 'read' (invalid format)", 4) end
  if text == "" then return nil, 0 end
  local to = text:find("\n", 1, true)
  local line = text:sub(1, to)
  return letter == "l" and to and line:sub(1, -2) or line, #line
end

function File:read(...)
  check_open(self)
  local formats, results = { ... }, {}
  if #formats == 0 then formats[1] = "l" end
  local text, name = rest(self)
  if not text then return as_lua(nil, nil, nil, name) end
  for i, format in ipairs(formats) do
    local value, n = piece(text, format)
    text, self.pos = text:sub(n + 1), self.pos + n
    results[i] = value
    if value == nil then return table.unpack(results, 1, i) end
  end
  return table.unpack(results, 1, #formats)
end

function File:lines(...)
  check_open(self)
  local formats = table.pack(...)
  return function() return self:read(table.unpack(formats, 1, formats.n)) end
end

function File:write(...)
  check_open(self)
  for _, value in ipairs { ... } do
    local text = tostring(value)
    while text ~= "" do
      local n, err, name = files.fs_write(self.fd, text, self.pos)
      if not n then return as_lua(nil, n, err, name) end
      text = text:sub(n + 1)
      self.pos = self.appends and files.fs_fstat(self.fd).size or self.pos + n
    end
  end
  return self
end

function File:seek(whence, offset)
  check_open(self)
  local from = whence == "set" and 0 or whence == "end" and files.fs_fstat(self.fd).size or self.pos
  local pos = from + (offset or 0)
  if pos < 0 then return as_lua(nil, nil, nil, "EINVAL") end
  self.pos = pos
  return pos
end

function File:flush()
  check_open(self)
  return true
end

function File:setvbuf()
  check_open(self)
  return true
end

function File:close()
  check_open(self)
  files.fs_close(self.fd)
  self.fd = nil
  return true
end

function File:__close()
  if self.fd then self:close() end
end

function File:__tostring() return self.fd and "file" or "file (closed)" end

---io.lines
---@param path string
---@param ... any formats
function simulated.lines(path, ...)
  local file, err = simulated.open(path)
  if not file then error(("cannot open file '%s' (%s)"):format(path, err:sub(#path + 3)), 2) end
  local next_piece = file:lines(...)
  return function()
    local results = table.pack(next_piece())
    if results[1] == nil then file:close() end
    return table.unpack(results, 1, results.n)
  end, nil, nil, file
end

return simulated
