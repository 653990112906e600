-- Asks three mirrors, takes the first answer, and ends the other questions.
local rn = require "runnel"

local cancelled = 0
local function ask(name, ms)
  local done = false
  local _ <close> = setmetatable({}, { __close = function() if not done then cancelled = cancelled + 1 end end })
  rn.sleep(ms)
  done = true
  return name
end

local answer = rn.scope(function(s)
  local answers = rn.chan(3)
  for name, ms in pairs { near = 5, far = 2000, farther = 3000 } do
    s:go(function() answers:put(ask(name, ms)) end)
  end
  local first = answers:take()
  s:cancel()
  return first
end)
print(answer, cancelled)
