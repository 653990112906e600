---A request for a WebSocket, which comes as bytes over a simulated connection. It has the methods of the C module's
---request that runnel.http.request, runnel.http.answer and runnel.http.websocket.ws_server call.

local core = require "runnel.core"
local answer = require "runnel.http.answer"
local guard = require "runnel.internal.guard"

local take = core.internal.moving.take

---@class runnel.sim.Upgrade
---@field conn runnel.uv.Stream
---@field input runnel.Channel<string> what has arrived
---@field rest string what has arrived behind the head, and was not read
---@field is_whole? boolean the client has closed its sending side
---@field was_read runnel.Channel<boolean> gets a value when `rest` was read; closes at the end
---@field method string
---@field target string
---@field can_upgrade boolean the client offers another protocol
---@field list string[] names and values of headers in turn
---@field req? runnel.http.Request
local Upgrade = {}
Upgrade.__index = Upgrade

local upgrade = {}

-- The bit of EVENT_BODY, as in runnel.http.server.
local BODY <const> = 2

---Whether a line is the first one of such a request.
---@param line string
---@return boolean
function upgrade.begins(line) return line:find " HTTP/1%.1\r$" ~= nil end

---Reads the rest of the head.
---@param conn runnel.uv.Stream
---@param line string its first line
---@param text string what has arrived behind that
---@return runnel.sim.Upgrade? request nil if the connection has ended
function upgrade.read(conn, line, text)
  local input, list = conn:read(), {}
  while not ("\n" .. text):find "\n\r\n" do
    local piece = take(input)
    if not piece then return nil end
    text = text .. piece
  end
  local head, rest = ("\n" .. text):match "^(.-\n)\r\n(.*)$"
  local has = {}
  for name, value in head:gmatch "([^:\r\n]+): ([^\r\n]*)\r\n" do
    list[#list + 1], list[#list + 2] = name, value
    has[name:lower()] = value:lower()
  end
  local method, target = line:match "^(%S+) (%S+)"
  return setmetatable({
    conn = conn, input = input, rest = rest, was_read = core.chan(), method = method, target = target, list = list,
    can_upgrade = has.upgrade ~= nil and has.connection ~= nil and has.connection:find("upgrade", 1, true) ~= nil,
  }, Upgrade)
end

function Upgrade:head() return self.method, self.target, self.conn:peer() or "unix:", self.can_upgrade end

function Upgrade:headers() return self.list end

function Upgrade.hint() return true end

function Upgrade.trailers() return "" end

-- Sends the head of a response. Headers are in an order that is the same in each run.
local function send_head(self, status, extra, ...)
  local lines = {}
  for i = 1, select("#", ...), 2 do
    local name, value = select(i, ...)
    lines[#lines + 1] = ("%s: %s\r\n"):format(name, value)
  end
  table.sort(lines)
  self.conn:write(("HTTP/1.1 %d \r\n%s%s\r\n"):format(status, extra, table.concat(lines)))
  return true
end

-- Receives, as the thread of a server does: the next piece once the last one was read.
local function receive(self)
  local piece, err = "", nil
  while piece do
    if self.rest == "" then piece, err = take(self.input) end
    self.rest, self.is_whole = self.rest .. (piece or ""), piece == nil and err == nil
    local socket = self.req.socket
    if err == nil then socket:on_news(BODY) else socket:gone "the client has closed the connection" end
    while self.rest ~= "" do
      if not self.was_read:take() then return end
    end
  end
end

function Upgrade:upgrade(...)
  send_head(self, 101, "Connection: Upgrade\r\n", ...)
  guard.go(guard.nothing, nil, receive, self)
  return true
end

---@param body? string nil: it is written later
function Upgrade:respond(status, body, _, ...)
  local bad = answer.wrong_header(...)
  if bad then return false, bad end
  send_head(self, status, "Connection: close\r\n", ...)
  if not body then return true, true end
  self:write(body)
  self:finish(false)
  return true, false
end

---The bytes that have arrived; false at the end; nil: the socket will be told of more.
function Upgrade:read()
  local rest = self.rest
  if rest == "" and self.is_whole then return false end
  if rest == "" then return nil end
  self.rest = ""
  self.was_read:offer(true)
  return rest
end

---Parks until there is room.
function Upgrade:write(bytes, more)
  self.conn:write(bytes .. (more or ""))
  return true
end

function Upgrade:finish(is_cut)
  if not is_cut then self.conn:shutdown() end
  self.conn:close()
  self.was_read:close()
  return true
end

return upgrade
