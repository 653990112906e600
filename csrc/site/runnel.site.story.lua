---Gives the page the story of a simulated world, which it draws (site/pages/sequence.js).

local json = require "runnel.json"
local site = require "runnel.site.core"

-- JSON is UTF-8, and what hosts send may be anything.
local function text(value)
  if type(value) ~= "string" or utf8.len(value) then return value end
  return (value:gsub("[\128-\255]", "?"))
end

local function all_text(list)
  for key, value in pairs(list) do list[key] = text(value) end
  return list
end

---@param told runnel.internal.Told
return function(told)
  for _, line in ipairs(told.lines) do all_text(line) end
  site.story(json.encode { failure = text(told.failure), hosts = json.array(all_text(told.hosts)),
    lines = json.array(told.lines), left_out = told.left_out })
end
