---The tables of Markdown pages, for the prompt's :doc and for the specs of the manual.

local tables = {}

---The cells of a line of a table. `\|` is no border.
---@param line string
---@return string[]
function tables.cells_of(line)
  local cells = {}
  for cell in line:gsub("\\|", "\0"):match "^|(.*)|%s*$":gmatch "([^|]*)" do
    cells[#cells + 1] = cell:match "^%s*(.-)%s*$":gsub("%z", "|")
  end
  return cells
end

---@class runnel.scripts.Table
---@field path string of the page
---@field line integer of the header
---@field header string[]
---@field rows { line: integer, [integer]: string }[]

---The tables of a page, without what is in code blocks.
---@param path string
---@return runnel.scripts.Table[]
function tables.of(path)
  local list, current, is_code, number = {}, nil, false, 0
  for line in io.lines(path) do
    number = number + 1
    if line:find "^```" then is_code = not is_code end
    if is_code or not line:find "^|.*|%s*$" then
      current = nil
    elseif not current then
      current = { path = path, line = number, header = tables.cells_of(line), rows = {} }
      list[#list + 1] = current
    elseif number > current.line + 1 then -- not the line below the header
      local row = tables.cells_of(line)
      row.line = number
      current.rows[#current.rows + 1] = row
    end
  end
  return list
end

---The texts in a cell that are written as code.
---@param cell string
---@return string[]
function tables.codes(cell)
  local list = {}
  for code in cell:gmatch "`([^`]+)`" do list[#list + 1] = code end
  return list
end

---The functions whose options a table lists, by its header: { "rn.pmap", "rn.frontier" } of
---"option of `rn.pmap` and `rn.frontier`". Nil if it is another table.
---@param header string[]
---@return string[]?
function tables.options_of(header)
  return header[1]:find "^option" and tables.codes(header[1]) or nil
end

-- Whether the option of a row is one of that function: the text of the row may begin with "`rn.pmap` only:" or
-- "not of `conn:request`:".
local function is_option_of(text, name)
  local only, except = text:match "^`([^`]+)` only:", text:match "^not of `([^`]+)`:"
  return (not only or only == name) and except ~= name
end

---The functions that have the option of a row. Nil if the table is one of something else.
---@param row string[] its cells
---@param header string[]
---@return string[]?
function tables.functions_of(row, header)
  local all = tables.options_of(header)
  if not all then return nil end
  local list = {}
  for _, name in ipairs(all) do
    if is_option_of(row[4] or "", name) then list[#list + 1] = name end
  end
  return list
end

---The options that a table lists. Empty if it is another table.
---@param one runnel.scripts.Table
---@return { name: string, functions: string[] }[]
function tables.options(one)
  local list = {}
  for _, row in ipairs(tables.options_of(one.header) and one.rows or {}) do
    list[#list + 1] = { name = tables.codes(row[1])[1], functions = tables.functions_of(row, one.header) }
  end
  return list
end

return tables
