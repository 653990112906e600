---Writes a table in Markdown, padded so that the source is readable as well. Rows are lists of strings; the first one
---is the heading.
---@param rows string[][]
---@param all_left? boolean left-aligned columns; by default only the first one is
---@return string lines without a newline at the end
return function(rows, all_left)
  local widths, lines = {}, {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 3, utf8.len(cell)) end
  end
  for at, row in ipairs(rows) do
    local cells, rule = {}, {}
    for i, cell in ipairs(row) do
      local is_left, padding = all_left or i == 1, (" "):rep(widths[i] - utf8.len(cell))
      cells[i] = is_left and cell .. padding or padding .. cell
      rule[i] = ("-"):rep(widths[i] - 1) .. (is_left and "-" or ":")
    end
    lines[#lines + 1] = "| " .. table.concat(cells, " | ") .. " |"
    if at == 1 then lines[#lines + 1] = "| " .. table.concat(rule, " | ") .. " |" end
  end
  return table.concat(lines, "\n")
end
