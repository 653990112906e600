-- Watches a log, also when it is rotated, and posts the lines that are like a pattern to a webhook: at most one request
-- a second, and again if the receiver fails. Needs luv and libcurl.
--
--     runnel examples/recipes/logwatch.lua /var/log/app.log "ERROR" http://127.0.0.1:8080/alert

local rn = require "runnel"
local http = require "runnel.http"
local uv = require "runnel.uv"

local path, pattern, url = arg[1], arg[2], arg[3]

local function post(lines)
  local message = { file = path, lines = lines }
  assert(http.request { url = url, method = "POST", json = message, timeout = 5000, fail = true })
end

local hits = rn.chan(1000, rn.xf.filter(function(line) return line:find(pattern) end))
rn.pipe(uv.follow(path), hits)
for lines in rn.batch(hits, 100, 1000) do
  local ok, err = pcall(rn.retry, post, { tries = 5, backoff = 500 }, lines)
  if not ok then io.stderr:write(("%d lines were not posted: %s\n"):format(#lines, err)) end
end
