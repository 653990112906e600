---Tokens of Lua source, which may be incomplete.

---@class runnel.prompt.lexer
local lexer = {}

lexer.KEYWORDS = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true until
while]]):gmatch "%a+" do lexer.KEYWORDS[word] = true end

local OPERATORS = { "^%.%.%.", "^%.%.", "^[=~<>]=", "^//", "^::", "^<<", "^>>", "^." }

-- The position of the last byte of the number that begins at `at`, as in Lua's own lexer.
local function number_end(text, at)
  local exponent = "^[eE][+-]?"
  if text:find("^0[xX]", at) then at, exponent = at + 2, "^[pP][+-]?" end
  while true do
    local _, stop = text:find(exponent, at)
    if not stop then _, stop = text:find("^[%x.]", at) end
    if not stop then return at - 1 end
    at = stop + 1
  end
end

-- The position of the last byte of the quoted string that begins at `at`; nil if it does not end.
local function string_end(text, at)
  local quote = text:sub(at, at)
  local stop = at
  while true do
    stop = text:find("[\\\r\n" .. quote .. "]", stop + 1)
    if not stop then return nil end
    local c = text:sub(stop, stop)
    if c == quote then return stop end
    if c ~= "\\" then return nil end
    if text:find("^z", stop + 1) then
      local _, blank = text:find("^%s*", stop + 2)
      stop = blank
    else
      stop = stop + 1
    end
  end
end

-- Whether a long bracket begins at `at`, and the position of its last byte; nil if it does not end.
---@return boolean
---@return integer?
local function bracket(text, at)
  local level = text:match("^%[(=*)%[", at)
  if not level then return false end
  local _, stop = text:find("]" .. level .. "]", at + 2 + #level, true)
  return true, stop
end

---@alias runnel.prompt.TokenKind "name"|"keyword"|"number"|"string"|"operator"|"unfinished"

---The token at or after a position. An unfinished string or comment extends to the end of the text.
---@param text string
---@param at integer
---@return runnel.prompt.TokenKind? kind nil at the end
---@return integer start
---@return integer stop
function lexer.next(text, at)
  while true do
    local start = text:find("%S", at)
    if not start then return nil, #text + 1, #text end
    if text:sub(start, start + 1) ~= "--" then
      at = start
      break
    end
    local is_bracket, stop = bracket(text, start + 2)
    if not is_bracket then stop = text:find("[\r\n]", start) end
    if not stop and is_bracket then return "unfinished", start, #text end
    if not stop then return nil, #text + 1, #text end
    at = stop + 1
  end
  local _, stop = text:find("^[A-Za-z_][A-Za-z0-9_]*", at)
  if stop then return lexer.KEYWORDS[text:sub(at, stop)] and "keyword" or "name", at, stop end
  if text:find("^%.?%d", at) then return "number", at, number_end(text, at) end
  if text:find("^[\"']", at) then
    stop = string_end(text, at)
    return stop and "string" or "unfinished", at, stop or #text
  end
  local is_bracket
  is_bracket, stop = bracket(text, at)
  if is_bracket then return stop and "string" or "unfinished", at, stop or #text end
  for _, pattern in ipairs(OPERATORS) do
    local _, ends = text:find(pattern, at)
    if ends then return "operator", at, ends end
  end
end

---Iterates over the tokens: kind, value, start, stop.
---@param text string
function lexer.tokens(text)
  local at = 1
  return function()
    local kind, start, stop = lexer.next(text, at)
    if not kind then return nil end
    at = stop + 1
    return kind, text:sub(start, stop), start, stop
  end
end

local CLASSES = { keyword = "k", string = "s", number = "n" }

---The class of each byte of a text, for colours: a string of the same length, of k (keyword), s (string), n (number),
---c (comment) and blanks.
---@param text string
---@return string
function lexer.classes(text)
  local parts, at = {}, 1
  -- Between tokens there are blanks and comments.
  local function gap(stop)
    local before, comment = text:sub(at, stop):match "^(%s*)(.-)%s*$"
    parts[#parts + 1] = (" "):rep(#before) .. ("c"):rep(#comment) .. (" "):rep(stop - at + 1 - #before - #comment)
  end
  for kind, value, start, stop in lexer.tokens(text) do
    gap(start - 1)
    local class = kind == "unfinished" and (value:find "^%-%-" and "c" or "s") or CLASSES[kind] or " "
    parts[#parts + 1] = class:rep(stop - start + 1)
    at = stop + 1
  end
  gap(#text)
  return table.concat(parts)
end

local OPENS = { ["("] = 1, ["{"] = 1, ["["] = 1, ["function"] = 1, ["do"] = 1, ["if"] = 1, ["repeat"] = 1 }
local CLOSES = { [")"] = 1, ["}"] = 1, ["]"] = 1, ["end"] = 1, ["until"] = 1 }

---How many brackets and blocks a token opens: 1, 0, or -1 for one that closes.
---@param kind string
---@param value string
---@return integer
function lexer.depth_of(kind, value)
  if kind ~= "keyword" and kind ~= "operator" then return 0 end
  return OPENS[value] or CLOSES[value] and -1 or 0
end

---Counts open brackets and blocks line by line, so that a long text needs no compilation to see that it is incomplete.
---@return fun(line: string): boolean incomplete whether something is open after this line
function lexer.counter()
  local depth, held = 0, nil -- held: the beginning of a string or comment of several lines
  return function(line)
    if held then
      held[#held + 1] = line
      local close = "]" .. held.level .. "]"
      if not line:find(close, 1, true) then return true end
      line, held = table.concat(held, "\n"), nil
    end
    for kind, value in lexer.tokens(line) do
      if kind == "unfinished" then
        local level = value:match "^%-?%-?%[(=*)%["
        if level then
          held = { value, level = level }
          return true
        end
      end
      depth = depth + lexer.depth_of(kind, value)
    end
    return depth > 0
  end
end

return lexer
