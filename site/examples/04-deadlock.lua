-- A deadlock: two go blocks wait for each other, and the
-- error says where. It ends the program with status 1.
local rn = require "runnel"

local left = rn.chan():name "left"
local right = rn.chan():name "right"

rn.go(function()
  rn.rename "one"
  left:take()
  right:put "never"
end)

rn.go(function()
  rn.rename "two"
  right:take()
  left:put "never"
end)

rn.sleep(1500)
rn.chan():name("the answer"):take()
