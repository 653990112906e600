---Specs have a short form, for every change, and a long form, for a release: `make test LONG=1` (make check-specs-long).
---
---What differs is how often something is repeated, by `times`. A spec that only the long form runs has the tag #long. Other
---tags: #slow for specs that wait for real time, #heavy for those that compute much; the runs under sanitizers leave out
---the former, valgrind's both.

local long = {}

local is_long = (os.getenv "RUNNEL_LONG" or "") ~= ""

---How often to do something.
---@param short integer
---@param often integer
---@return integer
function long.times(short, often) return is_long and often or short end

return long
