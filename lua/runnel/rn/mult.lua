---mult: copies every value of a channel to any number of others, its taps.
---
---    local m = rn.mult(source)
---    local log, work = m:tap(rn.chan(rn.sliding_buffer(100))), m:tap(rn.chan(10))
---
---Each value is offered to all taps at once, and the next one is taken when all taps have accepted it. So a slow tap
---blocks the others, unless it has a buffer. Values that arrive while there is no tap are dropped.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local class = require "runnel.internal.class"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local internal = core.internal
local raise = internal.raise

local chan, alts, yield = core.chan, internal.moving.alts, core.yield
local take, put_each, offer = internal.moving.take, internal.moving.put_each, core.methods.offer
local is_plain = internal.moving.is_plain
local PRIORITY = { priority = true }

---@class runnel.Mult
---@field source runnel.Channel<any> the channel to take from
---@field taps table<runnel.Channel<any>, runnel.Tap> by channel
---@field first? runnel.Tap the list of taps, in the order in which they were made
---@field last? runnel.Tap
---@field chs? runnel.Channel<any>[] their channels in that order; nil when they have changed
---@field pending integer how many taps' go blocks are still delivering the last value
---@field delivered runnel.Channel<any> gets true when `pending` becomes 0
---@field done integer how many values all taps have accepted
---@field on_empty? fun() called when the last tap has been removed
---@field ended boolean the source has closed
---@field reason any the error with which it closed
---@field unclaimed? runnel.Channel<any> has that error if there was no tap to pass it on to
local Mult = {}
Mult.__sign = "m"
Mult.__name = "runnel.mult"

---@class runnel.Tap
---@field ch runnel.Channel<any> the channel to put on
---@field close? boolean whether to close it when the source closes; nil means true
---@field mult runnel.Mult
---@field work runnel.Channel<any> the next value for its go block to deliver; closed when the tap is removed
---@field busy boolean the go block is delivering a value
---@field is_plain boolean an offer on its channel runs no code of the program
---@field next? runnel.Tap
---@field prev? runnel.Tap

-- ---- taps ----

local function forget_list(self)
  self.chs = nil
end

local function add(self, ch, close)
  local tap = { mult = self, ch = ch, close = close, work = chan(1), busy = false, prev = self.last,
    is_plain = is_plain(ch) }
  if self.last then self.last.next = tap else self.first = tap end
  self.last = tap
  self.taps[ch] = tap
  forget_list(self)
  return tap
end

local function remove(self, tap)
  if self.taps[tap.ch] ~= tap then return end
  if tap.prev then tap.prev.next = tap.next else self.first = tap.next end
  if tap.next then tap.next.prev = tap.prev else self.last = tap.prev end
  self.taps[tap.ch] = nil
  forget_list(self)
  tap.work:close()
  if not self.first and self.on_empty then self.on_empty() end
end

-- A tap has delivered the last value, or cannot any more.
local function delivered(self)
  self.pending = self.pending - 1
  if self.pending == 0 then self.delivered:offer(true) end
end

-- The go block of a tap. It delivers values that found no room, and removes the tap when its channel closes.
local function attend(self, tap)
  local done, put = tap.ch:done(), { tap.ch }
  local idle, busy = { tap.work, done }, { tap.work, done, put }
  repeat
    local value = alts(idle, PRIORITY)
    local accepted = false
    if value ~= nil then
      put[2], tap.busy = value, true
      local ok, result = guard.call("a tap of a mult", alts, busy, PRIORITY)
      put[2], tap.busy = nil, false
      accepted = not ok or result -- after an error, the channel may still accept the next value
      delivered(self)
    end
  until not accepted
  remove(self, tap)
end

-- The go block of a tap has died, so the tap gets no more values.
local function lose(tap, reason)
  if tap.busy or tap.work:poll() ~= nil then delivered(tap.mult) end
  remove(tap.mult, tap)
  if tap.close ~= false then guard.close(tap.ch, reason) end
end

-- ---- values ----

local function list_channels(self)
  local chs, n, tap = {}, 0, self.first
  while tap do
    n = n + 1
    chs[n] = tap.ch
    tap = tap.next
  end
  self.chs = chs
  return chs
end

-- The source has closed, with the error `reason` if that is not nil, or the mult's go block has died of `reason`.
-- `from` is the channel that has the error, or nil if the error has been reported.
local function finish(self, reason, from)
  self.ended, self.reason = true, reason
  local tap, is_passed = self.first, false
  while tap do
    remove(self, tap)
    if tap.close ~= false then
      ends.close(tap.ch, reason, not is_passed and from or nil) -- once taken from the first tap, it counts as taken
      is_passed = true
    end
    tap = tap.next
  end
  if not is_passed and reason ~= nil then
    self.unclaimed = chan() -- has the error until the next tap
    ends.close(self.unclaimed, reason, from)
  end
