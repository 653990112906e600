---Events and end of a connection: methods of connections (runnel.nats.connection).

local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local keepers = require "runnel.queue.keeper"
local options = require "runnel.nats.internal.options"
local remove = require "runnel.internal.remove"
local sign = require "runnel.internal.sign"
local timed_out = require "runnel.internal.timed_out"


local ending = {}

---@class runnel.nats.Connection
local Conn = {}
ending.methods = Conn

-- ---- events ----

-- The functions that the program or the library has registered: while they are called, the list may change.
local function copied(list) return table.move(list, 1, #list, 1, {}) end

local function call_each(copy, what, ...)
  for _, f in ipairs(copy) do guard.call(what, f, ...) end
end

local function remover(list, f)
  list[#list + 1] = f
  return function() remove(list, f) end
end

-- The connection has ended, with an error if the program has not closed it. Returns the number of unsent bytes.
local function finish(self, err)
  if self.has_ended then return 0 end
  local closers, no_beats = copied(self.closers), {} -- first: if there is no memory, nothing has changed
  self.has_ended, self.end_reason = true, err or "the connection is closed"
  local left = self.core:close()
  self.beats = no_beats
  for _, request in pairs(self.requests) do request.replies:close(self.end_reason) end
  call_each(closers, "on_close", err)
  self.ended:close()
  for _, ch in ipairs(self.event_channels) do ch:close() end
  return left
end

-- Puts an event on the program's channels.
local function tell(self, event)
  for _, ch in ipairs(self.event_channels) do ch:offer(event) end
end

-- Completes an event of libnats.
local function complete(self, event)
  if event.event == "disconnected" then
    self.lost_at = core.now()
  elseif event.event == "reconnected" then
    event.outage, event.reconnect_wait = core.now() - (self.lost_at or core.now()), self.reconnect_wait
  end
  if event.url then event.url = options.without_secrets(event.url) end
  local denied, subject = (event.error or ""):match '[Pp]ermissions [Vv]iolation for (%a+) to "([^"]*)"'
  if denied then event.denied, event.subject = denied == "Publish" and "publish" or "subscribe", subject end
end

---Called with each event, in the go block of the port. Returns the event that nats.connect waits for.
---@param event table
---@return table?
function ending.on_event(self, event)
  local name = event.event
  if self.is_abandoned then return self.core:close() end
  complete(self, event)
  if name == "connected" or name == "failed" then return event end
  if name == "closed" then
    tell(self, event)
    finish(self, event.error or "the connection is lost")
    return nil
  end
  call_each(copied(self.listeners), "on_event", event)
  tell(self, event)
  return nil
end

---Returns a new channel of the connection's events from now on: { event =, error =, subject =, denied =, url =,
---dropped =, outage = }. The event is "disconnected"; "reconnected", with the ms in between as `outage`; "dropped": a
---subscription has lost messages; "error": the server has refused something; with `denied`, "publish" or "subscribe",
---if a permission for the subject is missing; "discovered": another server of the cluster; "lame_duck": the server is
---about to stop; or "closed". The channel closes with the connection. It keeps the latest 64 untaken ones.
---@return runnel.Channel<table> events
function Conn:events()
  sign.own(self, "conn", "events")
  local ch = core.chan(core.sliding_buffer(64)):name "nats events"
  if self.has_ended then
    ch:close()
  else
    local attended = self.core:attend(ch)
    table.insert(self.event_channels, ch)
    keepers.on_close(ch, function()
      if self.has_ended then return end
      self.core:unattend(attended)
      remove(self.event_channels, ch)
    end)
  end
  return ch
end

---Registers a function to be called with each event. It must not park. Several are possible.
---@param f fun(event: table)
---@return fun() remove ends that
function Conn:on_event(f)
  sign.own(self, "conn", "on_event")
  check.callable(f, "on_event")
  return remover(self.listeners, f)
end

---Registers a function to be called when the connection has ended: with the error, unless the program has closed it. It
---must not park. Several are possible.
---@param f fun(err: string?)
---@return fun() remove ends that
function Conn:on_close(f)
  sign.own(self, "conn", "on_close")
  check.callable(f, "on_close")
  return remover(self.closers, f)
end

-- ---- the end ----

---Closes the connection: the channels of its subscriptions close, requests get an error. First sends published
---messages, which blocks the program for at most `write_timeout` (an option of nats.connect). Only conn:flush and
---conn:drain confirm that the server has received all. Closing it again does nothing, and returns true.
---@return boolean sent false: the connection is lost, or the network has not accepted all within that time
---@return integer? left how many bytes, about, were not sent
function Conn:close()
  sign.own(self, "conn", "close")
  local left = finish(self, nil)
  if left > 0 then return false, left end
  return true
end

function Conn:__close()
  local sent, left = self:close()
  if sent then return end
  keepers.report(("nats: the connection was closed before %d bytes were sent that the program had published; "
    .. "closing it writes for at most write_timeout"):format(left), nil, tostring(self))
end

---Registers a function that conn:drain calls first, with the remaining time in ms, and waits for. It may park. Several
---are possible.
---@param f fun(ms: number)
---@return fun() remove ends that
function Conn:on_drain(f)
  sign.own(self, "conn", "on_drain")
  check.callable(f, "on_drain")
  return remover(self.drainers, f)
end

-- Waits until all of a list of channels have closed.
local function wait_for(list)
  for _, ch in ipairs(list) do ch:take() end
end

-- The work of drain before it closes the connection. Returns whether the server has received everything.
local function finish_work(self, deadline)
  local function left() return math.max(1, deadline - core.now()) end
  local blocks, ended = {}, {}
  for i, f in ipairs(self.drainers) do blocks[i] = core.go(f, left()) end
  wait_for(blocks)
  local subs = {}
  for sub in pairs(self.subs) do subs[#subs + 1] = sub end
  table.sort(subs, function(a, b) return self.subs[a] < self.subs[b] end) -- so that a simulation can be replayed
  for i, sub in ipairs(subs) do
    sub:begin_drain(left())
    ended[i] = sub.ended -- closes once all messages have been taken
  end
  wait_for(ended)
  return self:flush(left())
end

---Ends the connection without losing a message: waits until its workers and stages have ended their calls, ends the
---subscriptions as sub:drain does, waits until all their messages have been taken and everything published has been
---sent, then closes. It does not wait for the program's work on taken messages; wait for that first.
---@param timeout? number ms; after this time the connection is closed in any case (30000)
---@return boolean drained
---@return string|runnel.TimedOut|nil err
function Conn:drain(timeout)
  sign.own(self, "conn", "drain")
  local ms = timeout == nil and 30000 or timeout
  check.ms(ms, 1, "drain: timeout")
  if self.has_ended then return false, "the connection is closed" end
  local draining = core.go(finish_work, self, core.now() + ms)
  local timer = guard.go(guard.nothing, nil, function()
    core.sleep(ms)
    self:close()
  end)
  local drained, port = core.alts { draining, self.ended }
  core.cancel(timer, "the connection is drained")
  core.cancel(draining, "the connection is closed")
  self:close()
  if port == draining and drained then return true end
  local late, err = timed_out.of_drain("the connection", ms)
  if port == draining then return false, tostring(err) end
  return late, err
end

return ending
