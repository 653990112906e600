---How often a message was started, as JSON in a table that other programs may write to.

local json = require "runnel.json"
local short = require "runnel.internal.short"
local timed_out = require "runnel.internal.timed_out"

local count = {}

---@param of runnel.queue.Count
---@return string json
function count.text(of)
  local err = of.error
  if type(err) == "table" then err.message = short.utf8(err.message) elseif err then err = short.utf8(err) end
  return assert(json.encode { starts = of.starts, raises = of.raises, error = err })
end

---A value as a count.
---@param value any
---@return runnel.queue.Count? count nil if it is none
function count.valid(value)
  if type(value) ~= "table" then return nil end
  local starts, raises = math.tointeger(value.starts), math.tointeger(value.raises)
  if not starts or not raises or raises < 0 or starts < raises then return nil end
  local err = value.error
  if type(err) ~= "string" and not timed_out.is_timeout(timed_out.of_plain(err)) then err = nil end
  return { starts = starts, raises = raises, error = err }
end

---@param text any
---@return runnel.queue.Count? count nil if it is none
function count.read(text)
  return count.valid(type(text) == "string" and json.decode(text) or nil)
end

return count
