-- A pipeline with a slow stage.
-- The graph shows which one it is.
local rn = require "runnel"

local lines = rn.chan(8):name "lines"
local words = rn.chan(4):name "words"
local counts = rn.chan(4):name "counts"

local function read()
  for i = 1, 400 do
    lines:put("line " .. i)
    rn.sleep(5)
  end
  lines:close()
end

local function split()
  for line in lines do
    rn.sleep(8)
    words:put(line:match "%d+")
  end
  words:close()
end

local function count()
  for word in words do
    rn.sleep(20) -- the slow stage
    counts:put(#word)
  end
  counts:close()
end

rn.go(read)
rn.go(split)
rn.go(count)

local digits, n = 0, 0
for c in counts do
  digits, n = digits + c, n + 1
  if n % 20 == 1 then
    print(n .. " lines, digits so far: " .. digits)
  end
end
print "done"
