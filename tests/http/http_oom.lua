-- The scenarios of http_oom.c: requests while allocations fail. Called with the number of a scenario and the port
-- of the server; returns its name and a function that runs it, or nil if there is no such scenario.

local number, port = ...
local rn = require "runnel"
local http = require "runnel.http"
local arm = arm -- luacheck: globals arm
local _ = { http.get, rn.to_chan } -- loads their modules, before allocations fail

local BASE = ("http://127.0.0.1:%d/"):format(port)
local CHUNKS = 400000 -- bytes of /chunks

-- Long strings are made before allocations fail: Lua's buffers never work again if their first one finds no memory.
local LONG = ("x"):rep(150000)

rn.on_error(function() end)

-- Set while allocations fail. A request may then fail, too; but what it returns as a success must be one.
local may_fail

local function failed(err)
  assert(may_fail, err)
  assert(err ~= nil, "a failure without an error")
end

-- Checks the results of a request.
local function check(body, page, err)
  if not page then return failed(err) end
  assert(page.status == 200 and page.body == body, "a wrong response")
  assert(type(page.url) == "string" and type(page.headers) == "table", "half a response")
  return page
end

-- The number of bytes that the server has counted is that of the body, or more if it came in chunks.
local function check_count(least, page, err)
  if not page then return failed(err) end
  assert(page.status == 200 and tonumber(page.body) >= least, "something was not sent")
end

-- Takes what a stream carries. It must be all of it if there is no error.
local function read_stream(pieces)
  local size = 0
  while true do
    local piece, err = pieces:take()
    if piece == nil then
      if err ~= nil then return failed(err) end
      break
    end
    size = size + #piece
  end
  assert(size == CHUNKS, "a part of the stream is missing")
end

local SCENARIOS = {
  { "get", function()
    local page = check("hello", http.get(BASE .. "text"))
    if page then
      assert(page.headers["x-one"] == "1, 2" and #page.headers["set-cookie"] == 2, "headers are missing")
    end
    check("hello", http.get(BASE .. "text")) -- by the same connection and handle
  end },

  { "several gets", function()
    local blocks = {}
    for i = 1, 5 do blocks[i] = rn.go(function() return assert(http.get(BASE .. "text")) end) end
    for i = 1, 5 do check("hello", blocks[i]:take()) end
  end },

  { "a redirect", function()
    local page = check("hello", http.get(BASE .. "redirect", { headers = { A = { "1", "2" } }, query = { a = 1 } }))
    assert(not page or page.url == BASE .. "text", "the wrong URL")
  end },

  { "a redirect that drops a body", function()
    check("hello", http.request { url = BASE .. "redirect", json = { LONG }, cookie = "c=1", headers = { A = "1" } })
  end },

  { "a compressed body", function() check("hello", http.get(BASE .. "gzip")) end },

  { "libcurl's options", function()
    check("hello", http.get("http://other/text", { connect_to = { ("other:80:127.0.0.1:%d"):format(port) },
      useragent = "me", userpwd = "a:b", httpauth = "basic", timeout = 50000, max = 100, fail = true }))
  end },

  { "JSON", function()
    check_count(#LONG, http.request { url = BASE .. "count", json = { text = LONG }, timeout = 50000 })
  end },

  { "parts", function()
    check_count(#LONG, http.request { url = BASE .. "count", multipart = {
      { name = "a", data = LONG },
      { name = "b", file = "tests/http/http_oom.lua", type = "text/x-lua", filename = "b" },
    } })
  end },

  { "a file", function()
    local file <close> = assert(io.open "tests/http/http_oom.lua")
    check_count(3000, http.request { url = BASE .. "count", body = file })
  end },

  { "a body from a channel", function()
    local source = rn.to_chan { LONG, LONG, LONG }
    check_count(3 * #LONG, http.request { url = BASE .. "count", body = source })
  end },

  { "a stream", function() read_stream((http.stream(BASE .. "chunks"))) end },

  { "a slow stream", function()
    local pieces, head = http.stream(BASE .. "chunks")
    local response, err = head()
    if not response then return failed(err) end
    assert(response.status == 200)
    rn.sleep(2)
    read_stream(pieces)
  end },

  { "a stream that is left", function()
    local pieces = http.stream(BASE .. "chunks")
    local piece, err = pieces:take()
    if not piece then return failed(err) end
    pieces:close()
  end },

  { "early hints and trailers", function()
    local hints = 0
    local function on_hints(headers)
      assert(headers.link == "</a>" and #headers["x-long"] == 1000, "wrong hints")
      hints = hints + 1
    end
    local page = check("hello", http.get(BASE .. "hints", { hints = on_hints, certificates = true }))
    if page then assert(hints == 1 and page.trailers["x-sum"] == "7", "hints or trailers are missing") end
  end },

  { "cookies", function()
    local jar = http.cookies()
    check("hello", http.get(BASE .. "text", { cookies = jar }))
    jar:add "Set-Cookie: c=3; domain=example.org"
    local lines = jar:all()
    assert(may_fail or #lines == 3)
    check("hello", http.get(BASE .. "text", { cookies = jar }))
  end },

  { "cancelling", function()
    local blocks = {}
    for i = 1, 4 do blocks[i] = rn.go(http.get, BASE .. "silence") end
    for i = 1, 4 do
      rn.sleep(i / 4)
      rn.cancel(blocks[i], "enough")
    end
    for i = 1, 4 do assert(blocks[i]:take() == nil) end
  end },
}

local found = SCENARIOS[number]
if not found then return nil end

return found[1], function()
  may_fail = true
  arm(true)
  local ok, err = pcall(found[2])
  arm(false)
  -- If a port dies, what waits for it is a deadlock.
  if not ok and not tostring(err):find "memory" and not tostring(err):find "deadlock" then error(err, 0) end
  may_fail = false
  found[2]()
end
