-- A worker that must tidy up; then Ctrl-C.
local rn = require "runnel"

local worker = rn.go(function()
  rn.rename "worker"
  local _ <close> = setmetatable({}, { __close = function() print "tidied up" end })
  print "ready"
  io.stdout:flush()
  rn.sleep(60000)
end)
worker:take()
