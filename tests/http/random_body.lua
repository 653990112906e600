-- random_body(): a channel of strings, in number and length at random, which may close with the error "on purpose".
local rn = require "runnel"
local random = math.random

return function()
  local ch = rn.chan(random(0, 2))
  rn.go(function()
    for _ = 1, random(0, 20) do
      if not ch:put(("x"):rep(random(0, 50000))) then return end
      if random(4) == 1 then rn.sleep(random()) end
    end
    ch:close(random(5) == 1 and "on purpose" or nil)
  end)
  return ch
end
