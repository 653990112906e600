-- The pages for developers name files, functions and commands that exist. docs/architecture.md lists the folders in the
-- order of the includes, and is short; the tables of docs/where.md are.

local rn = require "runnel"
local sim = require "runnel.sim"
local pages = require "spec.support.docs.pages"

local PAGE = "docs/architecture.md"

-- ---- the sources, without comments ----

local function without_comments(path, text)
  if path:find "%.lua$" then return (text:gsub("%-%-[^\n]*", "")) end
  return (text:gsub("/%*.-%*/", ""))
end

-- What is at a path that the page names: the text, "" for a folder, or nil. Sources of the core are named from csrc on.
local function source(path)
  for _, prefix in ipairs { "csrc/", "" } do
    local file <close> = io.open(prefix .. path)
    if file then return without_comments(path, file:read "a" or "") end
  end
end

local all_names -- once they were read

-- All identifiers in the sources of the core and the library, and in the makefiles, as a set.
local function identifiers()
  if all_names then return all_names end
  local found = { csrc = true, Makefile = true }
  for _, path in ipairs { "Makefile", "site/site.mk" } do
    for name in pages.read(path):gmatch "[%a_][%w_]*" do found[name] = true end
  end
  local list <close> = assert(io.popen "find csrc lua tests bench -name '*.[ch]' -o -name '*.lua'")
  for path in list:lines() do
    for name in without_comments(path, pages.read(path)):gmatch "[%a_][%w_]*" do found[name] = true end
  end
  all_names = found
  return found
end

-- Whether a source defines a function, a type or a constant: its name is on a line that is not indented.
local function defines(path, text, name)
  for line in text:gmatch "[^\n]+" do
    local rest = line:match "^[%a}].*$"
    if rest and not rest:find "^return" and rest:find("%f[%w_]" .. name .. "%f[^%w_]") then return true end
  end
  return path:find "%.lua$" and text:find("function [%w_.:]*" .. name .. "%f[^%w_]") ~= nil
end

-- ---- the page ----

local text = pages.read(PAGE)

