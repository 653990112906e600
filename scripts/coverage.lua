-- coverage.lua: reads gcovr's report (Cobertura's XML) and compares it with the reasons in the code:
--
--     /* uncovered: REASON */         why the specs do not reach this line
--     /* seldom covered: REASON */    why they reach it in some runs only
--
-- A reason stands at the end of a line, or on lines of its own before it. It also holds for the lines after it, up to
-- the first one that is reached. Fails if a line is not reached and has no reason, or if a line with the reason
-- "uncovered" is reached.

-- The report: path -> line number -> whether it was reached.
local reached = {}
for path, lines in io.read("a"):gmatch '<class [^>]-filename="([^"]+)"(.-)</class>' do
  local file = reached[path] or {}
  reached[path] = file
  for number, hits in lines:gmatch '<line number="(%d+)" hits="(%d+)"' do
    number = math.tointeger(number)
    file[number] = file[number] or hits ~= "0"
  end
end

local complaints, explained = 0, 0

local function complain(path, number, what, line)
  complaints = complaints + 1
  print(("%s:%d: %s: %s"):format(path, number, what, line:match "^%s*(.-)%s*$"))
end

local function check(path)
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  local file = reached[path] or {}
  local reason, from -- the kind of the last reason, and its line, until it meets a line that can be reached
  local is_explained = false -- whether the last such line was not reached, with a reason
  for number, line in ipairs(lines) do
    local kind = line:match "/%* (uncovered): %S" or line:match "/%* (seldom covered): %S"
    if kind then reason, from = kind, number end
    if file[number] ~= nil then
      if file[number] and reason == "uncovered" then complain(path, from, "is reached after all", lines[from]) end
      is_explained = not file[number] and (reason ~= nil or is_explained)
      if is_explained then explained = explained + 1
      elseif not file[number] then complain(path, number, "not reached, without a reason", line) end
      reason = nil
    end
  end
  if reason then complain(path, from, "no line follows this reason", lines[from]) end
end

local sources = io.popen "find csrc -name '*.[ch]' | LC_ALL=C sort"
for path in sources:lines() do check(path) end
sources:close()
assert(next(reached), "the report is empty")
print(("lines not reached: %d with a reason, %d complaints"):format(explained, complaints))
os.exit(complaints == 0)
