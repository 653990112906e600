-- Random changes of the requests in spec/http/vectors.lua, for programs that send them to servers. Such a program's
-- arguments are the seconds for which it sends them, by default 60, and the seed of math.random.

local changes = {}

local random = math.random

local LONGEST <const> = 400 -- bytes of a changed request

---@type number
changes.seconds = tonumber(arg[1]) or 60

local seed = math.tointeger(tonumber(arg[2])) or os.time()
math.randomseed(seed)
print(("seed %d, %d s"):format(seed, changes.seconds))

---All requests, without their names.
---@type string[]
changes.vectors = {}

local bases = {}
for _, group in ipairs(dofile "spec/http/vectors.lua") do
  for i = 2, #group do
    local bytes = group[i][3]
    changes.vectors[#changes.vectors + 1] = bytes
    if #bytes <= LONGEST then bases[#bases + 1] = bytes end
  end
end

local WORDS <const> = {
  "\r\n", "\n", "\r", "\t", " ", "\0", "\11", "\12", "\127", "\160", "\233", ",", ";", ":", "\"", "\\", "/", "?", "#",
  "%", "@", "[", "]", "0", "3", "a", "-", "+", "_", "0x", "chunked", "close", "keep-alive", "gzip", "identity", "x:80",
  "X-A: a\r\n", "Content-Length: 3\r\n", "Content-Length: 0\r\n", "Content-Length: 3, 3\r\n", "Host: x\r\n",
  "Host: y\r\n", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip\r\n", "Connection: close\r\n",
  "Connection: keep-alive\r\n",
  "Connection: upgrade\r\n", "Upgrade: a\r\n", "Expect: 100-continue\r\n", "Trailer: X-A\r\n", "Content-Length", "X-A",
  "HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "GET ", "HEAD ", "POST ", "CONNECT ", "OPTIONS ", "PRI ", "get ", "http://x",
  "https://x/", "//x/", "*", "3\r\nabc\r\n", "0\r\n\r\n", "0\r\n", ";a=b", ";a=\"b;c\"", "\r\n ", "\r\n\t", "\r\n\r\n",
}

local function change(bytes)
  local at, n, what = random(#bytes + 1), random(random(2) == 1 and 2 or 12), random(7)
  local before, behind = bytes:sub(1, at - 1), bytes:sub(at)
  if what == 1 then return before .. string.char(random(0, 255)) .. behind:sub(2) end
  if what == 2 then return before .. behind:sub(n + 1) end
  if what == 3 then return before .. behind:sub(1, n) .. behind end
  if what == 4 then return before .. WORDS[random(#WORDS)] .. behind:sub(n + 1) end
  if what == 5 then -- a line moves
    local lines = {}
    for line in bytes:gmatch "[^\n]*\n?" do lines[#lines + 1] = line end
    table.insert(lines, random(#lines), table.remove(lines, random(#lines)))
    return table.concat(lines)
  end
  if what == 6 then -- the end of another request
    local other = bases[random(#bases)]
    return before .. other:sub(random(#other))
  end
  return before .. WORDS[random(#WORDS)] .. behind
end

---A request, or what is left of one.
---@return string
function changes.random()
  local bytes = bases[random(#bases)]
  for _ = 1, random(3) do bytes = change(bytes) end
  return bytes:sub(1, LONGEST)
end

return changes
