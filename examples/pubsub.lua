-- Routes lines to files by topic; the topic is the first word of a line.
--
--     lua5.4 examples/pubsub.lua TOPIC=FILE... < LINES
--     printf 'rain 3 mm\nwind 9 kn\nrain 0 mm\n' | lua5.4 examples/pubsub.lua rain=/tmp/rain.txt wind=-
--
-- The file "-" is standard output. A topic may go to several files. Lines of other topics are dropped. Each topic has a
-- buffer, so that a slow file delays only its own topic.

local rn = require "runnel"

local BUFFER = 100

local function fail(...)
  io.stderr:write("pubsub: ", ...)
  io.stderr:write "\n"
  os.exit(1)
end

local USAGE = "usage: lua5.4 examples/pubsub.lua TOPIC=FILE... < LINES\n"
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function usage()
  io.stderr:write(USAGE)
  os.exit(2)
end

local function topic_of(line) return line:match "%S+" or "" end

-- Writes all lines of a channel to a file; returns how many there were.
local function write(lines, file)
  file:setvbuf "line"
  local n = 0
  for line in lines do
    file:write(line, "\n")
    n = n + 1
  end
  file:flush()
  return n
end

-- ---- the command line ----

local subscriptions = {}
for i, argument in ipairs(arg) do
  local topic, name = argument:match "^([^%s=]+)=(.+)$"
  if not topic then usage() end
  local file, err = io.stdout, nil
  if name ~= "-" then file, err = io.open(name, "w") end
  subscriptions[i] = { topic = topic, name = name, file = file or fail(err) }
end
if #subscriptions == 0 then usage() end

local lines = rn.chan()
local topics = rn.pub(lines, topic_of, function() return BUFFER end)
for _, subscription in ipairs(subscriptions) do
  subscription.written = rn.go(write, topics:sub(subscription.topic, rn.chan()), subscription.file)
end

for line in io.lines() do
  lines:put(line)
  repeat until rn.step() ~= 0 -- run all ready go blocks: reading the next line blocks the program
end
lines:close()

for _, subscription in ipairs(subscriptions) do
  local n, err = subscription.written:take()
  if not n then fail(err) end
  io.stderr:write(("%s: %d lines to %s\n"):format(subscription.topic, n, subscription.name))
end
