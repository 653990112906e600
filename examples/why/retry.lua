-- Repeats a call that fails twice, with a pause that doubles.
local rn = require "runnel"

local tries = 0
local function fetch()
  tries = tries + 1
  if tries < 3 then error("no answer", 0) end
  return "a page"
end

print(rn.retry(fetch, { tries = 5, backoff = 2 }), tries)
