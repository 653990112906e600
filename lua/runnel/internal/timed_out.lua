---The error of a scope, or of a job of pmap, that has exceeded its timeout. rn.is_timeout recognizes it.

local sign = require "runnel.internal.sign"

---@class runnel.timed_out
local timed_out = {}

---The error. tostring and `..` use its message.
---@class runnel.TimedOut
---@field code "timeout"
---@field message string what had not ended, and after how long
local TimedOut = { code = "timeout", __name = "timeout" }
TimedOut.__index = TimedOut

function TimedOut:__tostring() return self.message end

function TimedOut.__concat(a, b) return tostring(a) .. tostring(b) end

---Makes a timeout error.
---@param message string
---@return runnel.TimedOut
function timed_out.new(message) return setmetatable({ message = message }, TimedOut) end

---Whether an error says that a scope, or a job of a pmap, has exceeded its `timeout`.
---@param err any an error that was raised, or that a channel closed with
---@return boolean
function timed_out.is_timeout(err)
  sign.dot(err, "rn", "is_timeout")
  return getmetatable(err) == TimedOut
end

return timed_out
