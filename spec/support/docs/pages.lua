---The pages of the documentation.

local pages = {}

---The Markdown files in a folder, sorted.
---@param dir string
---@return string[] # their paths
function pages.of(dir)
  local list = {}
  local names <close> = assert(io.popen(("ls %s/*.md"):format(dir)))
  for name in names:lines() do list[#list + 1] = name end
  return list
end

---@param path string
---@return string
function pages.read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

---The relative links of a page that lead to no file.
---@param path string
---@return string[]
function pages.broken_links(path)
  local dir, broken = path:match "^(.*/)[^/]*$" or "", {}
  for target in pages.read(path):gmatch "%]%(([^)#]+)[^)]*%)" do
    if not target:find "^%a+://" then
      local file <close> = io.open(dir .. target)
      if not file then broken[#broken + 1] = target end
    end
  end
  return broken
end

return pages
