---The search of the documents, as the build makes it.

local pages = require "spec.support.docs.pages"
local process = require "spec.support.process"

local search = {}

-- What a script prints about the documents.
local function printed(script)
  local command = "%s scripts/docs/%s.lua README.md docs/*.md docs/manual/*.md site/tour/*.md "
    .. "CONTRIBUTING.md CHANGELOG.md"
  local pipe <close> = assert(io.popen(command:format(process.runnel, script)))
  return pipe:read "a"
end

---The Lua module with the index.
---@return string
function search.module() return printed "search_index" end

---What `:doc` knows of the manual.
---@return { rows: runnel.prompt.Entry[], texts: table<string, string> }
function search.manual() return assert(load(printed "manual_tables"))() end

---@class spec.Question
---@field text string
---@field pages string[] where it is answered: "page.html", or "page.html#ID", or the beginning of an id

---The questions of a file, each line of which has one, and where it is answered.
---@param path string
---@return spec.Question[]
function search.questions(path)
  local list = {}
  for line in pages.read(path):gmatch "[^\n]+" do
    local text, where = line:match "^(.-) => (.+)$"
    local question = { text = text, pages = {} }
    for one in where:gmatch "[^|]+" do question.pages[#question.pages + 1] = one end
    list[#list + 1] = question
  end
  return list
end

---Whether a section is what an answer names.
---@param answer string
---@param section runnel.prompt.Found
function search.is_answer(answer, section)
  local page, id = answer:match "^([^#]*)#?(.*)$"
  local own = section.page == "README.md" and "/index.html" or "/" .. section.page:gsub("%.md$", ".html")
  return own:sub(-#page - 1) == "/" .. page and section.id:sub(1, #id) == id
end

return search
