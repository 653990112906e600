-- conditions.lua LIST FOLDER...: MC/DC of the C files in these folders: reads what `gcov --conditions --json-format
-- --stdout` writes, one object a line, and compares it with the exceptions in the Lua file LIST.
--
-- A condition is a decision of one or more terms, as `a && b`. It is covered if each term was seen to decide it alone,
-- both when it was true and when it was false. A function in a header has its conditions once in each object; an
-- outcome counts if it was seen in one of them.
--
-- An outcome is written as 2F: the second term was not seen to be false and to decide. #2 before it means the second
-- decision of a line; a macro may have some.
--
-- LIST returns a list of { FILE, TEXT, OUTCOMES, never = REASON } or { FILE, TEXT, OUTCOMES, seldom = REASON }. TEXT is
-- a part of the line that only this line of the file has. OUTCOMES are those that are not covered, as "1T #2 2F", or
-- "all". The reason is `seldom` if it depends on the speed of threads, or on the collector, whether they are covered.
-- Fails, with lines FILE:LINE: ..., if an outcome is not covered and has no exception; and if an exception has no line,
-- or with `never` is covered.
local json = require "runnel.json"

local exceptions = dofile(arg[1])

-- path -> line number -> list of decisions: { terms = how many, T = { [term] = true }, F = the same }: those seen.
local seen = {}

local function add(decisions, i, report)
  local decision = decisions[i] or { terms = report.count // 2, T = {}, F = {} }
  decisions[i] = decision
  assert(decision.terms == report.count // 2, "objects differ in a condition: were they built alike?")
  for outcome, missing in pairs { T = report.not_covered_true, F = report.not_covered_false } do
    local is_missing = {}
    for _, term in ipairs(missing) do is_missing[term + 1] = true end
    for term = 1, decision.terms do
      if not is_missing[term] then decision[outcome][term] = true end
    end
  end
end

local function is_asked(path)
  for i = 2, #arg do
    if path:sub(1, #arg[i] + 1) == arg[i] .. "/" then return true end
  end
  return false
end

for text in io.lines() do
  for _, file in ipairs(assert(json.decode(text)).files) do
    if is_asked(file.file) then
      local lines = seen[file.file] or {}
      seen[file.file] = lines
      for _, line in ipairs(file.lines) do
        for i, report in ipairs(line.conditions) do
          lines[line.line_number] = lines[line.line_number] or {}
          add(lines[line.line_number], i, report)
        end
      end
    end
  end
end

local complaints, outcomes, excused = 0, 0, 0

local function complain(...)
  complaints = complaints + 1
  print(string.format(...))
end

-- path -> line number -> outcome, as "#1 2F" -> the exception.
local excuses = {}

-- The outcomes that an exception names, each with its decision.
local function each_outcome(text)
  local decision = "#1"
  return coroutine.wrap(function()
    for word in text:gmatch "%S+" do
      if word:find "^#" then decision = word else coroutine.yield(decision .. " " .. word) end
    end
  end)
end

local function sources(path)
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  return lines
end

for _, exception in ipairs(exceptions) do
  local path, text = exception[1], exception[2]
  local at, found = nil, 0
  for number, line in ipairs(sources(path)) do
    if line:find(text, 1, true) then at, found = number, found + 1 end
  end
  if found ~= 1 then
    complain("%s: %d lines have the text of an exception, not one: %s", path, found, text)
  else
    excuses[path] = excuses[path] or {}
    excuses[path][at] = excuses[path][at] or {}
    for outcome in each_outcome(exception[3]) do excuses[path][at][outcome] = exception end
  end
end

local function check(path, number, line)
  local excused_here = excuses[path] and excuses[path][number] or {}
  local missing, decision_of_last = {}, nil
  for i, decision in ipairs(seen[path][number] or {}) do
    for term = 1, decision.terms do
      for _, outcome in ipairs { "T", "F" } do
        outcomes = outcomes + 1
        local word = term .. outcome
        local name = ("#%d %s"):format(i, word)
        local exception = excused_here[name] or excused_here["#1 all"]
        excused_here[name] = nil
        if decision[outcome][term] then
          if exception and exception.never then
            complain("%s:%d: covered after all: %s, of which an exception says: %s", path, number, name,
              exception.never)
          end
        elseif exception then
          excused = excused + 1
        else
          missing[#missing + 1] = i ~= decision_of_last and ("#%d "):format(i) .. word or word
          decision_of_last = i
        end
      end
    end
  end
  excused_here["#1 all"] = nil
  if #missing > 0 then
    complain("%s:%d: not covered: %s: %s", path, number, table.concat(missing, " "), line:match "^%s*(.-)%s*$")
  end
  for name in pairs(excused_here) do
    complain("%s:%d: an exception speaks of %s, which is not there", path, number, name)
  end
end

local paths = {}
for path in pairs(seen) do paths[#paths + 1] = path end
table.sort(paths)
assert(#paths > 0, "the report has no file of these folders")
for _, path in ipairs(paths) do
  for number, line in ipairs(sources(path)) do check(path, number, line) end
end
print(("outcomes of conditions: %d, of which %d have an exception; complaints: %d"):format(outcomes, excused,
  complaints))
os.exit(complaints == 0)
