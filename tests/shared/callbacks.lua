-- What each thread of tests/shared/shared_lua.c runs: puts and take_async on shared channels. Where values are taken,
-- nearly every allocation runs a cycle of the collector. Another thread often completes the take while it begins: its
-- value is unpacked then, so that a sweep of the go blocks comes between the start of the callback's go block and its
-- wakeup.
local id, seed, mode, host = ...
local shared = { select(5, ...) }
local rn = require "runnel"
math.randomseed(seed)

if mode == "rest" then
  for _, ch in ipairs(shared) do
    ch:close()
    for value in ch do host.taken(value.v) end
  end
  return
end

rn.run(function()
  local over = rn.timeout(500)
  local ch = shared[1]
  if id == 1 then
    while not over:closed() do
      local v = host.value()
      if rn.alts { { ch, { v = v, list = { 1, { "text" } } } }, over } then host.accepted(v) end
    end
  else
    collectgarbage("incremental", 1, 10000)
    while not over:closed() do
      local done = rn.chan(1)
      ch:take_async(function(value)
        if value then host.taken(value.v) end
        done:offer(true)
      end)
      rn.alts { done, over }
    end
  end
end)
