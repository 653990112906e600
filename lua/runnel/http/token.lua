---Tokens of HTTP (RFC 9110, 5.6.2): methods, and names of headers and cookies; and the blanks around values (5.6.3).

local token = {}

---A pattern of a token.
token.PATTERN = "[!#$%%&'*+%-.^_`|~%w]+"

local WHOLE <const>, FIRST <const> = "^" .. token.PATTERN .. "$", "^" .. token.PATTERN

---@param value any
---@return boolean
function token.is(value) return type(value) == "string" and value:find(WHOLE) ~= nil end

---The token at a position of a text; nil if there is none.
---@param text string
---@param from integer
---@return string?
function token.at(text, from) return text:match(FIRST, from) end

---A text without the blanks around it. Its time is in proportion to the length: a pattern such as "(.-)%s*$" tries each
---blank as the first of the last ones, and takes seconds for a header full of blanks.
---@param text string
---@return string
function token.trim(text)
  local first = text:find "[^ \t]"
  return first and text:match("^.*[^ \t]", first) or ""
end

return token
