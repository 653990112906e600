-- Six commands, two at a time; their outputs in order.
local rn = require "runnel"
local uv = require "runnel.uv"

local function echo(n) return assert(uv.run { "echo", tostring(n) }).stdout:match "%d+" end

print(table.concat(rn.pmap(2, echo, { 1, 2, 3, 4, 5, 6 }):list(), " "))
