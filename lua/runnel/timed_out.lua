---The error of a scope, or of a job of pmap, that has exceeded its timeout. Programs can recognize it without reading
---its text.

---@class runnel.timed_out
local timed_out = {}

---An error of this kind. tostring and `..` use its message.
---@class runnel.TimedOut
---@field code "timeout"
---@field message string what had not ended, and after how long
local TimedOut = { code = "timeout", __name = "timeout" }
TimedOut.__index = TimedOut

function TimedOut:__tostring() return self.message end

function TimedOut.__concat(a, b) return tostring(a) .. tostring(b) end

---Makes such an error.
---@param message string
---@return runnel.TimedOut
function timed_out.new(message) return setmetatable({ message = message }, TimedOut) end

---Whether an error says that a scope, or a job of a pmap, has taken longer than its `timeout`.
---@param err any what was raised, or what came out of a channel beside nil
---@return boolean
function timed_out.is_timeout(err) return getmetatable(err) == TimedOut end

return timed_out
