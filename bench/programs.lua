-- Runs whole programs in runnel and in what a user would pick instead, compares their output, and measures CPU time,
-- elapsed time and memory. The programs are in bench/programs/, a file for each language.
--
--     make bench-programs                                                        all, and the page anew
--     lua5.4 bench/programs.lua [--quick] [--rounds=N] [PROGRAM...] [PEER...]    some, from the repository's root
--
-- In each round, every peer runs each program, one after the other; the tables show medians of the rounds, and ratios
-- are medians of the rounds' ratios. CPU time is that of the process and its children. A peer that is not installed
-- (scripts/setup programs) is left out. A program whose output differs from that of the others is an error.

package.path = "bench/?.lua;bench/peers/?.lua;" .. package.path
local chart = require "chart"
local markdown = require "markdown"

local LUA = os.getenv "LUA" or "lua5.4"
local RUNNEL = os.getenv "RUNNEL" or "build/bin/runnel"
local DIR = "build/programs"
local PAGE, CHART = "docs/performance.md", "docs/programs.svg"

local quick, rounds = false, nil

-- ---- the peers; `test` is a command that fails where the peer is not installed ----

local GO = ("mkdir -p %s && go build -o %s/go bench/programs/go/*.go"):format(DIR, DIR)

-- Where Debian's packages are, for a node from elsewhere.
local NODE = "env NODE_PATH=/usr/share/nodejs node"

local PEERS = {
  { name = "runnel", title = "runnel", run = RUNNEL .. " bench/programs/runnel/main.lua", test = "true" },
  { name = "go1", title = "Go, 1 processor", run = "env GOMAXPROCS=1 " .. DIR .. "/go", test = GO,
    colour = "#0891b2", shape = "circle" },
  { name = "go2", title = "Go, 2", run = "env GOMAXPROCS=2 " .. DIR .. "/go", test = GO,
    colour = "#155e75", shape = "diamond" },
  { name = "node", title = "node", run = NODE .. " bench/programs/node/main.js", test = "node --version",
    colour = "#16a34a", shape = "square" },
  { name = "python", title = "Python", run = "python3 bench/programs/python/main.py", test = "python3 --version",
    colour = "#d97706", shape = "triangle" },
  { name = "lua", title = "plain Lua", run = LUA .. " bench/programs/lua/main.lua", test = LUA .. " -e 'local _'",
    colour = "#475569", shape = "cross" },
  { name = "luv", title = "luv", run = LUA .. " bench/programs/luv/main.lua", test = LUA .. [[ -e 'require "luv"']],
    colour = "#7c3aed", shape = "square" },
  { name = "tool", title = "xargs, curl", test = "command -v xargs && command -v curl", colour = "#dc2626",
    shape = "diamond" },
}

-- ---- files ----

