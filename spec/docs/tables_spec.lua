-- The tables of the manual: each row is about one thing, each option has a type, with a unit if it is a time or a size,
-- and a default.

local pages = require "spec.support.docs.pages"
local tables = require "scripts.docs.markdown_tables"

local DIR = "docs/manual"
local MOST_WORDS <const> = 60

-- The rows of all tables, with the place of each: f(row, table, "streams.md:12: `name`").
local function each_row(list, f)
  for _, one in ipairs(list) do
    for _, row in ipairs(one.rows) do
      f(row, one, ("%s:%d: %s"):format(one.path:match "[^/]+$", row.line, row[1]))
    end
  end
end

local function words_of(text)
  local _, n = text:gsub("%S+", "")
  return n
end

-- What a type may begin with, each of several after "or". Numbers have their unit in brackets.
local TYPES = { string = true, ["true"] = true, ["false"] = true, ["function"] = true, table = true, list = true,
  channel = true, number = true, integer = true, any = true, file = true, descriptor = true, buffer = true,
  context = true, jar = true }

-- What is wrong with a type, or nil.
local function wrong_type(cell)
  if cell == "" then return "has no type" end
  local alternatives = cell:gsub("%b()", "()"):gsub(", ", " or ")
  for one in (alternatives .. " or "):gmatch "(.-) or " do
    local name, after = one:match "^(%l*)%s*(.?)"
    if not one:find "^`" and not TYPES[name] then return "has an unknown type, " .. one end
    if (name == "number" or name == "integer") and after ~= "(" then return "is a number without a unit" end
  end
end

-- Tables with a row for each function, or the like: the first words of their headers.
local KINDS = { option = true, ["function"] = true, method = true, field = true, command = true, fault = true }

-- What is wrong with the tables.
local function faults_of(list)
  local faults = {}
  local function add(where, what) faults[#faults + 1] = where .. ": " .. what end
  for _, one in ipairs(list) do
    local where = ("%s:%d"):format(one.path:match "[^/]+$", one.line)
    if one.header[1] == "" then add(where, "has no header") end
    if one.header[1]:find "^option" then
      local columns = table.concat(one.header, "|", 2)
      if #tables.options_of(one.header) == 0 then add(where, "does not say whose options these are") end
      if columns ~= "type|default|what it does" and columns ~= "type|default|what it does|error" then
        add(where, "is a table of options with other columns, " .. columns)
      end
    end
  end
  each_row(list, function(row, one, where)
    if #row ~= #one.header then add(where, "has " .. #row .. " cells") end
    for _, cell in ipairs(row) do
      if words_of(cell) > MOST_WORDS then add(where, words_of(cell) .. " words in a cell") end
      if cell:find "opts%.%l" then add(where, "describes an option outside of a table of options") end
    end
    local kind = one.header[1]:match "^%l+" or ""
    local is_list = KINDS[kind] and row[1]:gsub("%b``", ""):gsub("%f[%a]and%f[%A]", ""):find "^[%s,/]*$"
    if is_list and #tables.codes(row[1]) > 1 then add(where, "is about several") end
    if one.header[1]:find "^option" then
      local wrong = wrong_type(row[2] or "")
      if wrong then add(where, wrong) end
      if (row[3] or "") == "" then add(where, "has no default") end
    end
  end)
  return faults
end

local function list_of(text)
  local path = os.tmpname()
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  local list = tables.of(path)
  os.remove(path)
  return list
end

describe("the tables of the manual", function()
  local list = {}
  for _, path in ipairs(pages.of(DIR)) do table.move(tables.of(path), 1, 1000, #list + 1, list) end

  it("have a row for each thing, options with type and default, and no cell of more than 60 words", function()
    assert.is_true(#list > 80)
    assert.same({}, faults_of(list))
  end)

  it("are found wrong if they are", function()
    local function faults(text)
      local found = {}
      for i, fault in ipairs(faults_of(list_of(text))) do found[i] = fault:match ": ([^:`]+)$" end
      return found
    end
    local head = "| option of `f` | type | default | what it does |\n|---|---|---|---|\n"
    assert.same({}, faults(head .. "| `a` | number (ms) | 1 | waits |\n"))
    assert.same({}, faults(head .. '| `a` | `"x"` or list of strings | none | a \\| b |\n'))
    assert.same({ "is a number without a unit" }, faults(head .. "| `a` | number | 1 | waits |\n"))
    assert.same({ "is a number without a unit" }, faults(head .. "| `a` | integer or false | 1 | waits |\n"))
    assert.same({ "has no type" }, faults(head .. "| `a` | | 1 | waits |\n"))
    assert.same({ "has no default" }, faults(head .. "| `a` | string | | waits |\n"))
    assert.same({ "is about several" }, faults(head .. "| `a`, `b` | string | none | waits |\n"))
    assert.same({ "61 words in a cell" }, faults(head .. "| `a` | string | none | " .. ("word "):rep(61) .. "|\n"))
    assert.same({ "has 3 cells" }, faults(head .. "| `a` | string | none |\n"))
    assert.same({ "is a table of options with other columns, what" }, faults "| option of `f` | what |\n|---|---|\n")
    assert.same({ "has no header" }, faults "| | |\n|---|---|\n| `a` | b |\n")
    assert.same({ "describes an option outside of a table of options" },
      faults "| function | what it does |\n|---|---|\n| `f(opts)` | `opts.a`: what it is |\n")
  end)
end)

describe("a link to a function", function()
  -- The paths of the functions that a page has rows for: { ["rn.pmap"] = true }.
  local function described(path)
    local set = {}
    for _, one in ipairs(tables.of(path)) do
      for _, row in ipairs(one.rows) do
        for _, call in ipairs(tables.codes(row[1])) do set[call:match "^[%a_][%w_.:]*" or call] = true end
      end
    end
    return set
  end

  it("leads to a page of the manual with a row for it", function()
    local dirs <close> = assert(io.popen "ls README.md docs/*.md docs/manual/*.md")
    local wrong, links = {}, 0
    for path in dirs:lines() do
      local dir = path:match "^(.*/)[^/]*$" or ""
      for text, target in pages.read(path):gmatch "%[([^%[%]]*)%]%(([^)#.]*%.md)[^)]*%)" do
        local to = dir .. target
        for _, call in ipairs(to:find "docs/manual/" and tables.codes(text) or {}) do
          local name = call:match "^[%l]+[.:][%l_]+"
          local is_module = name and name:find "^runnel%."
          if name and not is_module and not described(to)[name] then wrong[#wrong + 1] = path .. ": " .. text end
          links = links + 1
        end
      end
    end
    assert.same({}, wrong)
    assert.is_true(links > 20)
  end)
end)
