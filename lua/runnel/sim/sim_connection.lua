---The two ends of a simulated connection: what each end has got and not read, and what it has to send.

local check = require "runnel.internal.check"
local current = require "runnel.internal.world"
local wires = require "runnel.sim.sim_wire"

-- How many bytes are under way, or have arrived and were not read, at most: the buffers of a real system, which it
-- makes larger when it likes, so that a write of much data may wait for the reader, or not. And how many a read gets.
local SMALL, LARGE, LARGE_UNIX, READ = 128 * 1024, 4 * 1024 * 1024, 208 * 1024, 64 * 1024

local AT_DATA = { "reset", "delay", "short", "silent" }
local AT_LOCAL_DATA = { "short" }

---One end of a connection.
---@class runnel.sim.End
---@field world runnel.sim.World
---@field host runnel.sim.Host
---@field born integer the host's start
---@field other runnel.sim.End
---@field wire runnel.sim.Wire to the other end
---@field is_local boolean both ends are on one host
---@field handle? runnel.sim.Socket nil until it is accepted, and after it is closed
---@field arrived string[] the data that has arrived and was not read
---@field under_way integer how many bytes the other end has sent and this one has not read
---@field at_end boolean the other end has ended writing
---@field err? string an error that the next read or write gets
---@field broken boolean the connection was reset
---@field shut boolean this end has ended writing
---@field closed boolean
---@field writes table the writes that wait for room
---@field window? integer how many bytes it may send that were not read; nil: not chosen yet
local End = {}
End.__index = End

local function new_end(world, host)
  return setmetatable({
    world = world, host = host, born = host.born, arrived = {}, under_way = 0, at_end = false, broken = false,
    shut = false, closed = false, writes = {},
  }, End)
end

---Makes the two ends of a connection.
---@return runnel.sim.End of_a
---@return runnel.sim.End of_b
local function connect(world, a, b)
  local x, y = new_end(world, a), new_end(world, b)
  x.other, y.other = y, x
  x.wire, y.wire = wires.new(world, a, y), wires.new(world, b, x)
  x.is_local, y.is_local = a.machine == b.machine, a.machine == b.machine
  return x, y
end

-- ---- for the story ----

local SHOWN = 60 -- bytes of a message

-- A message as the story shows it.
local function shown(data)
  local text = #data > SHOWN and data:sub(1, SHOWN) .. "..." or data
  text = check.describe(text):gsub("\\\n", "\\n"):gsub("\\13", "\\r")
  return #data > SHOWN and ("%s, %d bytes"):format(text, #data) or text
end

-- `data`: what is sent; nil: the end. `ms`: how long it takes; nil: it does not arrive. `more`: what else happens.
local function log_message(from, data, ms, fault, more)
  if not current.notes then return end
  local tell = data and from.handle and from.handle.tell
  local text = tell and tell(data)
  if tell and not text and not fault then return end
  local told = from.world:log_message(from.host, from.other.host, ms, fault, "%s",
    text or data and shown(data) or "the end")
  if told then told.more = more end
end

-- ---- reading ----

local pump

-- The other end may send more, once it has heard of it.
local function make_room(self, n)
  self.under_way = self.under_way - n
  local other = self.other
  if #other.writes == 0 then return end
  self.world:later(self.world:time_between(self.host, other.host), other.host, other.flush, other)
end

