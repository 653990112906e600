-- lua scripts/docs/teal.lua FOLDER: writes declarations for Teal, the dialect of Lua with types: runnel.d.tl and those
-- of the other modules. They have the names of the contract (spec/api.txt), with the types of the annotations. All
-- types are in runnel/teal_types.d.tl, which exists for Teal only; each module has names for its own.
--
-- What Teal cannot say is wider here: `any` stands for a union of several tables or several functions; a first result
-- that is `any` is a type parameter, so that a variable with a type takes it; a function that a program passes may
-- return nothing, or fewer results; and an argument or option that must be an integer is a number, since that is what
-- tonumber and arithmetic give in Teal.
package.path = "./?.lua;" .. package.path

local api_lua = require "scripts.docs.api_lua"
local luacats = require "spec.support.docs.luacats"

local TYPES <const> = "runnel.teal_types"

-- What the annotations do not say: which classes of C, and of several keepers, end with a `<close>` variable; that a
-- module can be called; and overloads.
local CLOSED <const> = { ["runnel.Channel"] = true, ["runnel.Timer"] = true, ["runnel.nats.Sink"] = true,
  ["runnel.Sink"] = true }
local CALLED <const> = {
  ["runnel.flow"] = "metamethod __call: function(self: flow, name: any, stages?: any): types.Flow",
}
local OPTIONAL <const> = { ["runnel.Channel:name"] = true } -- without an argument: the name

-- Names that are reserved in a record of Teal, or are no names at all.
local function is_name(text) return text:find "^[%a_][%w_]*$" ~= nil and text ~= "end" end

local world = luacats.read(api_lua.files())

-- ---- the contract ----

-- Lists of { name, type }, by module or class.
local functions, methods, fields, modules = {}, {}, {}, {}

local function add(to, owner, name, text)
  to[owner] = to[owner] or {}
  table.insert(to[owner], { name = name, type = luacats.parse(text) })
end

-- runnel.lite has the functions of runnel, and says so in place of their types.
local in_runnel = {}
for line in io.lines "spec/api.txt" do
  local name, signature = line:match "^function rn%.([%w_]+)(%(.*)$"
  if name then in_runnel[name] = signature end
end

for line in io.lines "spec/api.txt" do
  local kind, rest = line:gsub(" %(experimental%)$", ""):match "^(%l+) (.*)$"
  if kind == "module" then
    modules[rest] = rest ~= "runnel.meta" or nil
  elseif kind == "function" then
    local prefix, name, signature = rest:match "^(%l+)%.([%w_]+)(.*)$"
    if prefix == "lite" then signature = name ~= "step" and in_runnel[name] or signature end
    if prefix and signature:find "^%(" then
      add(functions, assert(api_lua.MODULES[prefix] or "runnel." .. prefix), name, "fun" .. signature)
    end
  elseif kind == "method" then
    local class, name, signature = rest:match "^([%w_.]+):([%w_]+)(%(.*)$"
    add(methods, class, name, "fun" .. signature)
  elseif kind == "field" then
    local class, name, text = rest:match "^([%w_.]+)%.(%[?[%w_]+%]?): (.*)$"
    if is_name(name) then add(fields, class, name, text) end
  end
end

-- ---- types in Teal ----

local reached, order = {}, {} -- the classes to write: by name, and in the order in which they are met
local inline = {} -- records of types that have no name in the annotations

-- As in "runnel.http.Request": HttpRequest.
local function short(class)
  return (class:gsub("^runnel%.", ""):gsub("[^.]+%.?", function(part)
    return part:sub(1, 1):upper() .. part:sub(2):gsub("%.$", "")
  end):gsub("_(%l)", string.upper))
end

local BASIC <const> = { any = "any", ["nil"] = "nil", boolean = "boolean", ["true"] = "boolean", ["false"] = "boolean",
  string = "string", number = "number", integer = "integer", thread = "thread", ["file*"] = "FILE",
  ["function"] = "function(...: any): any...", table = "any", unknown = "any", userdata = "any", lightuserdata = "any" }

-- What Teal can tell apart at run time, of which a union may have one each.
local function sort_of(text)
  if text == "number" or text == "integer" then return "number" end
  if text == "string" or text == "boolean" or text == "thread" then return text end
  if text:find "^function" then return "function" end
  if text:find "^{" then return "table" end
  if text == "FILE" then return "userdata" end
  local class = reached[text:match "^[%w_]+"]
  return class and class.is_userdata and "userdata" or "table"
end

local teal

local function each(list, f, between)
  local texts = {}
  for i, one in ipairs(list) do texts[i] = f(one) end
  return table.concat(texts, between or ", ")
end

