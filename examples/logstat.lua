-- Prints statistics of a web server's log in the common or combined format.
--
--     lua5.4 examples/logstat.lua [--by address|method|path|status] [--status PREFIX] [--top N] [--threads[=K]] [FILE]
--     lua5.4 examples/logstat.lua --by path --status 4 examples/access.log
--     lua5.4 examples/logstat.lua --threads large.log
--     tail -f access.log | lua5.4 examples/logstat.lua
--
-- Counts requests and bytes by status, or by the field given with --by; with --status, only those whose status begins
-- with PREFIX. Prints the N most frequent entries (10 by default) at the end, and its progress to stderr every second.
-- Without FILE it reads standard input, if that is no terminal. Reading a line blocks the whole program.
--
-- A flow reads lines, parses them, and counts; another go block prints the progress. With --threads, K threads (one for
-- each processor by default) count the requests of whole pieces of the file, and the flow adds up what they have
-- counted.

local rn = require "runnel"
local flow = require "runnel.flow"

-- Threads find modules where the program does.
package.path = arg[0]:gsub("[^/]*$", "") .. "lib/?.lua;" .. package.path
local logline = require "logline"

local FIELDS = { address = true, method = true, path = true, status = true }

local function fail(...)
  io.stderr:write("logstat: ", ...)
  io.stderr:write "\n"
  os.exit(1)
end

local USAGE = [=[
usage: lua5.4 examples/logstat.lua [--by address|method|path|status] [--status PREFIX] [--top N] [--threads[=K]] [FILE]
  --by: what to count requests and bytes by; status by default
  PREFIX: count only requests whose status begins with it
  N: how many entries to print, a whole number from 1; 10 by default
  K: how many threads to use, a whole number from 1; by default one for each processor
  FILE: a log; without it, a file or a pipe as standard input is read. examples/access.log is a sample:
    lua5.4 examples/logstat.lua --by path examples/access.log
]=]
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function usage()
  io.stderr:write(USAGE)
  os.exit(2)
end

-- ---- the statistics ----

-- Runs a flow, and reports every second how far it has got. Returns the error of the stage that has failed, if any.
local function run(f, counts)
  local progress = rn.go(function()
    while true do
      rn.sleep(1000)
      io.stderr:write(("%d requests so far\n"):format(counts.total))
    end
  end)
  local ok, err = pcall(f.wait, f)
  rn.cancel(progress)
  if not ok then
    f:stop()
    return err.error
  end
end

-- A source of what read(file) returns, until that is nil.
local function reader(file, read)
  return { source = function(put)
    while true do
      local text, err = read(file)
      if err then error(err, 0) end
      if not text then return end
      put(text)
      rn.yield() -- reading more may block the program: let the others run first
    end
  end }
end

local function read_line(file) return file:read() end

-- A piece of whole lines.
local function read_piece(file)
  local piece, err = file:read(1 << 16)
  return piece and piece .. (file:read "L" or ""), err
end

-- Counts in this state.
local function count_here(file, options)
  local counts = logline.counts()
  local f = flow("logstat", {
    lines = reader(file, read_line),
    parse = function(line)
      local request = logline.parse(line)
      if not request then counts.skipped = counts.skipped + 1 end
      return request
    end,
    filter = function(request)
      if request.status:sub(1, #options.status) == options.status then return request end
    end,
    count = function(request) logline.add(counts, request[options.by], 1, request.bytes) end,
    "lines > parse > filter > count",
  })
  return counts, run(f, counts)
end

-- Counts in threads.
local function count_in_threads(file, options)
  local pool <close> = rn.threads(options.threads, function(job)
    return require "logline".count(job.text, job.by, job.status)
  end)
  local counts = logline.counts()
  local f = flow("logstat", {
    pieces = reader(file, read_piece),
    jobs = function(text) return { text = text, by = options.by, status = options.status } end,
    count = { pool, n = 2 * options.threads },
    add = function(other) logline.merge(counts, other) end,
    "pieces > jobs > count > add",
  })
  return counts, run(f, counts)
end

-- The entries, the most frequent first.
local function ranking(counts)
  local list = {}
  for key, requests in pairs(counts.requests) do
    list[#list + 1] = { key = key, requests = requests, bytes = counts.bytes[key] }
  end
  table.sort(list, function(a, b)
    if a.requests ~= b.requests then return a.requests > b.requests end
    return a.key < b.key
  end)
  return list
end

-- ---- the command line ----

local options, name = { by = "status", status = "", top = 10 }, nil
local i = 1
while arg[i] do
  local option, threads = arg[i]:match "^%-%-(.*)", arg[i]:match "^%-%-threads=?(.*)"
  if threads then
    options.threads = threads == "" and arg[i] == "--threads" and rn.cores() or math.tointeger(tonumber(threads)) or 0
  elseif option and options[option] and arg[i + 1] then
    options[option] = arg[i + 1]
    i = i + 1
  elseif option or name then
    usage()
  else
    name = arg[i]
  end
  i = i + 1
end
options.top = math.tointeger(tonumber(options.top)) or 0
if not FIELDS[options.by] or not options.status:find "^%d*$" or math.min(options.top, options.threads or 1) < 1 then
  usage()
end

if not name and os.execute "test -t 0" then usage() end -- nobody types a log

local file, err = io.stdin, nil
if name then file, err = io.open(name) end
if not file then fail(err) end

local counts
counts, err = rn.run(options.threads and count_in_threads or count_here, file, options)
if err then fail(name or "stdin", ": ", err) end

print(("%-32s %8s %12s"):format(options.by, "requests", "bytes"))
for rank, entry in ipairs(ranking(counts)) do
  if rank > options.top then break end
  print(("%-32s %8d %12d"):format(entry.key, entry.requests, entry.bytes))
end
io.stderr:write(("%d requests; %d lines skipped\n"):format(counts.total, counts.skipped))
if not name and counts.total + counts.skipped == 0 then
  io.stderr:write "logstat: standard input is empty; try lua5.4 examples/logstat.lua examples/access.log\n"
end
