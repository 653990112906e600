---What a stream promises, as a whole: puts with an id are stored once, what a put has confirmed is there, the numbers
---are in the order of the puts, and a source without a name reads all messages in their order. The order is known, by
---the numbers, so there is nothing to search.

---@class history.Stored a message of the stream at the end
---@field sequence integer
---@field id string
---@field value any unique

local Check = {}
Check.__index = Check

function Check:wrong(format, ...) self.problems[#self.problems + 1] = format:format(...) end

-- Finds the put that has stored a message.
local function find_puts(self)
  for _, put in ipairs(self.puts) do
    local stored = self.by_value[put.value]
    if stored and put.refused then
      self:wrong("put %s of %s was refused, and is message %d", put.value, put.process, stored.sequence)
    elseif stored then
      stored.put = put
    end
  end
end

local function check_messages(self)
  local ids = {}
  for _, stored in ipairs(self.log) do
    if ids[stored.id] then self:wrong("the id %s is stored twice", stored.id) end
    ids[stored.id] = stored
    if not stored.put then self:wrong("message %d (%s) was never put", stored.sequence, stored.value) end
  end
  return ids
end

-- What puts have said.
local function check_puts(self, ids)
  for _, put in ipairs(self.puts) do
    if put.back and not put.refused then
      local stored = ids[put.id]
      if not stored then
        self:wrong("put %s of %s was confirmed, and is not stored", put.value, put.process)
      elseif put.sequence and stored.sequence ~= put.sequence then
        self:wrong("put %s of %s has the number %d, and is message %d", put.value, put.process, put.sequence,
          stored.sequence)
      elseif put.is_duplicate == (stored.put == put) then
        self:wrong("put %s of %s says of a duplicate: %s", put.value, put.process, tostring(put.is_duplicate))
      elseif stored.put and put.back < stored.put.call then
        self:wrong("put %s of %s was a duplicate of %s, which came later", put.value, put.process, stored.value)
      end
    end
  end
end

-- A put that was called after another one had returned has a greater number.
local function check_order(self)
  local latest
  for _, stored in ipairs(self.log) do
    local put = stored.put
    if put then
      if latest and put.back and put.back < latest.call then
        self:wrong("put %s has the number %d, and ended before put %s began, which has a smaller one", put.value,
          stored.sequence, latest.value)
      end
      if not latest or put.call > latest.call then latest = put end
    end
  end
end

-- What each reader has read, from the beginning: { sequence, value, call } in their order.
local function check_readers(self)
  for name, read in pairs(self.readers) do
    for i, message in ipairs(read) do
      local stored = self.log[i]
      if not stored or stored.sequence ~= message.sequence or stored.value ~= message.value then
        self:wrong("%s has read message %d (%s) in place of %s", name, message.sequence, message.value,
          stored and ("%d (%s)"):format(stored.sequence, stored.value) or "none")
        break
      end
      if stored.put and message.call < stored.put.call then
        self:wrong("%s has read %s before it was put", name, message.value)
      end
    end
  end
end

---Returns what is wrong: an empty list if nothing is.
---@param puts history.Operation[] with id, value (unique), sequence and is_duplicate
---@param log history.Stored[] all messages, by their numbers
---@param readers table<string, { sequence: integer, value: any, call: number }[]> what each source has read
---@return string[] problems
return function(puts, log, readers)
  local self = setmetatable({ puts = puts, log = log, readers = readers, problems = {}, by_value = {} }, Check)
  for _, stored in ipairs(log) do self.by_value[stored.value] = stored end
  find_puts(self)
  check_puts(self, check_messages(self))
  check_order(self)
  check_readers(self)
  return self.problems
end
