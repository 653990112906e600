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

local ok, err = xpcall(main, function(err)
  return err == "interrupted!" and err or debug.traceback(tostring(err), 2)
end, table.unpack(arg))
if not ok then
  local is_interrupted = err == "interrupted!" -- Lua's message
  io.stdout:flush()
  io.stderr:write("\n", is_interrupted and "interrupted" or err, "\n")
  os.exit(is_interrupted and 130 or 1, true)
end
