-- The server of make bench-web: writes its URL. /hello is a short page, /slow one that takes a second, /large 1 GB.

local rn = require "runnel"
local http = require "runnel.http"
local uv = require "runnel.uv"

local PIECE, PIECES = ("x"):rep(1 << 16), 1 << 14

local function large()
  local ch = rn.chan(4)
  rn.go(function()
    for _ = 1, PIECES do
      if not ch:put(PIECE) then return end
    end
    ch:close()
  end)
  return ch
end

local server <close> = assert(http.serve(0, function(req)
  if req.path == "/slow" then rn.sleep(1000) end
  if req.path == "/large" then return 200, { ["Content-Length"] = #PIECE * PIECES }, large() end
  return 200, nil, "hello from the server of bench-web\n"
end, { max_connections = 3000 }))
print(server.url)
io.stdout:flush()
for _ in uv.lines(0) do end -- until the benchmark ends
