---A message of a stream in a store, as a program sees it, with the methods of a message of runnel.nats.

local check = require "runnel.internal.check"
local internal = require("runnel.core").internal
local json = require "runnel.json"
local sign = require "runnel.internal.sign"
local values = require "runnel.store.values"

local message = {}

---Whose message it is: a reader (runnel.store.reader), or a source without a name.
---@class runnel.store.MessageOwner
---@field consumer? runnel.store.Consumer nil: messages are not acknowledged
---@field acks? "explicit"|"taken"
---@field answered? fun(message: runnel.store.Message) called after each answer

---@class runnel.store.Message
---@field value any
---@field data string the value as it is in the file
---@field subject string
---@field sequence integer its number in the stream
---@field time number when it was stored, in ms since 1970
---@field deliveries integer how often it was delivered, this time included
---@field remaining integer how many messages the stream has after it
---@field headers? table<string, string>
---@field priority integer
---@field claim? integer with which this process has got it; nil without a consumer
---@field again "first"|"again"
---@field is_due boolean true: it comes only when its time has come
---@field leaves? boolean this process lets it wait in the file, so that any process may get it
---@field package problem? string what is wrong with it
---@field package of runnel.store.MessageOwner
---@field package form string
local Message = { __name = "stream message", __sign = "m" }

function Message:__index(key)
  local method = Message[key]
  if method ~= nil then return method end
  if key ~= "value" then return nil end
  if self.problem then internal.raise(self.problem) end
  -- Each reading of a table could change it, so it is decoded once; decoding may raise.
  local value = values.of(values.entry(self.form, self.data))
  rawset(self, "value", value)
  return value
end

-- The headers in a row; or nil and what is wrong with them.
local function headers_of(text)
  local headers = type(text) == "string" and json.decode(text)
  if type(headers) == "table" and getmetatable(headers) == nil then return headers end
  return nil, "a message of the store is damaged: its headers are no JSON object"
end

---Makes one of a row, in which another program may have written anything. What is wrong with it is an error where its
---value is read.
---@param row table
---@param of runnel.store.MessageOwner
---@return runnel.store.Message
function message.new(row, of)
  local headers, problem
  if row.headers ~= nil then headers, problem = headers_of(row.headers) end
  return setmetatable({
    of = of, sequence = row.seq, subject = row.subject, form = row.form, data = row.value, time = row.made,
    headers = headers, problem = problem, deliveries = row.deliveries, priority = row.priority, is_due = true,
    remaining = math.max(0, row.last - row.seq), again = row.deliveries == 1 and "first" or "again",
    claim = row.claim,
  }, Message)
end

---Notes that a message has been answered. Returns false if it was already, or needs no answer.
---@param self runnel.store.Message
---@return boolean
function message.answer(self)
  local of = self.of
  if self.is_answered or not of.consumer then return false end
  self.is_answered = true
  if of.answered then of.answered(self) end
  return true
end
local answer = message.answer

local Work = { __close = function(self)
  local of = self.message
  of.is_in_work = nil
  if of.give_back then of.give_back() end
end }

---The call of a message begins; it ends when the result, a to-be-closed variable, is closed. If it is cancelled, the
---message is given back only then, so that two calls of a key, or of a run, never run at the same time.
---@param self runnel.store.Message
---@return any work
function message.begin(self)
  self.is_in_work = true
  return setmetatable({ message = self }, Work)
end

---Calls f when the call that has begun has ended; at once, if there is none.
---@param self runnel.store.Message
---@param f fun()
function message.after(self, f)
  if self.is_in_work then self.give_back = f else f() end
end

local function is_explicit(self) return self.of.acks == "explicit" end

---Acknowledges it: no redelivery. False if it was already answered, or the source does not acknowledge.
---@return boolean
function Message:ack()
  sign.own(self, "m", "ack")
  if not is_explicit(self) or not answer(self) then return false end
  self.of.consumer:acknowledge(self)
  return true
end

---Gives it up: no redelivery, although it was not processed.
---@return boolean
function Message:term()
  sign.own(self, "m", "term")
  return self:ack()
end

---Gives it back for redelivery: at once, or after `ms`.
---@param ms? number
---@return boolean
function Message:nak(ms)
  sign.own(self, "m", "nak")
  if ms ~= nil then check.ms(ms, 1, "nak: ms") end
  if not is_explicit(self) or not answer(self) then return false end
  self.of.consumer:back(self, ms)
  return true
end

---Reports progress: ack_wait starts anew.
---@return boolean
function Message:progress()
  sign.own(self, "m", "progress")
  if self.is_answered or not is_explicit(self) then return false end
  self.of.consumer:lease(self)
  return true
end

return message
