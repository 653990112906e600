-- lua ldoc_input.lua OUT FILE...: writes the input for LDoc, which makes the reference, into the folder OUT, from the
-- files of lua/runnel/ and lua/runnel/rn/.
--
-- The sources have LuaCATS annotations, which editors understand and LDoc does not. This script extracts the
-- documentation comments (those that begin with three dashes), and writes them with LDoc's tags and without code. It
-- leaves out classes and aliases without a description, which are internal.

local out_dir = assert(arg[1], "usage: lua ldoc_input.lua OUT FILE...")

-- Files that are modules of their own. Each of the rest is a section of `runnel`, with the functions that are on `rn`.
local MODULES = { all = true, xf = true, sim = true, core_async = true, uv = true, nats = true, monitor = true,
  prompt = true }
-- Modules whose functions are in files of a folder of their own, and what objects with methods are called there.
local PARTS = { uv = { "run", "process", "file", "follow", "socket", "event", "stream" }, nats = { "connection" } }
local OBJECTS = { Process = "p", Stream = "conn", Connection = "conn", Conn = "conn", Message = "m",
  Subscription = "sub" }
-- The order of the sections; others follow.
local ORDER = { "meta", "alt", "pipe", "pipeline", "reduce", "mult", "mix", "pub", "scope" }
local HEADER_ONLY = { core_async = true } -- its names are not valid in Lua, and its functions are documented elsewhere
-- Modules whose functions are written in other files.
local WRITTEN_IN = {
  meta = { "lua/runnel.lua" },
  tracing = { "lua/runnel/internal/tracing/recorder.lua", "lua/runnel/internal/tracing/graph.lua" },
}

local TITLES = { meta = "Channels, go blocks, time" }

-- ---- reading ----

local paths = {} -- of the FILEs, by their names without folder and ending
for i = 2, #arg do paths[arg[i]:match "([^/]+)%.lua$"] = arg[i] end

local function path_of(name) return paths[name] or "lua/runnel/" .. name .. ".lua" end

