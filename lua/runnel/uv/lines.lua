---Splits chunks of text into lines.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local loop = require "runnel.uv.loop"

local byte, find, sub, concat = string.byte, string.find, string.sub, table.concat
local put_while_open, offer_lines = core.internal.moving.put_while_open, core.internal.offer_lines

local lines = {}

-- How many lines a channel of lines buffers, so that one switch between go blocks serves many lines.
local BUFFERED = 128

-- The default limit of a line's bytes: neither a peer nor a file may fill the memory.
local MAX = 1024 * 1024

-- The options of functions that return channels of lines, except uv.lines.
local OPTIONS = { max = check.kinds.integer(1) }

---Checks the options of a function that returns a channel of lines. Returns the limit of a line's bytes; nil for the
---default.
---@param opts? { max?: integer }
---@param what string that function
---@param known? table<string, runnel.internal.Kind> its options
---@return integer?
function lines.max(opts, what, known)
  check.options(opts, known or OPTIONS, what)
  return opts and opts.max
end

---Makes a channel for lines.
---@param where? string|integer what they come from, for its name
---@return runnel.Channel<string>
function lines.chan(where) return loop.chan(where, BUFFERED) end

-- Makes a function that puts a line and returns whether it was accepted. If the channel closes while the put waits, the
-- function returns false, so that the go block can end and its descriptor is closed.
local function putter(out)
  return function(line) return put_while_open(out, line) end
end

local function too_long(out, max, name, unread)
  if unread then unread.over = true end
  out:close(("%s: a line is longer than %d bytes; the option max allows longer ones"):format(name or "stream", max))
  return false
end

---Makes a function that is called with each chunk and puts its lines on a channel, without their "\n" or "\r\n". Called
---with nil, it puts the rest, a last line that had no newline. It parks, and returns false once the channel is closed.
---If a line has more than `max` bytes, it closes the channel with an error.
---@param out runnel.Channel<string>
---@param max? integer
---@param name? string of what is read, for the error
---@param unread? runnel.uv.Unread has got the chunks
---@return fun(chunk: string?): boolean
function lines.splitter(out, max, name, unread)
  max = max or MAX
  local put = putter(out)
  local parts, n, size = {}, 0, 0 -- the parts of a line that continues in the next chunk; how many; their bytes

  -- Puts a line whose end was a newline.
  local function put_line(line)
    if byte(line, -1) == 13 then line = sub(line, 1, -2) end
    if #line > max then return too_long(out, max, name, unread) end
    return put(line)
  end

  return function(chunk)
    if chunk == nil then
      if size > max then return too_long(out, max, name, unread) end
      return n == 0 or put(concat(parts, "", 1, n))
    end
    local from, to = 1, find(chunk, "\n", 1, true)
    if to and n > 0 then
      parts[n + 1] = sub(chunk, 1, to - 1)
      local line = concat(parts, "", 1, n + 1)
      parts, n, size = {}, 0, 0
      if not put_line(line) then return false end
      from = to + 1
    end
    local state
    repeat
      from, state = offer_lines(out, chunk, from, max)
      if state == nil then
        to = find(chunk, "\n", from, true)
        state = put_line(sub(chunk, from, to - 1)) and state
        from = to + 1
      end
      if state == false then return false end
    until state
    if from <= #chunk then
      n = n + 1
      parts[n] = from == 1 and chunk or sub(chunk, from)
      size = size + #parts[n]
      if size - 1 > max then return too_long(out, max, name, unread) end -- the one may be the "\r"
    end
    if unread then unread:done(size) end
    return not out:closed() -- so that an endless line stops, too
  end
end

---Makes a function that is called with each chunk and puts strings of whole lines on a channel: each ends with the
---first newline at or behind its nth byte. Called with nil, it puts the rest. It parks, and returns false once the
---channel is closed. If there is no newline within `max` bytes more, it closes the channel with an error.
---@param out runnel.Channel<string>
---@param n integer
---@param max? integer
---@param name? string of what is read, for the error
---@param unread? runnel.uv.Unread has got the chunks
---@return fun(chunk: string?): boolean
function lines.gatherer(out, n, max, name, unread)
  max = max or MAX
  local put = putter(out)
  local parts, count, size = {}, 0, 0 -- the parts of the next piece; the number of strings; their bytes
  return function(chunk)
    if chunk == nil then return count == 0 or put(concat(parts, "", 1, count)) end
    local from = 1
    while true do
      local to = find(chunk, "\n", from + math.max(n - size - 1, 0), true)
      local rest = sub(chunk, from, to)
      count = count + 1
      parts[count], size = rest, size + #rest
      if size - n > max then return too_long(out, max, name, unread) end
      if not to then break end
      if not put(concat(parts, "", 1, count)) then return false end
      from, parts, count, size = to + 1, {}, 0, 0
      if from > #chunk then break end
    end
    if unread then unread:done(size) end
    return not out:closed()
  end
end

---Where a line ends, for Unread: the position of its newline, or of the end of the text.
---@param text string
---@param from integer where it begins
---@return integer
function lines.after(text, from) return find(text, "\n", from, true) or #text end

---The same for a piece of n bytes, and the rest of its last line.
---@param n integer
---@return fun(text: string, from: integer): integer
function lines.after_piece(n)
  return function(text, from) return find(text, "\n", from + n - 1, true) or #text end
end

local function split(chunks, out, emit, unread)
  local next_chunk = ends.source(chunks)
  local chunk, _, err
  repeat
    chunk, _, err = next_chunk(chunks, out)
  until not emit(chunk) or chunk == nil
  if unread and chunk == nil then unread.over = true end
  out:close(err)
  chunks:close()
end

---Puts the lines of a channel of chunks on another channel. Closing either of the two closes the other.
---@param chunks runnel.Channel<string>
---@param out runnel.Channel<string>
---@param max? integer
---@param name? string
---@param unread? runnel.uv.Unread has got the chunks
function lines.feed(chunks, out, max, name, unread)
  local emit = lines.splitter(out, max, name, unread)
  guard.started(guard.go(guard.close, { out, chunks }, split, chunks, out, emit, unread), "lines")
end

return lines
