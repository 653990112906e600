---The records of one state: a part of a trace. A state reads its own ring; a thread packs its records into a value and
---sends that to the state that writes the file.

local core = require "runnel.core"
local recorder = core.internal.trace

local parts = {}

---@class runnel.internal.trace_part
---@field name string of the state
---@field first integer the number of the oldest record
---@field last integer the number of the newest one
---@field overwritten integer how many older records there were
---@field now integer when it was recorded to, in ns
---@field read fun(n: integer): integer?, integer?, integer?, integer?, integer?, integer?, integer? a record
---@field label fun(label: integer): string
---@field channels table<integer, string> names of channels, by id
---@field unnamed table<integer, boolean> tracks without a given name
---@field shared table<integer, integer> ids of shared channels, by the id that a channel has in this state
---@field totals table<integer, integer[]> puts and takes so far of the channels that still exist, by id

-- Puts and takes of all existing channels.
local function totals()
  local all = {}
  for _, ch in ipairs(recorder.chans()) do
    local ok, stats = pcall(ch.stats, ch)
    if ok then all[stats.id] = { stats.put_total, stats.take_total } end
  end
  return all
end

-- The name of this state: its thread's or, in the main program, the script's.
local function name()
  if core.internal.thread_name then return core.internal.thread_name end
  return type(arg) == "table" and type(arg[0]) == "string" and arg[0] or "runnel"
end

---The records of this state.
---@param copied? boolean of the copy of the ring for an error, which is older than the channels are now
---@return runnel.internal.trace_part
function parts.own(copied)
  local first, next_one, overwritten, now = recorder.ring(copied)
  local channels, unnamed, shared = recorder.names()
  for id, is_unnamed in pairs(unnamed) do unnamed[id] = is_unnamed or nil end
  return { name = name(), first = first, last = next_one - 1, overwritten = overwritten, now = now,
    read = function(n) return recorder.read(n, copied) end, label = recorder.label,
    channels = channels, unnamed = unnamed, shared = shared, totals = copied and {} or totals() }
end

---The records as a value that can be sent to another state.
---@return table
function parts.pack()
  local part = parts.own()
  local bytes, first, count, last_id = recorder.bytes()
  part.bytes, part.first, part.last, part.last_id = bytes, first, first + count - 1, last_id
  local labels = { recorder.label(1), recorder.label(2) } -- the labels of the main program and of the driver
  for n = part.first, part.last do
    local label = select(7, recorder.read(n))
    if label and not labels[label] then labels[label] = recorder.label(label) end
  end
  part.labels, part.read, part.label = labels, nil, nil
  return part
end

---@param part table what parts.pack has returned
---@return runnel.internal.trace_part
function parts.unpack(part)
  function part.read(n) return recorder.read_bytes(part.bytes, n - part.first, part.last_id) end
  function part.label(label) return part.labels[label] or "?" end
  return part
end

return parts
