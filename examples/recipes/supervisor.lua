-- Keeps commands running: starts one again that has ended, soon at first, then after longer and longer pauses. SIGINT
-- or SIGTERM stops all of them. Needs luv.
--
--     runnel examples/recipes/supervisor.lua "python3 -m http.server 8001" "sleep 5"

local rn = require "runnel"
local uv = require "runnel.uv"

local FIRST, LONGEST = 100, 30000 -- pauses in ms
local WELL = 10000 -- a command that ran for so long is well: its next pause is the first one

local function keep(command)
  local pause = FIRST
  while true do
    local began = rn.now()
    local result, err = uv.run { "sh", "-c", command, stdout = 1, stderr = 2, detached = true, grace = 2000 }
    io.stderr:write(("%s: %s\n"):format(command, result and "ended with status " .. result.code or err))
    if rn.now() - began > WELL then pause = FIRST end
    rn.sleep(pause)
    pause = math.min(2 * pause, LONGEST)
  end
end

assert(arg[1], "usage: supervisor.lua COMMAND ...")
local signals = uv.signal("int", "term")
rn.scope(function(s)
  for _, command in ipairs(arg) do s:go(keep, command) end
  io.stderr:write(("stopping: %s\n"):format(signals:take()))
  s:cancel() -- stops the commands, and waits until they have ended
end)
