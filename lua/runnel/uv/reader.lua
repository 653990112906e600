---A buffered reader: exact numbers of bytes, texts up to a delimiter, lines, and the rest, of the same stream.
---
---    local reader = uv.reader(conn)
---    local size = reader:read_until "\r\n"
---    local body = reader:read(tonumber(size))
---
---The bytes that it has read ahead belong to the stream: of a connection and of the standard descriptors the next
---reader gets them, and no encryption begins behind them.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local descriptor = require "runnel.uv.descriptor"
local file = require "runnel.uv.file"
local loop = require "runnel.uv.loop"
local sign = require "runnel.internal.sign"
local standard = require "runnel.uv.standard"
local stream = require "runnel.uv.uv_stream"
local characters = require "runnel.uv.characters"
local raise = core.internal.raise

local byte, concat, find, sub = string.byte, table.concat, string.find, string.sub

-- How many bytes a text up to a delimiter may have, if the program does not say: as those of a line.
local MAX = 1024 * 1024

local PIECES_OPTIONS = { text = check.kinds.boolean }

---@class runnel.uv.Reader
---@field package ch runnel.Channel<string> the chunks
---@field package closed boolean it is not used any more
---@field package what string for messages
---@field package from integer where the first chunk begins, of which the bytes before were taken
---@field package first integer the number of the first chunk that is kept
---@field package last integer the number of the last one
---@field package size integer how many bytes are kept
---@field package over boolean there is nothing more to read
---@field package err any the error with which reading ended
---@field package busy boolean a go block reads
---@field package reading? runnel.uv.Reading of a standard descriptor
---@field [integer] string the chunks
local Reader = { __sign = "reader", __name = "runnel.uv.reader" }
Reader.__index = Reader

-- ---- the bytes ----

-- Gets the next chunk. Returns false at the end.
local function fill(self)
  if self.over then return false end
  local chunk, err = self.ch:take()
  if chunk == nil then
    self.over, self.err = true, err
    return false
  end
  self.last, self.size = self.last + 1, self.size + #chunk
  self[self.last] = chunk
  return true
end

-- Takes n bytes out of those that are kept.
local function cut(self, n)
  local first, from = self.first, self.from
  local part = self[first]
  if n == 0 then return "" end
  self.size = self.size - n
  if from + n - 1 < #part then
    self.from = from + n
    return sub(part, from, from + n - 1)
  end
  local parts, count, left = {}, 0, n
  while left > 0 do
    local piece = sub(part, from, from + left - 1)
    count = count + 1
    parts[count], left = piece, left - #piece
    from = from + #piece
    if from > #part then
      self[first] = nil
      first, from = first + 1, 1
      part = self[first]
    end
  end
  self.first, self.from = first, from
  return concat(parts, "", 1, count)
end

-- Puts text back that was cut out.
local function put_back(self, text)
  if self.from > 1 then self[self.first], self.from = sub(self[self.first], self.from), 1 end
  self.first, self.size = self.first - 1, self.size + #text
  self[self.first] = text
end