-- The documentation comments of a file: lists of lines, with the line of code that follows as `code`.
local function blocks_of(path)
  local blocks, block = {}, nil
  for line in io.lines(path) do
    local text = line:match "^%s*%-%-%-(.*)$"
    if text and not text:find "^%-" then
      block = block or {}
      block[#block + 1] = text:match "^%s?(.-)$" == "" and "" or text
    elseif block then
      block.code = line
      blocks[#blocks + 1] = block
      block = nil
    end
  end
  return blocks
end

-- Splits a block into its text and its tags, each {tag, text}. Text after a tag belongs to the tag.
local function parse(block)
  local item = { text = {}, tags = {}, code = block.code or "" }
  local tag
  for _, line in ipairs(block) do
    local name, rest = line:match "^@(%a+)%s*(.*)$"
    if name then
      tag = { name, rest }
      item.tags[#item.tags + 1] = tag
    elseif tag and line:find "%S" then
      tag[2] = tag[2] .. " " .. line
    else
      tag = nil
      item.text[#item.text + 1] = line
    end
  end
  while item.text[#item.text] == "" do table.remove(item.text) end
  return item
end

local function tag_of(item, name)
  for _, tag in ipairs(item.tags) do
    if tag[1] == name then return tag[2] end
  end
end

-- ---- types ----

-- Splits a string into the type at its beginning and the rest.
local function split_type(s)
  local at = 1
  while true do
    local stop = select(2, s:find("^fun%b()", at))
    if stop then
      local result = select(2, s:find("^:%s*", stop + 1))
      while result do -- there may be several; the last one may be `...: any`
        local kind = split_type(s:sub(result + 1))
        stop = result + #kind
        result = select(2, s:find(kind == "..." and "^:%s*" or "^,%s*", stop + 1))
      end
    else
      stop = select(2, s:find("^%b{}", at)) or select(2, s:find("^%b()", at)) or select(2, s:find('^"[^"]*"', at))
        or select(2, s:find("^%.%.%.", at)) or select(2, s:find("^[%w_.]+%b<>", at))
        or select(2, s:find("^[%w_.]*[%w_]", at)) or at - 1
    end
    stop = select(2, s:find("^[%[%]?]*", stop + 1))
    at = stop + 1
    if s:sub(at, at) ~= "|" then break end
    at = at + 1
  end
  return s:sub(1, at - 1), s:match("^%s*(.-)$", at)
end

-- A type in LDoc's form, and its full form if LDoc's says less.
local function ldoc_type(kind)
  kind = kind:gsub("runnel%.Channel<any>", "runnel.Channel")
  local full = kind:find("[({<]") and kind or nil
  kind = kind:gsub("^runnel%.Channel%b<>", "runnel.Channel") -- so that it becomes a link
  -- The question mark at the end of a function's type is its result's, unless there is no result.
  local optional = kind:find "%?$" and not kind:find "fun%(.*[^)]%?$"
  kind = kind:gsub("%?$", "")
  if kind:find "fun%(" then
    kind = "function"
  elseif kind:find "^%b{}$" or kind:find "[<(]" then
    kind = "table"
  else
    kind = kind:gsub("([%w_.]+)%[%]", "{%1,...}"):gsub('"', "'"):gsub("^%.%.%.$", "any")
  end
  return optional and "?" .. kind or kind, full
end

-- ---- writing ----

local function escape(text) return (text:gsub("&", "&amp;"):gsub("<", "&lt;"):gsub(">", "&gt;")) end

-- A line of text as HTML, which LDoc leaves as it is; it knows Markdown only where a package for that is installed.
local function html(text) return (escape(text):gsub("`([^`]*)`", "<code>%1</code>")) end

-- Lines of text, with code in lines that begin with four blanks, as lines of HTML.
local function html_lines(text)
  local lines, in_code = {}, false
  for _, line in ipairs(text) do
    local code = line:match "^    (.*)"
    if code and not in_code then
      lines[#lines + 1] = "<pre class='example'>" .. escape(code)
    elseif code then
      lines[#lines + 1] = escape(code)
    else
      if in_code then lines[#lines] = lines[#lines] .. "</pre>" end
      lines[#lines + 1] = line == "" and "<p>" or html(line)
    end
    in_code = code ~= nil
  end
  if in_code then lines[#lines] = lines[#lines] .. "</pre>" end
  return lines
end

local function joined(...)
  local parts = {}
  for i = 1, select("#", ...) do
    local part = select(i, ...)
    if part and part ~= "" then parts[#parts + 1] = part end
  end
  return table.concat(parts, " ")
end

local Writer = {}
Writer.__index = Writer

-- Writes a comment with the text and the tags.
function Writer:comment(text, tags)
  local lines = html_lines(text)
  for _, tag in ipairs(tags) do lines[#lines + 1] = tag end
  for i, line in ipairs(lines) do self.file:write(i == 1 and "--- " or "-- ", line, "\n") end
  self.file:write "\n"
end

-- The names that the reference gives to classes and aliases.
local function short(name) return (name:gsub("^runnel%.", "")) end

local function tags_of(item)
  local tags = {}
  for _, tag in ipairs(item.tags) do
    local kind, text = tag[1], tag[2]
    -- Leaves out what callers do not use: a method's self, and private fields.
    local is_private = text:find "^package " or text:find "^private " or text:find "^%["
    if kind == "param" and text:find "^self " or kind == "field" and is_private then kind = nil end
    if kind == "param" or kind == "field" then
      local name, optional, rest = text:match "^([%w_.]+)(%??)%s+(.*)$"
      if not rest then error(("@%s %s: a name, a type and a text expected"):format(kind, text), 0) end
      local luacats, description = split_type(rest)
      local ldoc, full = ldoc_type(luacats)
      local modifier = optional == "?" and kind == "param" and "[opt]" or ""
      local about = html(joined(full and "`" .. full .. "`", description))
      tags[#tags + 1] = joined("@t" .. kind .. modifier, ldoc, name, about)
    elseif kind == "return" then
      local luacats, rest = split_type(text)
      local ldoc, full = ldoc_type(luacats)
      local name, description = rest:match "^([%w_.]+)%s*(.*)$"
      tags[#tags + 1] = joined("@treturn", ldoc, html(joined(name and "`" .. name .. "`", full and "`" .. full .. "`",
        description or rest)))
    elseif kind == "alias" then
      local _, rest = text:match "^([%w_.]+)%s+(.*)$"
      tags[#tags + 1] = "@field type " .. html("`" .. rest .. "`")
    end
  end
  return tags
end

-- The name and kind of what a block documents, or nil.
local function subject(item)
  local class = tag_of(item, "class") or tag_of(item, "alias")
  if class then return short(class:match "^[%w_.]+"), "table" end
  local code = item.code
  local method = code:match "^function Channel:([%w_]+)"
  if method then return method, "method" end
  local class_of, other = code:match "^function ([%w_]+):([%w_]+)"
  if OBJECTS[class_of] then return OBJECTS[class_of] .. ":" .. other, "function" end
  local name = code:match "^function [%w_]+%.([%w_]+)" or code:match "^[%w_]+%.([%w_]+) ="
    or code:match '^[%w_]+%["(.-)"%] =' or code:match "^local function ([%w_]+)"
  return name, "function"
end

-- Writes what a file documents and `wanted(name, kind)` accepts; returns whether there was anything.
function Writer:items(path, wanted)
  local any = false
  local blocks = blocks_of(path)
  for i = 2, #blocks do
    local item = parse(blocks[i])
    local name, kind = subject(item)
    if name and #item.text > 0 and wanted(name, kind) then
      any = true
      local tags = tags_of(item)
      table.insert(tags, 1, ("@%s %s"):format(kind == "table" and "table" or "function", name))
      self:comment(item.text, tags)
    end
  end
  return any
end

local function header(path)
  local item = parse(blocks_of(path)[1])
  return item.text
end

-- Calls a function with a writer to a file of the folder.
local function write(name, f)
  local file <close> = assert(io.open(("%s/%s.lua"):format(out_dir, name), "w"))
  f(setmetatable({ file = file }, Writer))
end

local rn = require "runnel"
local documented = { xf = true } -- a module
-- Whether users get what this file documents from `rn`: a predicate for items.
local function public_in(file)
  local module = rn
  if file ~= "meta" and file ~= "runnel" then
    module = require((path_of(file):match "^lua/(.*)%.lua$":gsub("/", ".")))
  end
  return function(name, kind)
    if kind == "table" then return name ~= "Channel" and name ~= "core" end
    local is_public = kind == "function" and type(module) == "table" and rn[name] ~= nil and rn[name] == module[name]
    documented[name] = documented[name] or is_public
    return is_public
  end
end
local function is_method(_, kind) return kind == "method" end
local function is_function(_, kind) return kind ~= "method" end

local sections, modules = {}, {}
local rank = {}
for i, name in ipairs(ORDER) do rank[name] = i end
for i = 2, #arg do
  local name = arg[i]:match "([^/]+)%.lua$"
  if MODULES[name] then
    modules[#modules + 1] = name
  else
    sections[#sections + 1] = name
    rank[name] = rank[name] or #ORDER + i
  end
end
table.sort(sections, function(a, b) return rank[a] < rank[b] end)

write("runnel", function(w)
  w:comment(header "lua/runnel.lua", { "@module runnel" })
  for _, name in ipairs(sections) do
    local text = TITLES[name] and { TITLES[name] .. "." } or header(path_of(name))
    text[1] = text[1]:gsub(":.*", "."):gsub("^%l", string.upper) -- LDoc uses it as the title
    local items = setmetatable({ file = { text = {} } }, Writer)
    function items.file:write(...) table.move({ ... }, 1, select("#", ...), #self.text + 1, self.text) end
    local any = items:items(path_of(name), public_in(name))
    for _, path in ipairs(WRITTEN_IN[name] or {}) do
      any = items:items(path, public_in(name == "meta" and "runnel" or name)) or any
    end
    if any then
      w:comment(text, { "@section " .. name })
      w.file:write(table.concat(items.file.text))
    end
  end
end)

for name in pairs(rn) do
  if not documented[name] then error(("rn.%s has no documentation comment"):format(name), 0) end
end

write("channel", function(w)
  for _, block in ipairs(blocks_of(path_of "meta")) do
    local item = parse(block)
    if tag_of(item, "class") and tag_of(item, "class"):find "^runnel%.Channel" then
      w:comment(item.text, { "@classmod runnel.Channel" })
    end
  end
  w:items(path_of "meta", is_method)
end)

for _, name in ipairs(modules) do
  write(name, function(w)
    w:comment(header(path_of(name)), { "@module runnel." .. name })
    if not HEADER_ONLY[name] then w:items(path_of(name), is_function) end
    for _, part in ipairs(PARTS[name] or {}) do w:items(path_of(name .. "/" .. part), is_function) end
  end)
end
