---What a section of the manual says about functions, methods, options and commands: rows of tables whose first cell
---begins with code; paragraphs that begin with a call; and other paragraphs, which may mention some.

local markdown_tables = require "scripts.docs.markdown_tables"
local sections = require "scripts.docs.sections"

---@class scripts.Row
---@field calls string[] the calls that it describes, as in "ch:put(v)"; none of a paragraph that only mentions some
---@field paths string[] the names of these, as in "ch:put"
---@field mentions string[] names in the text
---@field functions? string[] of an option: the functions that have it, as in "rn.pmap"
---@field text string

local rows = {}

-- The name at the beginning of a call: "rn.xf.map" of "rn.xf.map(f)".
local function path_of(call)
  local path = call:match "^[%a_][%w_.:]*"
  return path and path:find "[%w_]$" and path or nil
end

local function new(calls, text)
  local row = { calls = calls, paths = {}, mentions = {}, text = sections.plain(text) }
  for _, call in ipairs(calls) do row.paths[#row.paths + 1] = path_of(call) end
  for code in text:gmatch "`([^`]+)`" do
    local path = path_of(code)
    if path and path:find "%w[.:]%a" then row.mentions[#row.mentions + 1] = path end
  end
  return row
end

-- A row as text: the longest cell, which says what it is, or of an option the one in that column, and then the others,
-- each with the head of its column.
local function row_of(cells, head)
  if not cells[1]:find "^`" then return nil end
  local calls, main, others = markdown_tables.codes(cells[1]), 2, {}
  local functions = markdown_tables.functions_of(cells, head)
  for i = 3, #cells do
    if functions and head[i] == "what it does" or not functions and #cells[i] > #cells[main] then main = i end
  end
  for i = 2, #cells do
    local name = head[i] or ""
    if i ~= main and cells[i] ~= "" then others[#others + 1] = (name == "" and "" or name .. ": ") .. cells[i] end
  end
  local row = new(calls, (cells[main] or "") .. (#others > 0 and (" (%s)"):format(table.concat(others, "; ")) or ""))
  row.functions = functions
  return row
end

-- A paragraph, or an item of a list.
local function paragraph_of(text)
  local call, rest = text:match "^`([%a_][%w_]*[.:][%w_.:]*[%(%{][^`]*)` (.*)$"
  return call and new({ call }, rest) or new({}, text)
end

---@param section scripts.Section
---@return scripts.Row[]
function rows.of(section)
  local list, in_code, head, paragraph = {}, false, nil, nil
  local function finish()
    if paragraph then list[#list + 1] = paragraph_of(paragraph) end
    paragraph = nil
  end
  for _, line in ipairs(section.lines) do
    if line:find "^```" then
      finish()
      in_code = not in_code
    elseif in_code or line:find "^    " and not paragraph or line == "" then
      finish()
      head = nil
    elseif line:find "^|" then
      finish()
      local cells = markdown_tables.cells_of(line)
      if not head then
        head = cells
      elseif #cells > 1 and not line:find "^|[-| :]+$" then
        list[#list + 1] = row_of(cells, head)
      end
    else
      local item = line:match "^%s*%-%s+(.*)$" or line:match "^%s*%d+%.%s+(.*)$"
      if item then finish() end
      paragraph = paragraph and paragraph .. " " .. line:match "^%s*(.*)$" or item or line
    end
  end
  finish()
  return list
end

return rows
