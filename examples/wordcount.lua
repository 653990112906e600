-- Counts the words in texts and prints the most frequent ones.
--
--     lua5.4 examples/wordcount.lua [--top N] [--counters N] [FILE...]
--
-- Without files it reads the licence texts that every Debian system has. It prints the same lines, 20 by default, as
--
--     cat FILE... | LC_ALL=C tr -cs A-Za-z '\n' | tr A-Z a-z | sort | uniq -c | LC_ALL=C sort -rn | head -n 20
--
-- One go block reads lines and puts them on a channel whose transducer splits them into words. Other go blocks, the
-- counters, share the words. Their counts are merged and added up.

local rn = require "runnel"

local LICENCES = "/usr/share/common-licenses"

local function fail(...)
  io.stderr:write("wordcount: ", ...)
  io.stderr:write "\n"
  os.exit(1)
end

-- A transducer: lines in, words in lower case out.
local function split(rf)
  return function(acc, line)
    if line == nil then return rf(acc) end
    for word in line:gmatch "[A-Za-z]+" do acc = rf(acc, word:lower()) end
    return acc
  end
end

-- Puts the lines of the files on a channel and closes it, with an error if there is one.
local function read(files, lines)
  for _, name in ipairs(files) do
    local file <close>, err = io.open(name)
    if not file then return lines:close(err) end
    local _, unreadable = file:read(0) -- a directory, for example, can be opened
    if unreadable then return lines:close(name .. ": " .. unreadable) end
    for line in file:lines() do lines:put(line) end
  end
  lines:close()
end

local function count(counts, word)
  counts[word] = (counts[word] or 0) + 1
  return counts
end

local function add(total, counts)
  for word, n in pairs(counts) do total[word] = (total[word] or 0) + n end
  return total
end

-- Counts the words of the files; returns a table of word -> count, or nil and an error.
local function wordcount(files, ncounters)
  local words = rn.chan(100, split)
  rn.go(read, files, words)
  local counters = {}
  for i = 1, ncounters do counters[i] = rn.reduce(count, {}, words) end
  return rn.reduce(add, {}, rn.merge(counters)):take()
end

-- ---- the command line ----

local USAGE = [[
usage: lua5.4 examples/wordcount.lua [--top N] [--counters N] [FILE...]
  --top N: how many words to print, a whole number from 1; 20 by default
  --counters N: how many go blocks count, a whole number from 1; 4 by default
]]
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local options, files = { top = 20, counters = 4 }, {}
local i = 1
while arg[i] do
  local name = arg[i]:match "^%-%-(.*)"
  if name then
    i = i + 1
    local n = math.tointeger(tonumber(arg[i]))
    if not options[name] or not n or n < 1 then
      io.stderr:write(USAGE)
      os.exit(2)
    end
    options[name] = n
  else
    files[#files + 1] = arg[i]
  end
  i = i + 1
end
if #files == 0 then
  local list <close> = assert(io.popen(("ls %s/* 2>&1"):format(LICENCES)))
  for name in list:lines() do files[#files + 1] = name end
end

local counts, err = wordcount(files, options.counters)
if not counts then fail(err) end

local words, total = {}, 0
for word, n in pairs(counts) do
  words[#words + 1] = word
  total = total + n
end
table.sort(words, function(a, b)
  if counts[a] ~= counts[b] then return counts[a] > counts[b] end
  return a > b
end)
for k = 1, math.min(options.top, #words) do print(("%7d %s"):format(counts[words[k]], words[k])) end
io.stderr:write(("%d words, %d different ones, in %d files\n"):format(total, #words, #files))
