-- The script of step.c: counts the lines of each burst. A burst ends when no line has come for 50 ms.
local rn = require("runnel.lite").host { now = ... }
local lines = rn.chan(rn.sliding_buffer(1000))

rn.go(function()
  local n, first = 0, nil
  while true do
    local line, from = rn.alts({ lines, n > 0 and rn.timeout(50) or nil }, { priority = true })
    if from == lines and line then
      n, first = n + 1, first or line
    else
      if n > 0 then print(("%d lines, the first is %q"):format(n, first)) end
      if from == lines then return end
      n, first = 0, nil
    end
  end
end)

return rn.step, function(line)
  if line then lines:offer(line) else lines:close() end
end
