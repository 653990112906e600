---pub: distributes the values of a channel by topic, to the channels that have subscribed to each topic.
---
---    local p = rn.pub(events, function(event) return event.kind end)
---    local errors = p:sub("error", rn.chan(10))
---
---Each topic that has subscribers has a channel and a mult of its own. A value waits until the subscribers of its topic
---have accepted the one before, and meanwhile blocks all other topics, unless the topics have buffers (buf_fn). Values
---of a topic without subscribers are dropped.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local class = require "runnel.internal.class"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local mult = require "runnel.rn.mult"

local internal = core.internal
local raise = internal.raise
local take, offer = internal.moving.take, core.methods.offer

---@class runnel.Pub
---@field source runnel.Channel<any> the channel to take from
---@field topic_fn fun(v: any): any
---@field buf_fn? fun(topic: any): runnel.BufferLike?
---@field topics table<any, runnel.Topic> the topics that have subscribers
---@field count integer how many topics have been made
---@field asks boolean the topic function is running, or has raised
---@field ended boolean the source has closed
---@field reason any the error with which it closed
---@field unclaimed? runnel.Channel<any> has that error if there was no topic to pass it on to
---@field sub fun(self: runnel.Pub, topic: any, ch: runnel.Channel<any>, close?: boolean): runnel.Channel<any>
---@field unsub fun(self: runnel.Pub, topic: any, ch: runnel.Channel<any>)
---@field unsub_all fun(self: runnel.Pub, topic?: any)
local Pub = {}
Pub.__sign = "p"
Pub.__name = "runnel.pub"

---@class runnel.Topic
---@field number integer numbers topics in the order in which they were made
---@field ch runnel.Channel<any> its channel
---@field put fun(ch: runnel.Channel<any>, value: any): boolean puts on that channel
---@field mult runnel.Mult the mult of that channel, whose taps are the subscribers
---@field is_direct boolean it has no buffer
---@field sent integer how many values have been put on that channel

-- Makes a topic. It removes itself when it has lost its last subscriber.
local function add(self, name, ch, is_direct)
  self.count = self.count + 1
  local topic = { number = self.count, ch = ch, put = ends.sink(ch, "a topic of a pub"), mult = mult.mult(ch),
    is_direct = is_direct, sent = 0 }
  topic.mult.on_empty = function()
    if self.topics[name] == topic then self.topics[name] = nil end
    ch:close()
  end
  self.topics[name] = topic
  return topic
end

