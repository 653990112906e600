-- Appends N lines to the 50 files of a folder, and waits until the program that follows them has written what it has
-- counted.
--
--     lua5.4 bench/programs/load/tail.lua FOLDER N

local dir, n = arg[1], tonumber(arg[2])
local PART <const> = 1000 -- lines between two pauses, in which the program must find them

local files, sum = {}, 0
for i = 1, 50 do files[i] = assert(io.open(("%s/%d.log"):format(dir, i), "a")) end
for i = 1, n do
  files[i * 7 % 50 + 1]:write(i, " a line of a log with some text that is not looked at\n")
  sum = sum + i
  if i % PART == 0 or i == n then
    for _, file in ipairs(files) do file:flush() end
    os.execute "sleep 0.02"
  end
end

for _ = 1, 600 do
  local done = io.open(dir .. "/done")
  local text = done and done:read "a" or ""
  if done then done:close() end
  if text ~= "" then os.exit(text:match "^(%d+ %d+)%s*$" == ("%d %d"):format(n, sum)) end
  os.execute "sleep 0.1"
end
os.exit(false)
