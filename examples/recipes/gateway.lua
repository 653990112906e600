-- Fan-out over HTTP: asks several servers at the same time and answers with what came within 300 ms, as JSON. Needs
-- libcurl.
--
--     runnel examples/recipes/gateway.lua PORT http://127.0.0.1:8001/price http://127.0.0.1:8002/price

local rn = require "runnel"
local http = require "runnel.http"
local uv = require "runnel.uv"

local port = tonumber(table.remove(arg, 1))
local backends = table.move(arg, 1, #arg, 1, {})

local function ask(backend)
  local page = assert(http.get(backend, { fail = true, max = 1 << 16 }))
  return { from = backend, answer = page.body }
end

local function failed(err, backend) return { from = backend, error = tostring(err) } end

local server = assert(http.serve(port, function(req)
  if req.path ~= "/" then return 404 end
  local answers = rn.pmap(#backends, ask, backends, { timeout = 300, ex_handler = failed })
  return 200, nil, { answers = answers:list() }
end))
print(server.url)
io.stdout:flush()
uv.signal("int", "term"):take()
server:drain()
