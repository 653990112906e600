-- For tests/browser/page.mjs: a program with runs of a store in several states, as many that are done as its argument
-- says.

local rn = require "runnel"
local monitor <close> = require("runnel.monitor").listen(0)
io.stderr:write("monitor: ", monitor.url, "\n")
rn.on_error(function() end)
local store = require("runnel.store").open ":memory:"
local charge = store:once("charge", function() end)
local mail = store:once("mail", function() error "no mail server" end)
local orders = store:runs("order", function(run, what)
  charge "secret key"
  run:note(what)
  if what == "asleep" then run:sleep(3 * 24 * 3600 * 1000) end
  if what == "waits" then run:wait "approved" end
  if what == "fails" then mail "secret address" end
  return "secret"
end, { tries = 1 })
for _, what in ipairs { "asleep", "waits", "fails" } do assert(orders:start(what, what)) end
for i = 1, tonumber(arg[1]) do assert(orders:start(i, "done")) end
rn.sleep(1e7)
