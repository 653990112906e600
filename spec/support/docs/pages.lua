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

---The blocks of indented code, without their indent.
---@param path string
---@return string[]
function pages.blocks(path)
  local blocks, lines = {}, {}
  for line in (pages.read(path) .. "\nend"):gmatch "([^\n]*)\n?" do
    if line:find "^    " or line == "" then
      lines[#lines + 1] = line:sub(5)
    else
      local block = table.concat(lines, "\n"):gsub("^\n+", ""):gsub("\n+$", "")
      if block ~= "" then blocks[#blocks + 1] = block .. "\n" end
      lines = {}
    end
  end
  return blocks
end

---The block of indented code that has a text, without its indent.
---@param path string
---@param text string
---@return string
function pages.block(path, text)
  for _, block in ipairs(pages.blocks(path)) do
    if block:find(text, 1, true) then return block end
  end
  error(path .. " has no code with " .. text)
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
