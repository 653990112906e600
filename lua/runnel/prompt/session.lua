---The state of a prompt between chunks: the number of the next chunk, the locals, the last values, and the chunks that
---ran. It does no input and no output.

local lexer = require "runnel.prompt.lexer"
local locals = require "runnel.prompt.locals"

local KEPT = { "_", "_1", "_2", "_3" } -- the last value and those before it

local LONG = 16384 -- bytes; a longer text is compiled only when all its brackets and blocks are closed

---@class runnel.prompt.Chunk
---@field text string
---@field run function
---@field expression boolean
---@field has_value boolean it returns the value of an expression, or of the call that is its last statement

---@class runnel.prompt.Session
---@field locals runnel.prompt.Locals
---@field chunks { text: string, expression: boolean, failed: boolean? }[] the chunks that ran
---@field env table? the globals, if they are not _G
---@field kept table has the last values
---@field lookup fun(name: string): any the value of a global
local Session = {}
Session.__index = Session

local session = {}

---@param env? table the globals of chunks
---@param kept? table the table that gets the last values as `_`, `_1`, `_2`, `_3`; by default the globals
---@param lookup? fun(name: string): any the value of a global; by default that of the table, without metamethods
---@return runnel.prompt.Session
function session.new(env, kept, lookup)
  lookup = lookup or function(name) return rawget(env or _G, name) end
  kept = kept or env or _G
  return setmetatable({ locals = locals.new(), chunks = {}, env = env, kept = kept, lookup = lookup }, Session)
end

