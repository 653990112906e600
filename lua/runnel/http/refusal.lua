---Why a request is refused: the status of the response, and its text. A function that reads a body gets it as an error;
---the function that has set the limit (http.within, http.compress) catches it, and answers with it.

local guard = require "runnel.internal.guard"

local refusals = {}

---@class runnel.http.Refusal
---@field status integer
---@field text string
local Refusal = { __name = "refused http request" }

function Refusal:__tostring() return self.text end

---@param status integer
---@param format string
---@param ... any
---@return runnel.http.Refusal
function refusals.new(status, format, ...)
  return setmetatable({ status = status, text = format:format(...) }, Refusal)
end

---@param err any
---@return boolean
function refusals.is(err) return getmetatable(err) == Refusal end

local function answered(ok, ...)
  if ok then return ... end
  local err, trace = ...
  if not refusals.is(err) then guard.raise(err, trace) end
  return err.status, nil, err.text .. "\n"
end

---Calls the program's function for a request. If it raises a refusal, returns the response that says so.
---@param f fun(req: runnel.http.Request): integer, table?, any
---@param req runnel.http.Request
---@return integer status
---@return table? headers
---@return any body
function refusals.call(f, req) return answered(guard.try(f, req)) end

return refusals
