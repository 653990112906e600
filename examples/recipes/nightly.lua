-- Runs commands each night, one after the other, at the given time. After a crash or a restart it goes on with the
-- first command that has not ended. If it was off last night, it runs the commands when it starts. Needs luv and
-- libsqlite3.
--
--     runnel examples/recipes/nightly.lua 03:00 nights.db 'pg_dump shop >shop.sql' 'rsync shop.sql backup:'

local rn = require "runnel"
local uv = require "runnel.uv"

local store = require("runnel.store").open(arg[2])
local hour, minute = arg[1]:match "^(%d+):(%d+)$"

local run = store:once("command", function(_, command)
  local result = assert(uv.run { "sh", "-c", command })
  if result.code ~= 0 then error(("%s: status %d\n%s"):format(command, result.code, result.stderr), 0) end
end)

local night = store:once("night", function(date)
  for i = 3, #arg do run(i - 2 .. ": " .. arg[i], arg[i]) end
  print(date .. ": done")
end, { tries = 5, backoff = 60000 })

while true do
  local now = os.date "*t"
  local due = os.time { year = now.year, month = now.month, day = now.day, hour = hour, min = minute }
  if due > os.time() then due = due - 24 * 3600 end -- last night's
  local ok, err = pcall(night, os.date("%Y-%m-%d", due))
  if not ok then io.stderr:write(err, "\n") end
  rn.sleep(60000)
end
