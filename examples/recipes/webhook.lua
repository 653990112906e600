-- Receives webhooks: checks the secret, answers at once, and processes the events in the background, several at a time,
-- with retries. SIGTERM: accepts no more, finishes what is there. Needs luv.
--
--     SECRET=abc runnel examples/recipes/webhook.lua PORT COMMAND
--
-- COMMAND gets each event as JSON on its standard input.

local rn = require "runnel"
local http = require "runnel.http"
local uv = require "runnel.uv"

local port, command, secret = tonumber(arg[1]), arg[2], assert(os.getenv "SECRET", "set SECRET")
local events = rn.chan(1000)

local server = assert(http.serve(port, function(req)
  if req.path == "/health" then return 200, nil, "ok\n" end
  if req.method ~= "POST" then return 405 end
  if req.headers["x-secret"] ~= secret then return 403, nil, "the header X-Secret is wrong\n" end
  local event, err = req:json()
  if event == nil then return 400, nil, err .. "\n" end
  if not events:offer(req:body()) then return 503, { ["retry-after"] = 10 }, "busy\n" end
  return 202
end, { max = 1 << 16, timeout = 5000 }))

local function process(event)
  local result = assert(uv.run { "sh", "-c", command, stdin = event, stdout = 1, stderr = 2, timeout = 60000 })
  if result.code ~= 0 then error("status " .. result.code, 0) end
end

local function failed(err, event) io.stderr:write(("given up: %s: %s\n"):format(err, event)) end

local done = rn.into({}, rn.pmap_unordered(4, process, events, { tries = 5, backoff = 1000, ex_handler = failed }))
print(server.url)
io.stdout:flush()
uv.signal("int", "term"):take()
server:drain()
events:close()
done:take()
