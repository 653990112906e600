---The history of the prompt: the chunks of all sessions, in $XDG_STATE_HOME/runnel_history or ~/.runnel_history. Each
---chunk is written at once, so that any end of the session keeps it, and several sessions can append at the same time.
---A chunk is one line of the file; its newlines are written as \v.

local io, os, table = io, os, table -- the program may remove them
local terminal = require "runnel.host.terminal"

local KEPT = 1000
local LONGEST = 65536 -- bytes; longer chunks are not kept
local ABSENT <const> = 2 -- ENOENT

---@class runnel.host.history
local history = {}

local path, say

-- What went wrong, which is said once.
local function complain(problem)
  if say then say("runnel: the history is not kept: " .. problem) end
  say = nil
end

-- The last KEPT lines of a file, and how many lines it has; or nil and an error.
local function last_lines(file)
  local lines = {}
  local line, err = file:read "l"
  while line do
    lines[#lines + 1] = line
    line, err = file:read "l"
  end
  if err then return nil, err end
  return table.move(lines, math.max(1, #lines - KEPT + 1), #lines, 1, {}), #lines
end

-- Writes a new file and renames it, so that the history is never incomplete. `file` is the old one, which was read to
-- its end: what another prompt has appended to it since then is appended to the new one.
local function shorten(file, lines)
  local target = terminal.real_path(path) -- not a symbolic link, which would be replaced
  if not target then return end
  local new = target .. ".new"
  os.remove(new)
  if not (terminal.append(new, table.concat(lines, "\n") .. "\n") and os.rename(new, target)) then
    os.remove(new)
    return
  end
  local late = file:read "a"
  if late and late ~= "" then terminal.append(target, late) end
end

---@param complain_once fun(text: string) is called when the history cannot be read or written: once
---@return string[] chunks the oldest first
function history.load(complain_once)
  local home, state = os.getenv "HOME", os.getenv "XDG_STATE_HOME"
  path = state and state ~= "" and state .. "/runnel_history" or home and home .. "/.runnel_history"
  say = complain_once
  if not path then return {} end
  local file, err, code = io.open(path, "r")
  if not file then
    if code == ABSENT then return {} end
    complain(err)
    path = nil
    return {}
  end
  local lines, n = last_lines(file)
  if not lines then
    complain(path .. ": " .. n)
    lines, path = {}, nil
  elseif n > 2 * KEPT then
    shorten(file, lines)
  end
  file:close()
  for i, line in ipairs(lines) do lines[i] = line:gsub("\v", "\n") end
  return lines
end

-- Whether the last line of the file is incomplete: a prompt was killed, or the disk was full, while it was written.
local function is_torn()
  local file <close> = io.open(path, "r")
  if not file or not file:seek("end", -1) then return false end
  local byte = file:read(1)
  return byte ~= nil and byte ~= "\n"
end

---Keeps a chunk, for the editor and for later sessions.
---@param chunk string
function history.add(chunk)
  if not chunk:find "%S" or #chunk > LONGEST then return end
  terminal.remember(chunk)
  if not path then return end
  local written, err = terminal.append(path, (is_torn() and "\n" or "") .. chunk:gsub("\n", "\v") .. "\n")
  if not written then complain(err) end
end

return history
