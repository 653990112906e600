---The keeper of a worker's messages (docs/keepers.md): a consumer of a JetStream stream, and a bucket
---for the counts of starts.

local dead = require "runnel.nats.dead"
local draining = require "runnel.queue.draining"
local firsts = require "runnel.nats.internal.firsts"
local jetstream = require "runnel.nats.internal.jetstream"
local lib = require "runnel.nats.internal.lib"
local reader = require "runnel.nats.internal.reader"
local stream_message = require "runnel.nats.stream_message"
local who = require "runnel.nats.internal.who"

local answer = stream_message.answer

---@class runnel.nats.KeeperOptions
---@field conn runnel.nats.Connection
---@field consumer runnel.nats.Consumer which has been opened
---@field info table what the server says about it
---@field what string for errors, as in "stage"
---@field encoding string of the values
---@field decode fun(data: string): any, string?
---@field starts_of runnel.Counts
---@field queue string its name for operators
---@field from? string the stream
---@field sink? runnel.nats.Sink where results go
---@field to_subject? string their subject
---@field ids? string what the ids of the messages begin with
---@field letters { storage?: string, replicas?: integer } settings of the stream of dead letters, if it does not exist
---yet

---@class runnel.nats.Keeper: runnel.queue.Keeper, runnel.nats.KeeperOptions
---@field private firsts runnel.Firsts
---@field private reader runnel.nats.Reader
local Keeper = {}
Keeper.__index = Keeper

function Keeper:open(taker)
  self.firsts = firsts.new(self.info.delivered)
  local of, err = reader.open({
    conn = self.conn, consumer = self.consumer, what = self.what, batch = taker.n, is_worker = true,
    acks = "explicit", encoding = self.encoding, decode = self.decode, room = taker.room, answered = taker.answered,
    take = function(message)
      message.again = self.firsts:look(message.sequence, message.order)
      if message.deliveries > 1 then message.again = "again" end
      taker.take(message)
    end,
    failing = taker.silent,
    renewed = function(info) self.firsts:begin(info.delivered) end,
    ended = function(reason) taker.over(reason, self.conn.end_reason ~= nil) end,
  }, self.info)
  if not of then return nil, err end
  self.reader = of
  return true
end

function Keeper:fetch() self.reader:ask() end

function Keeper:close() self.reader:close() end

function Keeper:join(held, message) return held:delivered_again(message) end -- luacheck: no self

function Keeper:id(message) return self.ids .. message.sequence end

-- ---- answers ----

-- Storing a result may succeed later if the stream is full, or has not answered. (The results are stored one by one. A
-- crash between two is harmless: because of their ids no result is stored twice.)
function Keeper:done(message, results)
  for i = results and results.stored or 1, results and #results or 0 do
    local result = results[i]
    local ok, err, code = self.sink:put(result.value, { id = result.id, subject = self.to_subject })
    if not ok then return nil, err, code == jetstream.FULL or code == jetstream.UNKNOWN end
    results.stored, results.duplicates = i + 1, (results.duplicates or 0) + (code and 1 or 0)
  end
  answer(message, "+ACK")
  return true, results and results.duplicates or 0
end

function Keeper:back(message, ms) message:nak(ms) end -- luacheck: no self

function Keeper:drop(message) answer(message, "+TERM") end -- luacheck: no self

function Keeper:extend(message) self.reader:extend(message) end

function Keeper:limit(message, ms, text, words, count)
  local subject, bytes
  if words then subject, bytes = words.subject, words.bytes
  else subject, bytes = self.starts_of:as_message(message, count) end
  if message.beat then self.conn.core:limit(message.beat, ms, text, subject, bytes) end
end

function Keeper:alive() self.conn.core:alive() end

-- ---- counts ----

function Keeper:starts(message) return self.starts_of:get(message) end

function Keeper:set_starts(message, count) return self.starts_of:put(message, count) end

function Keeper:note_starts(message, count) self.conn.core:publish(self.starts_of:as_message(message, count)) end

function Keeper:forget_starts(message) self.starts_of:forget(message) end

-- ---- dead letters and operators ----

function Keeper:bury(letter)
  letter.worker, letter.from, letter.encoding = lib.label(), self.from, letter.encoding or self.encoding
  return dead.store(self.conn, letter, self.letters)
end

function Keeper:watch(worker, drain_on_term)
  local conn = self.conn
  draining.add(conn, worker, drain_on_term)
  who.add(conn, {
    queue = self.queue, stream = self.consumer.stream, consumer = self.consumer.name,
    report = function() return worker:report() end,
    pause = function(is_paused) worker:pause(is_paused) end,
  }, worker:done())
end

local keeper = {}

---@param opts runnel.nats.KeeperOptions
---@return runnel.nats.Keeper
function keeper.new(opts) return setmetatable(opts, Keeper) end

return keeper
