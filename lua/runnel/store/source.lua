---store:source: the messages of a stream of a store as a channel.

local arguments = require "runnel.queue.source"
local consumers = require "runnel.store.consumer"
local core = require "runnel.core"
local following = require "runnel.store.following"
local guard = require "runnel.internal.guard"
local messages = require "runnel.store.message"
local problems = require "runnel.store.problems"
local reader = require "runnel.store.reader"
local streams = require "runnel.store.stream"

local internal = core.internal
local chan = core.chan
local put_while_open = internal.moving.put_while_open

local source = {}

-- Room for all messages that may come; a channel takes memory only for what is on it.
local ROOM <const> = 1 << 20

-- ---- with a name ----

-- Puts the messages on the program's channel. From its take on, the lease of a message ends after ack_wait. Untaken
-- messages are given back when the channel closes.
local function hand_over(of, out, waiting)
  for message in waiting do
    if not of.is_closed and put_while_open(out, message) then
      if of.acks == "explicit" then of.consumer:lease(message)
      elseif messages.answer(message) then of.consumer:finish(message) end
      of:ring()
    elseif messages.answer(message) then
      of.consumer:back(message)
    end
  end
end

local function named(store, stream, opts)
  local consumer, err = consumers.open(store, stream, opts.name, opts)
  if not consumer then return nil, err end
  local waiting, out, buffer = chan(ROOM), chan():name("source " .. stream), opts.buffer or 64
  local of, problem = reader.open({
    consumer = consumer, acks = opts.ack or "explicit",
    room = function() return buffer - #waiting end,
    take = function(message) -- it fails when the channel was closed while messages were claimed
      if not waiting:offer(message) and messages.answer(message) then consumer:back(message) end
    end,
    over = function(reason)
      guard.close(out, "source: " .. internal.error_text(reason))
      waiting:close()
    end,
  }, "source")
  if not of then return nil, problem end
  internal.on_close(out, function()
    of:close()
    waiting:close()
  end)
  guard.started(guard.go(function() of:close() end, nil, hand_over, of, out, waiting), "source")
  return out
end

-- ---- without a name ----

local FIRST <const> = ([[
select case ?2 when 'all' then 1 when 'new' then last + 1
  when 'last' then coalesce((select max(seq) from runnel_message
    where stream = ?1 and (?3 is null or runnel_matches(subject, ?3))), last + 1) else ?2 end as first, %s as notes
from runnel_stream where name = ?1]]):format(following.NOTES)

local NEXT <const> = [[
select m.seq, m.subject, m.form, m.value, m.headers, m.priority, m.made, 1 as deliveries, s.last, s.max_age
from runnel_message m, runnel_stream s where s.name = ?1 and m.stream = ?1 and m.seq >= ?2 and $THERE %s
  order by m.seq limit ?3]]
local function next_of(more) return (NEXT:gsub("%$THERE", following.IS_THERE:format(1, 4)):format(more)) end
local ALL <const>, MATCHING <const> = next_of "", next_of "and runnel_matches(m.subject, ?5)"
local IS_THERE <const> = "select 1 from runnel_stream where name = ?1 and " .. following.IS_THERE:format(1, 2)

-- Puts messages on the channel, from a number on, until it is closed.
local function read_all(self, out)
  local at, size, subject, notes = self.first, self.buffer, self.subject, self.notes
  while true do
    local rows, err
    if subject then rows, err = self.store:attempt("rows", MATCHING, self.stream, at, size, notes, subject)
    else rows, err = self.store:attempt("rows", ALL, self.stream, at, size, notes) end
    if not rows then error("source: " .. err, 0) end
    for _, row in ipairs(rows) do
      local is_old = row.max_age and row.made < self.store:time() - row.max_age
      if not is_old and not put_while_open(out, messages.new(row, self)) then return end
      at = row.seq + 1
    end
    if #rows < size then
      if #rows == 0 then
        local there, why = self.store:attempt("rows", IS_THERE, self.stream, notes)
        if not there then error("source: " .. why, 0) end
        if not there[1] then error(("source: the stream %q was deleted"):format(self.stream), 0) end
      end
      following.wait(self)
    end
    if out:closed() then return end
  end
end

local function unnamed(store, stream, opts)
  local rows, err = store:attempt("rows", FIRST, stream, opts.from or "all", opts.subject)
  if not rows then return nil, err end
  if not rows[1] then return nil, problems.no_stream(stream) end
  local out = chan():name("source " .. stream)
  local self = {
    store = store, stream = stream, subject = opts.subject, buffer = opts.buffer or 64, first = rows[1].first,
    notes = rows[1].notes,
  }
  following.start(self, stream, "source", out, read_all)
  return out
end

-- ---- both ----

---The messages of a stream, as a channel.
---
---With a name, the program acknowledges each message (m:ack()), gives it back (m:nak(ms)), or gives it up (m:term()).
---A message that is not acknowledged within ack_wait after the take is delivered again; at once, if the process has
---ended.
---
---Without a name, the source delivers every message once and in order. There is nothing to acknowledge, and the next
---source starts from the beginning again.
---
---To end the source, close the channel; messages that are still on it are given back. The channel closes with an error
---if the stream or the consumer is deleted.
---@param store runnel.store.Store
---@param stream string
---@param opts? runnel.queue.SourceOptions
---@return runnel.Channel<runnel.store.Message>? ch, string? err
function source.source(store, stream, opts)
  opts = arguments.check(stream, opts)
  streams.refuse_own(stream, "source: stream")
  local ch, err = (opts.name and named or unnamed)(store, stream, opts)
  if not ch then return nil, "source: " .. err end
  return ch
end

return source
