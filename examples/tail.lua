-- Follows files that grow, and prints their new lines as they come. Needs luv.
--
--     lua5.4 examples/tail.lua [-n LINES] FILE...
--     lua5.4 examples/tail.lua -n 5 /var/log/dpkg.log /var/log/alternatives.log
--
-- It begins with the last lines of each file, 10 by default. With several files, each line begins with the file's name.
-- A file may not exist yet. A file that is truncated, or replaced, is read from its beginning. Ctrl-C ends it.

local rn = require "runnel"
local uv = require "runnel.uv"

local USAGE = [[
usage: lua5.4 examples/tail.lua [-n LINES] FILE...
  LINES: how many existing lines of each file to print, a whole number from 0; 10 by default
]]
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function usage()
  io.stderr:write(USAGE)
  os.exit(2)
end

local function complain(message) io.stderr:write("tail: ", message, "\n") end

-- ---- the command line ----

local last, paths = 10, { table.unpack(arg) }
if paths[1] == "-n" then
  last = math.tointeger(tonumber(paths[2]))
  paths = { table.unpack(paths, 3) }
end
if not last or last < 0 or #paths == 0 or paths[1]:find "^%-" then usage() end

local lines = rn.chan(100)
local followed, status = {}, 0
for i, path in ipairs(paths) do
  local file <close> = io.open(path)
  if not file then complain(path .. ": does not exist yet") end
  local label = #paths > 1 and path .. ": " or ""
  followed[i] = rn.go(function()
    local added = uv.follow(path, { last = last })
    for line in added do lines:put(label .. line) end
    complain(select(2, added:take())) -- only an error ends it
    status = 1
  end)
end
rn.go(function()
  for _, ended in ipairs(followed) do ended:take() end
  lines:close()
end)

local interrupted = uv.signal("int", "term")
while true do
  local line, port = rn.alts({ interrupted, lines }, { priority = true })
  if port == interrupted or not line or not io.stdout:write(line, "\n") then break end
  if #lines == 0 then io.stdout:flush() end
end
os.exit(status, true)
