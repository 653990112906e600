---nats.hand_back: lets the function of a worker or a stage give a message back for another process.

local check = require "runnel.internal.check"

local hand_back = {}

---The error that nats.hand_back raises.
---@class runnel.HandedBack
---@field message string
local HandedBack = { __name = "handed back" }
HandedBack.__index = HandedBack

function HandedBack:__tostring() return self.message end

---Ends the current call of a worker's (conn:serve) or a stage's (conn:stage) function, and gives the job or message
---back to the server, which delivers it again 5 s later, perhaps to another process. This counts neither as a failure
---nor as a start. Use it for jobs that this process cannot do, for example because it runs an older version of the
---program. It does not return: it raises an error that the worker or stage recognizes.
---@param why? string is reported, once for each text
function hand_back.hand_back(why)
  if why ~= nil then check.string(why, "a string", "hand_back: why") end
  error(setmetatable({ message = why or "this process cannot do it" }, HandedBack), 0)
end

---The reason, if an error comes from nats.hand_back.
---@param err any
---@return string?
function hand_back.reason(err) return getmetatable(err) == HandedBack and err.message or nil end

return hand_back
