---Leaks: go blocks that the collector has taken while they waited, because nothing could wake them any more.

local collectgarbage = collectgarbage
local core = require "runnel.core"
local check = require "runnel.internal.check"

local leaks = {}

-- How many collections find all go blocks that nothing can wake: the first ones only make waiting go blocks weak roots.
local COLLECTIONS = 4

---Go blocks that one line has started, and that were collected while they waited in one line.
---@class runnel.Leak
---@field count integer how many
---@field started string the line where their function begins, as in "app.lua:3"; of go blocks that the library has
---started the call, as in "pipe at app.lua:7"
---@field where string the line where they waited
---@field operation string what they waited in: "take", "put" or "alts"
---@field example string the first long wait there, as in "take on chan: jobs"

---The leaks so far: go blocks that waited on channels that nothing but waiting go blocks could reach, so that the
---collector has taken them. They are counted since the program has begun, the most frequent first.
---@param collect? boolean true: collects all garbage first; otherwise the latest leaks may not have been found yet
---@return runnel.Leak[]
function leaks.leaks(collect)
  check.boolean_or_nil(collect, "leaks: collect")
  for _ = 1, collect and COLLECTIONS or 0 do collectgarbage() end
  local list = core.internal.leaks()
  table.sort(list, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    if a.started ~= b.started then return a.started < b.started end
    return a.where .. a.operation < b.where .. b.operation
  end)
  return list
end

return leaks
