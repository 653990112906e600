---Streams of libuv as channels: the common part of sockets, pipes, terminals, and input and output of processes.
---
---A stream reads only while a take waits for its input. While it reads, the loop keeps it and its channel alive. While
---it does not, they are collected when they become unreachable, and the handle is closed.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local lines = require "runnel.uv.lines"
local loop = require "runnel.uv.loop"
local secure = require "runnel.uv.secure"
local sign = require "runnel.internal.sign"
local unread = require "runnel.uv.unread"
local writing = require "runnel.uv.writing"
local internal = core.internal

local on_close, put_later = internal.on_close, internal.moving.put_later
local offer, end_writing, release = core.methods.offer, writing.end_writing, loop.release

-- Without the end of the session, the connection may have been cut on the way, and bytes may be missing.
local CUT = "the connection was cut: it has ended without TLS's close_notify"

-- How many bytes are kept of an untaken output whose writer must not block.
local KEPT = 64 * 1024
-- From how many bytes of unsent answers of a TLS session on the stream does not read. Otherwise an end that asks for
-- answers, and reads none, would fill the memory.
local UNSENT = 64 * 1024

---@class runnel.uv.Stream: runnel.uv.Writing
---@field input? runnel.Channel<string> the chunks that are read, for the reader; nil if there is none
---@field input_lines? runnel.Channel<string> the lines of those, if the reader reads lines
---@field is_shared boolean the program has made `input`
---@field unread? runnel.uv.Unread what such a reader has got
---@field ahead? runnel.uv.Reader takes from `input`, and may have bytes that were not taken
---@field over boolean there is nothing more to read
---@field over_err? any the error with which reading ended
---@field reading boolean luv reads
---@field slot? table through which luv's callback refers to the stream (`reader`)
---@field held? runnel.uv.Held what has been read and has no taker yet
---@field drained? string the error's name for a stream that must be read on without takes
---@field dropped integer how many bytes of what was read have been dropped
---@field lost? string the error with which `input` closes then
---@field shaking? runnel.Channel<any> of a TLS handshake that runs: closing it ends that
---@field unsent integer bytes that the TLS session has answered, and that are not sent yet
---@field by_lines? boolean it is to be read by lines
---@field max? integer how many bytes such a line may have
local Stream = {}
Stream.__index = Stream
Stream.__sign = "conn"
Stream.__name = "runnel.uv.uv_stream"
Stream.write, Stream.writer, Stream.shutdown = writing.methods.write, writing.methods.writer, writing.methods.shutdown

-- ---- the end ----

-- Takes the held chunks; returns them as one, or nil if there are none.
local function take_held(self)
  local held = self.held
  self.held = nil
  if not held then return nil end
  if held.dropped > 0 then
    self.dropped = self.dropped + held.dropped
    self.lost = ("%d bytes of %s were dropped, because nobody took them"):format(self.dropped, held.what)
  end
  return held.size > 0 and table.concat(held) or nil
end

-- The reader gets a chunk.
local function record(self, chunk)
  if self.unread then self.unread:add(chunk) end
end

-- Ends the input: the stream reads no more.
local function end_input(self, err)
  if self.over then return end
  self.over, self.over_err = true, err
  if self.input then
    local chunk = take_held(self)
    if chunk then
      record(self, chunk)
      put_later(self.input, chunk, guard.nothing)
    end
    self.input:close(self.lost or err)
  elseif self.held then
    self.held.ended, self.held.err = true, err
  end
end

---Closes both directions. Written data is still sent; data that has been read can still be taken.
---@param err? any the error with which the channels close
function Stream:close(err)
  sign.own(self, "conn", "close")
  if self.handle and self.reading then self.handle:read_stop() end
  self.reading = false
  end_input(self, err)
  end_writing(self, err or "it is closed")
  if self.shaking then self.shaking:close() end
  if not self.session then return release(self) end
  local handle = self.handle
  self.handle = nil
  if handle then secure.leave(handle, self.session) end
end

Stream.__close = Stream.close
Stream.__gc = release

-- ---- reading ----

local function stop(self, slot)
  if self.handle and self.reading then self.handle:read_stop() end
  self.reading, slot.paused, slot.stream = false, false, nil
end

local function stop_reading(self, slot, err)
  if not self.reading and not slot.paused then return end
  stop(self, slot)
  end_input(self, err)
  if self.one_way then release(self) end
end

local function read(self, slot)
  self.slot, slot.stream, slot.paused, self.reading = slot, self, false, true
  if self.unsent > UNSENT then return end -- `answer` begins
  local ok, err = self.handle:read_start(slot.on_read)
  if not ok then stop_reading(self, slot, loop.message(err, self.name)) end
