---pub: the values of a channel by topic, each topic to any number of channels that have subscribed to it.
---
---    local p = rn.pub(events, function(event) return event.kind end)
---    local errors = p:sub("error", rn.chan(10))
---
---Each topic with a subscriber has a channel and a mult of its own. Without a buffer, a value waits until the
---subscribers of its topic have accepted the one before, and holds up what comes behind it; with one (buf_fn), the
---topics go at their own pace. Values without a subscriber are dropped.

local core = require "runnel.core"
local check = require "runnel.check"
local ends = require "runnel.ends"
local guard = require "runnel.guard"
local mult = require "runnel.mult"

local take = core.internal.moving.take

---@class runnel.Pub
---@field source runnel.Channel<any> the channel
---@field topic_fn fun(v: any): any
---@field buf_fn? fun(topic: any): runnel.BufferLike?
---@field topics table<any, runnel.Topic> those that have a subscriber
---@field count integer topics there have been
---@field ended boolean the source has closed,
---@field reason any with this error
---@field sub fun(self: runnel.Pub, topic: any, ch: runnel.Channel<any>, close?: boolean): runnel.Channel<any>
---@field unsub fun(self: runnel.Pub, topic: any, ch: runnel.Channel<any>)
---@field unsub_all fun(self: runnel.Pub, topic?: any)
local Pub = {}
Pub.__index = Pub
Pub.__name = "runnel.pub"

---@class runnel.Topic
---@field number integer in the order in which they were made
---@field ch runnel.Channel<any> its channel
---@field put fun(value: any): boolean puts on it
---@field mult runnel.Mult of that channel; its taps are the subscribers

-- Makes a topic, which goes when it has no subscriber any more.
local function add(self, name, ch)
  self.count = self.count + 1
  local topic = { number = self.count, ch = ch, put = ends.sink(ch, "a topic of a pub"), mult = mult.mult(ch) }
  topic.mult.on_empty = function()
    if self.topics[name] == topic then self.topics[name] = nil end
    ch:close()
  end
  self.topics[name] = topic
  return topic
end

-- In the order in which they were made, so that a simulation can be replayed.
local function all_topics(self)
  local list = {}
  for _, topic in pairs(self.topics) do list[#list + 1] = topic end
  table.sort(list, function(a, b) return a.number < b.number end)
  return list
end

local function topic_of(self, value)
  local name = self.topic_fn(value)
  if name == nil then error("the topic function returned nil; values without a topic may have false for one", 0) end
  return name
end

local function publish(self)
  while true do
    local value, err = take(self.source)
    if value == nil then return err end
    local ok, name = guard.call("the topic function of a pub", topic_of, self, value)
    local topic = ok and self.topics[name]
    if topic then topic.put(value) end -- to nobody if the topic goes while this waits
  end
end

-- The source has closed, with that error if there is one, or the go block has died of it.
local function finish(self, reason)
  self.ended, self.reason = true, reason
  local topics = all_topics(self)
  ends.close(topics[1] and topics[1].ch, reason) -- the error counts as taken once it is taken from the first topic
  for i = 2, #topics do guard.close(topics[i].ch, reason) end
end

-- The go block of a pub.
local function run(self)
  local _, reason = guard.call("the source of a pub", publish, self)
  finish(self, reason)
end

-- ---- the public functions ----

---@class runnel.pub
local pub = {}

---Makes a publication of a channel: an object with the methods sub, unsub and unsub_all. Nobody else should take from
---the channel. Source: core.async's pub.
---@param ch runnel.Channel<any> the channel; when it closes, so do the subscribers, with its error if it has one
---@param topic_fn fun(v: any): any the topic of a value. Where it raises or gives nil the value is dropped, and the
---error handler (rn.on_error) told
---@param buf_fn? fun(topic: any): runnel.BufferLike? the buffer of a topic's channel, as for rn.chan; default none
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

---Subscribes a channel to a topic, until it is closed or unsubscribed. Subscribing once more changes `close`. Source:
---core.async's sub; other than there, subscribing to a pub whose source has closed closes the channel.
---@generic T
---@param p runnel.Pub
---@param topic any not nil; what `topic_fn` gives is compared as keys of a table are
---@param ch runnel.Channel<T> the channel
---@param close? boolean false: leave it open when the source closes; true or nil: close it
---@return runnel.Channel<T> ch
function pub.sub(p, topic, ch, close)
  check.object(p, Pub, "a pub", "sub")
  check.key(topic, "sub: topic")
  check.chan(ch, "sub: channel")
  check.close(close, "sub")
  if ch == p.source then error("sub: the pub would feed its own source; subscribe another channel", 2) end
  if p.ended then
    if close ~= false then ch:close(p.reason) end
  elseif not ch:closed() then
    local found = p.topics[topic]
    if not found then
      local topic_ch = check.new_chan(p.buf_fn and p.buf_fn(topic), "sub: the buffer of the topic")
      found = p.topics[topic] or add(p, topic, topic_ch)
    end
    mult.tap(found.mult, ch, close)
    if not found.mult.first then found.mult.on_empty() end -- the buffer function has closed the channel
  end
  return ch
end

---Ends a subscription: the channel stays open and gets no further value of the topic. Source: core.async's unsub; other
---than there, the topic goes with its last subscriber.
---@param p runnel.Pub
---@param topic any
---@param ch runnel.Channel<any> the channel; nothing happens if it has not subscribed
function pub.unsub(p, topic, ch)
  check.object(p, Pub, "a pub", "unsub")
  check.key(topic, "unsub: topic")
  check.chan(ch, "unsub: channel")
  local found = p.topics[topic]
  if found then mult.untap(found.mult, ch) end
end

---Ends all subscriptions to a topic, or to all topics. Source: core.async's unsub-all.
---@param p runnel.Pub
---@param topic? any default all of them
function pub.unsub_all(p, topic)
  check.object(p, Pub, "a pub", "unsub_all")
  for _, found in ipairs(topic == nil and all_topics(p) or { p.topics[topic] }) do mult.untap_all(found.mult) end
end

for _, name in ipairs { "sub", "unsub", "unsub_all" } do Pub[name] = pub[name] end

return pub
