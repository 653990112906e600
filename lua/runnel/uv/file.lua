---Files, and anything else that has a path or a descriptor, read and written through channels.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local descriptor = require "runnel.uv.descriptor"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local lines = require "runnel.uv.lines"
local loop = require "runnel.uv.loop"
local sign = require "runnel.internal.sign"
local standard = require "runnel.uv.standard"
local stream = require "runnel.uv.uv_stream"
local characters = require "runnel.uv.characters"
local raise = core.internal.raise

local fail, put_while_open, is_plain = core.internal.fail, core.internal.moving.put_while_open,
  core.internal.moving.is_plain
local uv = loop.uv
local O = uv.constants

-- How many bytes a read or a collected write has; reads for large pieces have more, up to the second number.
local SIZE, MOST = 64 * 1024, 1024 * 1024

local function check_place(where, what)
  if descriptor.is_descriptor(where) then return end
  if type(where) == "string" then
    check.no_zero(where, what .. ": the path")
    return
  end
  local got = type(where) == "number" and tostring(where) or check.article(where)
  raise(("%s: a path or a file descriptor expected, got %s"):format(what, got))
end

-- ---- reading ----

-- Calls a function with each chunk of a file, of `size` bytes at most, until it returns false. Where a thread reads, it
-- reads the next chunk while the function runs. It reads all large ones: to wake it for each costs little beside them.
local function each_chunk(d, size, emit)
  local is_ahead = false
  d.by_threads = d.by_threads or size > SIZE
  while true do
    local err, chunk
    if is_ahead then err, chunk = d.finish() else err, chunk = d:read_file(size, -1) end
    if err or chunk == "" then return err end
    is_ahead = d.by_threads
    if is_ahead then d.begin(uv.fs_read, d.fd, size, -1) end
    if not emit(chunk) then
      if is_ahead then d.finish() end
      return nil
    end
  end
end

-- The same for what is read when it is ready, until `out` closes.
local function each_ready_chunk(d, emit, out)
  while true do
    local chunk, err = d:read(out)
    if not chunk or chunk == "" then return err end
    if not emit(chunk) then return nil end
  end
end

-- Makes a function that puts chunks as they are.
local function putter(out, _, unread)
  return function(chunk)
    if chunk == nil then return true end
    if not put_while_open(out, chunk) then return false end
    if unread then unread:done(0) end
    return true
  end
end

-- Notes each chunk as got.
local function noting(unread, emit)
  return function(chunk)
    if chunk then unread:add(chunk) end
    return emit(chunk)
  end
end

-- What an earlier reader has left comes first.
local function emit_rest(reading, emit)
  local rest = reading.rest
  reading.rest = nil
  return not rest or rest == "" or emit(rest)
end

-- `emitter(out, name, unread)` makes the function that puts the items of a chunk; called with nil, it puts the rest.
-- `is_text`: no chunk ends within a character.
local function read_into(out, where, size, emitter, reading, is_text)
  local opened, problem = descriptor.open(where, O.O_RDONLY)
  if not opened then return out:close(problem) end
  local d <close> = opened
  if reading and reading.given then return end
  local err = d:prepare(false)
  if err then return out:close(err) end
  local unread = reading and reading.unread
  local emit, goes_on = emitter(out, d.name, unread), true
  if unread then emit = noting(unread, emit) end
  if is_text then emit = characters.aligned(emit, unread) end
  if reading then goes_on = emit_rest(reading, emit) end
  if goes_on then
    if d.polled then err = each_ready_chunk(d, emit, out)
    else err = each_chunk(d, size, emit) end
  end
  emit(nil)
  if unread then unread.over = true end
  out:close(err)
end

local READ_OPTIONS = { text = check.kinds.boolean }
local LINES_OPTIONS = { max = check.kinds.integer(1), pieces = check.kinds.integer(1) }

---@class runnel.uv.file
local file = {}

---Reads a file, a named pipe, a device or a descriptor, as a channel of strings of any size. It reads only while takes
---wait. Closing the channel closes the file, unless it is standard input.
---@param where string|integer its path, or a file descriptor
---@param opts? { text?: boolean } `text`: no string ends within a character of UTF-8, unless the file does
---@return runnel.Channel<string> chunks closes at the end, or with an error
function file.read(where, opts)
  check_place(where, "read")
  check.options(opts, READ_OPTIONS, "read")
  loop.check "read"
  local out = loop.chan(where)
  local reading = standard.reading(where, out)
  guard.started(guard.go(guard.close, out, read_into, out, where, SIZE, putter, reading, opts and opts.text), "uv.read")
  return out
end

