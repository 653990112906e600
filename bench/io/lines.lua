-- Reads a file by lines, with io.lines or uv.lines. Prints seconds, lines, bytes, and the peak memory of the process in
-- KB.
--
--     lua5.4 bench/io/lines.lua io | uv FILE

local rn = require "runnel"

local n, bytes = 0, 0
local start = rn.now()

if arg[1] == "io" then
  for line in io.lines(arg[2]) do
    n = n + 1
    bytes = bytes + #line
  end
else
  local uv = require "runnel.uv"
  rn.run(function()
    for line in uv.lines(arg[2]) do
      n = n + 1
      bytes = bytes + #line
    end
  end)
end

local took = (rn.now() - start) / 1000
local peak
for line in io.lines "/proc/self/status" do peak = peak or line:match "^VmHWM:%s+(%d+)" end
print(("%.3f %d %d %d"):format(took, n, bytes, peak))
