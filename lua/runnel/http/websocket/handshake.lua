---The handshake of WebSocket (RFC 6455, 4) for both ends, without sockets.

local token = require "runnel.http.token"

local handshake = {}

---How many bytes the head of a response may have.
handshake.MAX_HEAD = 16384

-- Names of headers, parameters and subprotocols.
local TOKEN <const> = token.PATTERN

---The elements of a header that is a list, without spaces around them.
---@param value? string
---@return string[]
function handshake.list(value)
  local elements = {}
  for text in (value or ""):gmatch "[^,]+" do
    local element = token.trim(text)
    if element ~= "" then elements[#elements + 1] = element end
  end
  return elements
end

---Whether a list has an element, in upper or lower case.
---@param value? string
---@param wanted string in lower case
---@return boolean
function handshake.has(value, wanted)
  for _, element in ipairs(handshake.list(value)) do
    if element:lower() == wanted then return true end
  end
  return false
end

---Parses the head of a response.
---@param text string without the empty line
---@param is_proxy? boolean it is the answer of a proxy to CONNECT, which may also be of HTTP/1.0
---@return integer? status nil if it is not one of HTTP/1.1
---@return table<string, string>|string headers by name in lower case, values of one name joined with ", "; or the
---reason
function handshake.read_head(text, is_proxy)
  local minor, status, rest = text:match "^HTTP/1%.([01]) (%d%d%d) ?[^\r\n%c]*(.*)$"
  if not status or minor == "0" and not is_proxy then return nil, "the answer is not a response of HTTP/1.1" end
  local headers, at = {}, 1
  while at <= #rest do
    local name, value, stop = rest:match("^\r\n(" .. TOKEN .. "):([^\r\n\0]*)()%f[\r\0]", at)
    if not name then return nil, "the headers of the response are malformed" end
    name, value = name:lower(), token.trim(value)
    headers[name] = headers[name] and headers[name] .. ", " .. value or value
    at = stop
  end
  return tonumber(status) --[[@as integer]], headers
end

-- ---- compressed messages (permessage-deflate, RFC 7692) ----

---What a client offers: each message is compressed by itself, so that neither end needs memory between messages.
handshake.OFFER = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"

-- The largest window for sending: 2^15 bytes.
local LARGEST <const> = 15

-- The parameters of an extension; true for a parameter without a value. nil if they are malformed.
local function parameters(extension)
  local name, rest = extension:match("^(" .. TOKEN .. ")[ \t]*(.*)$")
  if not name or name:lower() ~= "permessage-deflate" then return nil end
  local found = {}
  while rest ~= "" do
    local key, value, after = rest:match("^;[ \t]*(" .. TOKEN .. ")[ \t]*(=?[^;]*)(.*)$")
    if not key then return nil end
    key, rest = key:lower(), after
    if found[key] ~= nil then return nil end
    found[key] = value == "" or value:match '^=[ \t]*"?(%w+)"?[ \t]*$' or false
  end
  return found
end

-- Whether RFC 7692 has all these parameters, and allows their values.
local function are_known(found)
  for key, value in pairs(found) do
    local bits = value ~= true and value and value:find "^[1-9]%d?$" and tonumber(value)
    local in_range = bits and bits >= 8 and bits <= LARGEST
    if key == "server_no_context_takeover" or key == "client_no_context_takeover" then
      if value ~= true then return false end
    elseif key == "server_max_window_bits" then
      if not in_range then return false end
    elseif key == "client_max_window_bits" then
      if value ~= true and not in_range then return false end
    else
      return false
    end
  end
  return true
end

---A server's answer to the offers of a client.
---@param offers? string the header Sec-WebSocket-Extensions
---@return string? answer its value in the response; nil: no compression
---@return integer bits of the window for sending; 0: no compression
function handshake.agree(offers)
  for _, offer in ipairs(handshake.list(offers)) do
    local found = parameters(offer)
    local bits = found and found.server_max_window_bits
    if found and are_known(found) and bits ~= "8" then -- zlib has no window of 2^8 bytes
      if not bits then return handshake.OFFER, LARGEST end
      return ("%s; server_max_window_bits=%s"):format(handshake.OFFER, bits), tonumber(bits) --[[@as integer]]
    end
  end
  return nil, 0
end

---What a server's answer to handshake.OFFER means.
---@param answer? string the header Sec-WebSocket-Extensions of the response
---@return integer? bits of the window for sending; 0: no compression; nil: the answer is wrong
function handshake.agreed(answer)
  if not answer then return 0 end
  local found = parameters(answer)
  if not found or not are_known(found) or not found.server_no_context_takeover or found.client_max_window_bits then
    return nil
  end
  return LARGEST
end

return handshake