end

---A list of the chunks that have been read and not taken.
---@class runnel.uv.Held
---@field what string what the error calls the stream, as in "stdout"
---@field size integer how many bytes the list has
---@field dropped integer how many bytes have been dropped
---@field ended? boolean reading has ended
---@field err? string the error with which it ended

local function new_held(what) return { what = what, size = 0, dropped = 0 } end

local hand_out

-- Stops reading until this untaken chunk has been taken; or, if the stream must be read on, holds the chunks that
-- arrive until then.
local function pause(self, slot, chunk)
  if self.drained then
    self.held = new_held(self.drained)
  else
    if self.reading then self.handle:read_stop() end
    slot.stream, slot.paused, self.reading = nil, true, false
  end
  local input = self.input
  put_later(input, chunk, function()
    if self.input ~= input then return end
    if self.held then hand_out(self)
    elseif slot.paused and self.handle then read(self, slot) end
  end)
end

-- Puts the held chunks on the input.
function hand_out(self)
  local held = self.held
  local chunk = take_held(self)
  if chunk then
    record(self, chunk)
    pause(self, self.slot, chunk)
  end
  if not held.ended then return end
  self.slot.paused = false
  self.input:close(self.lost or held.err)
end

-- Adds a chunk and drops the oldest ones beyond the limit.
local function hold(held, chunk)
  held[#held + 1] = chunk
  held.size = held.size + #chunk
  while held.size - #held[1] >= KEPT do
    local first = table.remove(held, 1)
    held.size, held.dropped = held.size - #first, held.dropped + #first
  end
end

-- Sends what the session answers, such as new keys.
local function answer(self)
  local bytes = self.session:take()
  if not bytes then return end
  local was_sent = self.handle:write(bytes, function()
    local waited = self.unsent > UNSENT
    self.unsent = self.unsent - #bytes
    if loop.over or not (waited and self.reading and self.handle) or self.unsent > UNSENT then return end
    read(self, self.slot)
  end)
  if not was_sent then return end
  self.unsent = self.unsent + #bytes
  if self.unsent > UNSENT then self.handle:read_stop() end
end

-- Decrypts a chunk. Returns its text, or nil; whether the input ends; and the error with which it ends.
local function decrypt(self, chunk)
  local text, state, why = self.session:receive(chunk)
  answer(self)
  return text, state, why and loop.message(why, self.name)
end

-- Makes luv's callback for chunks. While the stream is paused, the loop must not keep it alive; so the callback refers
-- to the stream only through the slot, which is empty then.
local function reader()
  local slot = { stream = nil, paused = false }
  function slot.on_read(err, chunk)
    local self = slot.stream
    if not self or loop.over then return end
    local session, ended, why = self.session, nil, nil
    if not chunk then
      if err or session then why = loop.message(err or CUT, self.name) end
      return stop_reading(self, slot, why)
    end
    if session then
      chunk, ended, why = decrypt(self, chunk)
    end
    if chunk and self.held then
      hold(self.held, chunk)
    elseif chunk then
      record(self, chunk)
      if offer(self.input, chunk) == nil then pause(self, slot, chunk) end
    end
    if ended then stop_reading(self, slot, why) end
  end
  return slot
end

---Begins to read before the first take, so that the writer is not blocked. Keeps the last 64 KB.
---@param what string what the error calls the stream, if something had to be dropped
function Stream:hold(what)
  self.held = new_held(what)
  read(self, reader())
end

---Makes the stream read also without takes, because the writer is about to end and must not be blocked. Keeps the last
---64 KB of untaken data.
---@param what string what the error calls the stream, if something had to be dropped
function Stream:read_on(what)
  self.drained = what
  if not self.input or not self.slot.paused or not self.handle then return end
  self.held = new_held(what)
  read(self, self.slot)
end

-- Takes all that waits on a channel.
local function drain(ch)
  local parts = {}
  for chunk in ch.poll, ch do parts[#parts + 1] = chunk end
  return table.concat(parts)
end

-- Ends the reader. What it has got and has not handed out is held for the next one. `why`: the error with which its
-- channel closes, if it is open.
local function end_reader(self, why)
  local input, slot, lines_of = self.input, self.slot, self.unread
  if not input then return end
  stop(self, slot)
  self.input, self.input_lines, self.unread = nil, nil, nil
  if not lines_of then input:close(why) end
  local text = self.is_shared and "" or drain(input) -- a shared one has chunks of other streams, too
  if self.ahead then
    text = self.ahead:give_back() .. text
    self.ahead = nil
  end
  if lines_of then
    input:close()
    text = lines_of:back(why)
  end
  if text == "" and not self.over then return end
  self.held = new_held(self.name)
  self.held[1], self.held.size, self.held.ended, self.held.err = text, #text, self.over, self.over_err
end

-- Calls a function when the channel closes. Several streams may read into one channel, so functions set before are
-- called, too.
local function watch(ch, f)
  local before = on_close(ch, f)
  if not before then return end
  on_close(ch, function()
    before()
    f()
  end)
end

-- Begins to read into a new channel, or into the program's.
local function begin_reader(self, ch)
  local input, is_held = ch or loop.chan(self.label or self.name), self.held ~= nil
  self.input, self.is_shared, self.slot = input, ch ~= nil, self.slot or reader()
  local slot = self.slot
  if is_held then hand_out(self) end
  if not self.handle then
    input:close(self.ended)
    return input
  end
  watch(input, function()
    if self.input ~= input or self.over then return end
    if self.one_way then stop_reading(self, slot)
    elseif not self.unread then end_reader(self)
    else stop(self, slot) end
  end)
  if not is_held then read(self, slot) end
  return input
end

-- What is told to those that take from a channel of an earlier reader.
local function replaced(self) return (self.name or "stream") .. ": another call of read or lines reads it now" end

---Reads the incoming data, as a channel of strings of any size. It closes at the end, or with an error. Every call
---returns the same channel, until it is closed or lines is called; each chunk goes to one taker. What it has not handed
---out then belongs to the next channel.
---@param ch? runnel.Channel<any> the channel to use; what it has been given is not given back. One that is closed gets
---nothing: what comes in belongs to the next channel
---@return runnel.Channel<string> chunks
function Stream:read(ch)
  sign.own(self, "conn", "read")
  if ch ~= nil then check.chan(ch, "read: channel") end
  if self.input and not self.input_lines and not self.ahead then return self.input end
  end_reader(self, replaced(self))
  if ch and ch:closed() then return ch end
  return begin_reader(self, ch)
end

---Reads the same as a channel of lines, without their newlines, which are "\n" or "\r\n". Every call returns the same
---channel, until it is closed or read is called.
---@param opts? { max?: integer } `max`: how many bytes a line may have, default 1 MB. Later calls cannot change it
---@return runnel.Channel<string> lines closes with an error if a line is longer
function Stream:lines(opts)
  sign.own(self, "conn", "lines")
  local max = lines.max(opts, "lines") or self.max
  if self.input_lines then return self.input_lines end
  end_reader(self, replaced(self))
  local out = lines.chan(self.label or self.name)
  local got = not self.one_way and unread.new(out, lines.after) or nil -- a one-way stream has no second reader
  self.unread = got
  local input = begin_reader(self)
  self.input_lines = out
  if got then
    on_close(out, function()
      if self.input_lines == out and not got.over then end_reader(self) end
    end)
  end
  lines.feed(input, out, max, self.name, got)
  return out
end

-- ---- TLS ----

---Stops reading, so that the handshake can read. Returns an error if there is untaken input: it was not encrypted.
---@return string? err
function Stream:suspend()
  local input = self.input
  local waits = input and (#input > 0 or input:stats().puts_waiting > 0)
  if self.held or waits or self.ahead and self.ahead.size > 0 or self.unread and self.unread:rest() ~= "" then
    return "earlier input was not taken, and it was not encrypted"
  end
  if not self.reading then return nil end
  self.handle:read_stop()
  self.reading, self.slot.stream = false, nil
end

---Call it when the TLS handshake of the stream is complete, and nothing else reads.
---@param text? string text that has arrived with the handshake
---@param ended? boolean the input has ended
function Stream:secure(text, ended)
  self.slot = self.slot or reader()
  if not self.input then
    if not (text or ended) then return end
    self.held, self.over = new_held(self.name), ended or false
    self.held[1], self.held.size, self.held.ended = text, #(text or ""), ended
    return
  end
  if text then
    record(self, text)
    pause(self, self.slot, text)
  elseif not ended then
    read(self, self.slot)
  end
  if not ended then return end
  self.slot.paused = false
  end_input(self)
end

-- ---- making one ----

local stream = { Stream = Stream, refuse = writing.refuse }

---@param handle any luv's
---@param name? string for messages
---@param one_way? boolean the handle closes when reading ends, or when writing ends
---@return runnel.uv.Stream
function stream.new(handle, name, one_way)
  local self = setmetatable({
    handle = handle, name = name, one_way = one_way, reading = false, dropped = 0, unsent = 0, over = false,
    is_shared = false, has_written = false,
    -- Makes room for later fields.
    input = nil, slot = nil, held = nil, ahead = nil, output = nil, ended = nil, source_error = nil,
  }, Stream)
  loop.keep(handle, self)
  return self
end

return stream
