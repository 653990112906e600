-- A client for Redis on a socket: any number of go blocks share one connection, and nobody waits for the answers of
-- others before a command is sent. Needs luv.
--
--     runnel examples/recipes/redis.lua 127.0.0.1 6379 COUNT

local rn = require "runnel"
local uv = require "runnel.uv"

-- Reads an answer.
local function read_answer(r)
  local kind, text = assert(r:read_until "\r\n"):match "^(.)(.*)$"
  if kind == "+" then return text end
  if kind == ":" then return tonumber(text) end
  if kind == "-" then return { err = text } end
  local n, list = tonumber(text), {}
  if kind == "$" and n >= 0 then return assert(r:read(n + 2)):sub(1, n) end
  for i = 1, n do list[i] = read_answer(r) end
  return list -- {} also stands for nothing
end

local function connect(host, port)
  local conn = assert(uv.connect(host, port))
  local waiting, r = rn.chan(10000), uv.reader(conn)
  rn.go(function()
    for answer in waiting do answer:put(read_answer(r)) end
    conn:close()
  end):name "answers of Redis"

  -- Sends a command and waits for its answer.
  return function(...)
    local parts, answer = { ("*%d\r\n"):format(select("#", ...)) }, rn.chan(1)
    for i, part in ipairs { ... } do parts[i + 1] = ("$%d\r\n%s\r\n"):format(#tostring(part), part) end
    waiting:put(answer)
    assert(conn:write(table.concat(parts)))
    local value = answer:take()
    if type(value) == "table" and value.err then error(value.err, 0) end
    return value
  end, function() waiting:close() end
end

local redis, close = connect(arg[1], tonumber(arg[2]))
local ids = {}
for i = 1, tonumber(arg[3]) do ids[i] = i end
redis("DEL", "visits")
rn.pmap(100, function() return redis("INCR", "visits") end, ids):list()
print(redis("GET", "visits"))
close()
