---How often a message was started, and the errors of its tries, as JSON in a table that other programs may write to.

local clock = require "runnel.queue.clock"
local json = require "runnel.json"
local short = require "runnel.internal.short"
local timed_out = require "runnel.internal.timed_out"

local count = {}

---The error of a try.
---@class runnel.queue.TryError
---@field start integer which start it was
---@field time number when it failed, in ms since 1970
---@field error string its first bytes

-- How many errors of tries are kept, those of the last ones; and how many bytes of each.
local KEPT <const>, LONGEST <const> = 8, 200

---The errors of a count, and one more.
---@param of runnel.queue.Count
---@param text string
---@return runnel.queue.TryError[]
function count.with_error(of, text)
  local before = of.errors or {}
  local errors = table.move(before, math.max(1, #before - KEPT + 2), #before, 1, {})
  text = short.cut(short.utf8(text), LONGEST)
  errors[#errors + 1] = { start = of.starts, time = clock.time() // 1 | 0, error = text }
  return errors
end

---@param of runnel.queue.Count
---@return string json
function count.text(of)
  local err = of.error
  if type(err) == "table" then err.message = short.utf8(err.message) elseif err then err = short.utf8(err) end
  return assert(json.encode { starts = of.starts, raises = of.raises, error = err, errors = of.errors })
end

---A value as errors of tries.
---@param value any
---@return runnel.queue.TryError[]? errors nil if there are none
function count.errors(value)
  local errors = {}
  for i = 1, type(value) == "table" and math.min(#value, KEPT) or 0 do
    local one = value[i]
    local start, time = type(one) == "table" and math.tointeger(one.start), type(one) == "table" and tonumber(one.time)
    if not start or not time or type(one.error) ~= "string" then return nil end
    errors[i] = { start = start, time = time, error = one.error }
  end
  return errors[1] and errors or nil
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
  return { starts = starts, raises = raises, error = err, errors = count.errors(value.errors) }
end

---@param text any
---@return runnel.queue.Count? count nil if it is none
function count.read(text)
  return count.valid(type(text) == "string" and json.decode(text) or nil)
end

return count
