-- coverage.lua PERCENT: reads gcovr's report (Cobertura's XML) and compares it with the reasons in the code:
--
--     /* uncovered: REASON */         why the specs do not reach this line
--     /* seldom covered: REASON */    why they reach it in some runs only
--
-- A reason stands at the end of a line, or on lines of its own before it. It also holds for the lines after it, up to
-- the first one that is reached. At the end of a line with a condition and its statement, it is about the statement.
-- A line with nothing but a brace needs none: gcc 14 counts those of functions that never return.
-- Fails if a line is not reached and has no reason, if a line with the reason "uncovered" is reached, or if the specs
-- take fewer than PERCENT of the branches.

-- Branches that only an assertion, lack of memory or a wrong argument takes do not count: check-oom makes each
-- allocation fail, and luaL_argcheck has two branches of its own that nothing can take. Nor do those of lines with a
-- reason, and of conditions right before such lines.
local NOT_COUNTED = {
  "assert%(", "luaL_argcheck%(", "lua_checkstack%(", "alloc%(", "out_of_memory", "not enough memory", "no_memory",
  "NO_MEMORY", "covered: ",
}

-- The report: path -> line number -> { reached = whether, taken = and branches = how many }.
local report = {}
for path, text in io.read("a"):gmatch '<class [^>]-filename="([^"]+)"(.-)</class>' do
  local file = report[path] or {}
  report[path] = file
  for number, hits, branches in text:gmatch '<line number="(%d+)" hits="(%d+)" ([^>]*)>' do
    local line = file[tonumber(number)] or { taken = 0, branches = 0 }
    file[tonumber(number)] = line
    local taken, all = branches:match "%((%d+)/(%d+)%)"
    line.reached = line.reached or hits ~= "0"
    line.taken, line.branches = line.taken + (taken or 0), line.branches + (all or 0)
  end
end

local complaints, explained, taken, branches = 0, 0, 0, 0

local function complain(path, number, what, line)
  complaints = complaints + 1
  print(("%s:%d: %s: %s"):format(path, number, what, line:match "^%s*(.-)%s*$"))
end

local function counts(line)
  for _, pattern in ipairs(NOT_COUNTED) do
    if line:find(pattern) then return false end
  end
  return true
end

local function check(path)
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  local file = report[path] or {}
  local reason, from -- the kind of the last reason, and its line, until it meets a line that can be reached
  local is_explained = false -- whether the last such line was not reached, with a reason
  local before = { taken = 0, branches = 0 } -- what the report says of it, if its branches count

  local function count_before()
    taken, branches = taken + before.taken, branches + before.branches
  end

  for number, text in ipairs(lines) do
    local kind = text:match "/%* (uncovered): %S" or text:match "/%* (seldom covered): %S"
    if kind then reason, from = kind, number end
    local line = file[number]
    if line then
      local is_condition = from == number and text:find "if %(.*; /%*"
      if line.reached and reason == "uncovered" and not is_condition then
        complain(path, from, "is reached after all", lines[from])
      end
      is_explained = not line.reached and (reason ~= nil or is_explained)
      if is_explained then explained = explained + 1
      elseif not line.reached and not text:find "^%s*}%s*$" then
        complain(path, number, "not reached, without a reason", text)
      end
      if not is_explained then count_before() end
      before = counts(text) and line or { taken = 0, branches = 0 }
      reason = nil
    end
  end
  count_before()
  if reason then complain(path, from, "no line follows this reason", lines[from]) end
end

local sources = io.popen "find csrc -name '*.[ch]' | LC_ALL=C sort"
for path in sources:lines() do check(path) end
sources:close()
assert(next(report), "the report is empty")
local percent = 100 * taken / branches
print(("lines not reached: %d with a reason, %d complaints"):format(explained, complaints))
print(("branches taken: %.1f %% (%d of %d)"):format(percent, taken, branches))
os.exit(complaints == 0 and percent >= tonumber(arg[1]))
