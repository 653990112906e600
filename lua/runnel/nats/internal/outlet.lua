---The messages of a stream as a channel, for sources, buckets and dead letters.
---
---A message waits here for a take. Meanwhile a beat extends its ack_wait, and at the take it is extended once more, so
---that it counts from the take.

local core = require "runnel.core"
local clock = require "runnel.queue.clock"
local consumers = require "runnel.nats.internal.consumers"
local guard = require "runnel.internal.guard"
local jetstream = require "runnel.nats.internal.jetstream"
local keepers = require "runnel.queue.keeper"
local patience = require "runnel.nats.internal.patience"
local reader = require "runnel.nats.internal.reader"
local stream_message = require "runnel.nats.stream_message"
local values = require "runnel.queue.encodings"

local now, put_while_open = core.now, keepers.put_while_open

local outlet = {}

-- Room for all messages that may come; a channel takes memory only for what is on it.
local ROOM <const> = 1 << 20

-- The part of ack_wait that a message may have waited here without being extended at the take.
local SOON <const> = 0.01

-- Puts the messages on the program's channel. Untaken messages go back to the server when it closes.
local function hand_over(of, out, waiting, wrap)
  for message in waiting do
    if not of.is_closed and put_while_open(out, wrap and wrap(message) or message) then
      if of.name then
        stream_message.unbeat(message)
        if of.acks == "explicit" and now() - message.came > of.ack_ms * SOON then message:progress() end
      end
      if of.acks == "taken" then stream_message.answer(message, "+ACK") end
      of:ask()
    else
      stream_message.answer(message, "-NAK")
    end
  end
end

-- Whether a message has to wait for its time (option delay of sink:put). Then it is given back until then; or, if the
-- server counts its deliveries, is kept here, and `take` gets it then.
local function waits(out, message, is_counted, take)
  local ms = clock.wait_of(message.headers)
  if not ms then return false end
  if not is_counted then return stream_message.answer(message, jetstream.nak(math.ceil(ms))) or true end
  guard.go_while_open(out, function()
    if not message.is_answered then stream_message.answer(message, "-NAK") end
  end, nil, function()
    core.sleep(ms)
    take(message)
  end)
  return true
end

---What an outlet is made of.
---@class runnel.nats.OutletOptions
---@field conn runnel.nats.Connection
---@field stream string
---@field name? string of the consumer; nil: a consumer of its own, which delivers each message once, without
---acknowledgements
---@field config table settings that the consumer must have, in the server's words
---@field defaults? table settings for a new one
---@field batch integer how many messages may wait here
---@field encoding string
---@field acks? "explicit"|"taken"
---@field wrap? fun(message: runnel.nats.StreamMessage): any what is put on the channel instead of a message

---Opens one. The channel closes with an error if the stream or the consumer is deleted.
---@param opts runnel.nats.OutletOptions
---@param what string
---@return runnel.Channel<any>? ch, string|table info_or_err of the consumer
---@return runnel.nats.Consumer? consumer
function outlet.open(opts, what)
  local consumer = opts.name and consumers.named(opts.conn, opts.stream, opts.name, opts.config, opts.defaults or {})
    or consumers.unnamed(opts.conn, opts.stream, opts.config)
  local info, err, code = consumer:open()
  if not info then
    if code == jetstream.NO_STREAM then
      err = ("there is no stream %q (conn:stream makes one)"):format(opts.stream)
    end
    return nil, ("%s: %s"):format(what, err)
  end
  local waiting, out = core.chan(ROOM), core.chan():name(("%s %s"):format(what, opts.stream))
  local function take(message) waiting:offer(message) end
  local of, problem = reader.open({
    conn = opts.conn, consumer = consumer, what = "source", batch = opts.batch, encoding = opts.encoding,
    decode = values.encodings[opts.encoding].decode, acks = opts.acks,
    room = function() return opts.batch - #waiting end,
    take = function(message)
      message.came = now()
      if opts.acks and waits(out, message, (opts.config.max_deliver or -1) > 0, take) then return end
      take(message)
    end,
    ended = function(reason) guard.close(out, reason) end,
    over = function() waiting:close() end,
    failing = function(why)
      local where = ("%s %s"):format(what, opts.stream)
      keepers.report(("%s: no messages for now: %s"):format(where, why), nil, where)
    end,
  }, info)
  if not of then return nil, ("%s: %s"):format(what, problem) end
  keepers.on_close(out, function() of:close() end)
  guard.started(guard.go(function(_, reason) of:close(reason) end, nil, hand_over, of, out, waiting, opts.wrap), what)
  of:ask()
  return out, info, consumer
end

-- Whether the stream has more for the consumer after a message. Nil and the reason if the server does not say so for
-- long. Parks.
local function has_more(consumer, last)
  local since = now()
  repeat
    local sequence, err = consumer:missing(last)
    if sequence ~= nil then return sequence ~= false end
    if now() - since >= patience.answer then return nil, err end
    core.sleep(patience.ask_again)
  until false
end

---Calls f with each message that the stream has now, until f returns false; of a consumer without a name, without
---`wrap`. Messages may be removed before they come, so that none is the last one: when nothing has come for a while, it
---asks the stream.
---@param opts runnel.nats.OutletOptions
---@param what string
---@param f fun(message: runnel.nats.StreamMessage): boolean?
---@return true? ok, string? err
function outlet.each(opts, what, f)
  local messages, info, consumer = outlet.open(opts, what)
  if not messages then return nil, info --[[@as string]] end
  local _ <close> = messages
  if info.num_pending == 0 then return true end
  local tick, came, last = core.timeout(patience.rest_looks), false, nil
  while true do
    local message, port, err = core.alts({ messages, tick }, { priority = true })
    if message then
      if f(message) == false or message.remaining == 0 then return true end
      came, last = true, message.sequence
    elseif port == messages then
      return nil, tostring(err or "the connection has ended")
    else
      local more, problem = true, nil
      if not came then more, problem = has_more(consumer, last) end
      if not more then return more == false or nil, problem end
      tick, came = core.timeout(patience.rest_looks), false
    end
  end
end

return outlet
