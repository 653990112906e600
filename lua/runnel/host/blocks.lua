---What the host tells of go blocks: those that a script leaves parked, and all of them where Ctrl-C has ended it.

local core = require "runnel.core"

-- How many are listed: where somebody has asked, and where nobody has.
local LISTED, LISTED_UNASKED = 16, 5

---@class runnel.host.blocks
local blocks = {}

---What a go block waits for and where, as in "take on chan: jobs at worker.lua:7".
---@param entry table of rn.ps()
---@return string
function blocks.doing(entry)
  local words = { entry.operation or entry.state }
  if entry.channel then
    local stats = entry.channel:stats()
    words[#words + 1] = "on chan: " .. (stats.name or "#" .. stats.id)
  end
  if entry.where then words[#words + 1] = "at " .. entry.where end
  return table.concat(words, " ")
end

-- The list of some go blocks, a line each.
local function listed(entries, most)
  local lines = {}
  for i = 1, math.min(#entries, most) do
    local entry = entries[i]
    lines[i] = ("\n  #%d (%s): %s"):format(entry.id, entry.name, blocks.doing(entry))
  end
  if #entries > most then lines[#lines + 1] = ("\n  and %d more"):format(#entries - most) end
  return table.concat(lines)
end

---All go blocks, as what follows a traceback.
---@return string text
function blocks.all()
  local entries = core.ps()
  return #entries > 0 and "\ngo blocks:" .. listed(entries, LISTED) or ""
end

---Runs go blocks until nothing is ready, timed or alive, and reports the errors that nobody has taken.
---@return string? text about those that are parked then
function blocks.drain()
  core.run()
  core.tell_unheard()
  core.run() -- what the error handler has started
  local entries = core.ps()
  if #entries == 0 then return nil end
  return ("the script has ended, and %s parked for ever:%s"):format(
    #entries == 1 and "a go block is" or #entries .. " go blocks are", listed(entries, LISTED_UNASKED))
end

return blocks
