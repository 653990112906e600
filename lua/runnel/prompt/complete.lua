---The Tab key: completes names (locals, globals, keywords, fields, methods) and the arguments of commands; after an
---open parenthesis it shows the function's arguments. It runs no user code, such as metamethods.

local package = package
local rn = require "runnel"
local commands = require "runnel.prompt.commands"
local doc = require "runnel.prompt.doc"
local lexer = require "runnel.prompt.lexer"
local modules = require "runnel.prompt.modules"
local named = require "runnel.prompt.value_names"
local width = require "runnel.internal.width"

local SHOWN = 200

-- Collects the candidates for a word: texts, or { text, the text to show }. One with a control character is none: it
-- cannot be typed, and a newline would end the command.
local function candidates(start)
  local list, seen = {}, {}
  return list, function(text, shown)
    if type(text) ~= "string" or text:sub(1, #start) ~= start or seen[text] or text:find "%c" then return end
    seen[text] = true
    list[#list + 1] = { text, shown or text }
  end
end

-- Whether the first n bytes of a text end within a character of UTF-8.
local function ends_within(text, n)
  local next_byte = text:byte(n + 1)
  return next_byte ~= nil and next_byte >= 0x80 and next_byte < 0xC0
end

-- Returns the text to insert, and the candidates to show if there are several.
local function choose(list, start)
  if #list == 0 then return "" end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  local prefix = list[1][1]
  for _, entry in ipairs(list) do
    while entry[1]:sub(1, #prefix) ~= prefix do prefix = prefix:sub(1, -2) end
  end
  for _, entry in ipairs(list) do
    while #prefix > 0 and ends_within(entry[1], #prefix) do prefix = prefix:sub(1, -2) end
  end
  local rest = prefix:sub(#start + 1)
  if #list == 1 or rest ~= "" then return rest end
  local shown = {}
  for i, entry in ipairs(list) do
    if i > SHOWN then
      shown[i] = ("… %d more"):format(#list - SHOWN)
      break
    end
    shown[i] = width.plain(entry[2])
  end
  return "", shown
end

-- ---- arguments of commands ----

local argument = {}

local function blocks(_, add)
  for _, entry in ipairs(rn.ps()) do add(tostring(entry.id), ("%d (%s)"):format(entry.id, entry.name)) end
end
argument.bt, argument.cancel = blocks, blocks

local function channels(ui, add)
  for _, ch in ipairs(ui.channels()) do
    local stats = ch:stats()
    if stats.name and stats.name:find "^[A-Za-z_][A-Za-z0-9_]*$" then add(stats.name) else add("#" .. stats.id) end
  end
end

-- The stages of the commands' current flow.
local function stages_of(ui)
  local flow = commands.flow(ui)
  return flow and flow.stages or {}
end

local function stages(ui, add)
  for _, stage in ipairs(stages_of(ui)) do add(stage.name) end
end
argument.pause, argument.resume = stages, stages

function argument.tap(ui, add)
  channels(ui, add)
  stages(ui, add)
  for _, stage in ipairs(stages_of(ui)) do
    for _, output in ipairs(stage.outputs) do add(stage.name .. "." .. output) end
  end
end

local function files(ui, add, start)
  local dir = start:match "^.*/" or ""
  for _, name in ipairs(ui.files and ui.files(dir == "" and "." or dir) or {}) do
    add(dir .. name, name)
  end
end
argument.load, argument.save, argument.trace = files, files, files

function argument.doc(_, add)
  for _, name in ipairs(doc.names()) do add(name) end
end

function argument.set(_, add)
  add "depth "
  add "width "
end

-- The states of runs, and the names of those that this program continues.
function argument.runs(_, add)
  local owners = package.loaded["runnel.queue.owners"]
  local stores = owners and package.loaded["runnel.store"] and owners.open() or {}
  for _, store in ipairs(stores) do
    for name, of in pairs(store.functions or {}) do
      if type(of.f) == "table" then add(name) end
    end
  end
  for _, state in ipairs(#stores > 0 and require("runnel.store.runs.run_look").STATES or {}) do add(state) end
end

-- Commands that take an expression.
local EXPRESSION = { tap = true, time = true, flow = true }

-- ---- Lua ----

-- The function that is called at the end of a text: the path before the innermost open parenthesis; nil if none.
local function called(text)
  local stack, path = {}, nil
  for kind, value in lexer.tokens(text) do
    if kind == "unfinished" then return nil end
    if kind == "operator" and value:find "^[%({%[]$" then
      stack[#stack + 1] = value == "(" and path or false
      path = nil
    elseif kind == "operator" and value:find "^[%)}%]]$" then
      table.remove(stack)
      path = nil
    elseif kind == "name" then
      path = path and path:find "[.:]$" and path .. value or value
    elseif path and (value == "." or value == ":") then
      path = path .. value
    else
      path = nil
    end
  end
  return stack[#stack] or nil
end

-- Completes the name at the end of the line.
local function names(session, line)
  local path, separator, start = line:match "([%a_][%w_.:]*)([.:])([%a_]?[%w_]*)$"
  if not path then
    path, separator, start = "", "", line:match "([%a_]?[%w_]*)$"
    if line:match "[.:]%s*[%w_]*$" and not line:match "%.%.%s*[%w_]*$" then return "" end
  end
  local list, add = candidates(start)
  local function consider(name)
    if type(name) == "string" and name:find "^[%a_][%w_]*$" then add(name) end
  end
  if path == "" then
    named.each_variable(session, consider)
    for word in pairs(lexer.KEYWORDS) do consider(word) end
  else
    local value = named.resolve(session, path)
    if value == nil then return "" end
    named.each_table(value, function(t)
      for name, v in next, t do
        if separator ~= ":" or type(v) == "function" then consider(name) end
      end
    end)
  end
  return choose(list, start)
end

-- Completes the name of a module at the end of the line: after require and a quotation mark.
local function module_name(ui, quote, start)
  local list, add = candidates(start)
  modules.each(start, ui.files, function(name) add(name:sub(-1) == "." and name or name .. quote, name) end)
  return choose(list, start)
end

---Completes a line up to the cursor.
---@param ui runnel.prompt.Interface
---@param line string
---@param held string the lines before it that belong to the same chunk, each with its end
---@return string insert the text to insert
---@return string[]? candidates if there are several and nothing can be inserted
return function(ui, line, held)
  local name, rest = line:match "^%s*:(%a*)(.*)$"
  if name and held == "" then
    if rest == "" then
      local list, add = candidates(name)
      for _, command in ipairs(commands.names()) do add(command) end
      return choose(list, name)
    end
    local start = rest:match "^%s+(.*)$"
    local list, add = candidates(start)
    if argument[name] then argument[name](ui, add, start) end
    if #list > 0 or not EXPRESSION[name] then return choose(list, start) end
    line = start
  end
  local quote, start = line:match "%f[%w_]require%s*%(?%s*([\"'])([%w_.%-]*)$"
  if quote then return module_name(ui, quote, start) end
  if line:find "[(,]%s*$" then
    local path = called(held .. line)
    local object, method = (path or ""):match "^(.*)(:[%a_][%w_]*)$"
    if object and rn.is_chan(named.resolve(ui.session, object)) then path = "ch" .. method end
    local calls = path and doc.calls(path) or {}
    if #calls > 0 then return "", calls end
  end
  return names(ui.session, line)
end
