---Streams of libuv as channels: the common part of sockets, pipes, terminals, and input and output of processes.
---
---A stream reads only while a take waits for its input. While it reads, the loop keeps it and its channel alive. While
---it does not, they are collected when they become unreachable, and the handle is closed.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local lines = require "runnel.internal.uv.lines"
local loop = require "runnel.internal.uv.loop"
local secure = require "runnel.internal.uv.secure"
local internal = core.internal

local chan, on_close = core.chan, internal.on_close
local alts, put_later = internal.moving.alts, internal.moving.put_later
local fail, pass_on = internal.fail, internal.pass_on
local offer = core.methods.offer
local PRIORITY = { priority = true }

-- Without the end of the session, the connection may have been cut on the way, and bytes may be missing.
local CUT = "the connection was cut: it has ended without TLS's close_notify"

-- How many bytes are kept of an untaken output whose writer must not block.
local KEPT = 64 * 1024

---@class runnel.uv.Stream
---@field handle any luv's; nil once it is closed
---@field session? any of TLS
---@field label? string the name of its channels, if it differs from the name in messages
---@field input? runnel.Channel<string> the chunks that are read
---@field input_lines? runnel.Channel<string> the lines of those
---@field output? runnel.Channel<any> the values to write
---@field stopped? runnel.Channel<any> closes when nothing more can be written; made together with `output`
---@field ended? string why nothing more can be written
---@field source_error? any the error with which `output` closed, or the error of an invalid value on it
---@field tells_source_error? boolean the stream's creator reports `source_error` to the program
---@field reading boolean luv reads
---@field slot? table through which luv's callback refers to the stream (`reader`)
---@field held? runnel.uv.Held what has been read and has no taker yet
---@field drained? string the error's name for a stream that must be read on without takes
---@field dropped integer how many bytes of what was read have been dropped
---@field lost? string the error with which `input` closes then
---@field standard? boolean it is standard input, output or error, which other programs use as well
---@field one_way? boolean the handle closes when reading ends, or when writing ends
---@field by_lines? boolean it is to be read by lines
---@field max? integer how many bytes such a line may have
local Stream = {}
Stream.__index = Stream
Stream.__name = "runnel.uv.stream"

-- ---- the end ----