-- Calls the reader with what there is.
function pump(self)
  local handle = self.handle
  while handle and handle.on_read and not handle.closing do
    local list = self.arrived
    if #list > 0 then
      local data = #list == 1 and list[1] or table.concat(list)
      if #data > READ then
        self.arrived = { data:sub(READ + 1) }
        data = data:sub(1, READ)
      else
        self.arrived = {}
      end
      make_room(self, #data)
      handle.on_read(nil, data)
    elseif self.err then
      local on_read, err = handle.on_read, self.err
      handle.on_read, self.err = nil, nil
      on_read(err)
    elseif self.at_end or self.broken then
      local on_read = handle.on_read
      handle.on_read = nil
      on_read(nil, nil)
    else
      return
    end
  end
end

End.pump = pump

-- ---- the end ----

-- The writes that wait fail.
local function fail_writes(self, err)
  local writes = self.writes
  self.writes = {}
  for _, write in ipairs(writes) do self.world:later(0, self.host, write.done, err) end
end

-- A reset has arrived.
local function get_reset(self)
  if self.broken or self.closed then return end
  self.broken = true
  self.err = self.at_end and "EPIPE" or "ECONNRESET"
  fail_writes(self, self.err)
  pump(self)
end

---Resets the connection from this end: the other one gets it after what was sent before.
function End:reset() self.wire:send(self.world:time_between(self.host, self.other.host), get_reset) end

---Resets both ends from outside, after some ms.
---@param ms number
function End:break_both(ms)
  self.wire:send(ms, get_reset)
  self.other.wire:send(ms, get_reset)
end

local function get_end(self)
  if self.broken then return end
  self.at_end = true
  pump(self)
end

-- ---- writing ----

local function get_data(self, data)
  if self.broken then return end
  if self.closed then return self:reset() end
  self.arrived[#self.arrived + 1] = data
  self.world:may_crash(self.host)
  pump(self)
end

-- Sends data, for which there is room. Here faults may happen. The host may crash before, when what it has done (a file
-- is synced, a transaction is committed) is not told yet, and after.
local function send(self, data)
  local world, other, wire = self.world, self.other, self.wire
  world:may_crash(self.host)
  if self.host.born ~= self.born then return end
  local ms = world:time_between(self.host, other.host)
  other.under_way = other.under_way + #data
  local faults = world.faults
  local fault = faults.more > 0 and faults:choose(self.is_local and AT_LOCAL_DATA or AT_DATA)
  if fault == "short" and #data > 1 then
    local n = faults:way(2) == 1 and 1 or #data - 1
    log_message(self, data:sub(1, n), ms, fault, "; the rest comes later")
    wire:send(ms, get_data, data:sub(1, n))
    data, ms = data:sub(n + 1), ms + 1
    log_message(self, data, ms)
  elseif fault == "delay" then
    ms = ms + world.delays[faults:way(#world.delays)]
    log_message(self, data, ms, fault)
  elseif fault == "silent" then
    wire.silent, other.wire.silent = true, true
    self:cut()
    other:cut()
    log_message(self, data, nil, fault, ": nothing arrives from now on")
  elseif fault == "reset" then
    local is_lost = faults:way(2) == 1
    if is_lost then log_message(self, data, nil, fault, " is lost: the connection is reset")
    else log_message(self, data, ms, fault, ", and then the connection is reset") end
    if not is_lost then wire:send(ms, get_data, data) end
    self:break_both(ms)
    return
  else
    log_message(self, data, ms)
  end
  wire:send(ms, get_data, data)
  world:may_crash(self.host)
end

-- The error that a write gets now, or nil.
local function write_error(self)
  if self.err then
    local err = self.err
    self.err = nil
    return err
  end
  return (self.broken or self.shut or self.is_pipe and self.other.closed) and "EPIPE" or nil
end

-- How many of these bytes there is room for. In a search it is a choice how large the buffers are.
local function room_for(self, n)
  local room = (self.window or SMALL) - self.other.under_way
  if room >= n or self.window then return room end
  local is_large = self.world.faults:perhaps()
  self.window = not is_large and SMALL or self.is_pipe and LARGE_UNIX or LARGE
  return self.window - self.other.under_way
end

---Sends as much as there is room for. Returns the number of bytes; or nil, and the name of an error.
---@param data string
---@return integer? n
---@return string? err
function End:try_write(data)
  local err = write_error(self)
  if err then return nil, err end
  local room = room_for(self, #data)
  if #data == 0 then return 0 end
  if room <= 0 or #self.writes > 0 then return nil, "EAGAIN" end
  local part = #data > room and data:sub(1, room) or data
  send(self, part)
  return #part
end

---Nothing may arrive any more: tells the handle, if it asks for that.
function End:cut()
  if self.handle and self.handle.on_cut then self.handle.on_cut() end
end

local function end_writing(self)
  local ms = self.world:time_between(self.host, self.other.host)
  log_message(self, nil, ms)
  self.wire:send(ms, get_end)
end

---Goes on with the writes that wait.
function End:flush()
  while #self.writes > 0 and not self.broken and not self.closed and self.host.born == self.born do
    local write = self.writes[1]
    if write.data then
      local room = room_for(self, #write.data)
      if room <= 0 then return end
      local part = write.data:sub(1, room)
      write.data = write.data:sub(room + 1)
      send(self, part)
    else
      end_writing(self)
    end
    if not write.data or write.data == "" then
      table.remove(self.writes, 1)
      self.world:later(0, self.host, write.done)
    end
  end
end

---Sends all of it, as there is room; then calls `done`, with the name of an error if it fails.
---@param data string
---@param done fun(err: string?)
---@return string? err the name of an error; `done` is not called then
function End:write(data, done)
  local err = write_error(self)
  if err == "EPIPE" and self.shut then return err end
  if err then
    self.world:later(0, self.host, done, err)
    return nil
  end
  self.writes[#self.writes + 1] = { data = data, done = done }
  self:flush()
end

---How many bytes wait for room.
---@return integer
function End:waiting()
  local n = 0
  for _, write in ipairs(self.writes) do n = n + #(write.data or "") end
  return n
end

---Ends writing, after what waits to be written.
---@param done fun(err: string?)
---@return string? err
function End:shutdown(done)
  if self.shut or self.broken then return "ENOTCONN" end
  self.shut = true
  self.writes[#self.writes + 1] = { done = done }
  self:flush()
end

---Closes this end. With data that was not read, the other end gets a reset. What is under way may have arrived.
function End:close()
  if self.closed then return end
  self.closed, self.handle = true, nil
  local has_unread = #self.arrived > 0 or self.under_way > 0 and self.world.faults:perhaps()
  fail_writes(self, "ECANCELED")
  if self.broken then return end
  if has_unread then
    local told = self.world:log_message(self.host, self.other.host,
      self.world:time_between(self.host, self.other.host), nil, "a reset, because it closes and has not read all")
    if told then told.kind = "reset" end
    self:reset()
  elseif not self.shut then
    end_writing(self)
  end
end

return { connect = connect }
