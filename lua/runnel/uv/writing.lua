---Writing to streams of libuv: the half of runnel.uv.uv_stream that writes, and how a stream is closed.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local loop = require "runnel.uv.loop"
local sign = require "runnel.internal.sign"
local internal = core.internal
local raise = internal.raise

local chan, alts = core.chan, internal.moving.alts
local fail, pass_on = internal.fail, internal.pass_on
local PRIORITY = { priority = true }

---@class runnel.uv.Writing
---@field handle any luv's; nil once it is closed
---@field name? string for messages
---@field session? any of TLS
---@field label? string the name of its channels, if it differs from the name in messages
---@field input? runnel.Channel<string> the chunks that are read
---@field output? runnel.Channel<any> the values to write
---@field has_written? boolean
---@field stopped? runnel.Channel<any> closes when nothing more can be written; made together with `output`
---@field ended? string why nothing more can be written
---@field source_error? any the error with which `output` closed, or the error of an invalid value on it
---@field tells_source_error? boolean the stream's creator reports `source_error` to the program
---@field one_way? boolean the handle closes when reading ends, or when writing ends
---@field close fun(self: runnel.uv.Writing, err: any)
local Writing = {}

-- Closes a channel that will have no more takes, and empties it, so that waiting puts end. `failed`: the name in the
-- report if the reason is an error; it is reported unless a take gets it.
local function refuse(ch, reason, failed)
  if failed then fail(ch, reason, nil, failed) else ch:close(reason) end
  while (#ch > 0 or ch:stats().puts_waiting > 0) and ch:poll() ~= nil do end
end

-- Ends writing: nothing more can be written. `failed` as for refuse.
local function end_writing(self, reason, failed)
  self.ended = self.ended or reason
  if self.stopped then self.stopped:close() end
  if self.output then refuse(self.output, reason, failed) end
end

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
function Writing:write(data)
  sign.own(self, "conn", "write")
  if type(data) ~= "string" then
    if type(data) ~= "number" then
      raise(("write: a string expected, got %s"):format(data == nil and "nothing" or "a " .. type(data)))
    end
    data = tostring(data)
  end
  if self.ended or not self.handle then return false, self.ended end
  if not self.has_written then
    self.has_written = true
    loop.ignore_sigpipe()
  end
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
function Writing:shutdown()
  sign.own(self, "conn", "shutdown")
  if self.ended or not self.handle then return end
  if self.output and not self.output:closed() then return self.output:close() end -- write_all calls this at the end
  end_writing(self, "it has been shut down")
  local function done()
    if self.one_way then loop.release(self) end
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
function Writing:writer(ch)
  sign.own(self, "conn", "writer")
  if ch then check.chan(ch, "writer: channel") end
  if self.output then return self.output end
  self.output, self.stopped = ch or loop.chan(self.label or self.name), chan()
  if self.ended or not self.handle then
    refuse(self.output, self.ended)
  else
    guard.started(guard.go(self.close, self, write_all, self, self.output), "a writer")
  end
  return self.output
end

return { methods = Writing, refuse = refuse, end_writing = end_writing }
