---How many columns of a terminal a text takes.

local WIDE = { -- ranges of code points that take two columns
  { 0x1100, 0x115F }, { 0x2E80, 0x303E }, { 0x3041, 0xA4CF }, { 0xAC00, 0xD7A3 }, { 0xF900, 0xFAFF },
  { 0xFE30, 0xFE6F }, { 0xFF00, 0xFF60 }, { 0xFFE0, 0xFFE6 }, { 0x1F300, 0x1F64F }, { 0x1F680, 0x1F6FF },
  { 0x1F900, 0x1F9FF },
  { 0x20000, 0x3FFFD },
}
local NONE = { -- ranges that take none: they combine with the character before them
  { 0x0300, 0x036F }, { 0x0483, 0x0489 }, { 0x0591, 0x05BD }, { 0x064B, 0x065F },
  { 0x0E34, 0x0E3A }, { 0x0E47, 0x0E4E }, { 0x1AB0, 0x1AFF }, { 0x1DC0, 0x1DFF }, { 0x200B, 0x200F },
  { 0x20D0, 0x20FF }, { 0x3099, 0x309A }, { 0xFE00, 0xFE0F },
  { 0xFE20, 0xFE2F },
}

local function is_in(ranges, code)
  for _, range in ipairs(ranges) do
    if code < range[1] then return false end
    if code <= range[2] then return true end
  end
  return false
end

local function width_of(code) return code < 0x300 and 1 or is_in(NONE, code) and 0 or is_in(WIDE, code) and 2 or 1 end

---@class runnel.internal.width
local width = {}

---The columns of a text. It may contain no control characters but colour sequences, which take none.
---@param text string
---@return integer
function width.of(text)
  if text:find "\27" then text = text:gsub("\27%[[%d;]*m", "") end
  if not text:find "[\x80-\xff]" then return #text end
  if not utf8.len(text) then return #text end
  local columns = 0
  for _, code in utf8.codes(text) do columns = columns + width_of(code) end
  return columns
end

---Truncates a text to a number of columns, with a … at the end if it was longer.
---@param text string without colours
---@param columns integer
---@return string
function width.cut(text, columns)
  if not utf8.len(text) then text = text:gsub("[\x80-\xff]", "?") end
  if width.of(text) <= columns then return text end
  local used = 0
  for at, code in utf8.codes(text) do
    used = used + width_of(code)
    if used > columns - 1 then return text:sub(1, at - 1) .. "…" end
  end
  return text
end

---Pads a text with spaces to a number of columns.
---@param text string
---@param columns integer
---@param right? boolean aligns the text to the right
---@return string
function width.pad(text, columns, right)
  local blanks = (" "):rep(columns - width.of(text))
  return right and blanks .. text or text .. blanks
end

---A text in one line, with a ? in place of each control character: of a name, which may have any.
---@param text string
---@return string
function width.plain(text) return (text:gsub("%c", "?"):gsub("\xC2[\x80-\x9F]", "?")) end

---The lines of some texts, for a terminal: texts of others might move its cursor, and overwrite what is there. A tab is
---four spaces, and each other control character a ?.
---@param texts string[]
---@return string[] lines
function width.lines(texts)
  local lines = {}
  for _, text in ipairs(texts) do
    for line in (text .. "\n"):gmatch "([^\n]*)\n" do lines[#lines + 1] = width.plain((line:gsub("\t", "    "))) end
  end
  return lines
end

local function text_of(cell) return width.plain(tostring(cell)) end

---The rows of a table as lines, each column as wide as its widest cell.
---@param rows any[][] cells are shown by tostring, without control characters
---@param right table<integer, boolean> the columns that are aligned to the right
---@param most? integer columns of the screen; longer lines are cut
---@return string[] lines
function width.columns(rows, right, most)
  local widths, lines = {}, {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, width.of(text_of(cell))) end
  end
  for n, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do cells[i] = width.pad(text_of(cell), widths[i], right[i]) end
    local line = table.concat(cells, "  "):gsub("%s+$", "")
    lines[n] = most and width.cut(line, most) or line
  end
  return lines
end

---A list as lines: in as many columns as fit on the screen, from top to bottom.
---@param texts string[]
---@param most integer columns of the screen
---@return string[] lines
function width.list(texts, most)
  local widest, rows = 0, {}
  for _, text in ipairs(texts) do widest = math.max(widest, width.of(text)) end
  local in_row = math.max(1, most // (widest + 2))
  local height = (#texts + in_row - 1) // in_row
  for i, text in ipairs(texts) do
    local row = (i - 1) % height + 1
    rows[row] = rows[row] or {}
    table.insert(rows[row], text)
  end
  return width.columns(rows, {})
end

---Wraps a text between words to a number of columns, and indents all lines.
---@param text string
---@param columns integer
---@param indent string
---@return string
function width.wrap(text, columns, indent)
  local lines, line, used = {}, nil, 0
  for word in text:gmatch "%S+" do
    local n = width.of(word)
    if line and #indent + used + 1 + n <= columns then
      line, used = line .. " " .. word, used + 1 + n
    else
      lines[#lines + 1] = line and indent .. line
      line, used = word, n
    end
  end
  lines[#lines + 1] = line and indent .. line
  return table.concat(lines, "\n")
end

return width