---The name of the next chunk in messages.
---@return string
function Session:name() return ("[%d]"):format(#self.chunks + 1) end

local function is_eof(err) return err:find "near <eof>$" ~= nil end

-- Whether the text begins with the token that a message names: then the user meant an expression.
local function complains_of_first(err, text)
  local near = err:match "near '(.*)'$"
  local kind, start, stop = lexer.next(text, 1)
  return kind ~= nil and near == text:sub(start, stop)
end

-- Compiles a text. If it seems incomplete, compiles it with a newline added, too: a string that is still open at the
-- end of its line is an error, not incomplete.
local function try(text, name)
  local f, err = load(text, name, "t")
  ---@cast err string
  if not f and is_eof(err) then f, err = load(text .. "\n", name, "t") end
  return f ~= nil, err
end

-- Compiles an expression or statements, without the session's locals. Returns the error or nil, and whether the text is
-- an expression.
local function examine(text, name)
  local only = text:match "^=(.*)$" -- as in older versions of Lua
  local ok, expression_err = try("return " .. (only or text), name)
  if ok then return nil, true end
  local err
  ok, err = try(text, name)
  if ok then return nil, false end
  if is_eof(expression_err) or is_eof(err) then return "incomplete" end
  local is_expression = only or not expression_err:find("<eof>", 1, true) and complains_of_first(err, text)
  return is_expression and expression_err or err
end

-- Statements of several lines whose last one is a call, so that its values are returned; nil for other texts. A name at
-- the beginning of a line outside of blocks and brackets begins a statement if what is before it is complete.
local function with_last_value(text, name)
  local depth, begins, last_stop = 0, {}, 0
  for kind, value, start, stop in lexer.tokens(text) do
    local is_first = text:sub(last_stop + 1, start - 1):find "\n"
    if depth == 0 and kind == "name" and is_first then begins[#begins + 1] = start end
    depth, last_stop = depth + lexer.depth_of(kind, value), stop
  end
  for i = #begins, 1, -1 do
    local before, call = text:sub(1, begins[i] - 1), text:sub(begins[i])
    if try("return " .. call, name) and try(before, name) then return before .. "return " .. call end
  end
end

---Compiles a text: an expression, whose values it returns, or statements. Of several lines of statements, the values of
---a call at the end are returned, too.
---@param text string
---@return runnel.prompt.Chunk? chunk
---@return string? err "incomplete" if more lines might complete it
function Session:compile(text)
  local name = "=" .. self:name()
  local err, is_expression = examine(text, name)
  if err then return nil, err end
  local source = is_expression and "return " .. text:gsub("^=", "") or text
  local is_candidate = not is_expression and #text <= LONG and text:find "\n%s*[%a_]"
  local valued = is_candidate and with_last_value(text, name) or nil
  source = valued or source
  local run
  run, err = self.locals:load(source, name, self.env)
  if not run then return nil, err end
  return { text = text, run = run, expression = is_expression, has_value = is_expression or valued ~= nil }
end

---Compiles an expression only.
---@param text string
---@return function? f
---@return string? err
function Session:expression(text)
  local name = "=" .. self:name()
  local f, err = load("return " .. text, name, "t")
  if not f then return nil, err end
  return self.locals:load("return " .. text, name, self.env)
end

---Records a chunk that is about to run, and increments the number of the next one.
---@param chunk runnel.prompt.Chunk
---@return table entry of `chunks`
function Session:note(chunk)
  local entry = { text = chunk.text, expression = chunk.expression }
  table.insert(self.chunks, entry)
  return entry
end

---Keeps the value of an expression as `_`.
---@param value any
function Session:keep(value)
  if value == nil then return end
  for i = #KEPT, 2, -1 do rawset(self.kept, KEPT[i], rawget(self.kept, KEPT[i - 1])) end
  rawset(self.kept, KEPT[1], value)
end

---The value of a name: of a local, or of a global.
---@param name string
---@return any
function Session:get(name)
  local found, value = self.locals:get(name)
  if found then return value end
  return self.lookup(name)
end

---Whether there is no local and no global of that name.
---@param name string
function Session:is_free(name) return self:get(name) == nil and not self.locals.cells[name] end

-- Splits a text into chunks, as if it were typed line by line. Returns nil if that is impossible.
local function pieces(text, name)
  local list, lines, count = {}, {}, nil
  for line in (text .. "\n"):gmatch "(.-)\n" do
    count = count or lexer.counter()
    lines[#lines + 1] = line
    local piece = table.concat(lines, "\n")
    local err
    if count(line) then err = "incomplete" else err = examine(piece, name) end
    if not err then
      list[#list + 1] = piece
      lines, count = {}, nil
    elseif err ~= "incomplete" then
      return nil
    end
  end
  return #lines == 0 and list or nil
end

---The chunks of a text: one, if the text compiles as one; otherwise the chunks that it would be if it were typed line
---by line, if each of them compiles.
---@param text string
---@return string[]? chunks
---@return string? err "incomplete" if more lines might complete the text, or the error
function Session:split(text)
  local name = "=" .. self:name()
  local err = examine(text, name)
  if not err then return { text } end
  local list = err ~= "incomplete" and pieces(text, name)
  if list then return list end
  return nil, err
end

---Collects lines until they are complete. The function that it returns is called with each line, or with several at
---once, and returns what `split` does. If `more`, another line is already available: then a long text is
---compiled only when all its brackets and blocks are closed, since compiling it after each line would take quadratic
---time.
---@return fun(line: string, more: boolean?): string[]?, string?
function Session:reader()
  local lines, size, count = {}, 0, lexer.counter()
  return function(line, more)
    lines[#lines + 1] = line
    size = size + #line + 1
    if count(line) and size > LONG and more then return nil, "incomplete" end
    return self:split(table.concat(lines, "\n"))
  end
end

-- Whether a statement may follow; none may follow `return`.
local function goes_on(text) return load(text .. "\nlocal _") ~= nil end

-- A chunk as statements of a script.
local function as_statement(entry)
  local text = entry.text:gsub("^=", "")
  if entry.failed then return "-- raised an error:\n-- " .. text:gsub("\n", "\n-- ") end
  if goes_on(text) then return text end
  if entry.expression then return "print(" .. text .. (text:find("--", 1, true) and "\n)" or ")") end
  return "print((function(...)\n" .. text .. "\nend)())"
end

---The chunks that ran, as a script.
---@return string
function Session:script()
  local parts = { 'local rn = require "runnel"' }
  for _, entry in ipairs(self.chunks) do parts[#parts + 1] = as_statement(entry) end
  return table.concat(parts, "\n") .. "\n"
end

return session
