---The Lua part of the contract: the functions of the modules that the manual names, as the program has them; the
---methods and fields that the manual describes, each with its class; the fields of the plain tables that these take and
---return. Parameters and results are those of the annotations, options those that each function says it knows.

local luacats = require "spec.support.docs.luacats"
local markdown_tables = require "scripts.docs.markdown_tables"
local rows = require "scripts.docs.rows"
local sections = require "scripts.docs.sections"

local api_lua = {}

-- The modules, by the name that the manual gives to each. (What it calls `local csv = require "runnel.csv"` is found.)
local MODULES <const> = { rn = "runnel", xf = "runnel.xf", flow = "runnel.flow", http = "runnel.http",
  csv = "runnel.csv", json = "runnel.json", keepers = "runnel.queue.keeper", monitor = "runnel.monitor",
  nats = "runnel.nats", prompt = "runnel.prompt", sim = "runnel.sim", sqlite = "runnel.sqlite",
  stores = "runnel.store", tls = "runnel.tls", uv = "runnel.uv", lite = "runnel.lite", otlp = "runnel.otlp",
  a = "runnel.core_async" }

api_lua.MODULES = MODULES

-- The modules without functions of their own.
local OTHERS <const> = { "runnel.all", "runnel.driver.copas", "runnel.driver.cqueues", "runnel.driver.luasocket",
  "runnel.driver.luv", "runnel.meta" }

-- Classes of objects whose metatables have no `__sign`.
local SIGNS <const> = { ch = { "runnel.Channel" }, context = { "runnel.tls.Context" }, d = { "runnel.Driver" },
  g = { "runnel.graph.Graph" }, jar = { "runnel.http.Cookies" }, timer = { "runnel.Timer" },
  remote = { "runnel.store.Remote" }, m = { "runnel.nats.Message" },
  bucket = { "runnel.nats.Bucket", "runnel.store.Bucket" },
  queue = { "runnel.nats.Queue", "runnel.store.Queue" } }

-- What a program can meet without calling for it: the errors that are objects.
local ERRORS <const> = { "runnel.FlowError", "runnel.TimedOut" }

local PAGES_WITHOUT <const> = { ["docs/manual/c-api.md"] = true, ["docs/manual/host.md"] = true,
  ["docs/guarantees.md"] = true }

