-- Gives a call 10 ms; it needs longer, and is ended.
local rn = require "runnel"

local function slow()
  rn.sleep(2000)
  return "an answer"
end

local ok, err = pcall(rn.scope, slow, { timeout = 10 })
print(ok, rn.is_timeout(err))
