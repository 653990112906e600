-- Orders over HTTP: each is charged, waits up to a week for an approval, and is shipped, or else its money goes back.
-- It goes on after any restart, and each step is repeated until it succeeds. Needs luv, libcurl and libsqlite3.
--
--     runnel examples/recipes/approval.lua orders.db 8080 https://pay.example https://mail.example
--     curl localhost:8080/orders/17 -d '{"cents":500,"to":"alice"}'; curl localhost:8080/orders/17
--     curl localhost:8080/orders/17/approved -d '"bob"'

local http = require "runnel.http"
local path, port, pay, mail = ...
local store = require("runnel.store").open(path)

-- A step. It may be done again if the program is killed in it, so the other server gets a key by which it knows that.
local post = store:once("post", function(url, key, body)
  local headers = { ["Idempotency-Key"] = key }
  assert(http.request { method = "POST", url = url, json = body, headers = headers, timeout = 10000, fail = true })
end, { key = function(url, key) return { url, key } end, tries = 100, backoff = 1000 })

local orders = store:runs("order", function(run, order)
  post(pay .. "/charge", run.key, { cents = order.cents })
  local who = run:wait("approved", { timeout = 7 * 24 * 3600 * 1000 })
  run:note(who and "approved by " .. who or "not approved")
  if not who then post(pay .. "/refund", run.key, { cents = order.cents }) end
  post(mail .. "/mail", run.key, { to = order.to, text = who and "it is shipped" or "your money is back" })
  return who and "shipped" or "refunded"
end)

local function get(req) return assert(orders:get(req.params.id)) end
assert(http.serve(tonumber(port), http.router {
  ["POST /orders/:id"] = function(req) return orders:start(req.params.id, req:json()) and 202 end,
  ["GET /orders/:id"] = function(req) return 200, nil, get(req):state() end,
  ["POST /orders/:id/approved"] = function(req) return get(req):signal("approved", req:json()) and 202 or 410 end,
}))
