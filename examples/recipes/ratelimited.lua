-- Fetches pages from a server that allows RATE requests a second, several at a time, and waits as long as it says when
-- it answers 429. A request that repeats another one counts, too. Needs libcurl.
--
--     runnel examples/recipes/ratelimited.lua RATE URL... > pages

local rn = require "runnel"
local http = require "runnel.http"

local rate = tonumber(table.remove(arg, 1))
assert(rate and arg[1], "usage: ratelimited.lua RATE URL...")

local turns <close> = rn.rate(rn.to_chan(function() return true end), rate, 1000)

local function fetch(url)
  turns:take()
  local page = assert(http.get(url, { timeout = 5000 }))
  if page.status == 429 then rn.sleep(1000 * (tonumber(page.headers["retry-after"]) or 1)) end
  if page.status ~= 200 then error("status " .. page.status, 0) end
  return page.body
end

local function failed(err, url) io.stderr:write(("%s: %s\n"):format(url, err)) end

for body in rn.pmap(8, fetch, arg, { tries = 4, backoff = 200, ex_handler = failed }) do io.write(body, "\n") end
