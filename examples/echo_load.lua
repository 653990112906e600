-- Puts load on an echo server such as examples/echo.lua, with many clients at once. Each client sends a message, waits
-- until it comes back, and sends the next. Needs luv.
--
--     lua5.4 examples/echo_load.lua [-c CLIENTS] [-n MESSAGES] [-s BYTES] [HOST] PORT
--     lua5.4 examples/echo.lua 7007 & lua5.4 examples/echo_load.lua -c 500 7007
--
-- By default, 100 clients send 100 messages of 100 bytes each. The exit status is 1 if an answer is wrong or missing.

local rn = require "runnel"
local uv = require "runnel.uv"

local USAGE = [[
usage: lua5.4 examples/echo_load.lua [-c CLIENTS] [-n MESSAGES] [-s BYTES] [HOST] PORT
  CLIENTS, MESSAGES for each client, BYTES of a message: whole numbers from 1; 100 by default
]]
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function usage()
  io.stderr:write(USAGE)
  os.exit(2)
end

-- ---- the command line ----

local options, place = { ["-c"] = 100, ["-n"] = 100, ["-s"] = 100 }, {}
local i = 1
while arg[i] do
  if options[arg[i]] then
    local n = math.tointeger(tonumber(arg[i + 1]))
    if not n or n < 1 then usage() end
    options[arg[i]] = n
    i = i + 1
  elseif arg[i]:find "^%-" then
    usage()
  else
    place[#place + 1] = arg[i]
  end
  i = i + 1
end
local host, port = "127.0.0.1", math.tointeger(tonumber(place[#place]))
if place[2] then host = place[1] end
if not port or port < 1 or port > 65535 or place[3] then usage() end
local clients, messages, size = options["-c"], options["-n"], options["-s"]

-- ---- the clients ----

local errors, answers, slowest = {}, 0, 0

-- Takes n bytes from a channel of chunks and returns them.
local function receive(chunks, n)
  local parts, got = {}, 0
  while got < n do
    local chunk, err = chunks:take()
    if not chunk then error(err or "the server closed the connection", 0) end
    parts[#parts + 1] = chunk
    got = got + #chunk
  end
  return table.concat(parts)
end

local function client(name, begin)
  local conn, problem = uv.connect(host, port)
  if not conn then error(problem, 0) end
  local answer = conn:read()
  begin:take()
  for k = 1, messages do
    local message = ("%d/%d "):format(name, k):rep(size):sub(1, size)
    local start = rn.now()
    -- Write and read at the same time: the server sends a large message back before it has received all of it.
    local written = rn.go(function() return { conn:write(message) } end)
    if receive(answer, size) ~= message then error("the answer is not what was sent", 0) end
    local ok, err = table.unpack((written:take()))
    if not ok then error(err, 0) end
    answers = answers + 1
    slowest = math.max(slowest, rn.now() - start)
  end
  conn:close()
end

local interrupted = uv.signal("int", "term")
local begin, results = rn.chan(), {}
for k = 1, clients do results[k] = rn.go(function() return { pcall(client, k, begin) } end) end
local start = rn.now()
begin:close()
local ended = rn.merge(results)
for _ = 1, clients do
  local result, from = rn.alts({ interrupted, ended }, { priority = true })
  if from == interrupted then os.exit(130, true) end
  if not result[1] then errors[#errors + 1] = result[2] end
end
local seconds = (rn.now() - start) / 1000

print(("%d answers of %d bytes to %d clients in %.2f s: %.0f a second, the slowest after %.1f ms; %d clients failed")
  :format(answers, size, clients, seconds, answers / seconds, slowest, #errors))
for k = 1, math.min(3, #errors) do io.stderr:write("echo_load: ", tostring(errors[k]), "\n") end
os.exit(#errors == 0 and 0 or 1, true)
