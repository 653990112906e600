-- lua scripts/semantics.lua: writes docs/semantics.md to stdout. Its text is the rules in lua/runnel/lite.lua: comments
-- that begin with `*` and end with their source in brackets, below headings.

local INTRO = [[
# What exactly happens if

The rules of channels and go blocks, each with its source: core.async, Go, or runnel itself. They are comments of the
specification in `lua/runnel/lite.lua`, an engine in plain Lua; `make prove` runs small programs in every order on it
and on the C core, and must find no difference. The [guarantees](guarantees.md) say what a program can rely on, and the
manual how to use it.
]]

-- Breaks a text into lines of at most 120 characters.
local function wrap(text)
  local lines, line = {}, ""
  for word in text:gmatch "%S+" do
    if #line + #word + 1 > 120 then
      lines[#lines + 1], line = line, "  " .. word
    else
      line = line == "" and word or line .. " " .. word
    end
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

local out, rule, lines = { INTRO }, nil, {}
for line in assert(io.lines "lua/runnel/lite.lua") do lines[#lines + 1] = line end

local function finish()
  if not rule then return end
  local text, source = rule:match "^(.-) %[([^%]]+)%]$"
  assert(text, "a rule without a source: " .. rule)
  out[#out + 1] = wrap(("- %s (%s)"):format(text, source)) .. "\n"
  rule = nil
end

local section
for _, line in ipairs(lines) do
  local heading, begins, goes_on = line:match "^%-%- ## (.+)$", line:match "^%-%- %* (.+)$", line:match "^%-%-   (.+)$"
  if begins then
    finish()
    if section then out[#out + 1] = ("\n## %s\n\n"):format(section) end
    rule, section = begins, nil
  elseif rule and goes_on then
    rule = rule .. " " .. goes_on
  else
    finish()
  end
  section = heading or section
end
io.write(table.concat(out))
