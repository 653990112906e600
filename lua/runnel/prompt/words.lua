---The words of a text as the search of the documents compares them. site/pages/search.js has the same rules.

---@class runnel.prompt.words
local words = {}

---Words that say nothing about what is meant. A question that has only such words is searched by these.
words.stop = [[
  a about all am an and any are as at be because been best better but by can cannot cant could did do does doesnt
  dont each from get had has have he her here him his how i if in into is isnt it its just know let like make may
  me more most my need no not of ok okay on one only or other our out over own please possible set she should so
  some such than that the their them then there these they thing things this to too up use used using very via
  want was way we well were what when where which while who whom whose why will with without wont would you your]]

local STOP = {}
for word in words.stop:gmatch "%a+" do STOP[word] = true end

-- Words that would become those of other meanings: core, http and local.
local WHOLE = { cors = true, https = true, locale = true }

local function ends(word, ending) return word:sub(-#ending) == ending end

---The part of a word that its forms have in common: "stop" of "stops", "stopping" and "stopped".
---@param word string in lower case
---@return string
function words.stem(word)
  if #word < 4 or WHOLE[word] or word:find "[%d_]" then return word end
  if ends(word, "ies") or ends(word, "ied") then
    word = word:sub(1, -4) .. "y"
  elseif ends(word, "s") and not word:find "[su]s$" and not ends(word, "is") then
    word = word:sub(1, -2)
  end
  local cut = ends(word, "ing") and 3 or ends(word, "ed") and not ends(word, "eed") and 2
    or #word > 6 and word:find "[st]ion$" and 3
  if cut and #word - cut > 2 and word:sub(1, -cut - 1):find "[aeiouy]" then word = word:sub(1, -cut - 1) end
  if #word > 3 and word:sub(-1) == word:sub(-2, -2) and word:find "%l$" then word = word:sub(1, -2) end
  if #word > 3 and ends(word, "e") then word = word:sub(1, -2) end
  if #word > 3 and ends(word, "y") then word = word:sub(1, -2) .. "i" end
  return word
end

---The stems of all words of a text, in their order; of a name like max_header those of its parts, too.
---@param text string
---@return string[]
function words.of(text)
  local list = {}
  for word in text:lower():gsub("'s%f[^%w_]", ""):gsub("'", ""):gmatch "[%w_]+" do
    if word:find "_" then
      list[#list + 1] = word
      for part in word:gmatch "[^_]+" do list[#list + 1] = words.stem(part) end
    else
      list[#list + 1] = words.stem(word)
    end
  end
  return list
end

---The stems of the words of a question, each once.
---@param text string
---@return string[]
function words.asked(text)
  local all, telling, seen = {}, {}, {}
  local function add(list, stem)
    if seen[stem] ~= list and seen[stem] ~= telling then list[#list + 1], seen[stem] = stem, list end
  end
  for word in text:lower():gsub("'s%f[^%w_]", ""):gsub("'", ""):gmatch "[%w_]+" do
    add(all, words.stem(word))
    if not STOP[word] then add(telling, words.stem(word)) end -- "gets" tells something, though "get" does not
  end
  return #telling > 0 and telling or all
end

return words
