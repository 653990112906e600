---A small checker of LuaCATS annotations: reads the types of the library's files, looks for names that nothing
---declares, and infers what a call returns, by the rules of lua-language-server: the type parameters of a function are
---what its arguments have in their places, those of a class what its object has.

local luacats = {}

-- ---- types: { kind = "name", name =, args = }, "union", "array", "fun", "table", "literal", "any" ----

local BUILTIN = {}
for _, name in ipairs { "any", "nil", "boolean", "string", "number", "integer", "function", "table", "thread",
  "userdata", "lightuserdata", "unknown", "true", "false", "self", "file*", "osdate" } do BUILTIN[name] = true end

local function fail(self, what)
  error(("%s expected at %q"):format(what, self.text:sub(self.at, self.at + 20)), 0)
end

local function skip(self) self.at = self.text:find("%S", self.at) or #self.text + 1 end

local function accept(self, token)
  skip(self)
  if self.text:sub(self.at, self.at + #token - 1) ~= token then return false end
  self.at = self.at + #token
  return true
end

local function expect(self, token) return accept(self, token) or fail(self, token) end

local function word(self, pattern)
  skip(self)
  local found = self.text:match("^" .. pattern, self.at)
  if found then self.at = self.at + #found end
  return found
end

local NAME <const> = "[%a_][%w_.]*%*?"

local parse

-- A list of types up to a token; names in it are `name: type` or `name?: type`.
local function parse_params(self, stop)
  local params = {}
  while not accept(self, stop) do
    if #params > 0 then expect(self, ",") end
    local name = accept(self, "...") and "..." or word(self, "[%a_][%w_]*") or fail(self, "a parameter")
    local optional = accept(self, "?")
    params[#params + 1] = { name = name, optional = optional,
      type = accept(self, ":") and parse(self) or { kind = "name", name = "any" } }
  end
  return params
end

-- Several types in brackets: `fun(): (a, b)`. Nothing, if there is one type in them.
local function parse_bracketed(self)
  local before, list = self.at, {}
  if accept(self, "(") then
    repeat list[#list + 1] = parse(self) until not accept(self, ",")
    if #list > 1 and accept(self, ")") then return list end
  end
  self.at = before
end

-- The types after `fun(...):`. A comma before `name:` belongs to what is around.
local function parse_returns(self)
  local list = parse_bracketed(self)
  if list then return list end
  list = {}
  repeat
    list[#list + 1] = accept(self, "...") and { kind = "name", name = "any" } or parse(self)
    local before = self.at
    local goes_on = accept(self, ",") and not self.text:find("^%s*[%a_][%w_]*%??%s*:", self.at)
      and not self.text:find("^%s*%[", self.at) and not self.text:find("^%s*%.%.%.%s*:", self.at)
    if not goes_on then self.at = before end
  until not goes_on
  return list
end

local function parse_fun(self)
  expect(self, "(")
  local params = parse_params(self, ")")
  return { kind = "fun", params = params, returns = accept(self, ":") and parse_returns(self) or {} }
end

local function parse_table(self)
  local fields = {}
  while not accept(self, "}") do
    if #fields > 0 then
      if not accept(self, ",") then expect(self, ";") end
      if accept(self, "}") then break end
    end
    local key, index, optional = nil, nil, false
    if accept(self, "[") then
      index = parse(self)
      expect(self, "]")
    else
      key = word(self, "[%a_][%w_]*") or fail(self, "a field")
      optional = accept(self, "?")
    end
    expect(self, ":")
    fields[#fields + 1] = { name = key, index = index, optional = optional, type = parse(self) }
  end
  return { kind = "table", fields = fields }
end

local function parse_primary(self)
  if accept(self, "(") then
    local inner = parse(self)
    expect(self, ")")
    return inner
  elseif accept(self, "{") then
    return parse_table(self)
  end
  local literal = word(self, '"[^"]*"') or word(self, "%-?%d+")
  if literal then return { kind = "literal", text = literal } end
  local name = word(self, NAME) or fail(self, "a type")
  if name == "fun" then return parse_fun(self) end
  local args
  if accept(self, "<") then
    args = {}
    repeat args[#args + 1] = parse(self) until not accept(self, ",")
    expect(self, ">")
  end
  return { kind = "name", name = name, args = args }
end

local NIL <const> = { kind = "name", name = "nil" }

local function parse_postfix(self)
  local found = parse_primary(self)
  while true do
    if accept(self, "?") then found = { kind = "union", found, NIL }
    elseif self.text:find("^%[%]", self.at) then
      self.at = self.at + 2
      found = { kind = "array", found }
    else return found end
  end
end

function parse(self)
  local list = { kind = "union", parse_postfix(self) }
  while accept(self, "|") do list[#list + 1] = parse_postfix(self) end
  return #list == 1 and list[1] or list
end

---Parses a type at the beginning of a text. Returns it and the rest of the text; raises if it is none.
---@param text string
---@return table type
---@return string rest
function luacats.parse(text)
  local self = { text = text, at = 1 }
  local found = parse(self)
  return found, text:sub(self.at)
end

-- ---- as text ----

local show

local function show_all(list, f)
  local texts = {}
  for i, one in ipairs(list) do texts[i] = f(one) end
  return table.concat(texts, ", ")
end

local function show_param(param)
  return ("%s%s: %s"):format(param.name, param.optional and "?" or "", show(param.type))
end

function show(t)
  if t.kind == "literal" then return t.text end
  if t.kind == "name" then return t.args and ("%s<%s>"):format(t.name, show_all(t.args, show)) or t.name end
  if t.kind == "array" then return show(t[1]) .. "[]" end
  if t.kind == "fun" then
    local returns = #t.returns > 0 and ": " .. show_all(t.returns, show) or ""
    return ("fun(%s)%s"):format(show_all(t.params, show_param), returns)
  end
  if t.kind == "table" then return "table" end
  local texts, seen = {}, {}
  for _, one in ipairs(t) do
    local text = show(one)
    if not seen[text] then texts[#texts + 1] = text end
    seen[text] = true
  end
  return table.concat(texts, "|")
end

luacats.show = show

-- ---- files ----

---@class spec.luacats.Function
---@field generics string[]
---@field params { name: string, optional: boolean, type: table }[]
---@field returns table[]
---@field place string

---@class spec.luacats.World
---@field classes table<string, { params: string[], parents: table[], fields: table<string, table>, functions: table,
---operators: table<string, table> }>
---@field aliases table<string, table>
---@field by_name table<string, spec.luacats.Function[]> all functions with parameters, by the last part of their names
---@field problems string[]

-- The annotations of a file: each with the lines that continue it because a bracket is open.
local function read_blocks(path, handle)
  local block, number, open = {}, 0, nil
  for line in io.lines(path) do
    number = number + 1
    local text = line:match "^%s*%-%-%-(.*)$"
    if not text then
      handle(block, line, number)
      block, open = {}, nil
    elseif open and not text:find "^@" then
      open.text = open.text .. " " .. text
      local _, opens = open.text:gsub("[{(<]", "")
      local _, closes = open.text:gsub("[})>]", "")
      if opens <= closes then open = nil end
    elseif text:find "^@" then
      local one = { text = text, number = number }
      block[#block + 1] = one
      local _, opens = text:gsub("[{(<]", "")
      local _, closes = text:gsub("[})>]", "")
      open = opens > closes and one or nil
    end
  end
end

local function names_of(text)
  local list = {}
  for name in text:gmatch "[%a_][%w_]*" do list[#list + 1] = name end
  return list
end

local function class_of(world, name)
  local class = world.classes[name] or { params = {}, parents = {}, fields = {}, functions = {}, operators = {} }
  world.classes[name] = class
  return class
end

-- A class, an alias or the like; returns the name of the class.
local function declare(world, one, class, place)
  local kind, rest = one.text:match "^@(%l+)%s*(.*)$"
  if kind == "class" then
    local name, params, after = rest:match "^([%w_.]+)%s*(%b<>)(.*)$"
    if not name then name, after = rest:match "^([%w_.]+)(.*)$" end
    local parents = after:match "^%s*:%s*(.*)$" or ""
    class = class_of(world, name)
    class.place, class.params = place, names_of(params or "")
    while parents:find "^[%a]" do
      local parent
      parent, parents = luacats.parse(parents)
      class.parents[#class.parents + 1] = parent
      parents = parents:match "^%s*,%s*(.*)$" or ""
    end
  elseif kind == "field" and class then
    rest = rest:gsub("^private%s+", ""):gsub("^package%s+", ""):gsub("^protected%s+", "")
    local name, optional, text = rest:match "^([%a_][%w_]*)(%??)%s+(.*)$"
    if not name then name, optional, text = rest:match "^(%b[])(%??)%s+(.*)$" end
    local found = luacats.parse(text)
    class.fields[name] = { type = optional == "?" and { kind = "union", found, NIL } or found, place = place }
  elseif kind == "operator" and class then
    local name, text = rest:match "^(%l+)(.*)$"
    class.operators[name] = luacats.parse("fun" .. (text:find "^%(" and text or "()" .. text))
  elseif kind == "alias" then
    local name, text = rest:match "^([%w_.]+)%s*(.*)$"
    world.aliases[name] = { type = luacats.parse(text), place = place }
  end
  return class
end

-- The function that a block describes.
local function read_function(block, place)
  local f = { generics = {}, params = {}, returns = {}, place = place }
  for _, one in ipairs(block) do
    local kind, rest = one.text:match "^@(%l+)%s*(.*)$"
    if kind == "generic" then
      f.generics = names_of(rest:gsub(":%s*[%w_.]+", ""))
    elseif kind == "param" then
      local name, optional, text = rest:match "^([%w_.]+)(%??)%s+(.*)$"
      f.params[#f.params + 1] = { name = name, optional = optional == "?", type = luacats.parse(text) }
    elseif kind == "return" then
      repeat
        local found, after = luacats.parse(rest)
        f.returns[#f.returns + 1] = found
        rest = after:match "^%s*,%s*(.*)$" or after:match "^%s+[%a_][%w_]*,%s*(.*)$"
      until not rest
    elseif kind == "type" then
      f.type = luacats.parse(rest)
    end
  end
  return f
end

-- The parameters of a function's definition, or nil if the line is none.
local function definition(line)
  local owner, separator, name, params = line:match "^function ([%w_]+)([.:])([%w_]+)%((.-)%)"
  if not owner then name, params = line:match "^local function ([%w_]+)%((.-)%)" end
  if not name then
    local long, last, inner = line:match "^function ([%w_.]+)%.([%w_]+)%((.-)%)"
    if long then return long, ".", last, names_of((inner:gsub("%.%.%.", ""))), inner:find("...", 1, true) end
    return nil
  end
  return owner, separator, name, names_of((params:gsub("%.%.%.", ""))), params:find("...", 1, true) ~= nil
end

local function check_params(world, f, params, has_rest)
  local names = {}
  for _, param in ipairs(f.params) do
    if param.name ~= "self" and param.name ~= "..." then names[#names + 1] = param.name end
    if param.name == "..." and not has_rest then
      world.problems[#world.problems + 1] = f.place .. ": there is no ..."
    end
  end
  if #names == 0 then return end
  local at = 1
  for _, name in ipairs(names) do -- a private function need not describe all of them
    while params[at] and params[at] ~= name do at = at + 1 end
    if not params[at] then
      world.problems[#world.problems + 1] = ("%s: there is no parameter %s, or not in this order"):format(f.place, name)
      return
    end
  end
end

-- Calls f with each name in a type.
local function each_name(t, f)
  if t.kind == "name" then
    f(t.name)
    for _, arg in ipairs(t.args or {}) do each_name(arg, f) end
  elseif t.kind == "fun" then
    for _, param in ipairs(t.params) do each_name(param.type, f) end
    for _, one in ipairs(t.returns) do each_name(one, f) end
  elseif t.kind == "table" then
    for _, field in ipairs(t.fields) do
      each_name(field.type, f)
      if field.index then each_name(field.index, f) end
    end
  elseif t.kind ~= "literal" then
    for _, one in ipairs(t) do each_name(one, f) end
  end
end

-- Notes the names that nothing declares.
local function check_names(world, uses)
  for _, use in ipairs(uses) do
    local known = {}
    for _, name in ipairs(use.generics) do known[name] = true end
    each_name(use.type, function(name)
      if BUILTIN[name] or known[name] or world.classes[name] or world.aliases[name] then return end
      world.problems[#world.problems + 1] = ("%s: nothing declares the type %s"):format(use.place, name)
    end)
  end
end

local function read_file(world, uses, path)
  local owners = {}
  read_blocks(path, function(block, line, number)
    local place, class = ("%s:%d"):format(path, number), nil
    local ok, problem = pcall(function()
      for _, one in ipairs(block) do class = declare(world, one, class, place) end
      local var = class and line:match "^local ([%w_]+)"
      if var then owners[var] = class end
      local f = read_function(block, place)
      local owner, separator, name, params, has_rest = definition(line)
      local of = owner and owners[owner]
      local generics = table.move(of and of.params or {}, 1, #(of and of.params or {}), #f.generics + 1,
        table.move(f.generics, 1, #f.generics, 1, {}))
      local function use(t) uses[#uses + 1] = { type = t, place = place, generics = generics } end
      for _, param in ipairs(f.params) do use(param.type) end
      for _, one in ipairs(f.returns) do use(one) end
      if f.type then use(f.type) end
      if class then
        for _, field in pairs(class.fields) do
          if field.place == place then
            uses[#uses + 1] = { type = field.type, place = place, generics = class.params }
          end
        end
        for _, parent in ipairs(class.place == place and class.parents or {}) do
          uses[#uses + 1] = { type = parent, place = place, generics = class.params }
        end
      end
      if params then check_params(world, f, params, has_rest) end
      if of and name then of.functions[name] = of.functions[name] or f end
      local closed = owners[line:match "^(%u%w*)%.__close = "]
      if closed then closed.functions.__close = closed.functions.__close or f end
      f.is_method = separator == ":"
      if name and f.params[1] then
        world.by_name[name] = world.by_name[name] or {}
        table.insert(world.by_name[name], f)
      end
    end)
    if not ok then world.problems[#world.problems + 1] = ("%s: %s"):format(place, problem) end
  end)
end

---Reads the annotations of files.
---@param paths string[]
---@return spec.luacats.World
function luacats.read(paths)
  local world, uses = { classes = {}, aliases = {}, by_name = {}, problems = {} }, {}
  for _, path in ipairs(paths) do read_file(world, uses, path) end
  for _, alias in pairs(world.aliases) do
    uses[#uses + 1] = { type = alias.type, place = alias.place, generics = {} }
  end
  check_names(world, uses)
  return world
end

-- ---- inferring ----

-- The type with these in place of its type parameters.
local function substitute(t, bound)
  if t.kind == "name" then
    if bound[t.name] then return bound[t.name] end
    if not t.args then return t end
    local args = {}
    for i, arg in ipairs(t.args) do args[i] = substitute(arg, bound) end
    return { kind = "name", name = t.name, args = args }
  elseif t.kind == "union" or t.kind == "array" then
    local copy = { kind = t.kind }
    for i, one in ipairs(t) do copy[i] = substitute(one, bound) end
    return copy
  elseif t.kind == "fun" then
    local params, returns = {}, {}
    for i, param in ipairs(t.params) do
      params[i] = { name = param.name, optional = param.optional, type = substitute(param.type, bound) }
    end
    for i, one in ipairs(t.returns) do returns[i] = substitute(one, bound) end
    return { kind = "fun", params = params, returns = returns }
  end
  return t
end

-- Binds type parameters that occur in `pattern` to what `given` has there.
local function bind(pattern, given, generics, bound)
  if pattern.kind == "name" and generics[pattern.name] and not pattern.args then
    bound[pattern.name] = bound[pattern.name] or given
  elseif pattern.kind == "union" then
    for _, one in ipairs(pattern) do bind(one, given, generics, bound) end
  elseif pattern.kind ~= given.kind then
    return
  elseif pattern.kind == "name" and pattern.name == given.name then
    for i, arg in ipairs(pattern.args or {}) do
      if given.args and given.args[i] then bind(arg, given.args[i], generics, bound) end
    end
  elseif pattern.kind == "array" then
    bind(pattern[1], given[1], generics, bound)
  elseif pattern.kind == "fun" then
    for i, one in ipairs(pattern.returns) do
      if given.returns[i] then bind(one, given.returns[i], generics, bound) end
    end
    for i, param in ipairs(pattern.params) do
      if given.params[i] then bind(param.type, given.params[i].type, generics, bound) end
    end
  end
end

-- A function of a class or of one of its parents; or a field that is one.
local function find(world, class, name, bound)
  if class.functions[name] then return class.functions[name], bound end
  local field = class.fields[name]
  if field and field.type.kind == "fun" then
    return { generics = {}, params = field.type.params, returns = field.type.returns }, bound
  end
  for _, parent in ipairs(class.parents) do
    local above, more = world.classes[parent.name], {}
    for i, param in ipairs(above and above.params or {}) do
      more[param] = parent.args and substitute(parent.args[i], bound)
    end
    local f, found = find(world, above or { functions = {}, fields = {}, parents = {} }, name, more)
    if f then return f, found end
  end
end

---What a call returns, as texts.
---@param world spec.luacats.World
---@param object string the type of what is before the dot or colon, as "runnel.Channel<string>"
---@param name string of the function
---@param ... string the types of the arguments, without self
---@return string ...
function luacats.call(world, object, name, ...)
  local of = luacats.parse(object)
  local class = assert(world.classes[of.name], object)
  local bound, generics = {}, {}
  for i, param in ipairs(class.params) do bound[param] = of.args and of.args[i] or { kind = "name", name = "any" } end
  local f
  f, bound = find(world, class, name, bound)
  assert(f, ("%s has no function %s"):format(object, name))
  for _, generic in ipairs(f.generics) do generics[generic] = true end
  local own = setmetatable({}, { __index = bound })
  local at = 1
  for _, param in ipairs(f.params) do
    local text = param.name == "self" and object or select(at, ...)
    if param.name ~= "self" then at = at + 1 end
    if text then bind(param.type, (luacats.parse(text)), generics, own) end
  end
  for _, generic in ipairs(f.generics) do own[generic] = rawget(own, generic) or { kind = "name", name = "unknown" } end
  local texts = {}
  for i, one in ipairs(f.returns) do texts[i] = show(substitute(one, own)) end
  return table.unpack(texts)
end

return luacats
