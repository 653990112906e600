-- A background job fails, and no code waits for its result.
local rn = require "runnel"

rn.go(function()
  rn.rename "job"
  error "no such host"
end)
rn.sleep(20)
print "the main program ends"
