-- A background job fails, and nobody waits for it.
local rn = require "runnel"

rn.go(function()
  rn.rename "job"
  error "no such host"
end)
rn.sleep(20)
print "the main program ends"
