---Reads docs/search.txt: words by which pages are found, though they do not have them.

---@class scripts.SearchWords
---@field synonyms string[] groups of words that mean the same
---@field keywords table<string, string> by "FILE" for a page as a whole, and "FILE#id" for a section

---@param path string
---@return scripts.SearchWords
return function(path)
  local found = { synonyms = {}, keywords = {} }
  local page, place
  for line in io.lines(path) do
    local words = line:match "^%s+(.*)$"
    if words and place == "=" then
      found.synonyms[#found.synonyms + 1] = words
    elseif words then
      found.keywords[place] = (found.keywords[place] or "") .. " " .. words
    elseif line:find "^#%S" then
      place = page .. line
    elseif line:find "^[^#%s]" then
      page, place = line, line
    end
  end
  return found
end
