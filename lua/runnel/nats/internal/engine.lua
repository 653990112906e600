---A connection for the library's own modules: without the checks of conn's methods. A simulation replaces it.

local core = require "runnel.core"

local internal = core.internal

---@class runnel.Engine
---@field max_payload integer
local Engine = {}
Engine.__index = Engine

---Publishes without waiting.
---@param subject string
---@param bytes string
---@param reply? string
---@return boolean? ok, string? err
function Engine:publish(subject, bytes, reply) return self.core:publish(subject, bytes, reply) end

---The same with headers.
---@param subject string
---@param bytes string
---@param reply string?
---@param headers table<string, string>
---@return boolean? ok, string? err
function Engine:publish_with(subject, bytes, reply, headers)
  return self.core:publish_with(subject, bytes, reply, headers)
end

---Publishes, and waits for an answer.
---@param subject string
---@param bytes string
---@param ms number
---@return runnel.nats.Message? message, any err
function Engine:request(subject, bytes, ms)
  return self.conn:request(subject, bytes, { timeout = ms, encoding = "raw" })
end

---Is called with each message, and must not park. A message of a stream has a `reply`, the subject for its
---acknowledgement, and an `age`: the ms since it has arrived. Other messages have a subject (with the status 503, that
---of the subscription), and perhaps a status; with the end of a request for messages, how many of them are left that
---were not sent.
---@alias runnel.EngineTaker fun(data: string, reply?: string, age?: integer, subject?: string, status?: string,
---left?: string, headers?: table<string, string>)

---Closing the channel ends the subscription.
---@param subject string
---@param take runnel.EngineTaker
---@return runnel.Channel<any>? ch, runnel.nats.Subscription|string sub_or_err
function Engine:subscribe(subject, take) return self.conn:subscribe(subject, { encoding = "raw" }, take) end

---@return string subject a new one
function Engine:inbox() return self.conn:inbox() end

---Publishes every `ms`, also while Lua computes. Returns what `unbeat` and `limit` get; false if the connection is
---closed.
---@param subject string
---@param bytes string
---@param ms number
---@param again string what is published once after a reconnect
---@return any
function Engine:beat(subject, bytes, ms, again) return self.core:beat(subject, bytes, ms, again) or false end

---@param beat any of `beat`
function Engine:unbeat(beat)
  if beat then self.core:unbeat(beat) end
end

---Ends the beat after `ms`. If Lua has not run since then, publishes the bytes, gives back the messages of all beats,
---writes the text to stderr, and ends the process.
---@param beat any
---@param ms number
---@param text string
---@param subject string
---@param bytes string
function Engine:limit(beat, ms, text, subject, bytes)
  if beat then self.core:limit(beat, ms, text, subject, bytes) end
end

---Notes that Lua runs; called periodically while beats have limits.
function Engine:alive() self.core:alive() end

---@param f fun(event: table) called with each event of the connection
---@return fun() remove ends that
function Engine:on_event(f) return self.conn:on_event(f) end

---The events of the connection as a channel, which closes with the reason when the connection ends.
---@return runnel.Channel<{ event: string }>
function Engine:events()
  local ch = core.chan(core.sliding_buffer(16))
  local forget_event = self.conn:on_event(function(event) ch:offer(event) end)
  local forget_end = self.conn:on_close(function(err) ch:close(err or "the connection is closed") end)
  internal.on_close(ch, function()
    forget_event()
    forget_end()
  end)
  return ch
end

---Why the connection has ended; nil while it is open.
---@return any
function Engine:end_reason() return self.conn.end_reason end

---@param conn runnel.nats.Connection
---@return runnel.Engine
return function(conn) return setmetatable({ conn = conn, core = conn.core, max_payload = conn.max_payload }, Engine) end