---Reads the same as a channel of lines, without their newlines, which are "\n" or "\r\n".
---@param where string|integer
---@param opts? { max?: integer, pieces?: integer } `max`: how many bytes a line may have, default 1 MB. `pieces`: not
---lines, but strings of whole lines with their newlines, each of that many bytes and up to the end of the line, for
---pools; `max` is then how far away that end may be
---@return runnel.Channel<string> lines closes with an error if a line is longer
function file.lines(where, opts)
  check_place(where, "lines")
  local max = lines.max(opts, "lines", LINES_OPTIONS)
  local pieces = opts and opts.pieces
  loop.check "lines"
  local out = (pieces or standard.is_short(where)) and loop.chan(where) or lines.chan(where)
  local function emitter(_, name, unread)
    if pieces then return lines.gatherer(out, pieces, max, name, unread) end
    return lines.splitter(out, max, name, unread)
  end
  local size = math.min(math.max(pieces or 0, SIZE), MOST)
  local reading = standard.reading(where, out, pieces and lines.after_piece(pieces) or lines.after)
  guard.started(guard.go(guard.close, out, read_into, out, where, size, emitter, reading), "uv.lines")
  return out
end

---Reads standard input, as a channel of strings. It is read(0); for lines use lines(0).
---@return runnel.Channel<string> chunks
function file.stdin(...)
  sign.dot((...), "uv", "stdin")
  loop.check "stdin"
  return file.read(0)
end

-- ---- writing ----

local function text_of(value, newline)
  if type(value) ~= "string" and type(value) ~= "number" then
    return nil, "only strings can be written, not a " .. type(value)
  end
  return newline and value .. newline or tostring(value)
end

-- A poll that does not raise: what the channel raises, the next take does, if it still fails then.
local function poll_safely(ch)
  local ok, value = pcall(ch.poll, ch)
  if ok then return value end
end

-- Makes a function that returns the text to write next: all values that are ready, up to about SIZE bytes. Or nil, and
-- the error if there is one: that of a value comes after the texts of those before it, which have been taken.
local function gatherer(take, ch, newline)
  local poll, problem = is_plain(ch) and ch.poll or poll_safely, nil
  return function()
    if problem then return nil, problem end
    local value, err = take()
    if value == nil then return nil, err end
    local parts, size = {}, 0
    repeat
      local text
      text, problem = text_of(value, newline)
      if not text then break end
      parts[#parts + 1] = text
      size = size + #text
      value = nil
      if size < SIZE then value = poll(ch) end
    until value == nil
    if not parts[1] then return nil, problem end
    return table.concat(parts)
  end
end

-- Writes some of the text, from a position on. Returns an error, or how many bytes.
local function write_some(d, text, from, result)
  if d.polled then return d:write(text, from, result) end
  return d:call(uv.fs_write, d.fd, from > 1 and text:sub(from) or text, -1)
end

local function write_to(d, next_text, count, result, syncs)
  while true do
    local text, problem = next_text()
    if not text then return problem or syncs and not d.polled and d:call(uv.fs_fsync, d.fd) or nil end
    local from = 1
    repeat
      local err, n = write_some(d, text, from, result)
      if not n then return err end
      count(n)
      from = from + n
    until from > #text
  end
end

local function write_from(result, ch, where, flags, opts)
  local opened, problem = descriptor.open(where, flags)
  if not opened then
    stream.refuse(ch, problem)
    return fail(result, problem, nil, "uv.write")
  end
  local d <close> = opened
  local written = 0
  local function count(n) written = written + n end
  local next_value, source_error = ends.source(ch), nil
  local function take()
    local value, _, failure = next_value(ch, result)
    source_error = failure
    return value, failure
  end
  local next_text = gatherer(take, ch, opts and opts.lines and "\n" or nil)
  local err = d:prepare(true) or write_to(d, next_text, count, result, opts and opts.sync)
  if err == nil then result:offer(written) end
  stream.refuse(ch, err)
  if err == nil then result:close()
  elseif err == source_error then ends.close(result, err, ch)
  else fail(result, err, nil, "uv.write") end
end

-- The writing go block has died.
local function stop_writing(pair, reason)
  guard.close(pair[1], reason)
  stream.refuse(pair[2], reason)
end

---Writes the values of a channel, which are strings, to a file, a named pipe or a descriptor, until the channel closes.
---@param where string|integer a path, or a file descriptor, which is closed at the end unless it is standard output or
---error
---@param ch runnel.Channel<any> is closed with the error when nothing more can be written
---@param opts? { append?: boolean, lines?: boolean, sync?: boolean } `append`: append to the file instead of replacing
---it. `lines`: add a newline to each value. `sync`: the result comes once the system has stored the file on its disk;
---a power cut does not lose it then
---@return runnel.Channel<integer> result a channel of one value, the number of bytes that were written; or it closes
---with an error, which is reported unless a take gets it. Closing it ends the writing.
function file.write(where, ch, opts)
  check_place(where, "write")
  check.chan(ch, "write: channel")
  check.options(opts, { append = true, lines = true, sync = true }, "write")
  loop.check "write"
  local result = core.chan(1)
  local flags = O.O_WRONLY | O.O_CREAT | (opts and opts.append and O.O_APPEND or O.O_TRUNC)
  guard.started(guard.go(stop_writing, { result, ch }, write_from, result, ch, where, flags, opts), "uv.write")
  return result
end

return file
