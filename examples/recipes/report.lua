-- Each night at 03:00 in Berlin, the sum of the day before is posted as a report. A night in which the program was off
-- is made up for when it starts. Another program writes the rows of the table. Needs libcurl and libsqlite3.
--
--     runnel examples/recipes/report.lua shop.db https://chat.example/reports

local http = require "runnel.http"
local path, url = ...
local store = require("runnel.store").open(path)
store.db:exec "create table if not exists sale(day text not null, cents integer not null)"

local sum = store:once("sum", function(day)
  return store.db:one("select count(*) as n, total(cents) as cents from sale where day = ?", day)
end)

local post = store:once("post", function(day, sales)
  local text = ("%s: %d sales, %.2f EUR"):format(day, sales.n, sales.cents / 100)
  assert(http.request { method = "POST", url = url, json = { text = text }, timeout = 10000, fail = true })
end, { tries = 20, backoff = 60000 })

-- A schedule is continued like a run, and `time`, in ms, is the time for which it was planned, also if it starts later.
store:schedule("report", "0 3 * * *", { zone = "Europe/Berlin", missed = "all" }, function(_, time)
  local day = os.date("!%Y-%m-%d", time // 1000 - 24 * 3600)
  local sales = sum(day)
  post(day, sales)
  return sales.n
end)
