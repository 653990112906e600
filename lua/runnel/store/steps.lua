---Which call of a `once` function each go block is in. The calls within it are its steps: their keys belong to it, and
---their order must stay the same.

local core = require "runnel.core"
local internal = core.internal
local context = internal.trace.context

local steps = {}

---The statement that forgets the steps of a scope.
steps.FORGET = "delete from runnel_once where scope = ?1 or (scope > ?1 || ' >' and scope < ?1 || ' ?')"

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
