---A flow as a script: its stages and edges as they are now, and what their functions use.

local rn = require "runnel"
local decimal = require "runnel.internal.decimal"
local describe = require "runnel.prompt.describe"
local lexer = require "runnel.prompt.lexer"
local source = require "runnel.prompt.source_text"

local ENTRIES <const> = 100 -- of a table that is written
local SHOWN <const> = 60 -- bytes of what cannot be written

-- The writer of a script.
---@class runnel.prompt.FlowScript
---@field session runnel.prompt.Session
---@field variables table<any, string> the session's variables, by value
---@field defined table<string, boolean> the names that are defined, or are about to be
---@field done table<string, boolean> those that are defined
---@field forward table names that are used before they are defined: a list, and true by name
---@field parts table[] the definitions: each { name =, value = }, and of a function { parameters =, body = }
---@field missing string[] what must be filled in
---@field place string what is being written
---@field flow runnel.Flow
---@field flow_names string[] the variables that have the flow, as far as its functions use them
local Script = {}
Script.__index = Script

-- The variables of a session whose values are functions, tables or objects, by value; without Lua's and the library's.
local function variables_of(session)
  local list = {}
  local function add(name, value)
    local kind = type(value)
    if (kind == "function" or kind == "table" or kind == "userdata") and not list[value] then list[value] = name end
  end
  local names = {}
  for name in pairs(session.locals.cells) do names[#names + 1] = name end
  for name in next, session.env or _G do
    if type(name) == "string" and not name:find "^_%d*$" then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    if name:find "^[%a_][%w_]*$" and not lexer.KEYWORDS[name] then add(name, session:get(name)) end
  end
  return list
end

local LIBRARIES = { _G = true, string = true, table = true, math = true, io = true, os = true, utf8 = true,
  coroutine = true, debug = true, package = true, rn = true, flow = true, _ = true }

-- The name of the module that a value is.
local function module_of(value)
  for name, module in pairs(package.loaded) do
    if module == value and name ~= "_G" then return name end
  end
end

-- The name of a function of rn.
local function library_name(f)
  for name, value in next, rn do
    if value == f then return "rn." .. name end
  end
end

local function number_text(value)
  if value ~= value then return "0 / 0" end
  if value == math.huge or value == -math.huge then return value > 0 and "math.huge" or "-math.huge" end
  return decimal.exact(value)
end

-- A value that cannot be written: nil, with a note.
function Script:unknown(value)
  local text = tostring(value):match "^[^\n]*":gsub("%c", " "):gsub("%]", "] ")
  text = #text > SHOWN and text:sub(1, utf8.offset(text, 0, SHOWN) - 1) .. "…" or text
  self.missing[#self.missing + 1] = ("%s (%s)"):format(self.place, text)
  return ("nil --[[ %s: to be filled in ]]"):format(text)
end

function Script:table_text(t, seen)
  local n, parts = 0, {}
  for _ in next, t do n = n + 1 end
  if seen[t] or getmetatable(t) ~= nil or n > ENTRIES then return self:unknown(t) end
  seen[t] = true
  for i, value in ipairs(t) do parts[i] = self:expression(value, seen) end
  local keys = {}
  for key in next, t do
    if not (math.type(key) == "integer" and key >= 1 and key <= #parts) then keys[#keys + 1] = key end
  end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do
    local is_plain = type(key) == "string" or type(key) == "number" or type(key) == "boolean"
    local is_name = type(key) == "string" and key:find "^[%a_][%w_]*$" and not lexer.KEYWORDS[key]
    if not is_plain and not self.variables[key] then
      self:unknown(key) -- the entry is left out: nil cannot be a key
    else
      parts[#parts + 1] = (is_name and key or "[" .. self:expression(key, seen) .. "]") .. " = "
        .. self:expression(t[key], seen)
    end
  end
  seen[t] = nil
  return #parts > 0 and "{ " .. table.concat(parts, ", ") .. " }" or "{}"
end

-- Defines what the text of a function uses: its upvalues, and globals that are not Lua's.
function Script:define_uses(f, text)
  local upvalues = {}
  for i = 1, math.huge do
    local name, value = debug.getupvalue(f, i)
    if not name then break end
    upvalues[name] = { value = value }
  end
  local before
  for kind, value in lexer.tokens(text) do
    if kind == "name" and before ~= "." and before ~= ":" then
      local found = upvalues[value] or { value = self.session.lookup(value), is_global = true }
      if found.value ~= nil or not found.is_global then self:define(value, found.value) end
    end
    before = value
  end
end

-- Defines a name, unless it is Lua's or the library's, or was defined.
function Script:define(name, value)
  local is_builtin = type(value) == "function" and rawget(_G, name) == value
    and debug.getinfo(value, "S").what == "C"
  if LIBRARIES[name] or is_builtin then return end
  if value == self.flow then -- a function that uses the flow itself: it is made after it
    if not self.defined[name] then self.flow_names[#self.flow_names + 1] = name end
    self.defined[name], self.done[name] = true, true
    return
  end
  if self.defined[name] then
    if not self.done[name] and not self.forward[name] then
      self.forward[name] = true
      self.forward[#self.forward + 1] = name
    end
    return
  end
  self.defined[name] = true
  local place = self.place
  self.place = name
  local part = { name = name }
  local module = type(value) == "table" and module_of(value)
  local named = type(value) == "function" and library_name(value)
  if module then
    part.value = ("require %q"):format(module)
  elseif named then
    part.value = named
  elseif type(value) == "function" then
    local text, parameters, body = source.of(self.session, value)
    if text then
      self:define_uses(value, text)
      part.parameters, part.body, part.value = parameters, body, text
    end
  end
  part.value = part.value or self:fresh(value, {})
  self.parts[#self.parts + 1] = part
  self.done[name], self.place = true, place
end

-- A value as an expression that makes it anew.
function Script:fresh(value, seen)
  local kind = type(value)
  if kind == "number" then return number_text(value) end
  if kind == "string" then return (("%q"):format(value):gsub("\\\n", "\\n")) end
  if kind == "nil" or kind == "boolean" then return tostring(value) end
  if rn.is_chan(value) then
    local capacity = value:stats().capacity
    return capacity and capacity > 0 and ("rn.chan(%d)"):format(capacity) or "rn.chan()"
  end
  if kind == "table" then return self:table_text(value, seen) end
  if kind ~= "function" then return self:unknown(value) end
  local named = describe.name_of(value)
  if named then return named end
  local text = source.of(self.session, value)
  if not text then return self:unknown(value) end
  self:define_uses(value, text)
  return text
end

-- A value as an expression: the variable that has it, or what makes it anew.
function Script:expression(value, seen)
  local name = self.variables[value]
  if name and not LIBRARIES[name] then
    self:define(name, value)
    return name
  end
  return self:fresh(value, seen or {})
end

-- ---- stages and edges ----

local function further_outputs(spec)
  local list = {}
  for i = 3, #spec.outputs do list[#list + 1] = ("%q"):format(spec.outputs[i]) end
  return #list > 0 and "{ " .. table.concat(list, ", ") .. " }" or nil
end

-- A stage as an entry of the table.
function Script:stage(stage)
  local spec, options = stage.spec, {}
  self.place = "stage " .. stage.name
  if spec.kind == "channel" then return self:expression(spec.channel) end
  if spec.is_timed then return spec.is_timed end
  local kind = spec.kind
  if kind == "function" or kind == "step" then kind = stage.is_step and "step" or "function" end
  local what = self:expression(kind == "from" and spec.given.from or spec.f)
  local function option(name, value)
    if value ~= nil then options[#options + 1] = name .. " = " .. value end
  end
  local n = stage.ended and stage.n or stage.pool.n
  option("n", n ~= 1 and kind ~= "from" and kind ~= "source" and tostring(n) or nil)
  option("ordered", spec.ordered == false and "false" or nil)
  option("tries", spec.tries ~= 1 and tostring(spec.tries) or nil)
  option("backoff", spec.tries ~= 1 and number_text(spec.backoff) or nil)
  option("timeout", spec.timeout and number_text(spec.timeout) or nil)
  for _, name in ipairs { "init", "flush", "close" } do
    option(name, spec[name] and self:expression(spec[name]) or nil)
  end
  option("outs", further_outputs(spec))
  option("input", spec.input and "true" or nil)
  option("buffer", spec.buffer ~= 16 and tostring(spec.buffer) or nil)
  if kind == "function" and #options == 0 then return what end
  table.insert(options, 1, kind == "function" and what or kind .. " = " .. what)
  return "{ " .. table.concat(options, ", ") .. " }"
end

-- The edges of a flow, as texts: first those that continue each other, then those that lead from several outputs to one
-- stage.
local function edges_of(flow)
  local plain, others, order = {}, {}, {}
  for _, stage in ipairs(flow.stages) do
    for _, output in ipairs(stage.outputs) do
      for _, edge in ipairs(stage.outs[output] or {}) do
        if edge.to and output == "out" then
          plain[#plain + 1] = { from = stage.name, to = edge.to.name, arrow = edge.grows and " >> " or " > " }
        elseif edge.to then
          local key = (edge.grows and " >> " or " > ") .. edge.to.name
          if not others[key] then
            others[key] = {}
            order[#order + 1] = key
          end
          table.insert(others[key], stage.name .. "." .. output)
        end
      end
    end
  end
  local texts = {}
  for _, edge in ipairs(plain) do
    local text, last = not edge.used and edge.from, edge
    while text and last do
      last.used = true
      text, last = text .. last.arrow .. last.to, nil
      local name = text:match "[%w_-]+$"
      for _, other in ipairs(plain) do
        if not last and not other.used and other.from == name then last = other end
      end
    end
    if text then texts[#texts + 1] = text end
  end
  for _, key in ipairs(order) do texts[#texts + 1] = table.concat(others[key], ", ") .. key end
  return texts
end

-- ---- the script ----

local function definition(self, part)
  if self.forward[part.name] then return part.name .. " = " .. part.value end
  if part.body then return ("local function %s%s%s"):format(part.name, part.parameters, part.body) end
  return ("local %s = %s"):format(part.name, part.value)
end

---A flow as a script that makes it, as it is now, and runs it.
---@param session runnel.prompt.Session whose chunks have the source of its functions
---@param flow runnel.Flow
---@return string text
---@return string[] missing what could not be written
return function(session, flow)
  local self = setmetatable({ session = session, variables = variables_of(session), defined = {}, done = {},
    forward = {}, parts = {}, missing = {}, place = "", flow = flow, flow_names = {} }, Script)
  local stages = {}
  for i, stage in ipairs(flow.stages) do
    local name = stage.name:find "^[%a_][%w_]*$" and not lexer.KEYWORDS[stage.name] and stage.name
      or ("[%q]"):format(stage.name)
    stages[i] = ("  %s = %s,"):format(name, self:stage(stage))
  end
  local lines = { 'local flow = require "runnel.flow"', "" }
  local names = self.flow_names
  if #names > 0 then lines[#lines + 1] = "local " .. table.concat(names, ", ") end
  if #self.forward > 0 then lines[#lines + 1] = "local " .. table.concat(self.forward, ", ") end
  for _, part in ipairs(self.parts) do lines[#lines + 1] = definition(self, part) end
  if #self.parts > 0 then lines[#lines + 1] = "" end
  lines[#lines + 1] = ("%s = flow(%q, {"):format(names[1] or "local f", flow.name)
  table.move(stages, 1, #stages, #lines + 1, lines)
  for _, text in ipairs(edges_of(flow)) do lines[#lines + 1] = ("  %q,"):format(text) end
  lines[#lines + 1] = "})"
  for i = 2, #names do lines[#lines + 1] = ("%s = %s"):format(names[i], names[1]) end
  lines[#lines + 1] = (names[1] or "f") .. ":wait()"
  local text = table.concat(lines, "\n") .. "\n"
  local uses_rn = text:find "%f[%w_]rn%f[^%w_]"
  return (uses_rn and 'local rn = require "runnel"\n' or "") .. text, self.missing
end
