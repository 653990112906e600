---The tracebacks of errors that have come from other threads. The error itself is sent as it is; its traceback is kept
---here until the error is reported, for example because the go block that raises it again dies of it.

local core = require "runnel.core"

local far = {}

-- How many tracebacks are kept at least: an error that is caught is never reported.
local MOST = 64

-- By the error. When there are MOST recent ones, they become the older ones.
local recent, older, count = {}, {}, 0

---Keeps the traceback of an error that is about to be raised here.
---@param err any
---@param traceback string?
function far.keep(err, traceback)
  if traceback == nil or err ~= err then return end
  if count == MOST then recent, older, count = {}, recent, 0 end
  recent[err], count = traceback, count + 1
end

---Adds the traceback that was kept of an error to the one that it has here, and forgets it.
---@param err any
---@param traceback string?
---@return string? traceback
function far.add(err, traceback)
  local kept = err ~= nil and (recent[err] or older[err])
  if not kept then return traceback end
  recent[err], older[err] = nil, nil
  return traceback and traceback .. "\n" .. kept or kept
end

core.internal.elsewhere(far.add)

return far