end

-- The go block of a mult.
local function run(self)
  local value, chs -- the offered value, and the channels it is offered to
  local at = 0 -- the channel being offered to, for when it raises; 0 while no value is being offered

  -- Offers to the channels after `at`. Those that are still full get the value from their tap's go block.
  local function offer_rest()
    for i = at + 1, #chs do
      at = i
      local tap = self.taps[chs[i]]
      if tap then
        local accepted = offer(tap.ch, value)
        if accepted == false then
          remove(self, tap)
        elseif not accepted and tap.work:offer(value) then
          self.pending = self.pending + 1
        end
      end
    end
    if self.pending > 0 then take(self.delivered) end
    at = 0
  end

  -- Offers to the channels from the i-th on. If one does not accept the value, its taker is usually about to run: this
  -- lets other go blocks run once, and tries again.
  local function insist(i)
    local has_yielded = false
    while i do
      at = i
      if self.chs == chs and offer(chs[i], value) then
        i = put_each(chs, value, i + 1)
      else
        at = i - 1
        if has_yielded or self.chs ~= chs then return offer_rest() end
        yield()
        has_yielded = true
      end
    end
    at = 0
  end

  -- Takes and offers values until the source closes, and returns the error with which it closed.
  local function pump()
    local source = self.source
    while true do
      local v, err = take(source)
      if v == nil then return err end
      local list = self.chs or list_channels(self)
      local i = put_each(list, v, 1)
      if i then
        value, chs = v, list
        insist(i)
      end
      self.done = self.done + 1
    end
  end

  local ok, ended, reason
  repeat
    ok, reason = guard.call("a mult", pump)
    ended = ok or at == 0 -- at 0 the source raised
    while at > 0 do guard.call("a mult", offer_rest) end
  until ended
  finish(self, reason, ok and self.source or nil)
end

-- ---- the public functions ----

---@class runnel.mult
local mult = {}

---Makes a mult of a channel: an object with the methods tap, untap and untap_all. Nothing else should take from the
---channel. Source: core.async's mult.
---@param ch runnel.Channel<any> the channel; when it closes, the taps close, with its error if there is one
---@return runnel.Mult
function mult.mult(ch)
  check.chan(ch, "mult: channel")
  local self = setmetatable({
    source = ch, taps = {}, pending = 0, delivered = chan(), done = 0, ended = false,
  }, Mult)
  guard.started(guard.go(finish, self, run, self), "mult")
  return self
end

---Copies all further values of a mult to a channel, until that closes or is untapped. Tapping the same channel again
---changes `close`. Source: core.async's tap. Unlike there, a channel that closes is removed at once, without waiting
---for the next value; and tapping a mult whose source has closed closes the channel.
---@generic T
---@param m runnel.Mult
---@param ch runnel.Channel<T> the channel
---@param close? boolean false: leave the channel open when the source closes; true or nil: close it
---@return runnel.Channel<T> ch
function mult.tap(m, ch, close)
  check.object(m, Mult, "a mult", "tap")
  check.chan(ch, "tap: channel")
  check.boolean_or_nil(close, "tap: close")
  if ch == m.source then raise("tap: the mult would feed its own source; tap another channel") end
  if m.ended then
    if close ~= false then ends.close(ch, m.reason, m.unclaimed) end
  elseif m.taps[ch] then
    m.taps[ch].close = close
  elseif not ch:closed() then
    local tap = add(m, ch, close)
    local ok, block = pcall(guard.go, lose, tap, attend, m, tap)
    if not ok then
      remove(m, tap) -- out of memory: without a go block for the tap, the mult would wait for it forever
      error(block, 0)
    end
    guard.started(block, "tap")
  end
  return ch
end

---Ends a tap: its channel stays open and gets no more values, not even one that waits for room in it. Source:
---core.async's untap. Unlike there, the mult does not wait until a value that is being delivered is accepted.
---@param m runnel.Mult
---@param ch runnel.Channel<any> the channel; if it is not a tap, nothing happens
function mult.untap(m, ch)
  check.object(m, Mult, "a mult", "untap")
  check.chan(ch, "untap: channel")
  local tap = m.taps[ch]
  if tap then remove(m, tap) end
end

---Ends all taps, as untap does. Source: core.async's untap-all.
---@param m runnel.Mult
function mult.untap_all(m)
  check.object(m, Mult, "a mult", "untap_all")
  while m.first do remove(m, m.first) end
end

Mult.tap, Mult.untap, Mult.untap_all = mult.tap, mult.untap, mult.untap_all

class.finish(Mult)

return mult
