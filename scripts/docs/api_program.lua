---What operators rely on: commands and options of the executable, commands of the prompt, exit statuses, variables of
---the environment, metrics.

local markdown_tables = require "scripts.docs.markdown_tables"

local api_program = {}

-- What `runnel` prints of itself: the words that each option of a command begins with.
local HELP <const> = { ["runnel"] = "--help", ["runnel queues"] = "queues help", ["runnel runs"] = "runs help",
  ["runnel build"] = "build --help" }

local function output_of(arguments)
  local runnel = os.getenv "RUNNEL" or "build/bin/runnel"
  local pipe <close> = assert(io.popen(("'%s' %s 2>&1"):format(runnel, arguments)))
  return pipe:read "a"
end

local function add_help(lines, name, arguments)
  for line in output_of(arguments):gmatch "[^\n]+" do
    local what = line:match "^  (%-%-%l+%[=%u+%]) " or line:match "^  (%S.-)  +%S" or line:match "^  (%S.*)$"
    local of = what and (name .. " " .. what):gsub("^(runnel [%l ]+) %1", "%1")
    if of then lines[#lines + 1] = (what:find "^%-" and "option " or "command ") .. of end
  end
end

-- The first cells of the tables of a page whose header begins so, in code.
local function cells(page, head)
  local list = {}
  for _, one in ipairs(markdown_tables.of(page)) do
    if one.header[1] == head then
      for _, row in ipairs(one.rows) do list[#list + 1] = row[1] end
    end
  end
  return list
end

local function metrics(lines)
  local file <close> = assert(io.open "lua/runnel/internal/metrics_text.lua")
  local text = file:read "a"
  for name, kind in text:gmatch '"(runnel_[%l_]+)",? ?"?(%l*)' do
    lines[#lines + 1] = kind == "" and "metric " .. name or ("metric %s %s"):format(name, kind)
  end
  for name in text:gmatch '"(process_[%l_]+)"' do lines[#lines + 1] = "metric " .. name end
end

---@return string[] lines
---@return string[] problems
function api_program.lines()
  local lines, problems = {}, {}
  for name, arguments in pairs(HELP) do
    local before = #lines
    add_help(lines, name, arguments)
    if #lines == before then problems[#problems + 1] = ("runnel %s prints no list"):format(arguments) end
  end
  for _, cell in ipairs(cells("docs/manual/host.md", "command")) do
    for _, code in ipairs(markdown_tables.codes(cell)) do lines[#lines + 1] = "command prompt " .. code end
  end
  for _, cell in ipairs(cells("docs/manual/system.md", "variable")) do
    lines[#lines + 1] = "environment " .. cell:gsub("`", "")
  end
  for _, cell in ipairs(cells("docs/manual/system.md", "status")) do
    lines[#lines + 1] = "exit-status " .. cell:gsub("`", "")
  end
  metrics(lines)
  return lines, problems
end

return api_program
