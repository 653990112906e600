-- Runs a command for every line of standard input, N at a time, with the line as the last argument. Needs luv.
--
--     lua5.4 examples/xargs.lua [-P N] [-u] [-v] [--] COMMAND [ARGUMENT...] < LINES
--     ls -d "$PWD"/csrc/*/*.c | lua5.4 examples/xargs.lua -P 8 -v sha256sum
--
-- It does what `xargs -r -d '\n' -n 1 -P N` does, but does not mix the output of the commands: it prints the output of
-- one command after the other, in the order of the lines, or with -u in the order in which the commands end. -v prints
-- at the end how many commands ran, and how many at a time. On a terminal it shows its progress.
--
-- Exit status: 0; 123 if a command exited with 1 to 254. The following also stop it from running further commands: 124
-- if a command exited with 255, 125 if one was killed by a signal, 126 if it cannot be run, 127 if it is not found; 130
-- after Ctrl-C, which also ends the running commands.

local rn = require "runnel"
local uv = require "runnel.uv"
local is_terminal = require "luv".guess_handle(2) == "tty"

-- How many finished commands may wait, with their output, for a slow one before them.
local WINDOW = 1000
-- How many outputs may wait to be written. Without such a buffer, starting commands would wait for writing.
local AHEAD = 100

local USAGE = [[
usage: lua5.4 examples/xargs.lua [-P N] [-u] [-v] [--] COMMAND [ARGUMENT...] < LINES
  -P N: how many commands to run at a time, a whole number from 1; 1 by default
  -u: print outputs in the order in which commands end, not in that of the lines
  -v: print at the end how many commands ran, and how many at a time
]]
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function usage()
  io.stderr:write(USAGE)
  os.exit(2)
end

local function complain(...) io.stderr:write("xargs: ", table.concat { ... }, "\n") end

-- Memory that is written after a fork must be copied, and a fork takes longer the more memory there is. The collector
-- writes to most of it, so let each collection run at once instead of in many small steps.
if _VERSION == "Lua 5.4" then
  collectgarbage("incremental", 200, 1000, 20)
else
  collectgarbage "incremental"
  collectgarbage("param", "stepmul", 0)
end

-- ---- the command line ----

---@type integer, function, boolean, string[]
local n, pmap, verbose, command = 1, rn.pmap, false, nil
local i = 1
while arg[i] do
  local option = arg[i]
  if option == "-P" then
    i = i + 1
    n = math.tointeger(tonumber(arg[i]))
    if not n or n < 1 then usage() end
  elseif option == "-u" then
    pmap = rn.pmap_unordered
  elseif option == "-v" then
    verbose = true
  else
    if option == "--" then i = i + 1 elseif option:find "^%-" then usage() end
    command = table.move(arg, i, #arg, 1, {})
    break
  end
  i = i + 1
end
if not command or #command == 0 then usage() end

-- ---- running ----

local lines = uv.lines(0)
local status = 0 -- the exit status
local stopped = false -- whether to run no further commands
local processes = {} -- the running ones, as a set
local started, running, peak, ended, failed = 0, 0, 0, 0, 0

-- Stops running further commands.
local function stop(with)
  stopped = true
  status = math.max(status, with)
  lines:close()
end

-- Sets the exit status after a command has ended. If it could not be run, `exit` is nil and `err` the reason.
local function judge(exit, err)
  if not exit then
    complain(err)
    stop(err:find "ENOENT" and 127 or 126)
  elseif exit.signal then
    complain(command[1], ": terminated by signal ", exit.signal)
    stop(125)
  elseif exit.code == 255 then
    complain(command[1], ": exited with status 255; aborting")
    stop(124)
  elseif exit.code ~= 0 then
    status = math.max(status, 123)
    failed = failed + 1
  end
end

-- Runs the command with a line; returns its output.
local function job(line)
  if stopped then return end
  local words = table.move(command, 1, #command, 1, { stdin = false, stderr = 2 })
  words[#words + 1] = line
  local process = uv.spawn(words)
  processes[process] = true
  started, running = started + 1, running + 1
  peak = math.max(peak, running)
  local parts = {}
  for chunk in process.stdout do parts[#parts + 1] = chunk end
  local exit, err = process.exit:take()
  processes[process] = nil
  running = running - 1
  if not stopped then judge(exit, err) end
  return table.concat(parts)
end

-- Erases the progress line on a terminal.
local function clear()
  if is_terminal then io.stderr:write "\r\27[K" end
end

-- Shows the progress line.
local function progress()
  if not is_terminal then return end
  clear()
  io.stderr:write(("%d done, %d of them failed; %d running"):format(ended, failed, running))
end

local interrupted = uv.signal("int", "term")
rn.go(function()
  if not interrupted:take() then return end
  stop(130)
  for process in pairs(processes) do process:close() end
end)

local window = pmap == rn.pmap and math.max(n, WINDOW) or nil
local results = pmap(n, job, lines, { buffer = AHEAD, window = window })
for output in results do
  clear()
  local written, err = io.stdout:write(output)
  if written then written, err = io.stdout:flush() end
  if not written then
    complain("standard output: ", err)
    stop(1)
    for process in pairs(processes) do process:close() end
    break
  end
  ended = ended + 1
  progress()
end
clear()
if verbose then complain(("%d commands, at most %d at a time"):format(started, peak)) end
os.exit(status, true)
