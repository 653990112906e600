-- The server of http_oom.c, in a process of its own: ready(port) tells it the port, and parent() is its process.

local rn = require "runnel"
local http = require "runnel.http"
local ready, parent = ready, parent -- luacheck: globals ready parent

local CHUNKS, CHUNK = 40, ("x"):rep(10000) -- of a body that is longer than what the client keeps of a stream

-- "hello", compressed.
local GZIP = "\x1f\x8b\x08\0\0\0\0\0\2\3\xcb\x48\xcd\xc9\xc9\7\0\x86\xa6\x10\x36\5\0\0\0"

local PATHS = {
  ["/text"] = function() return 200, { ["Set-Cookie"] = { "a=1", "b=2" }, ["X-One"] = { "1", "2" } }, "hello" end,
  ["/gzip"] = function() return 200, { ["Content-Encoding"] = "gzip" }, GZIP end,
  ["/redirect"] = function(req)
    req:body()
    return 302, { Location = "/text" }
  end,
  ["/chunks"] = function()
    local out = rn.chan()
    rn.go(function()
      for _ = 1, CHUNKS do
        if not out:put(CHUNK) then break end
      end
      out:close()
    end)
    return 200, nil, out
  end,
  ["/hints"] = function(req)
    req:hints { Link = "</a>", ["X-Long"] = ("x"):rep(1000) }
    req:trailer("X-Sum", 7)
    return 200, { Trailer = "X-Sum" }, rn.to_chan { "hello" }
  end,
  ["/count"] = function(req)
    local count = 0
    for piece in req:pieces() do count = count + #piece end
    return 200, nil, tostring(count)
  end,
  ["/silence"] = function() rn.sleep(3600000) end,
}

rn.on_error(function() end) -- clients that go while they are answered
local server = assert(http.serve(0, function(req) return PATHS[req.path](req) end))
ready(server.port)
local started_by = parent()
while parent() == started_by do rn.sleep(100) end
