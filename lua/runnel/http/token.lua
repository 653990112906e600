---Tokens of HTTP (RFC 9110, 5.6.2): methods, and the names of headers and cookies.

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

return token
