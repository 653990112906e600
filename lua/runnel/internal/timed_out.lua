---The error of what has exceeded the limit that an option sets, such as `timeout`. rn.is_timeout recognizes it.

local core = require "runnel.core"
local class = require "runnel.internal.class"
local decimal = require "runnel.internal.decimal"
local sign = require "runnel.internal.sign"

---@class runnel.timed_out
local timed_out = {}

---The error. tostring and `..` use its message, and it has the methods of strings, since other errors of the same
---functions are strings.
---@class runnel.TimedOut: string
---@field code "timeout"
---@field message string what had not ended, and after how long
local TimedOut = { code = "timeout", __name = "timeout error" }

for name, method in pairs(string) do
  TimedOut[name] = function(self, ...) return method(tostring(self), ...) end
end

function TimedOut:__tostring() return self.message end

function TimedOut.__concat(a, b) return tostring(a) .. tostring(b) end

---Makes a timeout error.
---@param message string
---@return runnel.TimedOut
function timed_out.new(message) return setmetatable({ message = message }, TimedOut) end

---The results of a `drain` whose time was up.
---@param what string of what it is the drain, as in "the store"
---@param ms number
---@return false
---@return runnel.TimedOut
function timed_out.of_drain(what, ms)
  return false, timed_out.new(("%s was not drained within %s ms"):format(what, decimal.text(ms)))
end

---Whether an error says that something has exceeded its limit of time.
---@param err any an error that was raised or returned, or with which a channel closed
---@return boolean
function timed_out.is_timeout(err)
  sign.dot(err, "rn", "is_timeout")
  return getmetatable(err) == TimedOut
end

---A timeout error as a table without a metatable, which can be sent to another process.
---@param err any
---@return { code: "timeout", message: string }? plain nil: it is none
function timed_out.plain(err)
  return timed_out.is_timeout(err) and { code = TimedOut.code, message = err.message } or nil
end

---The timeout error of which such a table was made; another value as it is.
---@param value any
---@return any
function timed_out.of_plain(value)
  local is_plain = type(value) == "table" and value.code == TimedOut.code and type(value.message) == "string"
  return is_plain and timed_out.new(value.message) or value
end

---The same kind of error as another one, with a text that says more.
---@param err any
---@param text string
---@return any
function timed_out.with_text(err, text) return timed_out.is_timeout(err) and timed_out.new(text) or text end

---Raises an error at the program's line that led here.
---@param err any a text, or a timeout error
function timed_out.raise(err)
  if not timed_out.is_timeout(err) then core.internal.raise(err) end
  local _, text = pcall(core.internal.raise, err.message)
  error(timed_out.new(text), 0)
end

class.finish(TimedOut)

return timed_out
