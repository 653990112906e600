---The sections of the pages in Markdown.

---@class scripts.Section
---@field page string the file
---@field id string of its heading, as GitHub and the site write it; "" for the first of a page
---@field title string
---@field lines string[] the text, as it is in the file
---@field experimental? string the paragraph that says so, of this section or of the first one of the page: what they
---describe may change in any version

local sections = {}

---Text as a reader sees it.
---@param text string
---@return string
function sections.plain(text)
  return (text:gsub("!%[([^%]]*)%]%([^)]*%)", "%1"):gsub("%[([^%]]*)%]%([^)]*%)", "%1"):gsub("`([^`]*)`", "%1")
    :gsub("%*%*", ""):gsub("\\|", "|"))
end

-- The id of a heading, which is unique in its page.
local function id_of(title, used)
  local slug = title:lower():gsub("[^%w_%- ]", ""):match "^%s*(.-)%s*$":gsub(" ", "-")
  local n = used[slug] or 0
  used[slug] = n + 1
  return n == 0 and slug or slug .. "-" .. n
end

---@param page string the file
---@param from? string the title of the first section that is wanted
---@return scripts.Section[]
function sections.of(page, from)
  local list, used, section, in_code, of_page = {}, {}, nil, false, nil
  for line in io.lines(page) do
    if line:find "^```" then in_code = not in_code end
    local level, heading = line:match "^(#+) (.*)$"
    if heading and not in_code then
      local title = sections.plain(heading)
      local id = id_of(title, used)
      section = { page = page, id = #level == 1 and "" or id, title = title, lines = {}, experimental = of_page }
      if title == from then from = nil end
      if not from then list[#list + 1] = section end
    elseif section then
      section.lines[#section.lines + 1] = line
      if line:find "^%*?%*?Experimental%*?%*?: " then
        section.experimental = line
        if section.id == "" then of_page = line end
      end
    end
  end
  return list
end

return sections
