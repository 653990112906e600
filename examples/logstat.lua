-- Prints statistics of a web server's log in the common or combined format.
--
--     lua5.4 examples/logstat.lua [--by address|method|path|status] [--status PREFIX] [--top N] [--threads[=K]] [FILE]
--     lua5.4 examples/logstat.lua --by path --status 4 examples/access.log
--     lua5.4 examples/logstat.lua --threads large.log
--     tail -f access.log | lua5.4 examples/logstat.lua
--
-- Counts requests and bytes by status, or by the field given with --by; with --status, only those whose status begins
-- with PREFIX. Prints the N most frequent entries (10 by default) at the end, and its progress to stderr every second.
-- Without FILE it reads standard input. Reading a line blocks the whole program, the ticker included.
--
-- One go block reads lines and puts them on a channel whose transducer parses and filters them. The main program takes
-- requests and ticks with rn.alts. With --threads, K threads (one for each processor by default) count the requests of
-- whole pieces of the file; a pmap gives them the pieces, and the main program adds up what they have counted.

local rn = require "runnel"

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
]=]
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function usage()
  io.stderr:write(USAGE)
  os.exit(2)
end

-- ---- the stream ----

-- A transducer: lines in, requests out. Counts lines that are not requests.
local function parser(counts)
  return rn.xf.keep(function(line)
    local request = logline.parse(line)
    if not request then counts.skipped = counts.skipped + 1 end
    return request
  end)
end

-- Puts the lines of a file on a channel and closes it, with the error if reading fails.
local function read(file, lines)
  local line, err = file:read()
  while line and lines:put(line) do
    rn.yield() -- reading the next line may block the program: let the others run first
    line, err = file:read()
  end
  lines:close(err)
end

-- Returns a function that reads the next piece of a file, of whole lines, or returns nil; and sets `failed.err`.
local function pieces(file, failed)
  return function()
    local piece, err = file:read(1 << 16)
    failed.err = err
    if not piece then return nil end
    return piece .. (file:read "L" or "")
  end
end

-- A channel with a value every `ms`, until it is closed. A tick is dropped if the one before it was not taken.
local function ticker(ms)
  local ticks = rn.chan(rn.dropping_buffer(1))
  rn.go(function()
    repeat rn.alts { rn.timeout(ms), ticks:done() } until not ticks:put "tick"
  end)
  return ticks
end

-- ---- the statistics ----

-- Takes from a channel until it closes, and calls add(value); reports every second. Returns the error of the channel.
local function count(counts, ch, add)
  local ticks <close> = ticker(1000)
  local ops = { ticks, ch }
  while true do
    local value, port, err = rn.alts(ops, { priority = true })
    if port == ticks then io.stderr:write(("%d requests so far\n"):format(counts.total))
    elseif value then add(value)
    else return err end
  end
end

-- Counts in this state.
local function count_here(file, options)
  local counts = logline.counts()
  local function wanted(request) return request.status:sub(1, #options.status) == options.status end
  local requests = rn.chan(100, rn.xf.comp(parser(counts), rn.xf.filter(wanted)))
  rn.go(read, file, requests)
  local err = count(counts, requests, function(request)
    logline.add(counts, request[options.by], 1, request.bytes)
  end)
  return counts, err
end

-- Counts in threads.
local function count_in_threads(file, options)
  local pool <close> = rn.threads(options.threads, function(job)
    return require "logline".count(job.text, job.by, job.status)
  end)
  local counts, failed = logline.counts(), {}
  local function count_piece(text) return pool { text = text, by = options.by, status = options.status } end
  local err = count(counts, rn.pmap(2 * options.threads, count_piece, pieces(file, failed)), function(other)
    logline.merge(counts, other)
  end)
  return counts, err or failed.err
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
