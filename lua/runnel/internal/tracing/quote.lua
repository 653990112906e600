---Names in the files of traces.

local json = require "runnel.json"

local function latin1(c) return utf8.char(c:byte()) end

---A string as JSON. One that is not UTF-8 counts as Latin-1.
---@param text string
---@return string
return function(text)
  return assert(json.encode(utf8.len(text) and text or (text:gsub("[\128-\255]", latin1))))
end
