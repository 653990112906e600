-- What input and output through channels costs, compared with the same work without them in the same run.
--
--     lua5.4 bench/io.lua [--quick] [NAME...]      all by default, as `make bench-io`; --quick does less of everything
--
-- echo: the server of examples/echo.lua against one written in luv's callbacks (bench/io/echo_luv.lua), under the load
-- of bench/io/echo_client.lua, which fails if any byte differs from what was sent. lines: uv.lines against io.lines, on
-- a file of 1 GB. xargs: examples/xargs.lua against xargs.
--
-- In each round the two take turns; the table shows the median of the rounds, and of their ratios. It measures elapsed
-- time, so the machine should do nothing else. Only a run of everything, without --quick, writes its part of
-- docs/performance.md. This is not a test: a missed target does not change the exit status.

package.path = "bench/?.lua;" .. package.path
local markdown = require "markdown"
local rn = require "runnel"
local uv = require "runnel.uv"

local LUA = os.getenv "LUA" or "lua5.4"
local PAGE = "docs/performance.md"

local quick = false

-- Runs a command that must succeed. Returns its output, and the seconds that it took.
local function run(command)
  local start = rn.now()
  local process = uv.spawn(command)
  local output = table.concat(rn.into({}, process.stdout):take())
  local errors = table.concat(rn.into({}, process.stderr):take())
  local exit = assert(process.exit:take())
  if exit.code ~= 0 then error(("%s: exit status %d: %s"):format(table.concat(command, " "), exit.code, errors), 0) end
  return output, (rn.now() - start) / 1000
end

-- ---- the measurements: each measures once ----

local CONNECTIONS = 1000

-- Requests per second.
local function echo(...)
  local server = uv.spawn { LUA, stderr = "lines", stdout = false, stdin = false, ... }
  local port = assert(server.stderr:take()):match "port (%d+)$"
  local output = run { LUA, "bench/io/echo_client.lua", port, CONNECTIONS, quick and 4 or 200 }
  server:close()
  server.exit:take()
  return tonumber(output)
end

-- A file of lines of 18 to 140 bytes.
local function large_file()
  local lines = {}
  for i = 1, 1000 do lines[i] = ("line %d "):format(i):rep(i % 13 + 2) end
  local block = table.concat(lines, "\n") .. "\n"
  local path = os.tmpname()
  local file <close> = assert(io.open(path, "w"))
  for _ = 1, (quick and 1 << 26 or 1 << 30) // #block do assert(file:write(block)) end
  return path
end

-- MB per second, and the peak memory in MB. Both ways must read the same.
local file, expected
local function lines(how)
  file = file or large_file()
  local seconds, count, bytes, kb = run({ LUA, "bench/io/lines.lua", how, file }):match "(%S+) (%d+) (%d+) (%d+)"
  local read = count .. " lines, " .. bytes .. " bytes"
  expected = expected or read
  if read ~= expected then error(("lines: %s read %s instead of %s"):format(how, read, expected), 0) end
  return tonumber(bytes) / 1e6 / tonumber(seconds), tonumber(kb) / 1024
end

-- Commands per second.
local function xargs(command)
  local n = quick and 60 or 2000
  local _, seconds = run { "sh", "-c", ("seq %d | %s true"):format(n, command) }
  return n / seconds
end

local WORKLOADS = {
  { name = "echo", what = "echo server, 1000 connections, requests/s", beside = "luv's callbacks", least = 0.6,
    rounds = 5,
    ours = function() return echo("examples/echo.lua", "0") end,
    theirs = function() return echo "bench/io/echo_luv.lua" end },
  { name = "lines", what = "lines of a file of 1 GB, MB/s", beside = "io.lines", least = 0.7, rounds = 5, most_mb = 32,
    ours = function() return lines "uv" end,
    theirs = function() return lines "io" end },
  { name = "xargs", what = "xargs -P 8 with 2000 short commands, commands/s", beside = "xargs", least = 1 / 1.3,
    rounds = 5,
    ours = function() return xargs(LUA .. " examples/xargs.lua -P 8") end,
    theirs = function() return xargs "xargs -P 8 -n 1" end },
}

-- ---- the table ----

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

local function row_of(workload)
  local ours, theirs, ratios, memory = {}, {}, {}, 0
  for round = 1, quick and 1 or workload.rounds do
    io.stderr:write(("%s: round %d\n"):format(workload.name, round))
    theirs[round] = workload.theirs()
    local mb
    ours[round], mb = workload.ours()
    memory = math.max(memory, mb or 0)
    ratios[round] = ours[round] / theirs[round]
  end
  local ratio = median(ratios)
  local met = ratio >= workload.least and memory < (workload.most_mb or math.huge)
  local reach = ("≥ %.2f"):format(workload.least)
  local shown = ("%.2f"):format(ratio)
  if workload.most_mb then
    reach = ("%s, < %d MB"):format(reach, workload.most_mb)
    shown = ("%s, %.1f MB"):format(shown, memory)
  end
  return { workload.what, ("%.0f"):format(median(ours)), ("%.0f (%s)"):format(median(theirs), workload.beside),
    shown, reach, met and "met" or "not met" }
end

local function write_page(measured)
  local page_file <close> = assert(io.open(PAGE))
  local page = page_file:read "a"
  local before, after = page:match "^(.*<!%-%- I/O, measured %-%->\n).-(<!%-%- end of I/O %-%->.*)$"
  if not before then error(PAGE .. ": the marks around the measured part are missing", 0) end
  local out <close> = assert(io.open(PAGE, "w"))
  assert(out:write(before, "\n", measured, "\n", after))
  io.stderr:write("wrote ", PAGE, "\n")
end

-- ---- the command line ----

local asked, all = {}, true
for _, word in ipairs(arg) do
  local known = word == "--quick"
  if known then quick = true end
  for _, workload in ipairs(WORKLOADS) do
    if workload.name == word then
      known, all = true, false
      asked[word] = true
    end
  end
  if not known then
    io.stderr:write "usage: lua5.4 bench/io.lua [--quick] [echo] [lines] [xargs]\n"
    os.exit(2)
  end
end

local rows = { { "", "runnel", "without", "ratio", "target", "" } }
local ok, err = pcall(function()
  for _, workload in ipairs(WORKLOADS) do
    if all or asked[workload.name] then rows[#rows + 1] = row_of(workload) end
  end
end)
if file then os.remove(file) end
if not ok then
  io.stderr:write("bench/io.lua: ", tostring(err), "\n")
  os.exit(1)
end
local measured = markdown(rows, true) .. "\n"
io.write(measured)
if all and not quick then write_page(measured) end
