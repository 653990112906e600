-- files.lua FOLDER [CERTIFICATE KEY]: a server of make bench-web, of the files of a folder, and of /string, a text of
-- 100 KB. Prints its port.

local http = require "runnel.http"
local uv = require "runnel.uv"

local text = ("x"):rep(100000)
local server <close> = assert(http.serve(0, http.router {
  ["/files/*path"] = http.files(arg[1]),
  ["/string"] = function() return 200, nil, text end,
}, { max_requests = 1 << 30, tls = arg[2] and { cert = arg[2], key = arg[3] } or nil }))
print(server.port)
io.stdout:flush()
for _ in uv.lines(0) do end -- until the benchmark ends
