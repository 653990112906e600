-- Follows files that grow, and prints their new lines as they come, merged. Needs luv.
--
--     lua5.4 examples/tail.lua [-n LINES] FILE...
--     lua5.4 examples/tail.lua -n 5 /var/log/dpkg.log /var/log/alternatives.log
--
-- It begins with the last lines of each, 10 by default. With several files each line says where it comes from. A file
-- that is not there yet is waited for; one that is cut off, or is replaced by another of its name, is read from its
-- beginning. Ctrl-C ends it.

local rn = require "runnel"
local uv = require "runnel.uv"
local stat = require "luv".fs_stat

-- Bytes that are read at a time to find the last lines.
local BLOCK = 64 * 1024

-- ms after which a file is looked at without having been told to: no system tells of everything.
local AT_LEAST = 1000

local USAGE = [[
usage: lua5.4 examples/tail.lua [-n LINES] FILE...
  LINES: with how many lines of each file to begin, a whole number from 0; 10 by default
]]
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function usage()
  io.stderr:write(USAGE)
  os.exit(2)
end

-- Where the last n complete lines of a file begin: it is read backwards, block by block.
local function start_of_last(file, n)
  local lines = -1 -- the last newline ends one, and begins none
  local after = file:seek "end"
  while after > 0 do
    local from = math.max(0, after - BLOCK)
    file:seek("set", from)
    local block = file:read(after - from)
    if not block then break end
    for i = #block, 1, -1 do
      if block:byte(i) == 10 then
        lines = lines + 1
        if lines == n then return from + i end
      end
    end
    after = from
  end
  return 0
end

-- Puts the complete lines that a file has got since last time on a channel; false once that is closed.
local function read_new(file, out)
  while true do
    local place = file:seek()
    local line = file:read "L"
    if not line or line:sub(-1) ~= "\n" then
      file:seek("set", place) -- the rest of the line is yet to come
      return true
    end
    if not out:put(line:sub(1, -2)) then return false end
  end
end

-- Puts the lines of a file on a channel, for ever.
local function follow(path, last, out)
  local file, id, changes
  local first = true
  while true do
    local now = stat(path)
    local now_id = now and ("%d %d"):format(now.dev, now.ino)
    if file and now_id ~= id then
      read_new(file, out) -- what came before it was replaced
      file:close()
      file = nil
      changes:close()
    end
    if now and not file and now.type ~= "directory" then
      file = io.open(path)
      if file then
        id = now_id
        file:seek("set", first and start_of_last(file, last) or 0)
        changes = uv.watch(path)
      end
    end
    first = false
    if file then
      if now.size < file:seek() then file:seek "set" end
      if not read_new(file, out) then return end
      rn.alts { changes:closed() and rn.timeout(AT_LEAST) or changes, rn.timeout(AT_LEAST) }
    else
      rn.sleep(AT_LEAST / 4)
    end
  end
end

-- ---- the command line ----

local last, paths = 10, { table.unpack(arg) }
if paths[1] == "-n" then
  last = math.tointeger(tonumber(paths[2]))
  paths = { table.unpack(paths, 3) }
end
if not last or last < 0 or #paths == 0 or paths[1]:find "^%-" then usage() end

local lines = rn.chan(100)
for _, path in ipairs(paths) do
  local label = #paths > 1 and path .. ": " or ""
  local named = rn.chan(100, rn.xf.map(function(line) return label .. line end))
  rn.pipe(named, lines, false)
  if not stat(path) then io.stderr:write("tail: ", path, ": is not there yet\n") end
  rn.go(follow, path, last, named)
end

local interrupted = uv.signal("int", "term")
while true do
  local line, port = rn.alts({ interrupted, lines }, { priority = true })
  if port == interrupted or not io.stdout:write(line, "\n") then break end
  if #lines == 0 then io.stdout:flush() end
end
os.exit(0, true)
