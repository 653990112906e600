---The source text of functions, from the chunks of a session or from files.

local describe = require "runnel.prompt.describe"
local lexer = require "runnel.prompt.lexer"

---@class runnel.prompt.source_text
local source = {}

-- Reads a function from the token `function` at a position on: its parameters, where its "(" is, and where it ends.
local function read(text, at)
  local depth, open, parameters, stop = 0, nil, {}, nil
  local is_method = false
  while true do
    local kind, start, last = lexer.next(text, at)
    if not kind or kind == "unfinished" then return nil end
    local value = text:sub(start, last)
    if not open and value == ":" then is_method = true end
    if value == "(" and not open then open = start end
    if open and not stop then
      if value == ")" then stop = start
      elseif value ~= "(" and value ~= "," then parameters[#parameters + 1] = value end
    end
    depth = depth + lexer.depth_of(kind, value)
    if depth == 0 then
      if is_method then table.insert(parameters, 1, "self") end
      return parameters, open, stop, last
    end
    at = last + 1
  end
end

-- Whether all upvalues of a function occur in a text.
local function mentions(text, f)
  local seen = {}
  for kind, value in lexer.tokens(text) do
    if kind == "name" then seen[value] = true end
  end
  for i = 1, math.huge do
    local name = debug.getupvalue(f, i)
    if not name then return true end
    if name ~= "_ENV" and name ~= "" and not seen[name] then return false end
  end
end

---The text of a function, as an expression.
---@param session runnel.prompt.Session
---@param f function
---@return string? text nil if its source is not known
---@return string? parameters "(a, b)"
---@return string? body what follows them
function source.of(session, f)
  local info = debug.getinfo(f, "S")
  local lines = info.what == "Lua" and describe.lines_of(session, info.source)
  if not lines or not lines[info.lastlinedefined] then return nil end
  local text = table.concat(lines, "\n", info.linedefined, info.lastlinedefined)
  local wanted, height = table.concat(describe.parameters(f), ", "), info.lastlinedefined - info.linedefined
  for kind, value, start in lexer.tokens(text) do
    if text:sub(1, start):find "\n" then return nil end
    if kind == "keyword" and value == "function" then
      local parameters, open, stop, last = read(text, start)
      if parameters and table.concat(parameters, ", ") == wanted then
        local body = text:sub(stop + 1, last)
        if select(2, text:sub(open, last):gsub("\n", "")) == height and mentions(body, f) then
          return ("function(%s)%s"):format(wanted, body), ("(%s)"):format(wanted), body
        end
      end
    end
  end
end

return source
