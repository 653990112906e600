-- Mails to each subscriber over a month, until one unsubscribes. A subscriber costs a row of the file meanwhile, and no
-- memory. Needs luv, libcurl and libsqlite3.
--
--     runnel examples/recipes/drip.lua drip.db 8080 https://mail.example/send
--     curl localhost:8080/subscribers/alice@example.org -X PUT
--     curl localhost:8080/subscribers/alice@example.org -X DELETE

local http = require "runnel.http"
local path, port, url = ...
local store = require("runnel.store").open(path)
local DAY <const> = 24 * 3600 * 1000
local MAILS <const> = { { 0, "welcome" }, { 2, "first steps" }, { 7, "recipes" }, { 30, "what do you think?" } }

local send = store:once("send", function(subject, to)
  local headers = { ["Idempotency-Key"] = subject .. " " .. to }
  assert(http.request { method = "POST", url = url, json = { to = to, subject = subject }, headers = headers,
    timeout = 10000, fail = true })
end, { tries = 50, backoff = 60000 })

local drips = store:runs("drip", function(run)
  local began = run:now()
  for _, mail in ipairs(MAILS) do
    local left = math.max(0, began + mail[1] * DAY - run:now())
    if run:wait("unsubscribed", { timeout = left }) then return "unsubscribed" end
    send(mail[2], run.key)
  end
  return "all sent"
end)

assert(http.serve(tonumber(port), http.router {
  ["PUT /subscribers/:to"] = function(req)
    assert(drips:start(req.params.to))
    return 202
  end,
  ["DELETE /subscribers/:to"] = function(req)
    local drip = drips:get(req.params.to)
    return drip and drip:signal "unsubscribed" and 202 or 404
  end,
}))
