-- Loading the core into a state of its own, and closing that at once.
local t = ...

local function attempt() t.open() end

local function check(ok)
  if t.refused() == 0 then assert(ok) end
end

return attempt, check
