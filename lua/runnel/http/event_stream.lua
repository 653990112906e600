---The format text/event-stream: events as text, and text as events, by the rules of the WHATWG's HTML standard. Pure:
---neither channels nor time.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local decimal = require "runnel.internal.decimal"
local json = require "runnel.json"
local sign = require "runnel.internal.sign"

local find, sub, concat = string.find, string.sub, table.concat

local event_stream = {}

---The media type.
event_stream.TYPE = "text/event-stream"

---A comment, which clients ignore. It shows that the server still runs.
event_stream.COMMENT = ":\n\n"

-- ---- events as text ----

local FIELDS = { data = true, event = true, id = true, retry = true }

local function fail(format, ...) error({ message = format:format(...) }, 0) end

-- A field of one line.
local function line_of(name, value, forbidden, what)
  if type(value) == "number" then value = decimal.exact(value) end
  if type(value) ~= "string" then fail("%s: a string expected, got %s", name, check.article(value)) end
  if find(value, forbidden) then fail("%s: %s in %q", name, what, value) end
  return name .. ": " .. value .. "\n"
end

-- The data: a field for each line. Line ends become "\n" first, since clients take "\r" for one, too.
local function data_of(value)
  if type(value) == "table" and not core.is_chan(value) then
    local text, why = json.encode(value, { name = "data" })
    if not text then fail("%s", why) end
    value = text
  elseif type(value) ~= "string" and type(value) ~= "number" then
    fail("data: a string, a number, or a table for JSON expected, got %s", check.article(value))
  end
  local text = decimal.exact(value)
  if find(text, "\r", 1, true) then text = text:gsub("\r\n?", "\n") end
  return "data: " .. text:gsub("\n", "\ndata: ") .. "\n"
end

local function encode(event)
  if type(event) == "string" or type(event) == "number" then return data_of(event) .. "\n" end
  if type(event) ~= "table" then fail("a table or a string expected, got %s", check.article(event)) end
  for name in pairs(event) do
    if not FIELDS[name] then fail("%s", (check.unknown(name, FIELDS):gsub("option", "field", 1))) end
  end
  local text = ""
  if event.event ~= nil then text = text .. line_of("event", event.event, "[\r\n]", "a line break") end
  if event.id ~= nil then text = text .. line_of("id", event.id, "[\r\n\0]", "a line break or a zero byte") end
  if event.retry ~= nil then
    local ms = event.retry
    if type(ms) ~= "number" or not math.tointeger(ms) or ms < 0 then
      fail("retry: an integer of at least 0, in ms, expected, got %s", check.describe(ms))
    end
    text = text .. ("retry: %d\n"):format(ms)
  end
  if event.data ~= nil then text = text .. data_of(event.data) end
  if text == "" then fail("a field expected: data, event, id or retry") end
  return text .. "\n"
end

---An event as text.
---@param event runnel.http.SentEvent|string a string is the data
---@return string? text nil if it is wrong
---@return string? err the reason
function event_stream.encode(event)
  local ok, text = pcall(encode, event)
  if ok then return text end
  if type(text) ~= "table" then error(text, 0) end
  return nil, "an event of a response: " .. text.message
end

-- ---- text as events ----

---An event that has come.
---@class runnel.http.Event
---@field event string its type; "message" if the server gave none
---@field data string
---@field id? string the last id that the server has sent, with this event or an earlier one
local Event = { __name = "http event" }
Event.__index = Event
Event.__sign = "event"

---The data as JSON.
---@return any value nil if it is not JSON
---@return string? err the reason
function Event:json()
  sign.own(self, "event", "json")
  return json.decode(self.data)
end

---The parser of one connection's text.
---@class runnel.http.EventParser
---@field id string the last id of a complete event; "" without one
---@field retry? integer ms until the next try, if the server has sent them
---@field package max integer
---@field package new_id string the last id that has arrived
---@field package parts string[] the parts of a line whose end has not arrived
---@field package size integer bytes of the current event
---@field package data string[] its lines of data
---@field package kind string its type, or ""
---@field package is_new boolean no line has ended
---@field package skips boolean the last character was "\r", so a "\n" now belongs to it
local Parser = {}
Parser.__index = Parser

---Makes a parser for the text of a connection.
---@param id? string the last id of the previous connection
---@param max integer the limit of an event, in bytes
---@return runnel.http.EventParser
function event_stream.parser(id, max)
  return setmetatable({ id = id or "", new_id = id or "", max = max, parts = {}, size = 0, data = {}, kind = "",
    is_new = true, skips = false }, Parser)
end

-- Ends the current event, at an empty line, and returns it; nil if it has no data.
local function complete(self)
  local data, kind = self.data, self.kind
  self.id, self.kind, self.size = self.new_id, "", 0
  if #data == 0 then return nil end
  self.data = {}
  return setmetatable({ event = kind ~= "" and kind or "message", data = concat(data, "\n"),
    id = self.id ~= "" and self.id or nil }, Event)
end

local set = {}

function set.event(self, value) self.kind = value end
function set.data(self, value) self.data[#self.data + 1] = value end
function set.id(self, value) if not find(value, "\0", 1, true) then self.new_id = value end end
function set.retry(self, value)
  if find(value, "^[0-9]+$") then self.retry = math.tointeger(tonumber(value)) or self.retry end
end

-- Reads a line; returns the event that it completes.
local function read_line(self, line)
  if self.is_new then
    self.is_new = false
    if sub(line, 1, 3) == "\u{FEFF}" then line = sub(line, 4) end -- a byte order mark
  end
  if line == "" then return complete(self) end
  local colon = find(line, ":", 1, true)
  local name = colon and sub(line, 1, colon - 1) or line
  local value = colon and sub(line, colon + (sub(line, colon + 1, colon + 1) == " " and 2 or 1)) or ""
  if set[name] then set[name](self, value) end
  if colon == 1 then self.size = self.size - #line end -- a comment takes no memory
end

-- Counts bytes of the event. Returns false if it is too long.
local function grow(self, n)
  self.size = self.size + n
  return self.size <= self.max
end

---Reads the next piece of the text, of any length. An event without its empty line at the end is never returned.
---@param piece string
---@return runnel.http.Event[] events the events that are complete now
---@return boolean ok false if an event is longer than the limit: then the parser must not be used again
function Parser:feed(piece)
  local events, from, parts = {}, 1, self.parts
  if self.skips and piece ~= "" then
    self.skips = false
    if sub(piece, 1, 1) == "\n" then from = 2 end
  end
  while true do
    local to = find(piece, "[\r\n]", from)
    if not to then break end
    if not grow(self, to - from) then return events, false end
    local line = sub(piece, from, to - 1)
    if #parts > 0 then
      parts[#parts + 1] = line
      line, self.parts = concat(parts), {}
      parts = self.parts
    end
    events[#events + 1] = read_line(self, line)
    from = to + 1
    if sub(piece, to, to) == "\r" then
      if from > #piece then self.skips = true elseif sub(piece, from, from) == "\n" then from = from + 1 end
    end
  end
  if from <= #piece then
    parts[#parts + 1] = sub(piece, from)
    if not grow(self, #piece - from + 1) then return events, false end
  end
  return events, true
end

return event_stream
