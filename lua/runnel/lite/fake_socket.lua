---Two connected sockets without a network, for tests: the methods of luasocket, of Copas, and of OpenResty's cosockets,
---which wait as go blocks do. require "runnel.lite.fake_socket" () returns both ends.

local rn = require "runnel.lite"

local socket = {}
socket.__index = socket

local MANY = 1000 -- pieces that are on their way

---Sends data, or a part of it, as one piece. Returns the number of the last byte that was sent.
---@param data string
---@param i? integer
---@param j? integer
function socket:send(data, i, j)
  if self.out:closed() then return nil, "closed", 0 end
  j = j or -1
  self.out:put(data:sub(i or 1, j))
  return j < 0 and #data + j + 1 or math.min(j, #data)
end

-- Waits for more bytes. Returns false, and "closed" or "timeout".
local function read_more(self)
  local piece, from
  if self.limit then piece, from = rn.alts({ self.from, rn.timeout(self.limit) }, { priority = true })
  else piece, from = self.from:take(), self.from end
  if piece then self.rest = self.rest .. piece end
  return piece ~= nil, from == self.from and "closed" or "timeout"
end

local function read_until(self, find)
  local first, last = find(self.rest)
  while not first do
    local ok, why = read_more(self)
    if not ok then return nil, why end
    first, last = find(self.rest)
  end
  local data = self.rest:sub(1, first)
  self.rest = self.rest:sub(last + 1)
  return data
end

---Receives a line ("*l", the default), n bytes, or all until the end ("*a"). Returns nil, "closed" or "timeout", and
---what has come.
---@param pattern? string|integer
function socket:receive(pattern)
  pattern = pattern or "*l"
  if self.is_closed then return nil, "closed", "" end
  local data, why
  if type(pattern) == "number" then
    data, why = read_until(self, function(rest) if #rest >= pattern then return pattern, pattern end end)
  elseif pattern:find "l" then
    data, why = read_until(self, function(rest)
      local at = rest:find("\n", 1, true)
      if at then return at - 1, at end
    end)
    if data then return (data:gsub("\r$", "")) end
  elseif pattern:find "a" then
    data, why = read_until(self, function() end)
  else
    error(("receive: unknown pattern '%s'"):format(pattern), 2)
  end
  if data then return data end
  local part = self.rest
  self.rest = ""
  if why == "closed" and type(pattern) == "string" and pattern:find "a" then return part end
  return nil, why, part
end

---@param seconds? number nil, or less than 0: without a limit
function socket:settimeout(seconds) self.limit = seconds and seconds >= 0 and seconds * 1000 or nil end

---The other end gets what was sent before, and then the end. This end gets nothing more.
function socket:close()
  self.is_closed = true
  self.out:close()
  self.from:close()
  return true
end

return function()
  local a, b = rn.chan(MANY), rn.chan(MANY)
  return setmetatable({ out = a, from = b, rest = "" }, socket), setmetatable({ out = b, from = a, rest = "" }, socket)
end
