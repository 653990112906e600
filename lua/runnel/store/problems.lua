---What errors of SQLite mean for a store; and how settings differ.

local error_text = require("runnel.core").internal.error_text

local problems = {}

-- What the triggers (runnel.store.schema) raise when a stream is full.
local FULL <const> = { ["maximum messages exceeded"] = true, ["maximum bytes exceeded"] = true }

---The same for a value that is too large.
problems.TOO_LARGE = "message size exceeds maximum allowed"

-- What SQLite says, behind the path, while a file cannot be written; the first is of a lock (sqlite_ask.lua).
local FOR_NOW <const> = { "another connection has held a lock", "database or disk is full", "disk I/O error" }

---Whether an error, which may be a program's, says that the file of a store cannot be written for now.
---@param err any
---@param path string of the store
---@param only_locked? boolean not if the disk has no room
---@return boolean
function problems.is_for_now(err, path, only_locked)
  local text = error_text(err)
  for i = 1, only_locked and 1 or #FOR_NOW do
    if text:find(("%s: %s"):format(path, FOR_NOW[i]), 1, true) then return true end
  end
  return false
end

---@param stream string
---@return string
function problems.no_stream(stream) return ("there is no stream %q (store:stream makes one)"):format(stream) end

---Whether a statement that has failed may succeed later. One whose values the tables refuse never does.
---@param problem any its error
---@return boolean
function problems.may_pass(problem) return not tostring(problem):find("constraint failed", 1, true) end

---The reason why a message was not stored, for a program; and whether it may be stored later.
---@param problem string the error of the statement
---@param stream string
---@return string reason, boolean passes
function problems.of_put(problem, stream)
  for text in pairs(FULL) do
    if problem:find(text, 1, true) then return text, true end
  end
  if problem:find(problems.TOO_LARGE, 1, true) then return problems.TOO_LARGE, false end
  if problem:find("NOT NULL constraint failed: runnel_message.seq", 1, true) then
    return problems.no_stream(stream), true
  end
  return problem, problems.may_pass(problem)
end

---How the settings of something that exists differ from those that a program gives; nil if they are the same.
---@param row table<string, any> of its table
---@param wanted table<string, any>
---@param columns? table<string, string> the columns of the settings, if their names differ
---@return string?
function problems.difference(row, wanted, columns)
  for option, value in pairs(wanted) do
    local there = row[columns and columns[option] or option]
    if there ~= value then
      return ("%s is %s, not %s"):format(option, tostring(there == nil and "not set" or there), tostring(value))
    end
  end
end

return problems
