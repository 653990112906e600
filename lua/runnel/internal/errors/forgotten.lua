---Says on stderr that a program ends without rn.run(), although it has a server or go blocks that have never run.
---csrc/lua/state/forgotten.c calls it as the state closes.

local debug, io = debug, io
local living = require "runnel.internal.living"
local short = require "runnel.internal.short"

local LISTED = 3 -- places that the message names

-- A list without what it has twice.
local function unique(list)
  local seen, found = {}, {}
  for _, text in ipairs(list) do
    if not seen[text] then found[#found + 1], seen[text] = text, true end
  end
  return found
end

---@param places string[] where the functions were defined of go blocks that have never run
return function(places)
  -- An interpreter sets `arg`. The executable has run what was left.
  if type(arg) ~= "table" or not arg[0] or debug.getregistry()["runnel.host.sched"] then return end
  local what
  local _, open = next(living.servers or {})
  if open then
    what = ("its server %s is open"):format(open.url)
  elseif #places > 0 then
    what = ("%d go block%s never run (%s)"):format(#places, #places == 1 and " has" or "s have",
      short.list(unique(places), LISTED))
  else
    return
  end
  io.stderr:write("runnel: the program has ended, and ", what,
    ": a program that lua5.4 runs needs rn.run() as its last line\n")
end
