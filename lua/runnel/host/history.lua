---The chunks that were entered at the prompt, from one session to the next: in $XDG_STATE_HOME/runnel_history, or in
---~/.runnel_history. Each is written at once, so that it is there whatever ends the session, and sessions at the same
---time all add to it. A chunk is one line of the file: where it has several, \v is between them.

local terminal = require "runnel.host.terminal"

local KEPT = 1000
local LONGEST = 65536 -- bytes of a chunk that is kept

---@class runnel.host.history
local history = {}

local path

-- The last lines of the file, without the ones that were there before all of them.
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
    -- Made anew under another name, so that it is whole whatever happens.
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
