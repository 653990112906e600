---Queues in memory, for specs: a store of messages, and keepers of it as runnel.queue.worker uses them
---(docs/keepers.md). A keeper that is lost, like a process that is killed, answers nothing any more: its
---leases end.

local rn = require "runnel"

local memory = {}

---@class MemoryStore
local Store = {}
Store.__index = Store

---@param lease number ms
---@return MemoryStore
function memory.store(lease)
  return setmetatable({ lease = lease, list = {}, ids = {}, keepers = {}, letters = {} }, Store)
end

-- Hands due messages to keepers with room.
local function dispatch(self)
  local now, next_due = rn.now(), math.huge
  for _, entry in ipairs(self.list) do
    if not entry.is_done then
      if entry.due <= now then
        for i, keeper in ipairs(self.keepers) do
          if not keeper.is_lost and not keeper.is_closed and keeper.taker.room() > 0 then
            table.remove(self.keepers, i)
            table.insert(self.keepers, keeper) -- in turns
            entry.deliveries, entry.due, entry.holder = entry.deliveries + 1, now + self.lease, keeper
            keeper:deliver(entry)
            break
          end
        end
      end
      next_due = math.min(next_due, entry.due)
    end
  end
  if next_due > now and next_due < math.huge and next_due < (self.wakes_at or math.huge) then
    self.wakes_at = next_due
    rn.go(function()
      rn.sleep(math.max(0.01, next_due - now))
      self.wakes_at = nil
      dispatch(self)
    end)
  end
end

---Stores a message; at most one with an id.
---@param value any
---@param opts? { id?: string, headers?: table }
---@return boolean stored
---@return boolean is_duplicate
function Store:append(value, opts)
  opts = opts or {}
  if opts.id and self.ids[opts.id] then return true, true end
  if opts.id then self.ids[opts.id] = true end
  self.list[#self.list + 1] = {
    sequence = #self.list + 1, value = value, headers = opts.headers, due = 0, deliveries = 0, time = os.time() * 1000,
  }
  rn.go(dispatch, self)
  return true, false
end

---How many messages nobody has, and how many have been delivered and not ended.
---@return { waiting: integer, running: integer }
function Store:count()
  local waiting, running = 0, 0
  for _, entry in ipairs(self.list) do
    if not entry.is_done then
      if entry.holder and entry.due > rn.now() then running = running + 1 else waiting = waiting + 1 end
    end
  end
  return { waiting = waiting, running = running }
end

local Keeper = {}
Keeper.__index = Keeper

---@param to? MemoryStore for results
---@return table keeper
function Store:keeper(to) return setmetatable({ store = self, to = to, from = "memory", held = {} }, Keeper) end

function Keeper:open(taker)
  self.taker = taker
  table.insert(self.store.keepers, self)
  self.extender = rn.go(function()
    while not self.is_lost do
      rn.sleep(self.store.lease / 3)
      for message in pairs(self.held) do
        if not self.is_lost and message.entry.holder == self then
          message.entry.due = rn.now() + self.store.lease
        end
      end
    end
  end)
  return true
end

function Keeper:deliver(entry)
  local message = {
    entry = entry, value = entry.value, data = tostring(entry.value), headers = entry.headers, time = entry.time,
    sequence = entry.sequence, deliveries = entry.deliveries, again = entry.deliveries == 1 and "first" or "again",
  }
  self.held[message] = true
  self.taker.take(message)
end

function Keeper:fetch() rn.go(dispatch, self.store) end

function Keeper:close()
  if self.is_closed then return end
  self.is_closed = true
  for i, other in ipairs(self.store.keepers) do
    if other == self then return table.remove(self.store.keepers, i) end
  end
end

---The process of the keeper is killed.
function Keeper:lose()
  self:close()
  self.is_lost = true
end

function Keeper:join(held, message)
  if held.is_answered then return false end
  self.held[message] = nil
  held.entry.due = rn.now() + self.store.lease
  return true
end

function Keeper:id(message) return "memory." .. message.sequence end -- luacheck: no self

-- Answers a message, once. Returns whether that has an effect.
local function answer(self, message)
  if message.is_answered or self.is_lost then return false end
  message.is_answered, self.held[message] = true, nil
  if message.entry.holder == self then message.entry.holder = nil end
  self.taker.answered(message)
  return not message.entry.is_done
end

-- Its process is gone: nothing returns.
local function end_if_lost(self)
  if self.is_lost then rn.chan():take() end
end

function Keeper:done(message, results)
  if self.fails then
    local err, passes = self.fails()
    if err then return nil, err, passes end
  end
  end_if_lost(self)
  local duplicates = 0
  for _, result in ipairs(results or {}) do
    local _, is_duplicate = self.to:append(result.value, { id = result.id })
    if is_duplicate then duplicates = duplicates + 1 end
  end
  if answer(self, message) then message.entry.is_done = true end
  return true, duplicates
end

function Keeper:back(message, ms)
  if not answer(self, message) then return end
  message.entry.due = rn.now() + (ms or 0)
  rn.go(dispatch, self.store)
end

function Keeper:drop(message)
  if answer(self, message) then message.entry.is_done = true end
end

function Keeper:extend() end -- luacheck: no self

function Keeper:limit() end -- luacheck: no self

function Keeper:alive() end -- luacheck: no self

function Keeper:starts(message)
  end_if_lost(self)
  local count = message.entry.count
  message.revision = count or false
  return count and { starts = count.starts, raises = count.raises, error = count.error }
end

function Keeper:set_starts(message, count)
  end_if_lost(self)
  if self.no_counts then return false, self.no_counts end
  local before = message.revision
  if before ~= nil and (message.entry.count or false) ~= before then return false, "it has changed", true end
  message.entry.count = { starts = count.starts, raises = count.raises, error = count.error }
  message.revision = message.entry.count
  return true
end

function Keeper:note_starts(message, count)
  if not self.is_lost then self:set_starts(message, count) end
end

function Keeper:forget_starts(message)
  if not self.is_lost then message.entry.count = nil end
end

function Keeper:bury(letter)
  local letters = self.store.letters
  if letters[letter.id] then return true end
  letters[letter.id], letters[#letters + 1] = letter, letter
  return true
end

return memory
