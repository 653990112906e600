-- Prints statistics of a web server's log in the common or combined format.
--
--     lua5.4 examples/logstat.lua [--by address|method|path|status] [--status PREFIX] [--top N] [FILE]
--     lua5.4 examples/logstat.lua --by path --status 4 examples/access.log
--     tail -f access.log | lua5.4 examples/logstat.lua
--
-- Counts requests and bytes by status, or by the field given with --by; with --status, only those whose status begins
-- with PREFIX. Prints the N most frequent entries (10 by default) at the end, and its progress to stderr every second.
-- Without FILE it reads standard input. Reading a line blocks the whole program, the ticker included.
--
-- One go block reads lines and puts them on a channel whose transducer parses and filters them. The main program takes
-- requests and ticks with rn.alts.

local rn = require "runnel"

local FIELDS = { address = true, method = true, path = true, status = true }

local function fail(...)
  io.stderr:write("logstat: ", ...)
  io.stderr:write "\n"
  os.exit(1)
end

local USAGE = [[
usage: lua5.4 examples/logstat.lua [--by address|method|path|status] [--status PREFIX] [--top N] [FILE]
  --by: what to count requests and bytes by; status by default
  PREFIX: count only requests whose status begins with it
  N: how many entries to print, a whole number from 1; 10 by default
]]
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function usage()
  io.stderr:write(USAGE)
  os.exit(2)
end

-- ---- the stream ----

-- A transducer: lines in, requests out. Counts lines that are not requests in `skipped`.
local function parser(skipped)
  return rn.xf.keep(function(line)
    local address, request, status, bytes = line:match '^(%S+) %S+ %S+ %[[^%]]*%] "(.-)" (%d%d%d) (%S+)'
    local method, path = (request or ""):match "^(%u+) ([^%s?]+)"
    if not method then
      skipped.n = skipped.n + 1
      return nil
    end
    return { address = address, method = method, path = path, status = status, bytes = tonumber(bytes) or 0 }
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

-- A channel with a value every `ms`, until it is closed. A tick is dropped if the one before it was not taken.
local function ticker(ms)
  local ticks = rn.chan(rn.dropping_buffer(1))
  rn.go(function()
    repeat rn.alts { rn.timeout(ms), ticks:done() } until not ticks:put "tick"
  end)
  return ticks
end

-- ---- the statistics ----

local function add(stats, key, request)
  local entry = stats[key]
  if not entry then
    entry = { key = key, requests = 0, bytes = 0 }
    stats[key] = entry
  end
  entry.requests = entry.requests + 1
  entry.bytes = entry.bytes + request.bytes
end

-- Takes all requests; reports every second. Returns the statistics by field and the number of requests, or nil and the
-- error with which the channel was closed.
local function count(requests, field)
  local stats, total = {}, 0
  local ticks <close> = ticker(1000)
  local ops = { ticks, requests }
  while true do
    local request, port, err = rn.alts(ops, { priority = true })
    if port == ticks then
      io.stderr:write(("%d requests so far\n"):format(total))
    elseif request then
      total = total + 1
      add(stats, request[field], request)
    elseif err then
      return nil, err
    else
      return stats, total
    end
  end
end

-- The entries, the most frequent first.
local function ranking(stats)
  local list = {}
  for _, entry in pairs(stats) do list[#list + 1] = entry end
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
  local option = arg[i]:match "^%-%-(.*)"
  if option and options[option] and arg[i + 1] then
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
if not FIELDS[options.by] or not options.status:find "^%d*$" or options.top < 1 then usage() end

local file, err = io.stdin, nil
if name then file, err = io.open(name) end
if not file then fail(err) end

local skipped = { n = 0 }
local function wanted(request) return request.status:sub(1, #options.status) == options.status end
local requests = rn.chan(100, rn.xf.comp(parser(skipped), rn.xf.filter(wanted)))
rn.go(read, file, requests)

local stats, total = rn.run(count, requests, options.by)
if not stats then fail(name or "stdin", ": ", total) end

print(("%-32s %8s %12s"):format(options.by, "requests", "bytes"))
for rank, entry in ipairs(ranking(stats)) do
  if rank > options.top then break end
  print(("%-32s %8d %12d"):format(entry.key, entry.requests, entry.bytes))
end
io.stderr:write(("%d requests; %d lines skipped\n"):format(total, skipped.n))