-- Finds the delimiter. Returns how many bytes are before it; nil if there is none in the first `max` bytes and `more`
-- others, or up to the end. `max` may be the largest integer, so nothing is added to it.
local function distance(self, delimiter, max, more)
  local i, before, tail, overlap = self.first, 0, "", #delimiter - 1
  while true do
    while i <= self.last do
      local part = self[i]
      local start = i == self.first and self.from or 1
      if tail ~= "" then
        local at = find(tail .. sub(part, start, start + overlap - 1), delimiter, 1, true)
        if at then return before - #tail + at - 1 end
      end
      local at = find(part, delimiter, start, true)
      if at then return before + at - start end
      if overlap > 0 then tail = sub(tail .. sub(part, math.max(start, #part - overlap + 1)), -overlap) end
      before = before + #part - start + 1
      i = i + 1
    end
    if before - more >= max or not fill(self) then return nil end
  end
end

-- ---- what programs call ----

-- Marks the reader as in use by the running go block, until that variable is closed.
local Use = { __close = function(self) self.reader.busy = false end }

local function use(self, method)
  if self.busy then
    raise(("%s: another go block reads %s now; one go block reads, or they take turns"):format(method, self.what))
  end
  self.busy = true
  return setmetatable({ reader = self }, Use)
end

-- What is returned where there is not enough: nil, and the error unless the end is where it may be.
local function short(self, wanted)
  if self.err ~= nil then return nil, self.err end
  if self.size == 0 then return nil end
  return nil, ("%s: the end came after %d bytes, before %s"):format(self.what, self.size, wanted)
end

---Reads exactly n bytes. If there are fewer before the end, they stay.
---@param n integer
---@return string? bytes nil at the end
---@return any err if the end came early, or reading has failed
function Reader:read(n)
  sign.own(self, "reader", "read")
  check.integer(n, 0, "reader:read: n")
  local _ <close> = use(self, "reader:read")
  while self.size < n do
    if not fill(self) then return short(self, ("%d"):format(n)) end
  end
  return cut(self, n)
end

---Reads up to a delimiter, which is taken and left out.
---@param delimiter string
---@param max? integer how many bytes there may be before it, default 1 MB
---@return string? text nil at the end
---@return any err if the end, or too many bytes, came before the delimiter; the bytes stay
function Reader:read_until(delimiter, max)
  sign.own(self, "reader", "read_until")
  check.string(delimiter, "a delimiter", "reader:read_until")
  if delimiter == "" then raise("reader:read_until: the delimiter is empty") end
  if max ~= nil then check.integer(max, 0, "reader:read_until: max") end
  max = max or MAX
  local _ <close> = use(self, "reader:read_until")
  local n = distance(self, delimiter, max, #delimiter)
  if n and n <= max then
    local text = cut(self, n)
    cut(self, #delimiter)
    return text
  end
  if n or not self.over then
    return nil, ("%s: there is no %q within %d bytes"):format(self.what, delimiter, max)
  end
  return short(self, ("%q"):format(delimiter))
end

---Reads a line, without its newline, which is "\n" or "\r\n". A last line may have none.
---@param max? integer how many bytes it may have, default 1 MB
---@return string? line nil at the end
---@return any err if it is longer, or reading has failed
function Reader:line(max)
  sign.own(self, "reader", "line")
  if max ~= nil then check.integer(max, 0, "reader:line: max") end
  max = max or MAX
  local _ <close> = use(self, "reader:line")
  local n = distance(self, "\n", max, 2) -- the newline, and one more: it may be the "\r"
  if n and n - 1 <= max then
    local whole = cut(self, n + 1)
    local line = sub(whole, 1, byte(whole, -2) == 13 and -3 or -2)
    if #line <= max then return line end
    put_back(self, whole)
  elseif self.over and not n and self.err == nil and self.size <= max then
    if self.size > 0 then return cut(self, self.size) end
    return nil
  end
  if self.over and self.err ~= nil and not n then return nil, self.err end
  return nil, ("%s: a line is longer than %d bytes; the argument max allows longer ones"):format(self.what, max)
end

---An iterator over the lines that are left. Raises an error with which reading ends.
---@param max? integer as for `line`
---@return fun(): string?
function Reader:lines(max)
  sign.own(self, "reader", "lines")
  if max ~= nil then check.integer(max, 0, "reader:lines: max") end
  return function()
    local line, err = self:line(max)
    if line == nil and err ~= nil then error(err, 0) end
    return line
  end
end

-- How many bytes the next piece has: those of the first chunk, but none of a character that goes on in the next one.
local function piece_size(self, is_text)
  local size = #self[self.first] - self.from + 1
  if not is_text then return size end
  local n = characters.incomplete(sub(self[self.first], self.from))
  if n < size then return size - n end
  if not fill(self) then return size end
  put_back(self, cut(self, self.size)) -- as one chunk
  return piece_size(self, true)
end

---An iterator over what is left, as strings of any size. Raises an error with which reading ends.
---@param opts? { text?: boolean } `text`: no string ends within a character of UTF-8, unless the stream does
---@return fun(): string?
function Reader:pieces(opts)
  sign.own(self, "reader", "pieces")
  check.options(opts, PIECES_OPTIONS, "reader:pieces")
  local is_text = opts and opts.text or false
  return function()
    local _ <close> = use(self, "reader:pieces")
    if self.size == 0 and not fill(self) then
      if self.err ~= nil then error(self.err, 0) end
      return nil
    end
    return cut(self, piece_size(self, is_text))
  end
end

-- Ends the reader. Returns the bytes that were not taken.
function Reader:give_back()
  local text = cut(self, self.size)
  self.closed = true
  if not self.over then self.over, self.err = true, ("%s: something else reads it now"):format(self.what) end
  return text
end

---Lets go of the stream. What was not taken of a connection, or of a standard descriptor, belongs to its next reader; a
---file that was opened by the reader is closed.
function Reader:close()
  sign.own(self, "reader", "close")
  self.ch:close()
  self.closed = true
  if not self.over then self.over, self.err = true, ("%s: the reader is closed"):format(self.what) end
  if self.reading then self.reading:give_back() end -- the channel has done it, unless the end was read
end

Reader.__close = Reader.close

local function new(ch, what)
  return setmetatable({
    ch = ch, closed = false, what = what, from = 1, first = 1, last = 0, size = 0, over = false, err = nil,
    busy = false,
  }, Reader)
end

local function is_stream(source) return type(source) == "table" and source.read == stream.Stream.read end

---@class runnel.uv.reader
local reader = {}

---A buffered reader of a connection, a file, a descriptor, or a channel of strings, such as `p.stdout`.
---@param source runnel.uv.Connection|string|integer|runnel.Channel<string>
---@return runnel.uv.Reader r of a connection always the same one, until something else reads it
function reader.reader(source)
  sign.dot(source, "uv", "reader")
  if is_stream(source) then
    local conn = source --[[@as runnel.uv.Stream]]
    if conn.ahead and not conn.ahead.closed then return conn.ahead end
    local r = new(conn:read(), conn.name or "the connection")
    conn.ahead = r
    return r
  end
  if core.is_chan(source) then return new(source, tostring(source):match "^[^(]*[^( ]" or "the channel") end
  if type(source) == "string" then
    check.no_zero(source, "reader: the path")
  elseif not descriptor.is_descriptor(source) then
    local got = type(source) == "number" and tostring(source) or check.article(source)
    raise("reader: a connection, a path, a file descriptor or a channel expected, got " .. got)
  end
  loop.check "reader"
  local ch = file.read(source)
  local r = new(ch, type(source) == "string" and source or "descriptor " .. source)
  standard.read_ahead(source, ch, r)
  return r
end

return reader
