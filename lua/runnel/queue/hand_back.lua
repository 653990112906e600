---nats.hand_back: lets the function of a worker or a stage give a message back for another process.

local check = require "runnel.internal.check"

local hand_back = {}

---The error that nats.hand_back raises.
---@class runnel.HandedBack
---@field message? string
---@field after? number ms
local HandedBack = { __name = "handed back" }
HandedBack.__index = HandedBack

local DEFAULT <const> = "this process cannot do it"

function HandedBack:__tostring() return self.message or DEFAULT end

local OPTIONS <const> = { after = check.kinds.ms(0) }

---Ends the current call of a worker's (conn:serve) or a stage's (conn:stage) function, and gives the job or message
---back to the server, which delivers it again 5 s later, or `after` ms, perhaps to another process. This counts
---neither as a failure nor as a start. Use it for jobs that this process cannot do, for example because it runs an
---older version of the program; or, with `after`, for what cannot be done yet. It does not return: it raises an error
---that the worker or stage recognizes.
---@param why? string is reported, once for each text. With `after` and without a text, nothing is reported
---@param opts? { after?: number }
function hand_back.hand_back(why, opts)
  if why ~= nil then check.string(why, "a string", "hand_back: why") end
  check.options(opts, OPTIONS, "hand_back")
  local after = opts and opts.after
  error(setmetatable({ message = why or not after and DEFAULT or nil, after = after }, HandedBack), 0)
end

---Whether an error comes from nats.hand_back; the reason, if it is to be reported; and after how many ms the message is
---to come again.
---@param err any
---@return boolean is_handed_back, string? why, number? after
function hand_back.read(err)
  if getmetatable(err) ~= HandedBack then return false end
  return true, err.message, err.after
end

return hand_back
