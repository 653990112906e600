---The lines that were entered at the prompt, from one session to the next: in $XDG_STATE_HOME/runnel_history, or in
---~/.runnel_history. Each is written at once, so that it is there whatever ends the session, and sessions at the same
---time all add to it.

local terminal = require "runnel.host.terminal"

local KEPT = 1000

---@class runnel.host.history
local history = {}

local path

-- The last lines of the file, without the ones that were there before all of them.
local function last_lines(file)
  local lines = {}
  for line in file:lines() do lines[#lines + 1] = line end
  return table.move(lines, math.max(1, #lines - KEPT + 1), #lines, 1, {}), #lines
end

---@return string[] lines the oldest first
function history.load()
  local home, state = os.getenv "HOME", os.getenv "XDG_STATE_HOME"
  path = state and state ~= "" and state .. "/runnel_history" or home and home .. "/.runnel_history"
  local file = path and io.open(path, "r")
  if not file then return {} end
  local lines, n = last_lines(file)
  file:close()
  if n > 2 * KEPT then
    -- Made anew under another name, so that it is whole whatever happens.
    local new = path .. ".new"
    os.remove(new)
    if terminal.append(new, table.concat(lines, "\n") .. "\n") then os.rename(new, path) end
  end
  return lines
end

---@param line string
function history.add(line)
  if path and line:find "%S" then terminal.append(path, line .. "\n") end
end

return history
