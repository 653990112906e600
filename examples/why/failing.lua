-- Five calls, of which one fails; the others go on, and its error is kept.
local rn = require "runnel"

local function fetch(n)
  if n == 3 then error("no such host", 0) end
  return n
end

local problem
local results = rn.pmap(2, fetch, { 1, 2, 3, 4, 5 }, { ex_handler = function(err) problem = err end })
print(#results:list(), problem)
