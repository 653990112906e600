---mult: copies of all values of a channel on any number of others, its taps.
---
---    local m = rn.mult(source)
---    local log, work = m:tap(rn.chan(rn.sliding_buffer(100))), m:tap(rn.chan(10))
---
---Each value is offered to all taps at once, and the next one is taken when all have accepted it; give taps that may be
---slow a buffer, so that they do not hold up the others. Values that come while there is no tap are dropped.

local core = require "runnel.core"
local check = require "runnel.check"
local ends = require "runnel.ends"
local guard = require "runnel.guard"
local internal = core.internal

local chan, alts, yield, offer_each = core.chan, internal.moving.alts, core.yield, internal.offer_each
local take, offer = core.methods.take, core.methods.offer
local PRIORITY = { priority = true }

---@class runnel.Mult
---@field source runnel.Channel<any> the channel
---@field taps table<runnel.Channel<any>, runnel.Tap> by channel
---@field first? runnel.Tap the list of taps, in the order in which they were made
---@field last? runnel.Tap
---@field chs? runnel.Channel<any>[] their channels in that order; nil when they have changed
---@field pending integer taps whose go blocks are still delivering the last value
---@field delivered runnel.Channel<any> a channel that gets true when none is pending any more
---@field on_empty? fun() called when the last tap has gone
---@field ended boolean the source has closed,
---@field reason any with this error
local Mult = {}
Mult.__index = Mult
Mult.__name = "runnel.mult"

---@class runnel.Tap
---@field ch runnel.Channel<any> the channel
---@field close? boolean whether to close it with the source; nil means true
---@field mult runnel.Mult
---@field work runnel.Channel<any> a channel for the value that its go block is to deliver; closed when the tap has gone
---@field busy boolean it is delivering one
---@field next? runnel.Tap
---@field prev? runnel.Tap

-- ---- taps ----

local function add(self, ch, close)
  local tap = { mult = self, ch = ch, close = close, work = chan(1), busy = false, prev = self.last }
  if self.last then self.last.next = tap else self.first = tap end
  self.last = tap
  self.taps[ch] = tap
  self.chs = nil
  return tap
end

local function remove(self, tap)
  if self.taps[tap.ch] ~= tap then return end
  if tap.prev then tap.prev.next = tap.next else self.first = tap.next end
  if tap.next then tap.next.prev = tap.prev else self.last = tap.prev end
  self.taps[tap.ch] = nil
  self.chs = nil
  tap.work:close()
  if not self.first and self.on_empty then self.on_empty() end
end

-- A tap has delivered a value, or will not any more.
local function delivered(self)
  self.pending = self.pending - 1
  if self.pending == 0 then self.delivered:offer(true) end
end

-- The go block of a tap: waits for it to close, and for room in it when a value has found it full.
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
      accepted = not ok or result -- a channel that has failed to take a value may take the next one
      delivered(self)
    end
  until not accepted
  remove(self, tap)
end

-- The go block of a tap has died: the tap gets no further value.
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

-- The source has closed, perhaps with the error `reason`, or the go block of the mult has died of it.
local function finish(self, reason)
  self.ended, self.reason = true, reason
  local tap, close = self.first, ends.close -- the error counts as taken once it is taken from the first tap
  while tap do
    remove(self, tap)
    if tap.close ~= false then
      close(tap.ch, reason)
      close = guard.close
    end
    tap = tap.next
  end
  if close == ends.close then close(nil, reason) end
end

-- The go block of a mult.
local function run(self)
  local value, chs -- what is being offered, and to whom
  local at = 0 -- how many of them have been offered it, should code of a channel's own raise; 0 while there is none

  -- Offers to those who are left. Who is still full gets the value from its go block.
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

  -- Goes on to offer, from the i-th channel. Where one is closed or full it is asked again after the others have run:
  -- most often whoever takes from it is about to.
  local function insist(i)
    local waited = false
    while chs[i] do
      at = i
      if not offer(chs[i], value) then
        at = i - 1
        if not waited then yield() end
        if waited or self.chs ~= chs then return offer_rest() end
        waited, i = true, at
      end
      i = offer_each(chs, value, i + 1)
    end
    at = 0
  end

  -- Takes and offers values until the source closes, and returns why it has.
  local function pump()
    local take, offer_each, source = internal.moving.take, offer_each, self.source -- luacheck: ignore 431
    while true do
      local v, err = take(source)
      if v == nil then return err end
      local all = self.chs or list_channels(self)
      local i = offer_each(all, v, 1)
      if all[i] then
        value, chs = v, all
        insist(i)
      end
    end
  end

  local ended, reason
  repeat
    ended, reason = guard.call("a mult", pump)
    if at == 0 then ended = true end -- it was the source that raised
    while at > 0 do guard.call("a mult", offer_rest) end
  until ended
  finish(self, reason)
end

-- ---- the public functions ----

---@class runnel.mult
local mult = {}

---Makes a mult of a channel: an object with the methods tap, untap and untap_all. Nobody else should take from the
---channel. Source: core.async's mult.
---@param ch runnel.Channel<any> the channel; when it closes, so do the taps, with its error if it has one
---@return runnel.Mult
function mult.mult(ch)
  check.chan(ch, "mult: channel")
  local self = setmetatable({
    source = ch, taps = {}, pending = 0, delivered = chan(), ended = false,
  }, Mult)
  guard.started(guard.go(finish, self, run, self), "mult")
  return self
end

---Copies all further values of a mult onto a channel, until that is closed or untapped. Tapping once more with the same
---channel changes `close`. Source: core.async's tap; other than there, a closed channel leaves at once, whether or not
---a value comes, and tapping a mult whose source has closed closes the channel.
---@generic T
---@param m runnel.Mult
---@param ch runnel.Channel<T> the channel
---@param close? boolean false: leave it open when the source closes; true or nil: close it
---@return runnel.Channel<T> ch
function mult.tap(m, ch, close)
  check.object(m, Mult, "a mult", "tap")
  check.chan(ch, "tap: channel")
  check.close(close, "tap")
  if ch == m.source then error("tap: the mult would feed its own source; tap another channel", 2) end
  if m.ended then
    if close ~= false then ch:close(m.reason) end
  elseif m.taps[ch] then
    m.taps[ch].close = close
  elseif not ch:closed() then
    local tap = add(m, ch, close)
    local ok, block = pcall(guard.go, lose, tap, attend, m, tap)
    if not ok then
      remove(m, tap) -- no memory; without its go block the mult would wait for it
      error(block, 0)
    end
    guard.started(block, "tap")
  end
  return ch
end

---Ends a tap: its channel stays open and gets no further value, nor one that waits for room in it. Source: core.async's
---untap; other than there the mult does not wait for a value that is on its way to the channel.
---@param m runnel.Mult
---@param ch runnel.Channel<any> the channel; nothing happens if it is no tap
function mult.untap(m, ch)
  check.object(m, Mult, "a mult", "untap")
  check.chan(ch, "untap: channel")
  local tap = m.taps[ch]
  if tap then remove(m, tap) end
end

---Ends all taps, like untap. Source: core.async's untap-all.
---@param m runnel.Mult
function mult.untap_all(m)
  check.object(m, Mult, "a mult", "untap_all")
  while m.first do remove(m, m.first) end
end

Mult.tap, Mult.untap, Mult.untap_all = mult.tap, mult.untap, mult.untap_all

return mult
