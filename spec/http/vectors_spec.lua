-- http.serve: which requests it takes and which it refuses, by the vectors of vectors.lua, at once and in pieces; and
-- the same with http.proxy before it, and with a service that has everything, which must change nothing.

if not pcall(require, "luv") then
  describe("http.serve by the RFCs", function() pending "luv is not installed" end)
  return
end

local http = require "runnel.http"
local http_stage = require "spec.support.http.http_stage"
local rn = require "runnel"
local service = not http_stage.missing and require "spec.support.http.service"
local stage = require "spec.support.stage"
local uv = require "runnel.uv"
local uv_stage = require "spec.support.uv_stage"

local VECTORS = dofile "spec/http/vectors.lua"

-- Is sent behind each vector: it is answered if the connection is open, and in step.
local PROBE <const> = "GET /probe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

local SERVER <const> = "http.serve"

local is_warm = false

local function by_the_rfcs(name, around)
  local server, behind

  before_each(function()
    if not is_warm then assert(http.serve(0, print)):close() end -- opens the descriptor by which threads wake Lua
    is_warm = true
    uv_stage.open()
    behind = assert(http.serve(0, function(req)
      local body = req:body()
      if req.path == "/probe" then return 200, nil, "probe" end
      if body ~= "" then return 200, nil, body end
      if req.path == "/x" then return 200, nil, req.headers["x-a"] or "-" end
      return 200, nil, req.method == "GET" and "hello" or ""
    end))
    server = around(behind)
  end)
  after_each(function()
    server:close()
    behind:close()
    if name ~= SERVER then http.close_idle() end
    uv_stage.close()
  end)

  -- Sends bytes, in random pieces if there is a source of random numbers, and returns all that comes until the server
  -- closes the connection. `ends`: then closes the sending side, for a request that is incomplete. A complete one would
  -- then have to be answered in a limited time.
  local function exchange(bytes, ends, random)
    local conn <close> = assert(uv.connect("127.0.0.1", server.port))
    local writing = rn.go(function()
      local at = 1
      while at <= #bytes do
        local n = random and random(1, random(1, 2) == 1 and 3 or 60) or #bytes
        if not conn:write(bytes:sub(at, at + n - 1)) then return end
        at = at + n
        if random then rn.yield() end
      end
      if ends then conn:shutdown() end
    end)
    local answer = table.concat(stage.drain(conn:read()))
    conn:close()
    writing:take()
    return answer
  end

  -- The statuses and bodies of responses, but for those of status 100.
  local function parse(answer)
    local list, at = {}, 1
    while at <= #answer do
      at = answer:match("^HTTP/1%.1 100 [^\r\n]*\r\n\r\n()", at) or at
      local status, headers, past = answer:match("^HTTP/1%.1 (%d+) [^\r\n]*\r\n(.-)\r\n\r\n()", at)
      assert(status, answer)
      local length = tonumber(headers:match "Content%-Length: (%d+)") or 0
      list[#list + 1] = { status = tonumber(status), body = answer:sub(past, past + length - 1) }
      at = past + length
    end
    return list
  end

  -- What a vector's answer is: "reject", "accept", "close" or "wait"; or a text that says what is wrong with it.
  local function judge(vector, answer)
    local list, good = parse(answer), 0
    while list[good + 1] and list[good + 1].status == 200 and list[good + 1].body ~= "probe" do good = good + 1 end
    local last = list[good + 1]
    if vector.body and good > 0 and list[1].body ~= vector.body then return "the body " .. list[1].body end
    if not last and good == 0 then return "wait" end
    if last and last.status >= 400 then
      return good == (vector.responses or 0) and not list[good + 2] and "reject" or answer
    end
    if good ~= (vector.responses or 1) or list[good + 2] then return answer end
    return last and "accept" or "close"
  end

  local function send(vector, random)
    local waits = vector[2]:find "wait"
    return exchange(waits and vector[3] or vector[3] .. PROBE, waits, random)
  end

  local function check(group, random)
    for i = 2, #group do
      local vector = group[i]
      local found = judge(vector, send(vector, random))
      local is_right = ("|" .. vector[2] .. "|"):find("|" .. found .. "|", 1, true)
      assert.is_truthy(is_right, ("%s: %s: %s"):format(group[1], vector[1], found))
    end
  end

  for _, group in ipairs(VECTORS) do
    it(("takes right requests and refuses wrong ones: %s"):format(group[1]), function() check(group) end)
  end

  if name ~= SERVER then return end

  it("accepts a request in pieces of any size", function()
    local seed = os.time()
    math.randomseed(seed)
    for _, group in ipairs(VECTORS) do
      local short = { group[1] }
      for i = 2, #group do
        if #group[i][3] < 1000 then short[#short + 1] = group[i] end
      end
      local ok, err = pcall(check, short, math.random)
      assert(ok, ("seed %d: %s"):format(seed, tostring(err)))
    end
  end)
end

describe("http.serve by the RFCs", function()
  by_the_rfcs(SERVER, function(behind) return behind end)
end)

describe("http.proxy by the RFCs", function()
  if http_stage.missing then return pending(http_stage.missing) end
  setup(function() http.get "http://127.0.0.1:1/" end) -- makes the client and its thread, which have a descriptor
  by_the_rfcs("http.proxy", function(behind) return assert(http.serve(0, http.proxy(behind.url))) end)
end)

describe("a service with supervision, a log, cookies, forms, compression, limits and a proxy", function()
  if http_stage.missing then return pending(http_stage.missing) end
  setup(function() http.get "http://127.0.0.1:1/" end)
  by_the_rfcs("service", function(behind) return service.start(behind.url) end)
end)

describe("a service with everything", function()
  if http_stage.missing then return pending(http_stage.missing) end
  before_each(http_stage.open)
  after_each(http_stage.close)

  it("does all of it, also after a crash", function()
    local behind <close> = assert(http.serve(0, function(req) return 200, nil, ("behind "):rep(500) .. req:body() end))
    local served = service.start(behind.url)
    local url = ("http://127.0.0.1:%d/"):format(served.port)
    for _ = 1, 2 do
      local res = assert(http.request { url = url, body = "text" })
      assert.same({ 200, ("behind "):rep(500) .. "text", "gzip" },
        { res.status, res.body, res.headers["content-encoding"] })
      assert.match("^%x+$", res.headers["x-request-id"])
      res = assert(http.request { url = url .. "form", multipart = { { name = "a", data = "b" },
        { name = "c", data = ("x"):rep(1000), filename = "c" } } })
      assert.same({ a = "b", c = 1000 }, res:json())
      res = assert(http.get(url, { cookie = "session=7" }))
      assert.same({ "known", 1 }, { res.body, #res.headers["set-cookie"] })
      assert.equal(413, assert(http.request { url = url, body = ("x"):rep(1048577) }).status)
      served.crash()
    end
    served.close()
  end)
end)
