---What errors of SQLite mean for streams.

local problems = {}

-- What the triggers (runnel.store.schema) raise when a stream is full.
local FULL <const> = { ["maximum messages exceeded"] = true, ["maximum bytes exceeded"] = true }
local TOO_LARGE <const> = "message size exceeds maximum allowed"

---@param stream string
---@return string
function problems.no_stream(stream) return ("there is no stream %q (store:stream makes one)"):format(stream) end

---The reason why a message was not stored, for a program; and whether it may be stored later.
---@param problem string the error of the statement
---@param stream string
---@return string reason, boolean passes
function problems.of_put(problem, stream)
  for text in pairs(FULL) do
    if problem:find(text, 1, true) then return text, true end
  end
  if problem:find(TOO_LARGE, 1, true) then return TOO_LARGE, false end
  if problem:find("NOT NULL constraint failed: runnel_message.seq", 1, true) then
    return problems.no_stream(stream), true
  end
  return problem, true
end

return problems