-- The members of a union, without nil; those of unions and aliases in it, too.
local function members(t, into)
  local alias = t.kind == "name" and world.aliases[t.name]
  if alias then return members(alias.type, into) end
  if t.kind == "union" then
    for _, one in ipairs(t) do members(one, into) end
  elseif not (t.kind == "name" and t.name == "nil") then
    into[#into + 1] = t
  end
  return into
end

local function union(t, where)
  local texts, sorts, seen, is_any = {}, {}, {}, false
  for _, one in ipairs(members(t, {})) do
    local text = luacats.show(one):find("<any>", 1, true) and "any" or teal(one, where)
    if where.generics[text] then return text end -- R|any: the rest says that it may be something else
    if text == "any" then is_any = true
    elseif not seen[text] then
      local sort = sort_of(text)
      if sorts[sort] and sort == "number" then
        texts[sorts[sort]] = "number"
      else
        is_any = is_any or sorts[sort] ~= nil
        texts[#texts + 1] = text
        sorts[sort] = #texts
      end
    end
    seen[text] = true
  end
  return (is_any or #texts == 0) and "any" or table.concat(texts, " | ")
end

-- An argument or option that is an integer, or may be one.
local function with_number(t)
  local alias = t.kind == "name" and world.aliases[t.name]
  if alias then return with_number(alias.type) end
  if t.kind == "name" and t.name == "integer" then return { kind = "name", name = "number" } end
  if t.kind ~= "union" then return t end
  local wider = { kind = "union" }
  for i, one in ipairs(t) do wider[i] = with_number(one) end
  return wider
end

local write_record

-- A function. The results of one that the program passes are variadic, so that it may return nothing.
local function fun(t, where, is_argument)
  local inner = { name = where.name, generics = where.generics, is_inner = true, free = where.free }
  local params = each(t.params, function(param)
    local given = where.is_inner and param.type or with_number(param.type)
    local text = teal(given, { name = where.name .. "_" .. param.name, generics = where.generics,
      is_inner = where.is_inner, free = where.free }, true)
    if param.name == "..." then return "...: " .. text end
    return ("%s%s: %s"):format(param.name, (param.optional or where.is_optional) and "?" or "", text)
  end)
  local results = {}
  for i, one in ipairs(t.returns) do
    local text = teal(one, where.is_inner and inner or where)
    if text == "any" and i == 1 and where.free and not is_argument then text = where.free() end
    if text:find "^function" or text:find " | " then text = "(" .. text .. ")" end
    results[i] = text
  end
  if is_argument and #results > 0 then results = { (#results == 1 and results[1] or "any") .. "..." } end
  local returned = table.concat(results, ", ")
  if #results > 1 or returned:find "%.%.%.$" then returned = "(" .. returned .. ")" end
  return ("function%s(%s)%s"):format(where.is_inner and "" or "@", params, returned ~= "" and ": " .. returned or "")
end

local function fields_of(t, where)
  if #t.fields == 1 and t.fields[1].index then
    return ("{%s : %s}"):format(teal(t.fields[1].index, where), teal(t.fields[1].type, where, true))
  end
  local lines = {}
  for _, field in ipairs(t.fields) do
    if not field.name then return "any" end
    local type = where.is_inner and field.type or with_number(field.type)
    if is_name(field.name) then lines[#lines + 1] = { name = field.name, type = type } end
  end
  local name = short(where.name:gsub(":", "."):gsub("_opts$", "_options"):gsub("_(%l)", string.upper))
  inline[#inline + 1] = { name = name, fields = lines }
  return name
end

---@param t table as luacats.parse makes it
---@param where { name: string, generics: table<string, boolean>, is_inner?: boolean, free?: fun(): string }
---@param is_argument? boolean
---@return string
function teal(t, where, is_argument)
  if t.kind == "literal" then return t.text:find '^"' and "string" or "integer" end
  if t.kind == "array" then return ("{%s}"):format(teal(t[1], where, is_argument)) end
  if t.kind == "union" then
    local only = members(t, {})
    if #only == 1 then return teal(only[1], where, is_argument) end
    if is_argument then -- a function among them
      for i, one in ipairs(only) do
        if one.kind == "fun" then only[i] = { kind = "argument", one } end
      end
    end
    only.kind = "union"
    return union(only, where)
  end
  if t.kind == "argument" then return teal(t[1], where, true) end
  if t.kind == "fun" then
    local inner = { name = where.name, generics = where.generics, is_inner = true, free = where.free }
    return fun(t, inner, is_argument)
  end
  if t.kind == "table" then return fields_of(t, where) end
  local name, args = t.name, t.args or {}
  if where.generics[name] then return name end
  if name == "table" and args[2] then
    return ("{%s : %s}"):format(teal(args[1], where), teal(args[2], where, is_argument))
  end
  if BASIC[name] then return BASIC[name] end
  if world.aliases[name] then return teal(world.aliases[name].type, where, is_argument) end
  if modules[name] then return "any" end
  write_record(name)
  local params = world.classes[name].params
  if #params == 0 then return short(name) end
  -- Teal takes Channel<string> for no Channel<any>: one that may carry anything has a type parameter of its own.
  local given = each(args, function(arg)
    local text = teal(arg, where)
    return text == "any" and where.free and where.free() or text
  end)
  return ("%s<%s>"):format(short(name), given)
end

-- The names in a type that nothing declares are type parameters.
local function generics_in(t, known, found)
  if t.kind == "name" then
    if not BASIC[t.name] and not world.classes[t.name] and not world.aliases[t.name] and not known[t.name]
      and t.name:find "^%u%w*$" and not found[t.name] then
      found[t.name] = true
      found[#found + 1] = t.name
    end
    for _, arg in ipairs(t.args or {}) do generics_in(arg, known, found) end
  elseif t.kind == "fun" then
    for _, param in ipairs(t.params) do generics_in(param.type, known, found) end
    for _, one in ipairs(t.returns) do generics_in(one, known, found) end
  elseif t.kind == "table" then
    for _, field in ipairs(t.fields) do generics_in(field.type, known, found) end
  else
    for _, one in ipairs(t) do if type(one) == "table" then generics_in(one, known, found) end end
  end
  return found
end

-- A function that is made of another one gives what that gives, as Store:once does.
local RESULT <const> = { kind = "fun", returns = { { kind = "name", name = "R" } },
  params = { { name = "...", type = { kind = "name", name = "any" } } } }
local function is_function(t) return t.kind == "name" and t.name == "function" end
local function with_result(t)
  local given = nil
  for i, param in ipairs(t.params) do given = is_function(param.type) and i or given end
  if not given or #t.returns ~= 1 or not is_function(t.returns[1]) then return t end
  local params = table.move(t.params, 1, #t.params, 1, {})
  params[given] = { name = params[given].name, optional = params[given].optional, type = RESULT }
  return { kind = "fun", params = params, returns = { RESULT } }
end

-- A line of a record: a function of a module, or a method, which has `self`.
local function member(owner, name, t, self, known)
  t = with_result(t)
  local own = generics_in(t, known, {})
  local all = setmetatable({}, { __index = function(_, key) return known[key] or own[key] == true end })
  local count = 0
  local function free()
    count = count + 1
    own["A" .. count] = true
    own[#own + 1] = "A" .. count
    return "A" .. count
  end
  local text = fun(t, { name = owner .. "." .. name, generics = all, free = free,
    is_optional = OPTIONAL[owner .. ":" .. name] })
  if self then text = text:gsub("@%(", "@(self: " .. self .. (#t.params > 0 and ", " or ""), 1) end
  local used = {}
  for _, generic in ipairs(own) do
    if text:find("%f[%w_]" .. generic .. "%f[^%w_]") then used[#used + 1] = generic end
  end
  return ("%s: %s"):format(name, (text:gsub("@", #used > 0 and "<" .. table.concat(used, ", ") .. ">" or "", 1)))
end

-- All fields of a class and of its parents: for options those of the annotations, which say which are optional.
local function fields_of_class(name, into)
  local class = world.classes[name]
  for _, parent in ipairs(class and class.parents or {}) do fields_of_class(parent.name, into) end
  if name:find "Options$" or name == "runnel.Option" then
    for key, field in pairs(class.fields) do
      if is_name(key) then into[key] = with_number(field.type) end
    end
  end
  for _, field in ipairs(fields[name] or {}) do into[field.name] = field.type end
  return into
end

-- Its methods and those that it has from its parents.
local function methods_of_class(name, into)
  for _, method in ipairs(methods[name] or {}) do
    if not into[method.name] then
      into[method.name] = true
      into[#into + 1] = method
    end
  end
  for _, parent in ipairs(world.classes[name] and world.classes[name].parents or {}) do
    methods_of_class(parent.name, into)
  end
  return into
end

local function with_parents(name, into)
  local class = world.classes[name]
  if not class then return into end
  into[#into + 1] = class
  for _, parent in ipairs(class.parents) do with_parents(parent.name, into) end
  return into
end

local function sorted_keys(map)
  local keys = {}
  for key in pairs(map) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

-- The classes that have no lines of their own in the contract but those of options, as empty records.
function write_record(name)
  local class = world.classes[name]
  if not class or reached[short(name)] then return end
  local is_userdata = false
  for _, parent in ipairs(class.parents) do is_userdata = is_userdata or parent.name == "userdata" end
  local record = { class = name, name = short(name), is_userdata = is_userdata, lines = {} }
  reached[record.name] = record
  order[#order + 1] = record
  local generics = {}
  for _, param in ipairs(class.params) do generics[param] = true end
  record.params = #class.params > 0 and ("<%s>"):format(table.concat(class.params, ", ")) or ""
  local all = fields_of_class(name, {})
  for _, key in ipairs(sorted_keys(all)) do
    record.lines[#record.lines + 1] = ("%s: %s"):format(key,
      teal(all[key], { name = name .. "." .. key, generics = generics }, true))
  end
  local self = record.name .. record.params
  for _, method in ipairs(methods_of_class(name, {})) do
    record.lines[#record.lines + 1] = member(name, method.name, method.type, self, generics)
  end
  local is_closed = CLOSED[name]
  for _, of in ipairs(with_parents(name, {})) do
    is_closed = is_closed or of.functions.__close
    for _, operator in ipairs(sorted_keys(of.operators)) do
      local type = of.operators[operator]
      if operator == "call" then type.params = { { name = "...", type = { kind = "name", name = "any" } } } end
      record.lines[#record.lines + 1] = "metamethod __" .. member(name, operator, type, self, generics)
    end
  end
  if is_closed then
    record.lines[#record.lines + 1] = ("metamethod __close: function(self: %s, err?: any)"):format(self)
  end
end

-- ---- the files ----

local folder = assert(arg[1], "a folder expected")

local function write(module, lines)
  local path = ("%s/%s.d.tl"):format(folder, module:gsub("%.", "/"))
  assert(os.execute(("mkdir -p '%s'"):format(path:match "^(.*)/")))
  local file <close> = assert(io.open(path, "w"))
  file:write("-- Made by scripts/docs/teal.lua of the annotations of runnel.\n", table.concat(lines, "\n"), "\n")
end

for class in pairs(methods) do write_record(class) end
for class in pairs(fields) do write_record(class) end

local bodies = {}
for _, module in ipairs(sorted_keys(modules)) do
  local lines = {}
  for _, one in ipairs(functions[module] or {}) do
    lines[#lines + 1] = "  " .. member(module, one.name, one.type, nil, {})
  end
  bodies[module] = lines
end

-- The types in the order of their names.
table.sort(order, function(a, b) return a.name < b.name end)
table.sort(inline, function(a, b) return a.name < b.name end)
local types, at = { "local record types" }, 1
local done = {}
while inline[at] do -- a field of one may need another one
  local one = inline[at]
  at = at + 1
  if not done[one.name] and not reached[one.name] then
    done[one.name] = true
    types[#types + 1] = ("  record %s"):format(one.name)
    for _, field in ipairs(one.fields) do
      local generics = setmetatable({}, { __index = function() return false end })
      types[#types + 1] = ("    %s: %s"):format(field.name,
        teal(field.type, { name = one.name .. "." .. field.name, generics = generics }, true))
    end
    types[#types + 1] = "  end"
  end
end
for _, record in ipairs(order) do
  types[#types + 1] = ("  record %s%s"):format(record.name, record.params)
  if record.is_userdata then types[#types + 1] = "    userdata" end
  for _, line in ipairs(record.lines) do types[#types + 1] = "    " .. line end
  types[#types + 1] = "  end"
end
types[#types + 1] = "end\nreturn types"
write(TYPES, types)

-- In a module a type is called as in its annotations: the types' names stand alone in teal_types only.
local function qualified(line)
  return (line:gsub("(%f[%w_.])(%u[%w_]+)", function(before, name)
    return (reached[name] or done[name]) and before .. "types." .. name or nil
  end))
end

for module, lines in pairs(bodies) do
  local last = module:match "[%w_]+$"
  local out = { "" }
  local inner_module = ({ runnel = "xf", ["runnel.lite"] = "sim" })[module]
  if inner_module then out[#out + 1] = ("local %s = require \"runnel.%s\""):format(inner_module, inner_module) end
  out[#out + 1] = "local record " .. last
  for _, record in ipairs(order) do
    local inner = record.class:match("^" .. module:gsub("%.", "%%.") .. "%.([%w_]+)$")
    if inner then
      out[#out + 1] = ("  type %s%s = types.%s%s"):format(inner, record.params, record.name, record.params)
    end
  end
  if inner_module then out[#out + 1] = ("  %s: %s"):format(inner_module, inner_module) end
  if CALLED[module] then out[#out + 1] = "  " .. CALLED[module] end
  for _, line in ipairs(lines) do out[#out + 1] = qualified(line) end
  out[#out + 1] = ("end\nreturn %s"):format(last)
  out[1] = table.concat(out, "\n"):find "types%." and ("local types = require %q"):format(TYPES) or "-- no types"
  write(module, out)
end
