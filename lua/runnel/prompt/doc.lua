---The entries of `:doc`: rows and paragraphs of the manual, Lua's own functions, and functions of the library without a
---row there; and the sections of the documents that answer a question.

local hint = require "runnel.prompt.hint"
local search = require "runnel.prompt.search"
local width = require "runnel.internal.width"

---@class runnel.prompt.doc
local doc = {}

---@class runnel.prompt.Entry
---@field calls string[] the calls, as in "ch:put(v)"; none of a paragraph
---@field names string[] other names that the text describes
---@field text string
---@field options? string[][] the options of the function: name and text of each

-- What is built into the executable, or what stands for it elsewhere.
local function built_in(name, otherwise)
  local found, value = pcall(require, "runnel.host." .. name)
  return found and value or otherwise
end

---@return { rows: runnel.prompt.Entry[], texts: table<string, string> }
local function manual() return built_in("manual_tables", { rows = {}, texts = {} }) end

local function documented() return manual().rows end

local reference

-- The lines of reference.lua.
local function referred()
  if reference then return reference end
  reference = {}
  local text_of_all = require("runnel.prompt.reference"):gsub("\n    ", " ") -- joins continued lines
  for line in text_of_all:gmatch "[^\n]+" do
    local call, text = line:match "^(.-) | (.*)$"
    reference[#reference + 1] = { calls = { call }, names = {}, text = text }
  end
  return reference
end

---The path at the beginning of a call: "rn.xf.map" of "rn.xf.map(f)". Nil if there is none: some rows of the manual's
---tables begin with other text, such as the header `Connection: close`.
---@param call string
---@return string?
function doc.path_of(call)
  local path = call:match "^[%a_][%w_.:]*"
  return path and path:find "[%w_]$" and path or nil
end

-- A command of the prompt or an option: ":ps" of ":ps", "--watch" of "--watch[=SECONDS]"; nil of another call.
local function word_of(call) return call:match "^:[%w_]+" or call:match "^%-%-?[%w_][%w_%-]*" end

-- The prefix and the name of a call: "rn.xf", "map"; "", "print".
local function parts(call)
  local path = doc.path_of(call)
  if not path then return nil end
  return path:match "^(.-)[.:]?([%a_][%w_]*)$"
end

-- Whether a call has that name, and that prefix if one is given.
local function is_call_of(call, prefix, name)
  local p, n = parts(call)
  return n == name and (not prefix or p == prefix)
end

-- The entries of a list that have the name among their `calls`, or among the `names` that their text describes.
local function having(list, field, prefix, name)
  local found = {}
  for _, entry in ipairs(list) do
    local is = false
    for _, call in ipairs(entry[field]) do is = is or is_call_of(call, prefix, name) end
    if is then found[#found + 1] = entry end
  end
  return found
end

-- The entries that have the command or the option among their calls.
local function of_word(word)
  local found = {}
  for _, entry in ipairs(documented()) do
    local is = false
    for _, call in ipairs(entry.calls) do is = is or word_of(call) == word end
    if is then found[#found + 1] = entry end
  end
  return found
end

---The entries for a name: "take", "ch:take", "rn.xf.map", "string.format", ":ps", "--watch".
---@param query string
---@return runnel.prompt.Entry[]
function doc.find(query)
  local word = word_of(query)
  if word then return of_word(word) end
  local prefix, name = query:gsub("^rn%.xf%.", "xf."):match "^([%a_][%w_.]*)[.:]([%a_][%w_]*)$"
  if not prefix then name = query:match "^[%a_][%w_]*$" end
  if not name then return {} end
  local found = having(documented(), "calls", prefix, name)
  -- A row of the manual about the same call says more than a line of reference.lua.
  local calls = {}
  for _, entry in ipairs(found) do
    for _, call in ipairs(entry.calls) do calls[call:match "^[^(]*"] = true end
  end
  for _, entry in ipairs(having(referred(), "calls", prefix, name)) do
    if not calls[entry.calls[1]:match "^[^(]*"] then found[#found + 1] = entry end
  end
  if #found == 0 then found = having(documented(), "names", prefix, name) end
  if #found > 0 or not prefix then return found end
  -- A method, of an object with another name.
  for _, entry in ipairs(having(documented(), "calls", nil, name)) do
    if entry.calls[1]:find "^[%a_][%w_]*[.:]" then found[#found + 1] = entry end
  end
  return #found > 0 and found or having(documented(), "names", nil, name)
end

local index

---The sections that answer a question, the best first; none without an index, as outside of the executable.
---@param question string
---@param most integer how many at most
---@return runnel.prompt.Found[]
function doc.search(question, most)
  index = index or search.index(built_in("search_index", "\n\n"))
  return search.find(index, question, most)
end

---The calls of the function at that path, or of methods of that name: only of the object, if the documentation names it
---the same, as it does channels.
---@param path string as in "rn.alts", "ch:put" or "jobs:put"
---@return string[]
function doc.calls(path)
  path = path:gsub("^rn%.xf%.", "xf.")
  local object, separator, name = path:match "^(.-)([.:]?)([%a_][%w_]*)$"
  local list, seen = {}, {}
  local function add(entries)
    for _, entry in ipairs(entries) do
      for _, call in ipairs(entry.calls) do
        local is_method = call:find("^%a+:" .. name .. "%f[^%w_]") ~= nil
        local fits = is_method == (separator == ":") and is_call_of(call, nil, name) and (separator == ":"
          or is_call_of(call, path:match "^(.*)%." or "", name))
        if fits and not seen[call] then
          seen[call] = true
          list[#list + 1] = call
        end
      end
    end
  end
  add(documented())
  if #list == 0 then add(referred()) end
  local own = {}
  for _, call in ipairs(list) do
    if separator == ":" and is_call_of(call, object, name) then own[#own + 1] = call end
  end
  return #own > 0 and own or list
end

---All names that `:doc` knows.
---@return string[]
function doc.names()
  local list, seen = {}, {}
  for _, entries in ipairs { documented(), referred() } do
    for _, entry in ipairs(entries) do
      for _, call in ipairs(entry.calls) do
        local path = doc.path_of(call)
        if path and not seen[path] then
          seen[path] = true
          list[#list + 1] = path
        end
      end
    end
  end
  table.sort(list)
  return list
end

---Formats a section as text: its title and place, and how it begins.
---@param section runnel.prompt.Found
---@param columns integer
---@return string
function doc.section(section, columns)
  local place = section.page .. (section.id == "" and "" or "#" .. section.id)
  local first = manual().texts[place]
  local of = section.title == section.page_title and "" or section.page_title .. ": "
  return ("%s%s (%s)%s"):format(of, section.title, place, first and "\n" .. width.wrap(first, columns, "    ") or "")
end

---Formats an entry as text, wrapped to the columns.
---@param entry runnel.prompt.Entry
---@param columns integer
---@return string
function doc.text(entry, columns)
  if #entry.calls == 0 then return width.wrap(entry.text, columns, "") end
  local calls = table.concat(entry.calls, "  ")
  if width.of(calls) > columns then calls = table.concat(entry.calls, "\n") end
  local lines = { calls, width.wrap(entry.text, columns, "    ") }
  for _, option in ipairs(entry.options or {}) do
    lines[#lines + 1] = "  " .. option[1]
    lines[#lines + 1] = width.wrap(option[2], columns, "      ")
  end
  return table.concat(lines, "\n")
end

local ANSWERS <const>, FURTHER <const> = 5, 3 -- how many sections are shown: of a question, and beside a name's rows

---What there is about a name, as in "ch:take", or a question: entries, then sections, as texts. Nil and why, if none.
---@param query string
---@param columns integer
---@return string[]? texts
---@return string? problem
function doc.answers(query, columns)
  local name, texts = query:gsub("%b()$", ""), {}
  for i, entry in ipairs(doc.find(name)) do texts[i] = doc.text(entry, columns) end
  if name:find "%s" or not name:find "[.:]" then
    for _, section in ipairs(doc.search(query, #texts > 0 and FURTHER or ANSWERS)) do
      texts[#texts + 1] = doc.section(section, columns)
    end
  end
  if #texts > 0 then return texts end
  local nearest = hint.nearest(name, doc.names())
  return nil, ("there is no documentation of %s%s"):format(query,
    nearest and ("; did you mean %s?"):format(nearest) or "")
end

---The entries of the manual, as JSON: a list of objects with `calls`, `names`, `text` and `options` (`name`, `text`).
---@param rows? runnel.prompt.Entry[] by default those that are built into the executable
---@return string
function doc.json(rows)
  local json = require "runnel.json"
  local entries = json.array {}
  for i, row in ipairs(rows or documented()) do
    local options = json.array {}
    for k, option in ipairs(row.options or {}) do options[k] = { name = option[1], text = option[2] } end
    entries[i] = { calls = json.array(row.calls), names = json.array(row.names), text = row.text, options = options }
  end
  return json.encode(entries)
end

return doc
