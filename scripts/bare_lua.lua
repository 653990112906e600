---The text of a Lua file without comments, indentation and most blanks. Its lines keep their numbers, and strings stay
---as they are.

-- What may begin at a place of the text: a pattern, and whether it is kept. The first that matches counts. Blanks are
-- removed only in code, and only where what is beside them cannot become another token.
local PARTS = {
  { "^%-%-%[(=*)%[", long = true }, { "^%[(=*)%[", long = true, kept = true }, { "^%-%-[^\n]*" },
  { '^"', string = '"', kept = true }, { "^'", string = "'", kept = true },
  { "^\n[ \n]*", lines = true }, { "^[^%-%[\"'\n]+", kept = true, code = true }, { "^.", kept = true },
}

-- Where the string that begins at `at` ends.
local function string_end(text, at, quote)
  repeat
    at = text:find('[\\' .. quote .. ']', at + 1)
    local escaped = text:sub(at, at) == "\\"
    if escaped then at = at + 1 end
  until not escaped
  return at
end

---@param text string
---@return string
local function bare(text)
  local out, at = {}, 1
  while at <= #text do
    for _, part in ipairs(PARTS) do
      local first, last, level = text:find(part[1], at)
      if first then
        if part.long then
          last = select(2, assert(text:find("]" .. level .. "]", last + 1, true)))
        elseif part.string then
          last = string_end(text, at, part.string)
        end
        local piece = text:sub(first, last)
        if part.lines or not part.kept then piece = piece:gsub("[^\n]", "") end
        if part.code then piece = piece:gsub(" *([,(){}+*/;]) *", "%1"):gsub("= +", "=") end
        out[#out + 1] = piece
        at = last + 1
        break
      end
    end
  end
  return (table.concat(out):gsub(" +\n", "\n"))
end

return bare
