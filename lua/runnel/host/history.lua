---The history of the prompt: the chunks of all sessions, in $XDG_STATE_HOME/runnel_history or ~/.runnel_history. Each
---chunk is written at once, so that any end of the session keeps it, and several sessions can append at the same time.
---A chunk is one line of the file; its newlines are written as \v.

local terminal = require "runnel.host.terminal"

local KEPT = 1000
local LONGEST = 65536 -- bytes; longer chunks are not kept

---@class runnel.host.history
local history = {}

local path

-- The last KEPT lines of the file, and how many lines it has.
local function last_lines(file)
  local lines = {}
  for line in file:lines() do lines[#lines + 1] = line end
  return table.move(lines, math.max(1, #lines - KEPT + 1), #lines, 1, {}), #lines
end

---@return string[] chunks the oldest first
function history.load()
  local home, state = os.getenv "HOME", os.getenv "XDG_STATE_HOME"
  path = state and state ~= "" and state .. "/runnel_history" or home and home .. "/.runnel_history"
  local file = path and io.open(path, "r")
  if not file then return {} end
  local lines, n = last_lines(file)
  file:close()
  if n > 2 * KEPT then
    -- Writes a new file and renames it, so that the history is never incomplete.
    local new = path .. ".new"
    os.remove(new)
    if terminal.append(new, table.concat(lines, "\n") .. "\n") then os.rename(new, path) end
  end
  for i, line in ipairs(lines) do lines[i] = line:gsub("\v", "\n") end
  return lines
end

---Keeps a chunk, for the editor and for later sessions.
---@param chunk string
function history.add(chunk)
  if not chunk:find "%S" or #chunk > LONGEST then return end
  terminal.remember(chunk)
  if path then terminal.append(path, chunk:gsub("\n", "\v") .. "\n") end
end

return history
