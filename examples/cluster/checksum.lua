-- The job of the programs beside this file: the checksum, the number of lines and the path of a file, as one line.

local rn = require "runnel"

-- Adler-32 and the number of lines: some work, without a library.
return function(path)
  local file = io.open(path, "rb")
  local text = file and file:read "a"
  if file then file:close() end
  if not text then return "unreadable 0 " .. path end
  local a, b, lines = 1, 0, 0
  for i = 1, #text, 4096 do
    for j = i, math.min(i + 4095, #text) do
      local byte = text:byte(j)
      a = a + byte
      b = b + a
      if byte == 10 then lines = lines + 1 end
    end
    a, b = a % 65521, b % 65521
    rn.yield()
  end
  return ("%08x %d %s"):format(b << 16 | a, lines, path)
end
