---Finds in the text of a Lua program which modules it requires.

local scan = {}

-- Functions whose argument may be the name of a module that a thread or a worker loads.
local BY_NAME = { pipeline = true, serve = true, thread = true, threads = true }

---A token of Lua.
---@class runnel.host.Token
---@field kind "name"|"string"|"other"
---@field text string of a string without its quotes; of another token one character
---@field at integer where it begins

-- Where a token that begins with a quote at `at` ends.
local function end_of_string(source, at)
  local quote = source:sub(at, at)
  local i = at + 1
  while true do
    i = source:find("[\\\n" .. quote .. "]", i)
    if not i then return #source end
    local c = source:sub(i, i)
    if c == quote then return i end
    i = i + (c == "\\" and 2 or 1)
  end
end

-- The end of long brackets at `at`, such as [==[ ... ]==], and their text; or nil.
local function long_brackets(source, at)
  local level, first = source:match("^%[(=*)%[\n?()", at)
  if not level then return nil end
  local last, behind = source:find("]" .. level .. "]", first, true)
  return behind or #source, source:sub(first, (last or #source + 1) - 1)
end

---@param source string
---@return runnel.host.Token[]
local function tokens(source)
  local list, at = {}, source:sub(1, 1) == "#" and source:find "\n" or 1
  local function add(kind, text, first) list[#list + 1] = { kind = kind, text = text, at = first } end
  while true do
    at = source:find("%S", at)
    if not at then return list end
    local c = source:sub(at, at)
    if source:find("^%-%-", at) then
      at = long_brackets(source, at + 2) or (source:find("\n", at, true) or #source)
      at = at + 1
    elseif c == "'" or c == '"' then
      local last = end_of_string(source, at)
      add("string", source:sub(at + 1, last - 1), at)
      at = last + 1
    elseif source:find("^%[=*%[", at) then
      local last, text = long_brackets(source, at)
      add("string", text, at)
      at = last + 1
    else
      local word = source:match("^[%a_][%w_]*", at) or source:match("^%.?%d[%w.]*", at) or c
      add(source:find("^[%a_]", at) and "name" or "other", word, at)
      at = at + #word
    end
  end
end

-- The number of the line of a place.
local function line_of(source, at)
  local line = 1
  for _ in source:sub(1, at):gmatch "\n" do line = line + 1 end
  return line
end

---What a source says about modules.
---@class runnel.host.Scan
---@field modules { name: string, line: integer, sure: boolean }[] `sure`: by a plain call of require
---@field computed integer[] lines where a name is computed, and so not known
---@field templates { text: string, is_piece: boolean }[] of paths for modules, such as "lib/?.lua"; a piece follows
---`..`, so that its beginning is not known
---@field words table<string, true> names of fields, and strings

---@param source string
---@return runnel.host.Scan
function scan.scan(source)
  local list, found = tokens(source), { modules = {}, computed = {}, templates = {}, words = {} }
  local function is(i, text) return list[i] ~= nil and list[i].kind ~= "string" and list[i].text == text end
  local function is_string(i) return list[i] ~= nil and list[i].kind == "string" end

  local function add(i, sure)
    found.modules[#found.modules + 1] = { name = list[i].text, line = line_of(source, list[i].at), sure = sure }
  end

  -- A call of require at i, or require as an argument of pcall.
  local function required(i)
    local argument = is(i + 1, "(") and i + 2 or i + 1
    if is(i - 1, "function") or is(i + 1, "=") then return end
    if is_string(argument) and not (is(argument + 1, ".") and is(argument + 2, ".")) then return add(argument, true) end
    if is(i + 1, ",") and is_string(i + 2) and not is(i + 3, ".") then return add(i + 2, false) end
    if is(i + 1, "(") or is(i + 1, ",") or is_string(argument) then
      found.computed[#found.computed + 1] = line_of(source, list[i].at)
    end
  end

  -- Strings that are arguments of a call at i.
  local function named(i)
    local depth, k = 0, i + 1
    repeat
      if list[k].kind == "string" then
        local is_argument = (is(k - 1, "(") or is(k - 1, ",")) and (is(k + 1, ")") or is(k + 1, ","))
        if depth == 1 and is_argument or k == i + 1 then add(k, false) end
      elseif list[k].text:find "^[({[]$" then depth = depth + 1
      elseif list[k].text:find "^[)}%]]$" then depth = depth - 1 end
      k = k + 1
    until depth == 0 or not list[k]
  end

  for i, token in ipairs(list) do
    if token.kind == "string" then
      found.words[token.text] = true
      if token.text:find "%?%.lua" or token.text:find "%?/init%.lua" or token.text:find "%?%.so" then
        local is_piece = is(i - 1, ".") and is(i - 2, ".")
        for at, template in token.text:gmatch "()([^;]+)" do
          table.insert(found.templates, { text = template, is_piece = is_piece and at == 1 })
        end
      end
    elseif token.kind == "name" then
      if is(i - 1, ".") or is(i - 1, ":") or is(i + 1, "=") then found.words[token.text] = true end
      if token.text == "require" then required(i)
      elseif BY_NAME[token.text] and (is(i + 1, "(") or is_string(i + 1)) then named(i) end
    end
  end
  return found
end

return scan
