-- specs.lua PATH... [-- OPTIONS...]: runs spec files with busted, each in a process of its own, SPEC_JOBS at a time (by
-- default four for each processor and eight more: the files that take long come first, and mostly wait). A path is a
-- file, or a folder, which stands for all *_spec.lua in it. The options are busted's. UNDER is a command to run each
-- process under, for example valgrind: then two for each processor, since all of them compute. SPEC_SHARE=I/N takes the
-- I-th of each N files only, so that shares with the same N have all files together.
--
-- Prints a line for each file, in order, with the seconds that it took and the CPU time of its processes, with busted's
-- messages about specs that failed, and at the end the sum. It is an error if a process ends before its last spec has
-- ended, or fails although all its specs have passed.

local SUM = "%d successes / %d failures / %d errors / %d pending : %.1f seconds, %.1f of CPU time"
local TIMES = (os.getenv "BUILD" or "build") .. "/spec_times" -- how long each file took the last time

local function lines_of(command)
  local pipe = assert(io.popen(command))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function contents(path)
  local file = io.open(path)
  if not file then return "" end
  local text = file:read "a"
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

-- ---- what to run ----

local paths, options = {}, {}
local list = paths
for _, word in ipairs(arg) do
  if word == "--" and list == paths then list = options
  else list[#list + 1] = list == options and quote(word) or word end
end

local files = {}
for _, path in ipairs(paths) do
  local found = lines_of(("find %s -type f %s | LC_ALL=C sort"):format(quote(path),
    path:find "%.lua$" and "" or "-name '*_spec.lua'"))
  if #found == 0 then
    io.stderr:write(("specs.lua: no specs in %s\n"):format(path))
    os.exit(2)
  end
  table.move(found, 1, #found, #files + 1, files)
end

-- Neighbours are alike, so each share has some of each kind.
local share = os.getenv "SPEC_SHARE" or ""
if share ~= "" then
  local i, n = share:match "^([1-9]%d*)/([1-9]%d*)$"
  i, n = math.tointeger(i), math.tointeger(n)
  if not (i and n and i <= n) then
    io.stderr:write(("specs.lua: SPEC_SHARE is %q, and must be I/N with I from 1 to N, such as 1/2\n"):format(share))
    os.exit(2)
  end
  local taken = {}
  for number = i, #files, n do taken[#taken + 1] = files[number] end
  print(("share %s: %d of %d files"):format(share, #taken, #files))
  files = taken
end

local times = {}
for path, seconds in contents(TIMES):gmatch "(%S+) (%S+)\n" do times[path] = tonumber(seconds) end

-- How long a file is expected to take. One that has not run yet comes before those that have: first those that start
-- servers, since these wait for most of their time, and a large one before a small one.
local function expected(path)
  if times[path] then return times[path] end
  local text = contents(path)
  return 1e6 + #text * (text:find("nats_server", 1, true) and 10 or 1)
end

-- The numbers of the files, in the order in which they start: those that took longest the last time come first.
local order, weights = {}, {}
for i = 1, #files do order[i], weights[i] = i, expected(files[i]) end
table.sort(order, function(a, b)
  local x, y = weights[a], weights[b]
  if x ~= y then return x > y end
  return a < b
end)

-- ---- running ----

local work = lines_of("mktemp -d")[1]
local under = os.getenv "UNDER" or ""
local processors = tonumber(lines_of("nproc 2>/dev/null || echo 2")[1]) or 2
local jobs = os.getenv "SPEC_JOBS" or (under == "" and 8 + 4 * processors or 2 * processors)

-- Runs one file, and says its number, the status and the seconds on descriptor 3. The share is that of this run, not of
-- the commands that a spec runs. Temporary files are in a folder that is removed, or in a list (scripts/busted.lua), so
-- that none is left, not even by a process that was killed.
local RUN = [[
unset SPEC_SHARE
number=$1 work=%s
exec 3>&1 >"$work/$number.out" 2>&1
read -r file <"$work/$number.file"
start=$(date +%%s.%%N)
export TMPDIR="$work/$number.tmp" SPEC_TMPNAMES="$work/$number.names"
mkdir "$TMPDIR"
: >"$SPEC_TMPNAMES"
SPEC_RESULTS=$work/$number.results %s %s scripts/busted.lua %s "$file" 3>&-
status=$?
times >"$work/$number.times"
rm -rf "$TMPDIR" $(sed 's/$/*/' "$SPEC_TMPNAMES")
echo "$number $status $start $(date +%%s.%%N)" >&3
]]

-- The CPU time of a file's processes, in seconds: the user's and the system's, from the second line of the shell's
-- times. It leaves out processes for which none of the others has waited.
local function cpu_of(number)
  local sum = 0
  local line = contents(("%s/%d.times"):format(work, number)):match "\n([^\n]*)" or ""
  for minutes, seconds in line:gmatch "(%d+)m([%d.]+)s" do sum = sum + 60 * minutes + seconds end
  return sum
end

-- The result of a file whose process has ended.
local function result_of(number, status, seconds)
  local result = { seconds = seconds, cpu = cpu_of(number), counts = { 0, 0, 0, 0 },
    out = contents(("%s/%d.out"):format(work, number)) }
  local current, ended
  for line in contents(("%s/%d.results"):format(work, number)):gmatch "[^\n]+" do
    local name, counts = line:match "^begin (.*)", { line:match "^count (%d+) (%d+) (%d+) (%d+)" }
    if name then current = name end
    if #counts > 0 then
      for i = 1, 4 do result.counts[i] = math.tointeger(counts[i]) end
    end
    ended = line == "end"
  end
  local why
  if not ended then
    why = ("its process ended with status %d in or after the spec %s"):format(status, current or "(none has begun)")
  elseif status ~= 0 and result.counts[2] + result.counts[3] == 0 then
    why = ("its process ended with status %d, though no spec failed"):format(status)
  end
  if why then
    result.counts[3] = result.counts[3] + 1
    result.out = ("%sError: %s: %s\n"):format(result.out, files[number], why)
  end
  return result
end

-- Whether only some specs of each file are asked for: then a file without any of them is not shown.
local is_filtered = table.concat(options, " "):find "%-%-filter" or table.concat(options, " "):find "%-%-tags"

local function show(number, result)
  local successes, failures, errors, pending = table.unpack(result.counts)
  if is_filtered and successes + failures + errors + pending == 0 and result.out == "" then return end
  io.write(("%-4s %4d in %5.1f s, CPU %5.1f s  %s\n"):format(failures + errors > 0 and "FAIL" or "ok",
    successes + failures + errors, result.seconds, result.cpu,
    files[number] .. (pending > 0 and (" (%d pending)"):format(pending) or "")))
  io.write(result.out)
  if result.out ~= "" and result.out:sub(-1) ~= "\n" then io.write "\n" end
  io.flush()
end

local function run()
  local lua = os.getenv "LUA" or "lua5.4"
  write(work .. "/run", RUN:format(quote(work), under, lua, table.concat(options, " ")))
  write(work .. "/order", table.concat(order, "\n") .. "\n")
  for i, path in ipairs(files) do write(("%s/%d.file"):format(work, i), path) end
  local command = ("xargs -P %s -n 1 sh %s <%s"):format(jobs, quote(work .. "/run"), quote(work .. "/order"))
  local pipe = assert(io.popen(command))
  local results, shown, sum = {}, 0, { 0, 0, 0, 0, cpu = 0 }

  local function take(number, result)
    results[number] = result
    while results[shown + 1] do
      shown = shown + 1
      show(shown, results[shown])
      for i = 1, 4 do sum[i] = sum[i] + results[shown].counts[i] end
      sum.cpu = sum.cpu + results[shown].cpu
    end
  end

  for line in pipe:lines() do
    local number, status, from, to = line:match "^(%d+) (%d+) (%S+) (%S+)$"
    number = math.tointeger(number)
    local seconds = (tonumber(to) or 0) - (tonumber(from) or 0)
    times[files[number]] = seconds
    take(number, result_of(number, math.tointeger(status), seconds))
  end
  pipe:close()
  for number = 1, #files do
    if not results[number] then
      local out = ("Error: %s: it did not run to its end\n"):format(files[number])
      take(number, { seconds = 0, cpu = 0, counts = { 0, 0, 1, 0 }, out = out })
    end
  end
  return sum
end

local function seconds_now() return tonumber(lines_of("date +%s.%N")[1]) or os.time() end

local start = seconds_now()
local ok, sum = pcall(run)
os.execute("rm -rf " .. quote(work))
if not ok then error(sum, 0) end

local list_of_times = {}
for path, seconds in pairs(times) do list_of_times[#list_of_times + 1] = ("%s %.2f\n"):format(path, seconds) end
table.sort(list_of_times)
pcall(write, TIMES, table.concat(list_of_times))

print(SUM:format(sum[1], sum[2], sum[3], sum[4], seconds_now() - start, sum.cpu))
os.exit(sum[2] + sum[3] == 0)
