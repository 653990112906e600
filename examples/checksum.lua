-- Prints SHA-256 checksums of files, as sha256sum does, computed by threads in plain Lua.
--
--     lua5.4 examples/checksum.lua [--threads N] FILE...
--     lua5.4 examples/checksum.lua --threads 1 /usr/bin/*     one thread, to compare
--
-- Each thread has a Lua state of its own, and hashes one file at a time. By default there are as many threads as
-- processors. The checksums come in the order of the files. A file that cannot be read is reported on stderr, and then
-- the exit status is 1. Every second a line on stderr says how far it has got.
--
-- The main program passes the files to a pool by rn.pmap. The threads put the numbers of bytes that they have hashed on
-- a shared channel. The main program waits for these numbers, for results and for ticks with rn.alts.

local rn = require "runnel"

-- Threads find modules where the program does.
package.path = arg[0]:gsub("[^/]*$", "") .. "lib/?.lua;" .. package.path

local USAGE = [[
usage: lua5.4 examples/checksum.lua [--threads N] FILE...
  N: how many threads hash files, a whole number from 1; by default one for each processor
]]

-- What a thread does for a file: returns its checksum, or raises why it cannot be read. It is copied into the thread's
-- state, and so cannot use local variables of this file.
local function checksum(job)
  local hash = require "sha256".new()
  local opened, err = io.open(job.path, "rb")
  if not opened then error(err, 0) end
  local file <close> = opened
  while true do
    local text
    text, err = file:read(1 << 17)
    if err then error(job.path .. ": " .. err, 0) end
    if not text then return hash:hex() end
    hash:add(text)
    job.progress:put(#text)
  end
end

-- ---- the command line ----

local files, threads = {}, rn.cores()
local i = 1
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end
if arg[1] == "--threads" then
  threads, i = math.tointeger(tonumber(arg[2])) or 0, 3
end
table.move(arg, i, #arg, 1, files)
if threads < 1 or #files == 0 or files[1]:find "^%-%-" then
  io.stderr:write(USAGE)
  os.exit(2)
end

-- ---- the program ----

local pool <close> = rn.threads(threads, checksum)
local progress = rn.shared_chan(100)

-- Counted where a job ends: the results come in the order of the files, so they wait for the slowest one before them.
-- Where the order does not matter, count the results of rn.pmap_unordered (recipes/progress.lua).
local done = 0

-- Errors are results, so that the other files are still hashed.
local function hash(path)
  local ok, result = pcall(function() return pool { path = path, progress = progress } end)
  done = done + 1
  return { path = path, sum = ok and result, err = not ok and result }
end

local ticks = rn.chan(rn.dropping_buffer(1))
rn.go(function()
  repeat rn.alts { rn.timeout(1000), ticks:done() } until not ticks:put "tick"
end)

local bytes, failed, start = 0, false, rn.now()
local results = rn.pmap(2 * threads, hash, files)
while true do
  local value, port = rn.alts { progress, results, ticks }
  if port == progress then
    bytes = bytes + value
  elseif port == ticks then
    local mb, s = bytes / 1e6, (rn.now() - start) / 1000
    io.stderr:write(("%d of %d files, %.1f MB, %.1f MB/s\n"):format(done, #files, mb, mb / s))
  elseif value then
    if value.sum then
      print(value.sum .. "  " .. value.path)
    else
      failed = true
      io.stderr:write("checksum: ", tostring(value.err), "\n")
    end
  else
    break
  end
end
ticks:close()
pool:drain()
os.exit(not failed, true)
