---A keeper in memory: a queue of messages for durable stages, which ends with the program. It is written from the page
---docs/manual/keepers.md, as an example of a keeper of your own.
---
---    local memory = require "examples.lib.memory_keeper"
---    local orders, invoices = memory.queue "orders", memory.queue "invoices"
---    local stage = keepers.stage(orders:keeper(invoices), 8, invoice)
---    orders:append({ id = 1 }, { id = "order 1" })

local rn = require "runnel"

local memory = {}

local Queue, Keeper = {}, {}
Queue.__index, Keeper.__index = Queue, Keeper

---@param name string
function memory.queue(name)
  return setmetatable({ name = name, entries = {}, first = 1, last = 0, ids = {}, letters = {}, keepers = {} }, Queue)
end

-- ---- the queue ----

-- There may be messages for its keepers.
function Queue:ring()
  for keeper in pairs(self.keepers) do keeper:fetch() end
end

---Stores a message; at most one with an id.
---@param value any
---@param opts? { id?: string, headers?: table }
---@return boolean stored
---@return boolean is_duplicate
function Queue:append(value, opts)
  local id = opts and opts.id
  if id and self.ids[id] then return true, true end
  if id then self.ids[id] = true end
  self.last = self.last + 1
  self.entries[self.last] = {
    sequence = self.last, value = value, headers = opts and opts.headers, time = os.time() * 1000, due = 0,
    deliveries = 0,
  }
  self:ring()
  return true, false
end

---@return { waiting: integer, running: integer }
function Queue:count()
  local counts = { waiting = 0, running = 0 }
  for _, entry in pairs(self.entries) do
    local which = entry.due == math.huge and "running" or "waiting"
    counts[which] = counts[which] + 1
  end
  return counts
end

---@param to? table the queue of the results
function Queue:keeper(to)
  return setmetatable({ queue = self, to = to, from = self.name, bell = rn.chan(rn.sliding_buffer(1)) }, Keeper)
end

-- ---- delivering ----

-- Hands a message to the worker. It is due for nobody else until it is answered: nothing that has it can be gone.
local function hand(self, entry)
  entry.due, entry.deliveries = math.huge, entry.deliveries + 1
  self.taker.take {
    entry = entry, sequence = entry.sequence, value = entry.value, data = tostring(entry.value),
    headers = entry.headers, time = entry.time, deliveries = entry.deliveries,
    again = entry.deliveries == 1 and "first" or "again",
  }
end

-- Delivers what is due, as far as there is room. Returns the ms until more is due.
local function deliver(self)
  local queue, left = self.queue, 60000
  while queue.first <= queue.last and not queue.entries[queue.first] do queue.first = queue.first + 1 end
  for sequence = queue.first, queue.last do
    local entry = queue.entries[sequence]
    local ms = entry and entry.due - rn.now() or math.huge
    if ms > 0 then left = math.min(left, ms)
    elseif self.is_closed or self.taker.room() == 0 then break
    else hand(self, entry) end
  end
  return left
end

function Keeper:open(taker)
  self.taker, self.queue.keepers[self] = taker, true
  rn.go(function()
    while not self.is_closed do rn.alts { self.bell, rn.timeout(deliver(self)) } end
  end)
  return true
end

function Keeper:fetch() self.bell:offer(true) end

function Keeper:close()
  self.is_closed, self.queue.keepers[self] = true, nil
  self.bell:offer(true)
end

-- ---- answers ----

-- Whether the answer counts: the first one does.
local function answer(self, message)
  if message.is_answered then return false end
  message.is_answered = true
  self.taker.answered(message)
  return true
end

local function finish(self, message)
  if answer(self, message) then self.queue.entries[message.sequence] = nil end
end

function Keeper:id(message) return ("%s.%d"):format(self.from, message.sequence) end

function Keeper:done(message, results)
  local duplicates = 0
  for _, result in ipairs(results or {}) do
    local _, is_duplicate = self.to:append(result.value, { id = result.id })
    if is_duplicate then duplicates = duplicates + 1 end
  end
  finish(self, message)
  return true, duplicates
end

function Keeper:drop(message) finish(self, message) end

function Keeper:back(message, ms)
  if not answer(self, message) then return end
  message.entry.due = rn.now() + (ms or 0)
  self.queue:ring()
end

-- ---- counts of starts, and dead letters ----

function Keeper:starts(message) -- luacheck: no self
  message.known = message.entry.count or false
  return message.entry.count
end

function Keeper:set_starts(message, count) -- luacheck: no self
  local entry = message.entry
  if message.known ~= nil and (entry.count or false) ~= message.known then
    return false, "another worker has stored a count", true
  end
  entry.count = { starts = count.starts, raises = count.raises, error = count.error,
    errors = count.errors }
  message.known = entry.count
  return true
end

function Keeper:note_starts(message, count) self:set_starts(message, count) end

function Keeper:forget_starts(message) message.entry.count = nil end -- luacheck: no self

function Keeper:bury(letter)
  self.queue.letters[letter.id] = letter
  return true
end

-- A message is never delivered again while it is held, and nothing can end a process that computes for too long.
function Keeper:join() return false end -- luacheck: no self
function Keeper:extend() end -- luacheck: no self
function Keeper:limit() end -- luacheck: no self
function Keeper:alive() end -- luacheck: no self

return memory