local function contents(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

local function write_file(path, text)
  local file <close> = assert(io.open(path, "w"))
  assert(file:write(text))
end

-- Makes a file of about so many bytes, once; `line(i)` is its i-th line.
local function file_of(name, bytes, line)
  local path = ("%s/%s-%d"):format(DIR, name, bytes)
  if io.open(path) then return path end
  local out <close> = assert(io.open(path, "w"))
  local size, i = 0, 0
  while size < bytes do
    i = i + 1
    local text = line(i)
    out:write(text, "\n")
    size = size + #text + 1
  end
  return path
end

local function log_file()
  return file_of("log", quick and 20e6 or 500e6, function(i)
    local host = (i * 7919 % 1000) * (i * 104729 % 1000) // 1000 -- some hosts are much more frequent than others
    return ('10.0.%d.%d - - [22/Nov/2026:10:%02d:%02d] "GET /page/%d HTTP/1.1" 200 %d'):format(host // 256, host % 256,
      i // 60 % 60, i % 60, i % 977, i * 31 % 10000)
  end)
end

local function json_file()
  return file_of("json", quick and 5e6 or 90e6, function(i) -- a million lines
    local text = '{"id":%d,"name":"event %d","value":%d,"tags":["a","b"],"more":{"of":true}}'
    return text:format(i, i % 100, i % 1000)
  end)
end

local function csv_file()
  return file_of("csv", quick and 3e6 or 30e6, function(i) -- a million lines
    return ("%d,name %d,%d,city %d"):format(i, i % 9973, i * 31 % 10000, i % 97)
  end)
end

-- A folder with a file of 1 KB and one of 100 KB.
local function folder()
  local dir = DIR .. "/files"
  os.execute("mkdir -p " .. dir)
  for name, bytes in pairs { ["small.txt"] = 1024, ["large.txt"] = 102400 } do
    local file <close> = assert(io.open(dir .. "/" .. name, "w"))
    assert(file:write(("0123456789abcde\n"):rep(bytes // 16)))
  end
  return dir
end

-- A folder with 50 empty files, to which the load appends.
local function logs_folder()
  local dir = DIR .. "/tail"
  os.execute(("rm -rf %s; mkdir -p %s"):format(dir, dir))
  for i = 1, 50 do assert(io.open(("%s/%d.log"):format(dir, i), "w")):close() end
  return dir
end

local function lines_to_tail() return quick and 2000 or 100000 end

-- Fails unless the answers of n requests have so many bytes.
local function get(port, n, name, bytes)
  local command = 'test "$(%s bench/programs/runnel/main.lua requests %d http://127.0.0.1:%s/%s)" = %d'
  return command:format(RUNNEL, n, port, name, n * bytes)
end

-- ---- running ----

-- Runs a command of the shell; returns its output, and what it used. `around(pid)` is called while it runs, and must
-- end it.
local function run(command, around)
  local out, used, cpu, pid = DIR .. "/out", DIR .. "/used", DIR .. "/cpu", DIR .. "/pid"
  os.execute((": > %s; : > %s; : > %s; rm -f %s"):format(out, used, cpu, pid)) -- nothing of an earlier run
  local limited = "/usr/bin/time -q -o %s -f '%%e %%M' timeout 500 sh -c 'echo $$ > %s; exec %s' > %s 2> %s.err"
  write_file(DIR .. "/run.sh", limited:format(used, pid, command:gsub("'", "'\\''"), out, out))
  -- The shell's own `time` says ms, the other one hundredths of a second.
  local timed = ([[bash -c 'TIMEFORMAT="%%3U %%3S"; { time sh %s/run.sh; } 2> %s']]):format(DIR, cpu)
  if around then
    os.execute(timed .. " &")
    around(function() return contents(out) end, function()
      local stop = "kill -TERM $(cat %s); while kill -0 $(cat %s) 2> %s.kill; do sleep 0.05; done; sleep 0.1"
      os.execute(stop:format(pid, pid, DIR))
    end)
  elseif not os.execute(timed) then
    error(("%s: %s"):format(command, contents(out .. ".err")), 0)
  end
  local user, system = contents(cpu):match "([%d.]+) ([%d.]+)%s*$"
  local elapsed, kilobytes = contents(used):match "([%d.]+) (%d+)%s*$"
  return contents(out), { cpu = user + system, time = tonumber(elapsed), memory = kilobytes / 1024 }
end

-- Starts a program beside the measured ones, which prints a line with its port; returns the port, and what ends it.
local function server(command)
  local out = DIR .. "/server"
  os.execute(": > " .. out) -- nothing of an earlier server
  local pipe = assert(io.popen(("%s > %s 2>&1 & echo $!"):format(command, out)))
  local pid = pipe:read "l"
  pipe:close()
  for _ = 1, 100 do
    local port = contents(out):match "port (%d+)" or contents(out):match "http://127%.0%.0%.1:(%d+)"
    if port then return port, function() os.execute("kill " .. pid) end end
    os.execute "sleep 0.05"
  end
  error(command .. " has not started: " .. contents(out), 0)
end

-- ---- the programs: `load` runs beside a server, and must not fail; `fresh`: each run gets arguments of its own;
-- `needs`: a command that fails where a peer lacks something ----

local PROGRAMS = {
  { name = "logs", what = "500 MB of log to a top 20", peers = "go1 go2 node python lua",
    arguments = function() return log_file() end,
    ours = function(path) return RUNNEL .. " examples/recipes/toplog.lua " .. path end },
  { name = "commands", what = "1,000 commands, 8 at a time", peers = "go1 go2 node python luv tool",
    arguments = function() return quick and 100 or 1000 end,
    tool = function(n) return ("sh -c \"seq %d | xargs -P 8 -n 1 true && echo %d\""):format(n, n) end },
  { name = "proxy", what = "a proxy, 1,000 connections", peers = "go1 go2 node python luv",
    start = function() return server(LUA .. " examples/echo.lua 0") end,
    load = function(port) -- fails if a byte is lost
      return ("%s bench/io/echo_client.lua %s %d %d"):format(LUA, port, quick and 100 or 1000, quick and 10 or 100)
    end },
  { name = "json", what = "a million JSON lines, in threads", peers = "go1 go2 node python lua",
    arguments = function() return json_file() end },
  { name = "csv", what = "CSV into SQLite", peers = "python", arguments = function() return csv_file() end },
  { name = "actors", what = "100,000 actors, 10 messages each", peers = "go1 go2 python lua",
    arguments = function() return quick and 5000 or 100000 end },
  { name = "retries", what = "200,000 jobs with limits and retries", peers = "go1 go2 node python",
    arguments = function() return quick and 10000 or 200000 end },
  { name = "timers", what = "200,000 timers, nine tenths of them stopped", peers = "go1 go2 node python luv",
    arguments = function() return quick and 10000 or 200000 end },
  { name = "hello", what = "a server, 20,000 requests, 64 at a time", peers = "go1 go2 node",
    load = function(port)
      local n = quick and 2000 or 20000
      return ("%s bench/programs/runnel/main.lua requests %d http://127.0.0.1:%s/"):format(RUNNEL, n, port)
    end },
  { name = "stages", what = "JSON lines in 4 stages", peers = "go1 go2 node python lua",
    arguments = function() return json_file() end },
  { name = "mix", what = "a mix of 1,000 inputs", peers = "go1 go2 python",
    arguments = function() return quick and 10000 or 300000 end },
  { name = "fan", what = "to 100 workers and back", peers = "go1 go2 python",
    arguments = function() return quick and 10000 or 500000 end },
  { name = "words", what = "the words of 90 MB", peers = "go1 go2 node python lua",
    arguments = function() return json_file() end },
  { name = "files1", what = "a server, files of 1 KB", peers = "go1 go2 node", program = "files",
    arguments = folder, load = function(port) return get(port, quick and 500 or 20000, "small.txt", 1024) end },
  { name = "files100", what = "a server, files of 100 KB", peers = "go1 go2 node", program = "files",
    arguments = folder, load = function(port) return get(port, quick and 100 or 5000, "large.txt", 102400) end },
  { name = "wsecho", what = "WebSocket, echo of 100 KB", peers = "node",
    needs = { node = NODE .. " -e 'require(\"ws\")'" },
    load = function(port)
      return ("%s bench/programs/load/wsecho.lua %s 8 %d"):format(RUNNEL, port, quick and 20 or 500)
    end },
  { name = "tail", what = "the lines of 50 files that grow", peers = "go1 go2 node python", fresh = true,
    arguments = function() return ("%s %d"):format(logs_folder(), lines_to_tail()) end,
    load = function() return ("%s bench/programs/load/tail.lua %s/tail %d"):format(LUA, DIR, lines_to_tail()) end },
  { name = "chat", what = "a chat of 2,000", peers = "go1 go2 node python luv",
    load = function(port)
      return ("%s bench/programs/load/chat.lua %s %d %d"):format(LUA, port, quick and 100 or 2000, quick and 10 or 50)
    end },
  { name = "crawl", what = "a crawl of 2,000 pages, 1,000 a second", peers = "go1 go2 node",
    start = function() return server(RUNNEL .. " bench/programs/runnel/main.lua hello") end,
    arguments = function(port) return ("%d http://127.0.0.1:%s/"):format(quick and 200 or 2000, port) end },
  { name = "requests", what = "2,000 requests, 64 at a time", peers = "go1 go2 node tool",
    start = function() return server(RUNNEL .. " bench/programs/runnel/main.lua hello") end,
    arguments = function(port) return ("%d http://127.0.0.1:%s/"):format(quick and 200 or 2000, port) end,
    tool = function(arguments)
      local n, url = arguments:match "^(%d+) (%S+)$"
      return ("sh -c \"curl -s --parallel --parallel-max 64 '%s?[1-%d]' | wc -c\""):format(url, n)
    end },
}

-- A server, under the load of another program, which must not fail.
local function run_server(program, command)
  local _, used = run(command, function(output, stop)
    local ours
    for _ = 1, 100 do
      ours = output():match "port (%d+)"
      if ours then break end
      os.execute "sleep 0.05"
    end
    local ok = ours and os.execute(program.load(ours) .. " > " .. DIR .. "/load")
    stop()
    if not ok then error(command .. ": the load has failed", 0) end
  end)
  return "all answers have come", used
end

-- What a peer uses for a program; and its output.
local function measure(program, peer, arguments)
  if program.fresh then arguments = program.arguments() end
  local command = ("%s %s %s"):format(peer.run, program.program or program.name, arguments)
  if program.load then return run_server(program, command) end
  if peer.name == "tool" then return run(program.tool(arguments)) end
  if peer.name == "runnel" and program.ours then return run(program.ours(arguments)) end
  return run(command)
end

-- ---- the tables ----

local function median(list)
  local sorted = table.move(list, 1, #list, 1, {})
  table.sort(sorted)
  return sorted[(#sorted + 1) // 2]
end

-- The median of the ratios of a field to that of runnel, or nil.
local function ratio_of(results, peer, field)
  local ratios = {}
  for round, ours in ipairs(results.runnel) do
    local theirs = results[peer] and results[peer][round]
    if not theirs then return nil end
    ratios[round] = theirs[field] / math.max(ours[field], 0.001)
  end
  return median(ratios)
end

local function own(results, field)
  local list = {}
  for i, used in ipairs(results.runnel) do list[i] = used[field] end
  return median(list)
end

-- All results of a program: results[peer][round] = what it used.
local function results_of(program, peers)
  local results, missing = {}, {}
  for name, test in pairs(program.needs or {}) do missing[name] = not os.execute(test .. " 2> " .. DIR .. "/test") end
  local port, stop = nil, nil
  if program.start then port, stop = program.start() end
  local arguments = program.arguments and program.arguments(port) or port or ""
  local ok, err = pcall(function()
    for round = 1, rounds or quick and 1 or 3 do
      local expected
      for _, peer in ipairs(peers) do
        local has_it = (" " .. program.peers .. " "):find(" " .. peer.name .. " ", 1, true)
        if peer.name == "runnel" or has_it and not missing[peer.name] then
          io.stderr:write(("%s: round %d: %s\n"):format(program.name, round, peer.name))
          local output, used = measure(program, peer, arguments)
          expected = expected or output
          if output:gsub("%s+", " ") ~= expected:gsub("%s+", " ") then
            error(("%s: %s prints %q, not %q"):format(program.name, peer.name, output:sub(1, 200),
              expected:sub(1, 200)), 0)
          end
          results[peer.name] = results[peer.name] or {}
          results[peer.name][round] = used
        end
      end
    end
  end)
  if stop then stop() end
  if not ok then error(err, 0) end
  return results
end

local FIELDS = {
  { name = "cpu", title = "CPU time", unit = "%.3f s" },
  { name = "time", title = "elapsed time", unit = "%.2f s" },
  { name = "memory", title = "memory", unit = "%.0f MB" },
}

local function table_of(field, all, peers)
  local heading = { field.title, "runnel" }
  for i = 2, #peers do heading[i + 1] = peers[i].title end
  local rows = { heading }
  for _, entry in ipairs(all) do
    local row = { entry.program.what, field.unit:format(own(entry.results, field.name)) }
    for i = 2, #peers do
      local ratio = ratio_of(entry.results, peers[i].name, field.name)
      row[i + 1] = ratio and ("%.2f"):format(ratio) or ""
    end
    rows[#rows + 1] = row
  end
  return markdown(rows)
end

local function write_page(tables, all, peers)
  local page = contents(PAGE)
  local before, after = page:match "^(.*<!%-%- programs, measured %-%->\n).-(<!%-%- end of programs %-%->.*)$"
  if not before then error(PAGE .. ": the marks around the measured part are missing", 0) end
  local out <close> = assert(io.open(PAGE, "w"))
  assert(out:write(before, "\n", tables, "\n", after))
  local rows = {}
  for i, entry in ipairs(all) do
    rows[i] = { label = entry.program.name }
    for _, peer in ipairs(peers) do rows[i][peer.name] = ratio_of(entry.results, peer.name, "cpu") end
  end
  local picture <close> = assert(io.open(CHART, "w"))
  local series = table.move(peers, 2, #peers, 1, {})
  assert(picture:write(chart("CPU time of whole programs beside runnel", rows, series, "runnel")))
  io.stderr:write("wrote ", PAGE, " and ", CHART, "\n")
end

-- ---- the command line ----

local asked, has_programs, has_peers = {}, false, false
for _, word in ipairs(arg) do
  local known = word == "--quick" or word:find "^%-%-rounds=%d+$" ~= nil
  if word == "--quick" then quick = true end
  rounds = tonumber(word:match "^%-%-rounds=(%d+)$") or rounds
  for _, program in ipairs(PROGRAMS) do
    if program.name == word then known, has_programs, asked[word] = true, true, true end
  end
  for _, peer in ipairs(PEERS) do
    if peer.name == word then known, has_peers, asked[word] = true, true, true end
  end
  if not known then
    io.stderr:write "usage: lua5.4 bench/programs.lua [--quick] [--rounds=N] [PROGRAM...] [PEER...]\nprograms:"
    for _, program in ipairs(PROGRAMS) do io.stderr:write(" ", program.name) end
    io.stderr:write "\npeers:"
    for _, peer in ipairs(PEERS) do io.stderr:write(" ", peer.name) end
    io.stderr:write "\n"
    os.exit(2)
  end
end

os.execute("mkdir -p " .. DIR)
local ok, err = pcall(function()
  local peers, all = {}, {}
  for _, peer in ipairs(PEERS) do
    local is_wanted = peer.name == "runnel" or not has_peers or asked[peer.name]
    if is_wanted and os.execute(("{ %s; } > %s/test 2>&1"):format(peer.test, DIR)) then peers[#peers + 1] = peer end
  end
  for _, program in ipairs(PROGRAMS) do
    if not has_programs or asked[program.name] then
      all[#all + 1] = { program = program, results = results_of(program, peers) }
    end
  end
  local tables = {}
  for i, field in ipairs(FIELDS) do tables[i] = table_of(field, all, peers) .. "\n" end
  local text = table.concat(tables, "\n")
  io.write(text)
  if not (quick or has_programs or has_peers) then write_page(text, all, peers) end
end)
if not ok then
  io.stderr:write("bench/programs.lua: ", tostring(err), "\n")
  os.exit(1)
end