local function lua_files()
  local found <close> = assert(io.popen "find lua -name '*.lua' | sort")
  local paths = {}
  for path in found:lines() do paths[#paths + 1] = path end
  return paths
end

-- The classes of each sign, as `__sign` and the annotation above the metatable say.
local function signs_of(paths)
  local signs = {}
  for sign, classes in pairs(SIGNS) do signs[sign] = table.move(classes, 1, #classes, 1, {}) end
  for _, path in ipairs(paths) do
    local class, owners = nil, {}
    for line in io.lines(path) do
      class = line:match "^%-%-%-@class ([%w_.]+)" or class
      local name = line:match "^local (%u[%w_]*) ="
      if name and class then owners[name], class = class, nil end
      local owner, sign = line:match '^(%u[%w_]*)%.__sign = "([^"]+)"'
      if not owner then
        owner = line:match "^local (%u[%w_]*)"
        sign = line:match '__sign = "([^"]+)"'
      end
      -- The classes that queue/*.lua makes for each keeper.
      if not owner and sign then owner = next(owners) end
      if not sign then sign = line:match '__sign = .-"([^"]+)"$' owner = sign and next(owners) or owner end
      for one in (sign or ""):gmatch "[%w_]+" do
        if owners[owner] then
          signs[one] = signs[one] or {}
          table.insert(signs[one], owners[owner])
        end
      end
    end
  end
  return signs
end

-- A function or field of a class or of one of its parents.
local function find(world, class_name, kind, name)
  local class = world.classes[class_name]
  if not class then return nil end
  if class[kind][name] then return class[kind][name] end
  for _, parent in ipairs(class.parents) do
    local found = find(world, parent.name, kind, name)
    if found then return found end
  end
end

-- A function that becomes a method of the class elsewhere: its first parameter is of that class.
local function find_loose(world, class, name)
  for _, f in ipairs(world.by_name[name] or {}) do
    local first = f.params[1]
    if first.type.kind == "name" and first.type.name == class and first.name ~= "self" then
      return { params = table.move(f.params, 2, #f.params, 1, {}), returns = f.returns }
    end
  end
end

-- A function of a file of the module, if no class of the module has it.
local function find_in_files(world, module, name)
  for _, f in ipairs(world.by_name[name] or {}) do
    local path = f.place:match "^(.*)%.lua:%d+$"
    if (path .. "/"):find("lua/" .. module:gsub("%.", "/") .. "/", 1, true) == 1 then return f end
  end
end

-- The type of an inline table is part of a contract, where luacats.show says only "table".
local show

local function show_list(list, f)
  local texts = {}
  for i, one in ipairs(list) do texts[i] = f(one) end
  return table.concat(texts, ", ")
end

local function is_nil(t) return t.kind == "name" and t.name == "nil" end

local function show_param(param)
  return ("%s%s: %s"):format(param.name, param.optional and "?" or "", show(param.type))
end

local function show_results(list) return #list > 0 and ": " .. show_list(list, show) or "" end

function show(t)
  if t.kind == "table" then
    return ("{ %s }"):format(show_list(t.fields, function(field)
      return ("%s%s: %s"):format(field.name or "[" .. show(field.index) .. "]", field.optional and "?" or "",
        show(field.type))
    end))
  elseif t.kind == "fun" then
    return ("fun(%s)%s"):format(show_list(t.params, show_param), show_results(t.returns))
  elseif t.kind == "array" then
    local text = show(t[1])
    return ((t[1].kind == "union" or t[1].kind == "fun") and "(" .. text .. ")" or text) .. "[]"
  elseif t.kind == "union" then
    local texts, seen, optional = {}, {}, false
    for _, one in ipairs(t) do
      local text = show(one)
      if one.kind == "fun" then text = "(" .. text .. ")" end
      if is_nil(one) then optional = true elseif not seen[text] then texts[#texts + 1] = text end
      seen[text] = true
    end
    local text = table.concat(texts, "|")
    return optional and (#texts == 1 and text .. "?" or text .. "|nil") or text
  elseif t.kind == "name" and t.args then
    return ("%s<%s>"):format(t.name, show_list(t.args, show))
  end
  return luacats.show(t)
end

local function signature(f)
  local params = {}
  for _, param in ipairs(f.params) do
    if param.name ~= "self" then params[#params + 1] = param end
  end
  return ("(%s)%s"):format(show_list(params, show_param), show_results(f.returns))
end

local function each_name(t, f)
  if t.kind == "name" then
    f(t.name)
    for _, arg in ipairs(t.args or {}) do each_name(arg, f) end
  elseif t.kind == "fun" then
    for _, param in ipairs(t.params) do each_name(param.type, f) end
    for _, one in ipairs(t.returns) do each_name(one, f) end
  elseif t.kind == "table" then
    for _, field in ipairs(t.fields) do each_name(field.type, f) end
  elseif t.kind ~= "literal" then
    for _, one in ipairs(t) do each_name(one, f) end
  end
end

-- What the manual describes: the paths of calls and fields, each with whether it is experimental; and the modules that
-- the paragraphs "Experimental" name.
local function described()
  local found, modules = {}, {}
  local pages <close> = assert(io.popen "ls docs/manual/*.md docs/guarantees.md")
  for page in pages:lines() do
    for _, section in ipairs(sections.of(page)) do
      for module in (section.experimental or ""):gmatch "`(runnel%.[%w_.]+)`" do modules[module] = true end
      for _, row in ipairs(PAGES_WITHOUT[page] and {} or rows.of(section)) do
        for _, call in ipairs(row.calls) do
          local path = call:match "^[%a_][%w_]*[.:][%w_.:]*"
          if path then
            found[path] = found[path] or {}
            found[path].experimental = found[path].experimental or section.experimental
          end
        end
      end
    end
  end
  return found, modules
end

-- The functions of a module, with the types of its annotations. Without the types, if the module has them from others.
local function add_module(self, prefix, name)
  local ok, module = pcall(require, name)
  if not ok then
    self.problems[#self.problems + 1] = ("%s cannot be loaded: %s"):format(name, tostring(module):match "^[^\n]*")
    return
  end
  local class = ({ flow = "runnel.flow", stores = "runnel.store", keepers = "runnel.queue.keeper" })[prefix] or name
  for key, value in pairs(module) do
    local path = prefix .. "." .. key
    local experimental = (self.described[path] or {}).experimental or self.experimental[name]
    if type(value) == "function" then
      local f = find(self.world, class, "functions", key)
      local field = not f and find(self.world, class, "fields", key)
      if field and field.type.kind == "fun" then f = field.type end
      f = f or find_in_files(self.world, name, key)
      self:add(("function %s%s"):format(path, f and signature(f) or ""), experimental)
      if f then self:walk(f, experimental) end
    elseif path ~= "rn.xf" then
      self:add(("value %s"):format(path), experimental)
    end
  end
end

local Names = {}
Names.__index = Names

function Names:add(line, experimental)
  line = line .. (experimental and " (experimental)" or "")
  if not self.seen[line] then
    self.seen[line] = true
    self.lines[#self.lines + 1] = line
  end
end

-- Notes the classes in a type, for add_tables.
function Names:reach(t, experimental)
  local list = experimental and self.reached_late or self.reached
  each_name(t, function(name) list[#list + 1] = name end)
end

-- Notes the classes in the types of a function's results and parameters.
function Names:walk(f, experimental)
  for _, param in ipairs(f.params) do self:reach(param.type, experimental) end
  for _, one in ipairs(f.returns) do self:reach(one, experimental) end
end

-- A method or field of the manual, of each class with that sign that has it.
function Names:add_member(path, what)
  local object, separator, name = path:match "^([%a_][%w_]*)([.:])([%a_][%w_]*)$"
  if not object or MODULES[object] then return end
  local kind, is_found = separator == ":" and "functions" or "fields", false
  for _, class in ipairs(self.signs[object] or {}) do
    local member = find(self.world, class, kind, name)
    local field = not member and kind == "functions" and find(self.world, class, "fields", name)
    if field and field.type.kind == "fun" then member = field.type end
    if not member and kind == "functions" then member = find_loose(self.world, class, name) end
    if member then
      is_found = true
      if kind == "functions" then
        self:add(("method %s:%s%s"):format(class, name, signature(member)), what.experimental)
        self:walk(member, what.experimental)
      else
        self:add(("field %s.%s: %s"):format(class, name, show(member.type)), what.experimental)
        self:reach(member.type, what.experimental)
      end
    end
  end
  if not is_found then
    self.problems[#self.problems + 1] = ("the manual has %s, which no class called %s has (__sign, or SIGNS here)")
      :format(path, object)
  end
end

-- The fields of the plain tables among the classes that were reached: those without methods. Those that only what is
-- experimental takes or returns are so, too.
function Names:add_tables()
  local done = {}
  local function add(name, experimental)
    local class, alias = self.world.classes[name], self.world.aliases[name]
    done[name] = true
    if alias then self:reach(alias.type, experimental) end
    local is_plain = class and not self.with_sign[name] and not name:find "Options$" -- options have lines of their own
    for key in pairs(class and class.functions or {}) do is_plain = is_plain and key:find "^__" ~= nil end
    if not is_plain then return end
    for key, field in pairs(class.fields) do
      self:add(("field %s.%s: %s"):format(name, key, show(field.type)), experimental)
      self:reach(field.type, experimental)
    end
    for _, parent in ipairs(class.parents) do self:reach(parent, experimental) end
  end
  for _, list in ipairs { self.reached, self.reached_late } do
    local at = 0
    while at < #list do
      at = at + 1
      if not done[list[at]] then add(list[at], list == self.reached_late) end
    end
  end
end

-- The calls of spec/docs/options_spec.lua, without running its specs.
local function option_calls()
  local function nothing() end
  local around = setmetatable({ describe = nothing, it = nothing, pending = nothing }, { __index = _G })
  return assert(loadfile("spec/docs/options_spec.lua", "t", around))()
end

-- Types and defaults of options, from the tables of the manual, by "rn.pmap tries".
local function option_rows()
  local found = {}
  local pages <close> = assert(io.popen "ls docs/manual/*.md")
  for page in pages:lines() do
    for _, section in ipairs(sections.of(page)) do
      local head
      for _, line in ipairs(section.lines) do
        local cells = line:find "^|.*|%s*$" and markdown_tables.cells_of(line) or nil
        head = cells and (head or cells)
        for _, name in ipairs(cells and cells ~= head and cells[1]:find "^`" and
          markdown_tables.functions_of(cells, head) or {}) do
          local text = sections.plain(("%s = %s"):format(cells[2], cells[3]))
          local option = name .. " " .. markdown_tables.codes(cells[1])[1]
          found[option] = { text = text, experimental = section.experimental }
        end
      end
    end
  end
  return found
end

function Names:add_options()
  local documented, called = option_rows(), {}
  for name, call in pairs(option_calls()) do
    called[name] = true
    local err = call and select(2, pcall(call, { nosuch = true }))
    local known = tostring(err):match "unknown option ['\"]nosuch['\"]; known: ([%l%d_, ]+)"
    if not known then
      self.problems[#self.problems + 1] = ("%s does not say which options it knows: %s"):format(name, tostring(err))
    end
    for option in (known or ""):gmatch "[%l%d_]+" do
      if option ~= "and" then
        local row = documented[name .. " " .. option]
        self:add(("option %s %s%s"):format(name, option, row and ": " .. row.text or ""), row and row.experimental)
      end
    end
  end
  -- Those that depend on what the function is called for.
  for name, row in pairs(documented) do
    local of, option = name:match "^(.*) (%S+)$"
    if not called[of] and not of:find "^runnel " then
      self:add(("option %s %s: %s"):format(of, option, row.text), row.experimental)
    end
  end
end

---All files of the library, sorted.
api_lua.files = lua_files

---The lines of the contract, and what keeps them from being complete: a module that was not built.
---@return string[] lines
---@return string[] problems
function api_lua.lines()
  local paths = lua_files()
  local self = setmetatable({ world = luacats.read(paths), signs = signs_of(paths),
     lines = {}, seen = {}, reached = {}, reached_late = {}, problems = {}, with_sign = {} }, Names)
  local pages <close> = assert(io.popen "cat docs/manual/*.md")
  for prefix, name in pages:read "a":gmatch 'local ([%l_]+) = require "(runnel%.[%l_]+)"' do
    if not MODULES[prefix] then MODULES[prefix] = name end
  end
  self.described, self.experimental = described()
  for _, classes in pairs(self.signs) do
    for _, class in ipairs(classes) do self.with_sign[class] = true end
  end
  for prefix, name in pairs(MODULES) do
    self:add("module " .. name, self.experimental[name])
    add_module(self, prefix, name)
  end
  for _, name in ipairs(OTHERS) do self:add("module " .. name) end
  for path, what in pairs(self.described) do self:add_member(path, what) end
  for _, name in ipairs(ERRORS) do
    self:add("error " .. name)
    self.reached[#self.reached + 1] = name
  end
  self:add_tables()
  self:add_options()
  return self.lines, self.problems
end

return api_lua
