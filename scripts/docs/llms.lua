-- lua scripts/docs/llms.lua FOLDER [URL]: writes, for readers that are models, into a folder:
--   llms.txt       what runnel is, how to use it (docs/AGENTS.md), and a link to each page
--   llms-full.txt  the same, the whole manual, and the list of all names (spec/api.txt)
--   doc.json       what :doc shows: functions, methods, options and commands, with their texts
--   the pages themselves, as Markdown, where the links lead
-- URL is the address of the folder, for absolute links.
package.path = "./?.lua;" .. package.path

local folder, url = assert(arg[1], "a folder expected"), arg[2] or ""

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

local function write(name, text)
  local file <close> = assert(io.open(folder .. "/" .. name, "w"))
  file:write(text)
end

-- The pages of a table of README.md of the manual: { path, title, text }.
local function manual_pages()
  local list, seen = {}, {}
  for title, page, text in read "docs/manual/README.md":gmatch "\n| %[([^%]]*)%]%(([%w-]+%.md)%) | ([^\n]*) |" do
    if not seen[page] then
      seen[page] = true
      list[#list + 1] = { path = "docs/manual/" .. page, title = title, text = text }
    end
  end
  assert(#list > 30, #list)
  return list
end

-- The other pages: the title and the first sentence of each.
local function other_pages()
  local list = {}
  local names <close> = assert(io.popen "ls docs/*.md")
  for path in names:lines() do
    local text = read(path)
    local first = text:match "^# [^\n]*\n+([^\n].-)\n\n":gsub("\n", " ")
    list[#list + 1] = { path = path, title = text:match "^# ([^\n]*)", text = first:match "^.-%.%f[%s%z]" or first }
  end
  return list
end

-- Text without links, which lead nowhere from another folder. Code stays as it is.
local function plain_links(text)
  local is_code = false
  return (text:gsub("[^\n]+", function(line)
    if line:find "^```" then is_code = not is_code end
    if is_code or line:find "^    " then return line end
    return (line:gsub("%[([^%]]*)%]%([^)]*%)", "%1"))
  end))
end

local function links_to(list)
  local lines = {}
  for _, page in ipairs(list) do
    lines[#lines + 1] = ("- [%s](%s%s): %s"):format(page.title, url, page.path, plain_links(page.text))
  end
  return table.concat(lines, "\n")
end

local SUMMARY <const> = read "README.md":match "^# runnel\n\n(.-)\n\n"

local manual, others = manual_pages(), other_pages()

-- The guide, its headings one level down, its links from the folder.
local guide = read "docs/AGENTS.md":gsub("^# ", "## "):gsub("\n(##+ )", "\n#%1"):gsub("%]%(([%w/-]+%.md)",
  function(path) return ("](%sdocs/%s"):format(url, path) end)

local head = ("# runnel\n\n> %s\n\n%s\n"):format(SUMMARY:gsub("\n", "\n> "), guide)

local ALL_NAMES <const> = "- [All names](%sspec/api.txt): every public name, with its types\n"
write("llms.txt", ("%s\n## The manual\n\n%s\n\n## More\n\n%s\n"):format(head, links_to(manual), links_to(others))
  .. ALL_NAMES:format(url))

local parts = { head, plain_links(read "docs/manual/README.md") }
for _, page in ipairs(manual) do parts[#parts + 1] = plain_links(read(page.path)) end
parts[#parts + 1] = "# All names\n\n" .. read "spec/api.txt"
write("llms-full.txt", table.concat(parts, "\n"))

-- The pages.
local quoted = "'" .. folder:gsub("'", [['\'']]) .. "'"
assert(os.execute(("mkdir -p %s/docs/manual %s/spec && cp spec/api.txt %s/spec/ && cp docs/*.md %s/docs/ && "
  .. "cp docs/manual/*.md %s/docs/manual/"):format(quoted, quoted, quoted, quoted, quoted)))

-- What :doc shows.
local tables = assert(io.popen(("'%s' scripts/docs/manual_tables.lua %s"):format(os.getenv "LUA" or "lua5.4",
  "docs/manual/*.md")))
local rows = assert(load(tables:read "a"))().rows
assert(tables:close())
write("doc.json", require("runnel.prompt.doc").json(rows))
