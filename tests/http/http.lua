-- The client of runnel.http, used in every way: requests that end, fail, are cancelled or left at any moment, and a
-- state that is closed meanwhile. To be run with sanitizers, which look for races and for memory that is used after its
-- end:
--
--     build/tsan/runner tests/http/http.lua ROUNDS [SEED]
--
-- The server is one of runnel.http in this state, which answers as the path says. A response that counts as whole must
-- be whole.

local rn = require "runnel"
local http = require "runnel.http"

local t = t -- luacheck: globals t
t.limit(600)
local rounds, seed = tonumber((...)), tonumber(select(2, ...) or os.time())
math.randomseed(seed)
local random = math.random

local whole, failed, cancelled = 0, 0, 0
rn.on_error(function() end) -- of the server, whose clients go away

local source = dofile "tests/http/random_body.lua"

local ANSWERS = {
  text = function() return 200, { ["Set-Cookie"] = { "a=1", "b=2" } }, ("t"):rep(1000) end,
  count = function(req)
    local n = 0
    for piece in req:pieces() do n = n + #piece end
    return 200, nil, tostring(n)
  end,
  long = function() return 200, nil, ("l"):rep(1000000) end,
  bits = function() return 200, nil, source() end,
  redirect = function(req) return 302, { location = req.path == "/redirect" and "/text" or "/redirect" } end,
  slow = function()
    rn.sleep(random() * 100)
    return 404
  end,
  error = function() error "on purpose" end,
}

local NAMES = {}
for name in pairs(ANSWERS) do NAMES[#NAMES + 1] = name end
table.sort(NAMES)

local server = assert(http.serve(0, function(req) return ANSWERS[req.path:match "%a+"](req) end,
  { timeout = 2000, idle = 2000 }))
local jar = http.cookies()

-- Checks what must be true of a response.
local function check(name, page, size)
  if not page then
    failed = failed + 1
    return
  end
  whole = whole + 1
  if page.status == 503 then return end -- on a busy machine the server may find that an answer takes too long
  local body = page.body
  if name == "text" then assert(#body == 1000 and #page.headers["set-cookie"] == 2) end
  if name == "long" then assert(#body == 1000000) end
  if name == "count" and size then assert(tonumber(body) == size) end
end

local function options()
  return { timeout = random(3) == 1 and random(1, 100) or nil, cookies = random(3) == 1 and jar or nil,
    headers = random(3) == 1 and { a = "b" } or nil, max = random(5) == 1 and random(1, 2000000) or nil,
    forbid_reuse = random(10) == 1 or nil }
end

local WAYS = {
  function(name, url) check(name, (http.get(url))) end,
  function(name, url) check(name, (http.get(url, options()))) end,
  function(_, _)
    local opts, size = options(), random(0, 300000)
    opts.url, opts.body = server.url .. "count", ("u"):rep(size)
    check("count", http.request(opts), size)
  end,
  function(_, _)
    local opts = options()
    opts.url, opts.body = server.url .. "count", source()
    check("count", (http.request(opts)))
  end,
  function(name, url)
    local opts = options()
    opts.buffer = random(0, 2) > 0 and random(1, 3) or nil
    local pieces, head = http.stream(url, opts)
    if random(3) == 1 then head() end
    local body, leaves = {}, random(3) == 1
    for piece in pieces do
      body[#body + 1] = piece
      if random(20) == 1 then rn.sleep(random()) end
      if leaves and random(5) == 1 then
        if random(2) == 1 then pieces:close() end
        return
      end
    end
    local _, err = pieces:poll() -- on a busy machine the server may find that the client reads too slowly
    local page = err == nil and head()
    if name == "long" and page and page.status == 200 then assert(#table.concat(body) == 1000000) end
  end,
  function() table.concat(jar:all()) end,
  function() jar:add(("Set-Cookie: c%d=1; domain=127.0.0.1"):format(random(10))) end,
  function() http.close_idle() end,
  function(_, _) check("refused", (http.get "http://127.0.0.1:1/")) end,
}

for _ = 1, rounds do
  t.limit(600)
  local blocks = {}
  for i = 1, random(1, 30) do
    local name, way = NAMES[random(#NAMES)], WAYS[random(#WAYS)]
    blocks[i] = rn.go(way, name, server.url .. name)
  end
  for _, block in ipairs(blocks) do
    if random(3) == 1 then
      if random(2) == 1 then rn.sleep(random() * 10) else rn.yield() end
      rn.cancel(block, "enough")
      cancelled = cancelled + 1
    end
  end
  for _, block in ipairs(blocks) do
    local _, err = block:take()
    if err ~= nil and err ~= "enough" then error(("seed %d: %s"):format(seed, tostring(err)), 0) end
  end
  if random(4) == 1 then collectgarbage() end
end
assert(whole > 0 and failed > 0 and cancelled > 0, "nothing has happened")
print(("%d requests succeeded, %d failed, %d were cancelled"):format(whole, failed, cancelled))
for _ = 1, 5 do rn.go(http.get, server.url .. "slow") end -- the state is closed meanwhile
rn.yield()
