---Which call of a `once` function each go block is in. The calls within it are its steps: their keys belong to it, and
---their order must stay the same.

local core = require "runnel.core"
local internal = core.internal
local context = internal.trace.context

local steps = {}

---The statement that forgets the steps of a scope; and one that does so only if the statement before has changed a row.
steps.FORGET = "delete from runnel_once where (scope = ?1 or (scope > ?1 || ' >' and scope < ?1 || ' ?'))"
steps.FORGET_IF_CHANGED = steps.FORGET .. " and changes() > 0"

-- ---- of the messages of stages ----

-- In a scope: the stream, the consumer, and when the stream was made, since one that is made again counts from 1. Names
-- of streams and consumers have no slashes and spaces.
local STAGE <const> = "stage %s/%s %s"

---The scope of the steps of a message.
---@param consumer runnel.store.Consumer
---@param seq integer of the message
---@return string
function steps.of_message(consumer, seq)
  return steps.scope("", STAGE:format(consumer.stream, consumer.name, consumer.made), ("%d"):format(seq))
end

-- Forgets the steps of the messages that the consumer ?3 of the stream ?2 does not have any more: ?1 is the beginning
-- of its scopes, ?4 that of the present stream's.
local FORGET_LOST <const> = [[
delete from runnel_once where scope >= ?1 || ' ' and scope < ?1 || '!' and not (substr(scope, 1, length(?4)) = ?4
  and exists (select 1 from runnel_delivery where stream = ?2 and consumer = ?3
    and seq = cast(substr(scope, length(?4) + 1) as integer)))]]

---The statement that forgets the steps of messages which were removed while they waited for a further try; with its
---values.
---@param consumer { stream: string, name: string, made: integer } with when the stream was made
---@return string sql, any ... values
function steps.forget_lost(consumer)
  local own = STAGE:format(consumer.stream, consumer.name, consumer.made)
  return FORGET_LOST, own:match "^(.*) ", consumer.stream, consumer.name, own .. "["
end

---The statement that forgets all steps of the stages of the stream ?1; and that of its consumer ?2.
steps.FORGET_STREAM = "delete from runnel_once where scope >= 'stage ' || ?1 || '/' and scope < 'stage ' || ?1 || '0'"
steps.FORGET_CONSUMER = "delete from runnel_once where scope >= 'stage ' || ?1 || '/' || ?2 || ' ' "
  .. "and scope < 'stage ' || ?1 || '/' || ?2 || '!'"

local OLD <const> = "update or replace runnel_once set scope = ?2 || substr(scope, length(?1) + 1) "
  .. "where (scope = ?1 or (scope > ?1 || ' >' and scope < ?1 || ' ?')) and made >= ?3"

---The statement that gives a message the steps that a program of an older version has stored, whose scope had only the
---name of the stage; with its values. Not what is older than the message: it was of another one.
---@param consumer runnel.store.Consumer
---@param message runnel.store.Message
---@return string sql, any ... values
function steps.of_older(consumer, message)
  local old = steps.scope("", "stage " .. consumer.name, ("%d"):format(message.sequence))
  return OLD, old, steps.of_message(consumer, message.sequence), message.time
end

-- ---- of calls ----

-- The key for code outside any go block.
local MAIN = {}

---A running call.
---@class runnel.store.Call
---@field scope string its name and key, and those of its outer calls
---@field number integer of the last step
---@field before runnel.store.Call? the outer call of the go block
---@field block any

-- go block -> the call that it is in
local calls = setmetatable({}, { __mode = "k" })

local Call = {}
Call.__index = Call

function Call:__close() calls[self.block] = self.before end

---The running go block, or a value that stands for none.
---@param what? string what would have to wait, for an error
function steps.block(what) return internal.self(what or "once") or MAIN end

---The call that the running go block is in, or else the run whose function has started it; or nil.
---@return runnel.store.Call|runnel.store.RunSteps|nil
function steps.current()
  local call = next(calls) ~= nil and calls[steps.block()]
  if call then return call end
  local inherited = context()
  return inherited and inherited.run
end

---Enters a call: the running go block is in it until the result, a to-be-closed variable, is closed.
---@param scope string
---@return runnel.store.Call
function steps.enter(scope)
  local block = steps.block()
  local call = setmetatable({ scope = scope, number = 0, before = calls[block], block = block }, Call)
  calls[block] = call
  return call
end

---The number of the next step, and the scope of its row.
---@return integer number, string scope
function Call:next()
  self.number = self.number + 1
  return self.number, self.scope
end

---A key as text, for scopes and messages.
---@param key any
---@return string
function steps.shown(key) return type(key) == "string" and ("%q"):format(key) or tostring(key) end

---The scope of the steps of a call.
---@param outer string the scope that the call is in
---@param name string
---@param key string
---@return string
function steps.scope(outer, name, key)
  local own = ("%s[%s]"):format(name, key)
  return outer == "" and own or outer .. " > " .. own
end

return steps
