---Reads the parts of a form of the type multipart/form-data (RFC 7578), as they come.

local refusal = require "runnel.http.refusal"
local token = require "runnel.http.token"

local multipart = {}

-- The longest headers of a part, in bytes, and the longest delimiter (RFC 2046, 5.1.1).
local MAX_HEAD <const>, MAX_BOUNDARY <const> = 8192, 70

local function wrong(format, ...) error(refusal.new(400, format, ...), 0) end

-- ---- headers of parts ----

-- The value of a parameter, which begins at `from`: a token or a text in quotes. Returns it, and where it ends.
local function value_at(text, from)
  if text:sub(from, from) ~= '"' then
    local value = token.at(text, from)
    return value, value and from + #value
  end
  local parts, at = {}, from + 1
  while true do
    local stop = text:find('["\\]', at)
    if not stop then return nil end
    parts[#parts + 1] = text:sub(at, stop - 1)
    if text:sub(stop, stop) == '"' then return table.concat(parts), stop + 1 end
    local next_char = text:sub(stop + 1, stop + 1)
    local is_escaped = next_char == '"' or next_char == "\\" -- other backslashes are of paths
    parts[#parts + 1] = is_escaped and next_char or "\\"
    at = stop + (is_escaped and 2 or 1)
  end
end

---The parameters of a header, such as `form-data; name="a"`.
---@param text string
---@return string? kind what is before them, in lower case; nil if the text is malformed
---@return table<string, string> parameters by name in lower case
function multipart.parameters(text)
  local found, kind = {}, text:match "^[^;%s]+"
  local at = kind and #kind + 1 or 1
  while kind and at <= #text do
    local name, from = text:match("^%s*;%s*([^%s=;]+)=()", at)
    local value, stop
    if name then value, stop = value_at(text, from) end
    if not value or found[name:lower()] then return nil, found end
    found[name:lower()], at = value, stop
  end
  return kind and kind:lower(), found
end

---The boundary of a form, from its content type; nil if that is malformed.
---@param content_type string
---@return string?
function multipart.boundary(content_type)
  local kind, parameters = multipart.parameters(content_type)
  local boundary = kind and parameters.boundary
  if not boundary or #boundary > MAX_BOUNDARY or not boundary:find "^[%w'()+_,./:=? -]*[%w'()+_,./:=?-]$" then
    return nil
  end
  return boundary
end

local function headers_of(text)
  local headers = {}
  for line in (text .. "\r\n"):gmatch "(.-)\r\n" do
    local name, value = line:match "^([^%s:]+):(.*)$"
    if not name or not token.is(name) or value:find "[\0-\8\10-\31\127]" or headers[name:lower()] then
      wrong "a part of the form has a malformed header"
    end
    headers[name:lower()] = token.trim(value)
  end
  return headers
end

-- ---- the stream ----

---@class runnel.http.MultipartReader
---@field private read fun(): string? the next piece of the body
---@field private buffer string
---@field private delimiter string
---@field private is_in_part boolean
---@field private is_new boolean nothing of the part has been read
local Reader = {}
Reader.__index = Reader

---@param read fun(): string? the next piece of the body; nil at its end; raises if it does not come
---@param boundary string
---@return runnel.http.MultipartReader
function multipart.new(read, boundary)
  -- The first delimiter has no line end before it.
  return setmetatable({ read = read, buffer = "\r\n", delimiter = "\r\n--" .. boundary, is_in_part = true,
    is_new = false }, Reader)
end

local function fill(self)
  local piece = self.read()
  if not piece then wrong "the form is cut: its last delimiter is missing" end
  self.buffer = self.buffer .. piece
end

-- The line end behind the headers of a part is that of the delimiter, if the part has no body (RFC 2046, 5.1.1).
local function begin_body(self)
  self.is_new = false
  while #self.buffer < #self.delimiter do fill(self) end -- in a valid form, so much follows
  if self.buffer:sub(1, #self.delimiter) ~= self.delimiter then self.buffer = self.buffer:sub(3) end
end

---The next piece of the present part; nil at its end.
---@return string?
function Reader:piece()
  if not self.is_in_part then return nil end
  if self.is_new then begin_body(self) end
  local keep = #self.delimiter - 1
  while true do
    local at = self.buffer:find(self.delimiter, 1, true)
    local stop = at and at - 1 or #self.buffer - keep
    if stop > 0 then
      local piece = self.buffer:sub(1, stop)
      self.buffer = self.buffer:sub(stop + 1)
      return piece
    elseif at then
      self.buffer, self.is_in_part = self.buffer:sub(#self.delimiter + 1), false
      return nil
    end
    fill(self)
  end
end

---The headers of the next part, by name in lower case; nil after the last part. Drops the rest of the present one.
---@return table<string, string>?
function Reader:next_part()
  while self:piece() do end
  while #self.buffer < 2 do fill(self) end
  if self.buffer:sub(1, 2) == "--" then
    while self.read() do end -- what follows means nothing
    return nil
  end
  if self.buffer:sub(1, 2) ~= "\r\n" then wrong "a delimiter of the form is malformed" end
  local at
  repeat
    at = self.buffer:find("\r\n\r\n", 1, true)
    if (at or #self.buffer) > MAX_HEAD then wrong("the headers of a part have more than %d bytes", MAX_HEAD) end
    if not at then fill(self) end
  until at
  local headers = headers_of(self.buffer:sub(3, at - 1))
  self.buffer, self.is_in_part, self.is_new = self.buffer:sub(at + 2), true, true
  return headers
end

---Begins: nothing may be before the first delimiter but a line end.
function Reader:begin()
  while #self.buffer < #self.delimiter + 2 do fill(self) end
  local at = self.buffer:find(self.delimiter, 1, true)
  if at ~= 1 and at ~= 3 then wrong "the form does not begin with its delimiter" end
end

return multipart
