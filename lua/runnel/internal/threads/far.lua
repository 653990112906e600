---The tracebacks of errors from other threads. An error crosses threads without its traceback; this module keeps the
---traceback by the error until a go block raises the error again and dies, or the error is reported otherwise.

local core = require "runnel.core"

local far = {}

-- The number of recent tracebacks that are kept at least. A program that catches its errors never claims theirs.
local MOST = 64

-- error -> traceback. A full `recent` becomes `older`, and the former `older` is dropped.
local recent, older, count = {}, {}, 0

---Keeps the traceback of an error that is about to be raised in this thread.
---@param err any
---@param traceback string?
function far.keep(err, traceback)
  if traceback == nil or err ~= err then return end
  if count == MOST then recent, older, count = {}, recent, 0 end
  recent[err], count = traceback, count + 1
end

---Appends the kept traceback of an error to its local traceback, and forgets it.
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
