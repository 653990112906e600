---Locals that last longer than the chunk that declares them.
---
---A session behaves like one long chunk that is typed in parts. A chunk is compiled inside a function that declares the
---session's locals, and its upvalues are then joined to theirs, so that it shares variables with the closures of
---earlier chunks. After each `local` statement at the top level of the chunk, a call is inserted that captures the new
---variables, so that they exist even if the chunk raises an error later.
---
---A variable declared `<close>` is declared `<const>` instead, and its value is closed when the session ends.

local lexer = require "runnel.prompt.lexer"

local MOST = 190 -- locals of the session in one chunk: Lua allows 200 in a function

local LITERALS = { ["nil"] = true, ["true"] = true, ["false"] = true, ["..."] = true }
local UNARY = { ["not"] = true, ["-"] = true, ["#"] = true, ["~"] = true }
local BINARY = { ["and"] = true, ["or"] = true }
for operator in ("+ - * / // % ^ & | ~ << >> .. < <= > >= == ~="):gmatch "%S+" do BINARY[operator] = true end

---@class runnel.prompt.Declaration
---@field stop integer where the statement ends in the text
---@field names string[]
---@field attributes table<integer, { name: string, start: integer, stop: integer }> by the index of the name

-- A cursor over the tokens of a text: kind and value of the current one.
local function cursor(text)
  local c = { stop = 0 }
  function c.advance()
    c.last = c.stop
    c.kind, c.start, c.stop = lexer.next(text, c.stop + 1)
    c.value = c.kind and text:sub(c.start, c.stop)
  end
  -- Moves past the token that closes the current one.
  function c.skip()
    local depth = 0
    repeat
      depth = depth + lexer.depth_of(c.kind, c.value)
      c.advance()
    until depth == 0 or not c.kind
  end
  c.advance()
  return c
end

-- Moves past an expression that may be called or indexed.
local function skip_suffixes(c)
  while true do
    if c.value == "." or c.value == ":" then
      c.advance()
      c.advance()
    elseif c.value == "(" or c.value == "[" or c.value == "{" then
      c.skip()
    elseif c.kind == "string" then
      c.advance()
    else
      return
    end
  end
end

-- Moves past a list of expressions.
local function skip_expressions(c)
  while true do
    while UNARY[c.value] and c.kind ~= "string" do c.advance() end
    if c.kind == "name" then
      c.advance()
      skip_suffixes(c)
    elseif c.value == "(" then
      c.skip()
      skip_suffixes(c)
    elseif c.value == "{" or c.value == "function" and c.kind == "keyword" then
      c.skip()
    elseif c.kind == "string" or c.kind == "number" or LITERALS[c.value] then
      c.advance()
    else
      return
    end
    if c.kind == "string" or not (BINARY[c.value] or c.value == ",") then return end
    c.advance()
  end
end

-- Reads an attribute, as `<const>`; nil if there is none.
local function read_attribute(c)
  if c.value ~= "<" then return nil end
  c.advance()
  local attribute = { name = c.value, start = c.start, stop = c.stop }
  c.advance()
  c.advance()
  return attribute
end

