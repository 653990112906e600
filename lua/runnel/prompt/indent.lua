---Indenting while a chunk is typed: two blanks for each open block.

local lexer = require "runnel.prompt.lexer"

local STEP = 2

---@class runnel.prompt.indent
local indent = {}

-- The blanks at the beginning of a line, as a number; a tab counts as one.
local function blanks(line) return #line:match "^%s*" end

-- Reads a text. Returns its last line; where the blocks begin that are open behind it: { start = , indent = }, the
-- innermost last; the block that its last token has closed; and whether a string or a comment is unfinished.
local function read(text)
  local open, closed = {}, nil
  for kind, value, start in lexer.tokens(text) do
    if kind == "unfinished" then return "", open, nil, true end
    local depth = lexer.depth_of(kind, value)
    closed = nil
    if depth > 0 then
      local line_start = start
      while line_start > 1 and text:byte(line_start - 1) ~= 10 do line_start = line_start - 1 end
      open[#open + 1] = { start = start, indent = blanks(text:sub(line_start, start)) }
    elseif depth < 0 then
      closed = table.remove(open)
    end
  end
  return text:match "^.*\n(.*)$" or text, open, closed, false
end

---How many blanks a line begins with that follows a text.
---@param text string the part of a chunk before the cursor
---@return integer
function indent.after(text)
  local line, open, _, is_unfinished = read(text)
  if is_unfinished then return 0 end
  local last = open[#open]
  local begins = last and last.start > #text - #line or line:find "^%s*else%f[^%w_]" or line:find "^%s*elseif%f[^%w_]"
  return blanks(line) + (begins and STEP or 0)
end

local CLOSES = { ["end"] = true, ["until"] = true, ["}"] = true, [")"] = true, ["]"] = true }

---How many blanks the last line of a text should begin with, if it consists of a word or bracket that closes a block.
---@param text string the part of a chunk before the cursor
---@return integer? blanks
function indent.closing(text)
  local word = text:match "[^\n]*$":match "^%s*(%S+)$"
  if not word then return nil end
  local _, open, closed, is_unfinished = read(text)
  if is_unfinished then return nil end
  if CLOSES[word] then return closed and closed.indent end
  local last = open[#open]
  return (word == "else" or word == "elseif") and last and last.indent or nil
end

return indent
