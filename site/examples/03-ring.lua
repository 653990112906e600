-- A ring of go blocks: a message goes round and round.
local rn = require "runnel"

local SIZE, ROUNDS = 12, 40

local first = rn.chan():name "link 1"
local link = first
for i = 2, SIZE do
  local from, to = link, rn.chan():name("link " .. i)
  rn.go(function()
    rn.rename("node " .. i)
    for message in from do
      rn.sleep(15)
      to:put(message + 1)
    end
    to:close()
  end)
  link = to
end

local hops = 0
for _ = 1, ROUNDS do
  first:put(hops + 1)
  hops = link:take()
end
first:close()
print(hops .. " hops")
