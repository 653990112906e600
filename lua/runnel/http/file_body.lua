---Files that are bodies of responses of http.files: they are read without waiting if they are in memory, else by luv's
---threads. A long one is a channel, which any function may read, wrap or replace; if none has when the response is
---sent, the server's thread reads the file itself.

local core = require "runnel.core"
local answer = require "runnel.http.answer"
local descriptor = require "runnel.uv.descriptor"
local guard = require "runnel.internal.guard"
local loop = require "runnel.uv.loop"

local put_while_open = core.internal.moving.put_while_open
local uv = loop.uv

local bodies = {}

---Bytes of a piece. A part of a file that is not longer is a string.
bodies.PIECE = 64 * 1024

---An open file.
---@class runnel.http.FileBody
---@field name string for messages
---@field file? any of the C module runnel.http.core
---@field descriptor? runnel.uv.Descriptor in its place, once luv's threads read it
---@field offset integer of the part that a channel carries
---@field length integer of that part
---@field is_sent? boolean the server's thread sends it
local Body = {}
Body.__index = Body

---@param name string
---@param file? any
---@param opened? runnel.uv.Descriptor
---@return runnel.http.FileBody
function bodies.new(name, file, opened)
  return setmetatable({ name = name, file = file, descriptor = opened, offset = 0, length = 0 }, Body)
end

function Body:close()
  if self.file then self.file:close() else self.descriptor:close() end
end

Body.__close = Body.close

-- Reads some bytes; raises if the file has become too short. Parks if they are not in memory.
local function read(self, size, offset)
  local piece, err = self.file and self.file:read(offset, size), nil
  if not piece then
    if self.file then
      self.descriptor = descriptor.of_file(self.name, self.file:take())
      self.file = nil
    end
    err, piece = self.descriptor:call(uv.fs_read, self.descriptor.fd, size, offset)
  end
  if err then error(err, 0) end
  if piece == "" then error(self.name .. ": the file has become shorter while it was sent", 0) end
  return piece
end

-- ---- channels ----

local function send_pieces(self, ch)
  if self.is_sent then return end
  answer.untouched[ch] = nil
  local closing <close> = self -- luacheck: ignore 211
  local offset, length = self.offset, self.length
  while length > 0 do
    local ok, piece = pcall(read, self, math.min(length, bodies.PIECE), offset)
    if not ok then return ch:close(piece) end
    if not put_while_open(ch, piece) then return end
    offset, length = offset + #piece, length - #piece
  end
  ch:close()
end

---A part of the file: a string, or a channel if it is long. The file is closed after the last piece.
---@param offset integer
---@param length integer
---@return string|runnel.Channel<string>
function Body:part(offset, length)
  if length > bodies.PIECE then
    local ch = core.chan()
    self.offset, self.length = offset, length
    if self.file then answer.untouched[ch] = self end
    guard.started(guard.go(guard.close, ch, send_pieces, self, ch), "files")
    return ch
  end
  local closing <close> = self
  local pieces = {}
  while length > 0 do
    local piece = read(closing, length, offset)
    pieces[#pieces + 1] = piece
    offset, length = offset + #piece, length - #piece
  end
  return table.concat(pieces)
end

return bodies