-- The code in a page's text, each { line =, code = }; not the picture.
local function spans(page)
  local list, line = {}, 1
  local plain = page:gsub("```.-```", function(block) return (block:gsub("[^\n]", "")) end)
  for before, code in plain:gmatch "([^`]*)`([^`]*)`" do
    line = line + select(2, before:gsub("\n", ""))
    list[#list + 1] = { line = line, code = code:gsub("%s+", " ") }
    line = line + select(2, code:gsub("\n", ""))
  end
  return list
end

-- What is wrong with a piece of code on the page, or nil.
local function complaint(code, names_known, makefiles)
  if code:find "NAME" then return end -- it stands for any name
  local path, names = code:match "^([%w_/]+%.%l+): (.+)$"
  if path then
    local content = source(path)
    if not content then return "no such file: " .. path end
    for name in names:gmatch "[%w_]+" do
      if not defines(path, content, name) then return path .. " defines no " .. name end
    end
    return
  end
  local target = code:match "^make ([%l-]+)"
  if target then return not makefiles:find("\n" .. target .. ":", 1, true) and "no such command" or nil end
  if code:find "/" then
    local exists = os.execute(("ls -d csrc/%s %s 2>/dev/null | grep -q ."):format(code, code))
    return not exists and "no such file" or nil
  end
  local module, name = code:match "^(%l+)%.([%l_]+)$"
  if module == "rn" then return rn[name] == nil and "no such function" or nil end
  if module == "sim" then return sim[name] == nil and "no such function" or nil end
  if not code:find "^[%a_][%w_]*$" then return end
  return not names_known[code] and "nothing in the sources has this name" or nil
end

-- What is wrong with the code on a page that has more than `least` pieces of it, a line for each.
local function complaints(page, least)
  local names, wrong, list = identifiers(), {}, spans(pages.read(page))
  for folder in text:gmatch "\n| `([%l/]+)` |" do names[folder] = true end
  local makefiles = ""
  for _, path in ipairs { "Makefile", "bench/bench.mk", "tests/checks.mk", "site/site.mk" } do
    makefiles = makefiles .. pages.read(path)
  end
  assert.is_true(#list > least, #list)
  for _, span in ipairs(list) do
    local why = complaint(span.code, names, makefiles)
    if why then wrong[#wrong + 1] = ("line %d: `%s`: %s"):format(span.line, span.code, why) end
  end
  return table.concat(wrong, "\n")
end

for page, least in pairs { ["docs/where.md"] = 300, ["docs/keepers.md"] = 80, ["docs/rejected.md"] = 50,
  ["docs/costs.md"] = 30 } do
  describe(page, function()
    it("names files, functions and commands that exist #ci", function() assert.equal("", complaints(page, least)) end)
    it("links only to files that exist", function() assert.same({}, pages.broken_links(page)) end)
  end)
end

describe("docs/where.md", function()
  it("says where to add things in cells of at most 200 characters", function()
    local count = 0
    for row in pages.read "docs/where.md":gmatch "\n(|[^\n]+)" do
      for cell in row:gmatch "%f[^|]%s*([^|]+)" do
        count = count + 1
        local length = utf8.len((cell:gsub("%s+$", "")))
        assert.is_true(length <= 200, ("%d characters: %s"):format(length, cell))
      end
    end
    assert.is_true(count > 120, count)
  end)
end)

describe(PAGE, function()
  it("names files, functions and commands that exist #ci", function() assert.equal("", complaints(PAGE, 150)) end)

  it("has at most 4,000 words", function()
    local _, count = text:gsub("%S+", "")
    assert.is_true(count <= 4000, count .. " words")
  end)

  it("shows only what exists in its picture", function()
    local picture = assert(text:match "```text\n(.-)```")
    local known = identifiers()
    for name in picture:gmatch "%f[%w_](SCHED_%u+)" do assert.is_true(known[name], name) end
    for name in picture:gmatch ": (%u%l%w+)" do assert.is_true(known[name], name) end
  end)

  it("lists the folders of csrc in the order in which they may include each other", function()
    local order = assert(pages.read "scripts/check_includes.lua":match "local ORDER = (%b{})")
    local right, listed = {}, {}
    for folder in order:gmatch '"([%l/]+)"' do right[#right + 1] = folder end
    local rows = assert(text:match "### csrc\n(.-)\n### ")
    for folder in rows:gmatch "\n| `([%l/]+)` |" do listed[#listed + 1] = folder end
    assert.same(right, listed)
  end)

  it("links only to files that exist", function() assert.same({}, pages.broken_links(PAGE)) end)
end)

describe("the library's Lua modules", function()
  -- requires[M][N]: module M requires N. Names of the documentation do not count.
  local requires = {}
  local list <close> = assert(io.popen "find lua -name '*.lua'")
  for path in list:lines() do
    local module, names = path:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/", "."), {}
    local code = without_comments(path, pages.read(path))
    for name in code:gmatch 'require%s*%(?"(runnel[%w_.]*)"' do names[name] = true end
    requires[module] = names
  end

  -- These run in a program, or are programs themselves.
  local function is_program(module)
    local named = { ["runnel.all"] = true, ["runnel.core_async"] = true,
      ["runnel.threads.thread_main"] = true }
    return named[module] or module:find "%f[%w]prompt%f[%W]" or module:find "^runnel%.host%."
  end

  it("do not require `runnel` itself, which would load all of them", function()
    for module, names in pairs(requires) do
      assert.is_truthy(not names.runnel or is_program(module), module)
    end
  end)

  it("require each other without a circle", function()
    local done = { ["runnel"] = true, ["runnel.all"] = true }
    local function visit(module, path)
      assert.is_nil(path:find("%f[%w]" .. module:gsub("%.", "%%.") .. " "), path .. module)
      if done[module] then return end
      for name in pairs(requires[module] or {}) do visit(name, path .. module .. " ") end
      done[module] = true
    end
    for module in pairs(requires) do visit(module, "") end
  end)
end)