-- Closes a channel that will have no more takes, and empties it, so that waiting puts end. `failed`: the name in the
-- report if the reason is an error; it is reported unless a take gets it.
local function refuse(ch, reason, failed)
  if failed then fail(ch, reason, nil, failed) else ch:close(reason) end
  while (#ch > 0 or ch:stats().puts > 0) and ch:poll() ~= nil do end
end

-- Ends writing: nothing more can be written. `failed` as for refuse.
local function end_writing(self, reason, failed)
  self.ended = self.ended or reason
  if self.stopped then self.stopped:close() end
  if self.output then refuse(self.output, reason, failed) end
end

local function release(self)
  local handle = self.handle
  if not handle then return end
  self.handle = nil
  if self.standard then handle:set_blocking(true) end -- as it was before
  loop.close(handle)
end

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

-- Ends the input: the stream reads no more.
local function end_input(self, err)
  if self.input then
    local chunk = take_held(self)
    if chunk then put_later(self.input, chunk, guard.nothing) end
    self.input:close(self.lost or err)
  elseif self.held then
    self.held.ended, self.held.err = true, err
  end
end

---Closes both directions. Written data is still sent; data that has been read can still be taken.
---@param err? any the error with which the channels close
function Stream:close(err)
  if self.handle and self.reading then self.handle:read_stop() end
  self.reading = false
  end_input(self, err)
  end_writing(self, err or "it is closed")
  if not self.session then return release(self) end
  local handle = self.handle
  self.handle = nil
  if handle then secure.leave(handle, self.session) end
end

Stream.__close = Stream.close
Stream.__gc = release

-- ---- reading ----

local function stop_reading(self, slot, err)
  if not self.reading and not slot.paused then return end
  if self.handle and self.reading then self.handle:read_stop() end
  self.reading, slot.paused, slot.stream = false, false, nil
  end_input(self, err)
  if self.one_way then release(self) end
end

local function read(self, slot)
  self.slot, slot.stream, slot.paused, self.reading = slot, self, false, true
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
  put_later(self.input, chunk, function()
    if self.held then hand_out(self)
    elseif slot.paused and self.handle then read(self, slot) end
  end)
end

-- Puts the held chunks on the input.
function hand_out(self)
  local held = self.held
  local chunk = take_held(self)
  if chunk then pause(self, self.slot, chunk) end
  if held.ended then self.input:close(self.lost or held.err) end
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

-- Decrypts a chunk. Returns its text, or nil; whether the input ends; and the error with which it ends.
local function decrypt(self, chunk)
  local text, state, why = self.session:receive(chunk)
  secure.flush(self.handle, self.session)
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
    if chunk and self.held then hold(self.held, chunk)
    elseif chunk and offer(self.input, chunk) == nil then pause(self, slot, chunk) end
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
function Stream:drain(what)
  self.drained = what
  if not self.input or not self.slot.paused or not self.handle then return end
  self.held = new_held(what)
  read(self, self.slot)
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

---Reads the incoming data, as a channel of strings of any size. It closes at the end, or with an error. Closing it ends
---reading. Every call returns the same channel; each chunk goes to one taker.
---@param ch? runnel.Channel<any> the channel to use
---@return runnel.Channel<string> chunks
function Stream:read(ch)
  if self.input then return self.input end
  self.input = ch or loop.chan(self.label or self.name)
  local is_held = self.held ~= nil
  if is_held then hand_out(self) end
  if not self.handle then
    self.input:close(self.ended)
    return self.input
  end
  local slot = self.slot or reader()
  watch(self.input, function() stop_reading(self, slot) end)
  if not is_held then read(self, slot) end
  return self.input
end

---Reads the same as a channel of lines, without their newlines, which are "\n" or "\r\n". Use either this or read.
---@param opts? { max?: integer } `max`: how many bytes a line may have, default 1 MB. Later calls cannot change it
---@return runnel.Channel<string> lines closes with an error if a line is longer
function Stream:lines(opts)
  local max = lines.max(opts, "lines") or self.max
  if not self.input_lines then self.input_lines = lines.of(self:read(), max, self.name) end
  return self.input_lines
end

-- ---- writing ----

-- A process may end before it has read its whole input; its status tells that, so it is not reported as an error.
local function failed(self, err)
  local message = loop.message(err, self.name)
  end_writing(self, message, not self.one_way and "a writer" or nil)
  return false, message
end

-- Writes the rest that libuv could not write at once.
local function write_rest(self, data)
  local answer = chan(1)
  local req, err, name = self.handle:write(data, function(status)
    answer:offer(status or true)
    return self -- refers to `self`, so that it is not collected during the write
  end)
  if not req then return failed(self, name or err) end
  local status = answer:take()
  if status == true then return true end
  if self.ended then return false, self.ended end
  return failed(self, status)
end

---Writes a string; parks until the system has taken all of it.
---@param data string|number
---@return boolean ok false if the stream is closed, or the other end has gone
---@return string? err
function Stream:write(data)
  if type(data) ~= "string" then
    if type(data) ~= "number" then
      error(("write: a string expected, got %s"):format(data == nil and "nothing" or "a " .. type(data)), 2)
    end
    data = tostring(data)
  end
  if self.ended or not self.handle then return false, self.ended end
  if self.session and data ~= "" then
    local bytes, why = self.session:send(data)
    if not bytes then return failed(self, why) end
    data = bytes
  end
  local n, err, name = self.handle:try_write(data)
  if n == #data then return true end
  if n then return write_rest(self, data:sub(n + 1)) end
  if name == "EAGAIN" then return write_rest(self, data) end
  return failed(self, name or err)
end

---Ends writing: the other end reads what has been written, and then the end. Reading goes on.
function Stream:shutdown()
  if self.ended or not self.handle then return end
  if self.output and not self.output:closed() then return self.output:close() end -- write_all calls this at the end
  end_writing(self, "it has been shut down")
  local function done()
    if self.one_way then release(self) end
  end
  local bytes = self.session and self.session:finish()
  if bytes then self.handle:write(bytes) end
  if not self.handle:shutdown(done) then done() end
end

-- Writes the values of a channel, until it closes or nothing more can be written.
local function write_all(self, ch)
  local stop = { self.stopped, ch }
  while true do
    local value, i, err = alts(stop, PRIORITY)
    if i == 1 then return refuse(ch, self.ended) end
    if value == nil then
      self.source_error = err
      if err == nil then return self:shutdown() end
      if not self.tells_source_error then pass_on(err, self.input, ch) end
      return self:close(err)
    end
    if type(value) ~= "string" and type(value) ~= "number" then
      self.source_error = ("%s: only strings can be written, not a %s"):format(self.name or "stream", type(value))
      if not self.tells_source_error then fail(ch, self.source_error, nil, "a writer") end
      return self:close(self.source_error)
    end
    self:write(value)
  end
end

---Makes a channel whose values are written. Closing it ends writing, as shutdown does; closing it with an error closes
---the stream. It closes with an error when nothing more can be written.
---@param ch? runnel.Channel<any> the channel to use
---@return runnel.Channel<string>
function Stream:writer(ch)
  if ch then check.chan(ch, "writer: channel") end
  if self.output then return self.output end
  self.output, self.stopped = ch or loop.chan(self.label or self.name), chan()
  if self.ended or not self.handle then
    refuse(self.output, self.ended)
  else
    guard.started(guard.go(Stream.close, self, write_all, self, self.output), "a writer")
  end
  return self.output
end

-- ---- TLS ----

---Stops reading, so that the handshake can read. Returns an error if there is untaken input: it was not encrypted.
---@return string? err
function Stream:suspend()
  local input = self.input
  if self.held or input and (#input > 0 or input:stats().puts > 0) then
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
    if text or ended then self.held = { text, what = self.name, size = #(text or ""), dropped = 0, ended = ended } end
    return
  end
  if text then pause(self, self.slot, text) elseif not ended then read(self, self.slot) end
  if not ended then return end
  self.slot.paused = false
  end_input(self)
end

-- ---- making one ----

local stream = { Stream = Stream, refuse = refuse }

---@param handle any luv's
---@param name? string for messages
---@param one_way? boolean the handle closes when reading ends, or when writing ends
---@return runnel.uv.Stream
function stream.new(handle, name, one_way)
  loop.ignore_sigpipe()
  local self = setmetatable({
    handle = handle, name = name, one_way = one_way, reading = false, dropped = 0,
    -- Makes room for later fields.
    input = nil, slot = nil, held = nil, output = nil, ended = nil, source_error = nil,
  }, Stream)
  loop.keep(handle, self)
  return self
end

return stream
