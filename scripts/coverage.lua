-- coverage.lua DOCUMENT: reads a report of gcovr's, as text, and shows the lines that were not reached, or not by every
-- branch. Of those that the document lists, as `file.c`: `the line`, it only says how many they are.

local file = assert(io.open(arg[1]))
local document = file:read "a"
file:close()

local sources = {}

local function line_of(path, number)
  if not sources[path] then
    sources[path] = {}
    for line in io.lines(path) do table.insert(sources[path], line) end
  end
  return sources[path][number]:match "^%s*(.-)%s*$"
end

local function is_listed(path, line)
  return document:find(("`%s`: `%s`"):format(path:match "[^/]+$", line), 1, true) ~= nil
end

local what = "lines"
local listed, unlisted = 0, 0
for row in io.lines() do
  if row:find "Branches" then what = "lines with branches" end
  local path, missing = row:match "^(csrc/%S+)%s+%d+%s+%d+%s+%d+%%%s+(%S+)$"
  for from, to in (missing or ""):gmatch "(%d+)%-?(%d*)" do
    for number = tonumber(from), tonumber(to) or tonumber(from) do
      local line = line_of(path, number)
      if is_listed(path, line) then
        listed = listed + 1
      else
        unlisted = unlisted + 1
        print(("  %s:%d: %s"):format(path, number, line))
      end
    end
  end
end
print(("%s not reached: %d with a reason in %s, %d without\n"):format(what, listed, arg[1], unlisted))