-- The topics in the order in which they were made, so that a simulation can be replayed.
local function all_topics(self)
  local list = {}
  for _, topic in pairs(self.topics) do list[#list + 1] = topic end
  table.sort(list, function(a, b) return a.number < b.number end)
  return list
end

-- Gives a value to the only subscriber of a topic without a buffer, if that has room for it, or waits, and no earlier
-- value is on its way: without the hop through the topic's channel and mult, whose outcome would be the same. Returns
-- whether it did.
local function give(topic, value)
  local m = topic.mult
  local tap = m.first
  return tap and tap == m.last and tap.is_plain and topic.sent == m.done and topic.is_direct and offer(tap.ch, value)
end

local function publish(self)
  local source, topic_fn = self.source, self.topic_fn
  while true do
    local value, err = take(source)
    if value == nil then return err end
    self.asks = true
    local name = topic_fn(value)
    if name == nil then error("the topic function returned nil; return false for values without a topic", 0) end
    self.asks = false
    local topic = self.topics[name]
    if topic and not give(topic, value) then
      topic.sent = topic.sent + 1
      topic.put(topic.ch, value) -- dropped if the topic loses its last subscriber while this waits
    end
  end
end

-- The source has closed, with the error `reason` if that is not nil, or the pub's go block has died of `reason`.
-- `from` is the channel that has the error, or nil if the error has been reported.
local function finish(self, reason, from)
  self.ended, self.reason = true, reason
  local topics = all_topics(self)
  if topics[1] then
    ends.close(topics[1].ch, reason, from) -- once taken from the first topic, it counts as taken
    for i = 2, #topics do ends.close(topics[i].ch, reason) end
  elseif reason ~= nil then
    self.unclaimed = core.chan() -- has the error until the next subscription
    ends.close(self.unclaimed, reason, from)
  end
end

-- The go block of a pub. A value whose topic function raises is dropped.
local function run(self)
  local ok, reason, traceback
  repeat
    self.asks = false
    ok, reason, traceback = guard.try(publish, self)
    if not ok then
      guard.raise_cancelled(reason)
      internal.report(reason, traceback, self.asks and "the topic function of a pub" or "the source of a pub")
    end
  until ok or not self.asks
  finish(self, reason, ok and self.source or nil)
end

-- ---- the public functions ----

---@class runnel.pub
local pub = {}

---Makes a pub of a channel: an object with the methods sub, unsub and unsub_all. Nothing else should take from the
---channel. Source: core.async's pub.
---@param ch runnel.Channel<any> the channel; when it closes, the subscribers close, with its error if there is one
---@param topic_fn fun(v: any): any returns the topic of a value. If it raises or returns nil, the value is dropped and
---the error goes to the error handler (rn.on_error)
---@param buf_fn? fun(topic: any): runnel.BufferLike? returns the buffer of a topic, as for rn.chan; default none
---@return runnel.Pub
function pub.pub(ch, topic_fn, buf_fn)
  check.chan(ch, "pub: channel")
  check.callable(topic_fn, "pub: topic function")
  check.callable_or_nil(buf_fn, "pub: buffer function")
  local self = setmetatable({
    source = ch, topic_fn = topic_fn, buf_fn = buf_fn, topics = {}, count = 0, ended = false,
  }, Pub)
  guard.started(guard.go(finish, self, run, self), "pub")
  return self
end

---Subscribes a channel to a topic, until the channel closes or is unsubscribed. Subscribing it again changes `close`.
---Source: core.async's sub. Unlike there, subscribing to a pub whose source has closed closes the channel.
---@generic T
---@param p runnel.Pub
---@param topic any not nil; topics are compared like the keys of a table
---@param ch runnel.Channel<T> the channel
---@param close? boolean false: leave the channel open when the source closes; true or nil: close it
---@return runnel.Channel<T> ch
function pub.sub(p, topic, ch, close)
  check.object(p, Pub, "a pub", "sub")
  check.key(topic, "sub: topic")
  check.chan(ch, "sub: channel")
  check.boolean_or_nil(close, "sub: close")
  if ch == p.source then raise("sub: the pub would feed its own source; subscribe another channel") end
  if p.ended then
    if close ~= false then ends.close(ch, p.reason, p.unclaimed) end
  elseif not ch:closed() then
    local found = p.topics[topic]
    if not found then
      local buffer = p.buf_fn and p.buf_fn(topic)
      local topic_ch = check.new_chan(buffer, "sub: the buffer of the topic")
      found = p.topics[topic] or add(p, topic, topic_ch, not buffer)
    end
    mult.tap(found.mult, ch, close)
    if not found.mult.first then found.mult.on_empty() end -- buf_fn has closed `ch`, so it has no subscriber
  end
  return ch
end

---Ends a subscription: the channel stays open and gets no more values of the topic. Source: core.async's unsub. Unlike
---there, a topic that loses its last subscriber is removed.
---@param p runnel.Pub
---@param topic any
---@param ch runnel.Channel<any> the channel; if it has not subscribed, nothing happens
function pub.unsub(p, topic, ch)
  check.object(p, Pub, "a pub", "unsub")
  check.key(topic, "unsub: topic")
  check.chan(ch, "unsub: channel")
  local found = p.topics[topic]
  if found then mult.untap(found.mult, ch) end
end

---Ends all subscriptions to a topic, or to all topics. Source: core.async's unsub-all.
---@param p runnel.Pub
---@param topic? any by default all topics
function pub.unsub_all(p, topic)
  check.object(p, Pub, "a pub", "unsub_all")
  for _, found in ipairs(topic == nil and all_topics(p) or { p.topics[topic] }) do mult.untap_all(found.mult) end
end

for _, name in ipairs { "sub", "unsub", "unsub_all" } do Pub[name] = pub[name] end

class.finish(Pub)

return pub
