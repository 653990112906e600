---Finds sections of the documents by words, in the index that scripts/docs/search_index.lua has made.
---site/pages/search.js has the same rules, and finds the same in the same order (spec/docs/search_spec.lua).

local words = require "runnel.prompt.words"

local RELATED = 0.5 -- what a synonym of a word is worth, or a word that is only like it

---@class runnel.prompt.search
local search = {}

---@class runnel.prompt.Found
---@field page string the file
---@field id string of the section's heading; "" for the beginning of the page
---@field title string
---@field page_title string

---@class runnel.prompt.Index
---@field sections runnel.prompt.Found[]
---@field words table<string, string> where each word is
---@field related table<string, string[]> synonyms

---@param text string what scripts/docs/search_index.lua has written
---@return runnel.prompt.Index
function search.index(text)
  local head, places = text:match "^(.-)\n\n(.*)$"
  local index, page, page_title = { sections = {}, words = {}, related = {} }, nil, nil
  for line in head:gmatch "[^\n]+" do
    local synonyms = line:match "^= (.*)$"
    if synonyms then
      local group = {}
      for word in synonyms:gmatch "%S+" do group[#group + 1] = word end
      for _, word in ipairs(group) do
        local related = index.related[word] or {}
        for _, other in ipairs(group) do
          if other ~= word then related[#related + 1] = other end
        end
        index.related[word] = related
      end
    elseif not line:find "^%- " then
      local id, title = line:match "^(.-)\t(.*)$"
      if id:find "^# " then
        page, page_title = id:sub(3), title
      else
        index.sections[#index.sections + 1] = { page = page, id = id, title = title, page_title = page_title }
      end
    end
  end
  for word, where in places:gmatch "(%S+) (%S+)\n" do index.words[word] = where end
  return index
end

-- Whether one word becomes the other if a letter is inserted, removed or replaced, or exchanged with the next one.
local function is_like(a, b)
  if #a > #b then a, b = b, a end
  if #b - #a > 1 then return false end
  local i = 1
  while i <= #a and a:byte(i) == b:byte(i) do i = i + 1 end
  if #a < #b then return a:sub(i) == b:sub(i + 1) end
  return a:sub(i + 1) == b:sub(i + 1)
    or a:byte(i) == b:byte(i + 1) and a:byte(i + 1) == b:byte(i) and a:sub(i + 2) == b:sub(i + 2)
end

-- The words of the index that stand for an asked one, and what each is worth. One that is in no section stands for
-- those that begin with it, and if there are none, for those that differ by a letter.
local function standing_for(index, word)
  local found = {}
  for _, other in ipairs(index.related[word] or {}) do found[other] = RELATED end
  if index.words[word] then
    found[word] = 1
  elseif not next(found) and #word > 1 then
    for other in pairs(index.words) do
      if other:sub(1, #word) == word and not other:find "[.:]" then found[other] = RELATED end
    end
    if not next(found) and #word > 3 then
      for other in pairs(index.words) do
        if is_like(word, other) then found[other] = RELATED end
      end
    end
  end
  return found
end

---The sections that answer a question, the best first.
---@param index runnel.prompt.Index
---@param text string
---@param most integer how many at most
---@return runnel.prompt.Found[]
function search.find(index, text, most)
  local asked = words.asked(text)
  -- A name such as ch:put is a word of the index, too.
  local name = text:match "^%s*([%a_][%w_.:]*[.:][%w_]+)"
  if name and index.words[name] then asked[#asked + 1] = name end
  local scores, matched, known = {}, {}, 0
  for _, word in ipairs(asked) do
    local best = {}
    for other, worth in pairs(standing_for(index, word)) do
      local number = 0
      for step, letter in (index.words[other] or ""):gmatch "(%d+)(%D)" do
        number = number + tonumber(step)
        local level = letter:byte() - 64
        best[number] = math.max(best[number] or 0, level * level * worth)
      end
    end
    if next(best) then known = known + 1 end
    for number, worth in pairs(best) do
      scores[number] = (scores[number] or 0) + worth
      matched[number] = (matched[number] or 0) + 1
    end
  end
  local order = {}
  for number, score in pairs(scores) do
    scores[number] = score * matched[number] / known -- a section with all of the words comes first
    order[#order + 1] = number
  end
  table.sort(order, function(a, b)
    if scores[a] ~= scores[b] then return scores[a] > scores[b] end
    return a < b
  end)
  local found = {}
  for i = 1, math.min(most, #order) do found[i] = index.sections[order[i]] end
  return found
end

return search
