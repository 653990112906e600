---Silence of a reader: it has asked for messages, and hears nothing, or does not get what the stream has. If that
---lasts, the program reports it, and `runnel queues` shows it until it is over.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local patience = require "runnel.nats.internal.patience"
local who = require "runnel.nats.internal.who"

local now = core.now

local silence = {}

---@class runnel.nats.SilenceOptions
---@field conn? runnel.nats.Connection whose operators see it
---@field what string who is silent, as in "source"
---@field stream string
---@field consumer? string of a named one
---@field tell? fun(why: string) reports it, once each time

---@class runnel.nats.Silence: runnel.nats.SilenceOptions
---@field private since? number when it has begun; nil: all is well
---@field private why string the reason that was found last
---@field private entry? table what operators see
local Silence = {}
Silence.__index = Silence

-- Reports it, if it is still the same one.
local function tell(self, since)
  core.sleep(math.max(0, since + patience.silence_told - now()))
  if self.since ~= since then return end
  self.entry = { since = since, what = self.what, stream = self.stream, consumer = self.consumer, why = self.why }
  if self.conn then who.add_silence(self.conn, self.entry) end
  if self.tell then self.tell(self.why) end
end

---It has begun, or goes on. Must not park.
---@param since number when it has begun; ignored if it goes on
---@param why string
function Silence:goes_on(since, why)
  self.why = why
  if self.entry then self.entry.why = why end
  if self.since then return end
  self.since = since
  guard.started(guard.go(guard.nothing, nil, tell, self, since), self.what)
end

---It is over, or the reader is closed.
function Silence:over()
  if not self.since then return end
  self.since = nil
  if self.entry and self.conn then who.remove_silence(self.conn, self.entry) end
  self.entry = nil
end

---@param opts runnel.nats.SilenceOptions
---@return runnel.nats.Silence
function silence.new(opts) return setmetatable(opts, Silence) end

return silence
