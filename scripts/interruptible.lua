-- interruptible.lua FILE ARG...: runs a Lua program, or standard input if FILE is "-". On Ctrl-C prints one line, where
-- Lua would print a traceback, and exits with status 130, after the program's to-be-closed variables have been closed.
-- For the demos.

local file = table.remove(arg, 1)
arg[0] = file -- luacheck: ignore 122
local main, problem = loadfile(file ~= "-" and file or nil)
if not main then
  io.stderr:write(problem, "\n")
  os.exit(1)
end

-- Lua's message, which has the position if Ctrl-C came in a function that Lua code has called.
local INTERRUPTED <const> = "interrupted!"

local ok, err = xpcall(main, function(err)
  if type(err) == "string" and err:find(INTERRUPTED .. "$") then return INTERRUPTED end
  return debug.traceback(tostring(err), 2)
end, table.unpack(arg))
if not ok then
  local is_interrupted = err == INTERRUPTED
  io.stdout:flush()
  io.stderr:write("\n", is_interrupted and "interrupted" or err, "\n")
  os.exit(is_interrupted and 130 or 1, true)
end
