-- Loading the core into a new state, and closing the state at once.
local t = ...

local function attempt() t.open() end

local function check(ok)
  if t.refused() == 0 then assert(ok) end
end

return attempt, check
