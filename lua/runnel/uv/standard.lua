---The readers of the standard descriptors. A pipe, a terminal or a file that the program was started with outlives each
---reader of it, so the next one gets what the last one has got and not handed out.

local core = require "runnel.core"
local current = require "runnel.internal.world"
local loop = require "runnel.uv.loop"
local unread = require "runnel.uv.unread"

local on_close, go_back = core.internal.on_close, core.internal.descriptors.go_back
local uv = loop.uv

-- Up to how many bytes a file is short.
local SHORT = 1024 * 1024

---@class runnel.uv.Reading
---@field fd integer
---@field out runnel.Channel<string>
---@field unread runnel.uv.Unread what it has got
---@field rest? string what the reader before has left
---@field ahead? runnel.uv.Reader takes from `out`, and may have bytes that were not taken
---@field given boolean the rest is not its own any more
local Reading = {}
Reading.__index = Reading

local standard = {}

local last = {} ---@type table<integer, runnel.uv.Reading> the last reader of each descriptor

---Whether it is a standard descriptor of a short file. Its lines need a channel without a buffer: with one, the end is
---read, and the reader over, while lines wait, which could not be given back to other programs then.
---@param fd any
---@return boolean
function standard.is_short(fd)
  if math.type(fd) ~= "integer" or fd > 2 or current.world then return false end
  local stat = uv.fs_fstat(fd)
  return stat ~= nil and stat.type == "file" and stat.size <= SHORT
end

---Begins to read a descriptor; nil if it is none of the standard ones, and so belongs to one reader only. Ends an
---earlier reader.
---@param fd any
---@param out runnel.Channel<string>
---@param after? fun(text: string, from: integer): integer as for Unread
---@return runnel.uv.Reading?
function standard.reading(fd, out, after)
  if math.type(fd) ~= "integer" or fd > 2 or current.world then return nil end
  local before = last[fd]
  if before then
    before:give_back(("descriptor %d: another call of uv.lines or uv.read reads it now"):format(fd))
  end
  local self = setmetatable({
    fd = fd, out = out, unread = unread.new(out, after), rest = before and before.rest, given = false,
  }, Reading)
  last[fd] = self
  on_close(out, function()
    if not self.unread.over then self:give_back() end
  end)
  return self
end

---Registers what takes from the channel of a descriptor, which may have bytes that were not taken.
---@param fd any
---@param out runnel.Channel<string>
---@param ahead runnel.uv.Reader
function standard.read_ahead(fd, out, ahead)
  local reading = last[fd]
  if reading and reading.out == out then reading.ahead, ahead.reading = ahead, reading end
end

---Ends reading: what was not handed out is there for the next reader, of a file also in another program.
---@param err? any the error with which the channel closes, if it is open
function Reading:give_back(err)
  if self.given then return end
  self.given = true
  local text = self.unread:back(err)
  if self.ahead then text = self.ahead:give_back() .. text end
  if text == "" or self.rest == nil and go_back(self.fd, #text) then return end
  self.rest = text .. (self.rest or "")
end

return standard