-- Reads a statement after its `local`.
local function read_declaration(c)
  local declaration = { names = {}, attributes = {} }
  if c.value == "function" then
    c.advance()
    declaration.names[1] = c.value
    -- Skips the body, from the keyword on.
    c.kind, c.value = "keyword", "function"
    c.skip()
  else
    local of_all = read_attribute(c) -- Lua 5.5: of the names that have none of their own
    repeat
      if c.value == "," then c.advance() end
      table.insert(declaration.names, c.value)
      c.advance()
      declaration.attributes[#declaration.names] = read_attribute(c) or of_all
    until c.value ~= ","
    if c.value == "=" then
      c.advance()
      skip_expressions(c)
    end
  end
  declaration.stop = c.last
  return declaration
end

local locals = {}

---The `local` statements at the top level of a chunk, not those in its blocks.
---@param text string a chunk that compiles
---@return runnel.prompt.Declaration[]
function locals.declarations(text)
  local c, list, depth = cursor(text), {}, 0
  while c.kind do
    if depth == 0 and c.kind == "keyword" and c.value == "local" then
      c.advance()
      list[#list + 1] = read_declaration(c)
    else
      if c.kind == "keyword" then depth = depth + lexer.depth_of(c.kind, c.value) end
      c.advance()
    end
  end
  return list
end

-- The text with a call of `keep` after each declaration, and `<const>` instead of `<close>`.
local function with_calls(text, declarations, keep)
  local parts, at = {}, 1
  for i, declaration in ipairs(declarations) do
    for _, attribute in pairs(declaration.attributes) do
      if attribute.name == "close" then
        parts[#parts + 1] = text:sub(at, attribute.start - 1) .. "const"
        at = attribute.stop + 1
      end
    end
    parts[#parts + 1] = text:sub(at, declaration.stop)
    parts[#parts + 1] = (" %s(%d,function()return %s end);"):format(keep, i, table.concat(declaration.names, ","))
    at = declaration.stop + 1
  end
  parts[#parts + 1] = text:sub(at)
  return table.concat(parts)
end

---@class runnel.prompt.Locals
---@field cells table<string, { f: function, index: integer, const: boolean? }> a variable: an upvalue of a function
---@field closing any[] the values to close when the session ends
local Locals = {}
Locals.__index = Locals

---@return runnel.prompt.Locals
function locals.new() return setmetatable({ cells = {}, closing = {} }, Locals) end

-- The upvalues of a function: name -> index.
local function upvalues(f)
  local indices = {}
  for i = 1, math.huge do
    local name = debug.getupvalue(f, i)
    if not name then return indices end
    indices[name] = i
  end
end

-- Records a value to close when the session ends.
function Locals:close_later(name, value)
  if value == nil or value == false then return end
  local meta = debug.getmetatable(value)
  if type(meta) ~= "table" or rawget(meta, "__close") == nil then
    error(("variable '%s' got a non-closable value"):format(name), 4) -- at the chunk's line; this knows no core
  end
  table.insert(self.closing, value)
end

-- Captures the variables of a declaration: `f` returns them.
function Locals:capture(declaration, f)
  local indices, values = upvalues(f), table.pack(f())
  for i, name in ipairs(declaration.names) do
    local attribute = declaration.attributes[i]
    if attribute and attribute.name == "close" then self:close_later(name, values[i]) end
    if name ~= "_" then -- the last value
      local value = values[i]
      local constant = not indices[name] and function() return value end -- a compile-time constant: not an upvalue
      self.cells[name] = { f = constant or f, index = constant and 1 or indices[name], const = attribute ~= nil }
    end
  end
end

-- The session's locals whose names occur in a text.
local function mentioned(self, text)
  local names, seen = {}, {}
  local function mention(name)
    if self.cells[name] and not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  mention "_ENV"
  for kind, value in lexer.tokens(text) do
    if kind == "name" then mention(value) end
  end
  return names
end

---Compiles a chunk that sees the locals, and adds its own to them when it runs.
---@param text string a chunk that compiles
---@param name string of the chunk
---@param env? table its globals
---@return function? chunk
---@return string? err
function Locals:load(text, name, env)
  local keep = "__runnel_keep"
  while text:find(keep, 1, true) do keep = keep .. "_" end
  local declarations, names = locals.declarations(text), mentioned(self, text)
  if #names > MOST then
    return nil, ("%s: uses %d locals of this session; at most %d are possible"):format(name:sub(2), #names, MOST)
  end
  -- With a variable to be closed, `return rn.pmap(...)` is not a tail call: the library finds the line that called it.
  local body = ("local %s_<close> = nil %s"):format(keep, with_calls(text, declarations, keep))
  -- A main chunk if it can be one: modules such as strict.lua let no other function make globals.
  if #names + #declarations == 0 then return load(body, name, "t", env or _G) end
  local list = { keep }
  for i, mention in ipairs(names) do list[i + 1] = mention .. (self.cells[mention].const and "<const>" or "") end
  local source = ("local %s = ... return function(...) %s\nend"):format(table.concat(list, ","), body)
  local make, err = load(source, name, "t", env or _G)
  if not make then return nil, err end
  local chunk = make(function(i, f) self:capture(declarations[i], f) end)
  for mention, index in pairs(upvalues(chunk)) do
    local cell = self.cells[mention]
    if cell then debug.upvaluejoin(chunk, index, cell.f, cell.index) end
  end
  return chunk
end

---The value of a local.
---@param name string
---@return boolean found
---@return any value
function Locals:get(name)
  local cell = self.cells[name]
  if not cell then return false end
  return true, select(2, debug.getupvalue(cell.f, cell.index))
end

---Closes the `<close>` variables in reverse order, as at the end of a block. After an error it continues with the
---others.
---@param failed fun(err: any) called with each error
function Locals:close(failed)
  while #self.closing > 0 do
    local value = table.remove(self.closing)
    local ok, err = xpcall(function() debug.getmetatable(value).__close(value, nil) end, debug.traceback)
    if not ok then failed(err) end
  end
end

return locals
