---Reads the messages of a consumer for a worker or a named source: claims as many as there is room for, takes over
---those of processes that have ended, and sees pauses and questions for reports.

local consumers = require "runnel.store.consumer"
local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local looking = require "runnel.store.looking"
local messages = require "runnel.store.message"

local internal = core.internal
local now = core.now

local reader = {}

-- How long it waits until it looks for what other processes have done, and until it repeats a failed statement. In ms.
local LOOKS_AGAIN <const>, TRIES_AGAIN <const> = 100, 200

-- For this long after messages have come, it looks for further ones of other processes more often. In ms.
local ACTIVE <const>, LOOKS_SOON <const> = 1000, 10

---@class runnel.store.ReaderOptions
---@field consumer runnel.store.Consumer
---@field acks "explicit"|"taken"
---@field room fun(): integer how many messages may come now
---@field take fun(message: runnel.store.Message) must not park
---@field answered? fun(message: runnel.store.Message)
---@field silent? fun(why: string) no messages come for now
---@field over fun(reason: any, is_lost: boolean) nothing comes any more; `is_lost`: nothing can be answered either
---@field pause? fun(is_paused: boolean) the queue was paused or resumed
---@field report? fun(): table the state of the worker, for operators
---@field gone? fun(sequences: table<integer, boolean>) these messages were removed from the stream

---@class runnel.store.Reader: runnel.store.ReaderOptions
---@field private bell runnel.Channel<boolean> there may be something to do
---@field private looking runnel.store.Looking
---@field private id integer of the worker, for others
---@field private has_more boolean there may be messages to claim
---@field private next? integer the first message that was not delivered, when it last looked
---@field private looked number when it last looked for other processes
---@field private active number when messages came last
local Reader = {}
Reader.__index = Reader

-- Looks for messages of processes that have ended, unless it has just done so. Returns after how many ms it would.
local function look_around(self)
  local left = LOOKS_AGAIN - (now() - self.looked)
  if left > 0 then return left end
  self.looked = now()
  local consumer = self.consumer
  local ok, err = consumers.take_back(consumer.store, consumer.stream, consumer.name)
  if not ok then error(err, 0) end
  local gone = self.gone and consumer:gone() or {}
  if next(gone) then self.gone(gone) end
  return math.huge
end

-- Sees whether the queue was paused, and whether a report is asked for.
local function see(self, state)
  local is_paused = state.paused == 1
  if is_paused ~= self.is_paused then
    self.is_paused = is_paused
    if self.pause then self.pause(is_paused) end
  end
  if state.asked > self.asked then
    self.asked = state.asked
    if self.report then self.consumer:tell(self.id, self.report(), state.asked) end
  end
end

-- Claims messages. Returns how many came.
local function claim(self, room)
  local rows = self.consumer:claim(room)
  self.has_more = #rows == room
  if #rows > 0 then self.active = now() end
  for _, row in ipairs(rows) do self.take(messages.new(row, self)) end
  return #rows
end

local function deleted(consumer)
  return ("the consumer %q of the stream %q was deleted"):format(consumer.name, consumer.stream)
end

-- Does what there is to do. Returns after how many ms it looks again, and when something is due.
local function work(self)
  local around = look_around(self)
  local room, came = self.room(), nil
  if room > 0 and self.has_more then
    came = claim(self, room)
    if self.has_more then return LOOKS_AGAIN, around end -- the bell rings when there is room again
  end
  local state = self.consumer:state()
  if not state then error(deleted(self.consumer), 0) end
  see(self, state)
  local again = now() - self.active < ACTIVE and LOOKS_SOON or LOOKS_AGAIN
  local time = self.consumer.store:time()
  local left = state.due and state.due - time or math.huge
  self.has_more = state.has_new == 1 or left <= 0
  if self.is_paused then left = state.resumes and state.resumes - time or math.huge
  elseif room <= 0 then left = math.huge end -- the bell rings when there is room again
  local has_moved = came ~= 0 or state.next ~= self.next -- not if it only finds what waits for its time
  self.next = state.next
  if room > 0 and self.has_more and has_moved and not self.is_paused then return 0 end
  return again, math.max(1, math.min(left, around))
end

-- Works until it is closed. Repeats statements that fail, for example because another program has locked the file.
local function run(self)
  while not self.is_closed and not self.consumer.store.is_closed do
    local ok, ms, left = pcall(work, self)
    if not ok then
      if internal.is_cancelled(ms) or self.consumer.store.is_closed or tostring(ms):find "was deleted$" then
        error(ms, 0)
      end
      if self.silent then self.silent(tostring(ms)) end
      ms, left = TRIES_AGAIN, TRIES_AGAIN
    end
    if not self.is_closed and ms > 0 then self.looking:wait(ms, left) end
  end
  if not self.is_closed then error("the store is closed", 0) end
end

-- Called when the go block that works has died.
local function died(self, reason, block)
  internal.excuse(block, reason)
  self.is_closed = true
  self.over(reason, self.consumer.store.is_closed)
end

---There may be something to do: room, or messages.
function Reader:ring() self.bell:put(true) end

---Messages have come.
function Reader:hear()
  self.has_more = true
  self.bell:put(true)
end

---Delivers nothing more. Delivered messages stay with this process until they are answered.
function Reader:close()
  if self.is_closed then return end
  self.is_closed = true
  local consumer = self.consumer
  consumer.store:forget_reader(self)
  self.looking:close()
  if not consumer.store.is_closed then consumer:unregister(self.id) end
  self.bell:put(true)
end

---Begins to deliver messages. Parks.
---@param opts runnel.store.ReaderOptions
---@param what string the function that the program has called
---@return runnel.store.Reader? reader, string? err
function reader.open(opts, what)
  local consumer = opts.consumer
  local self = setmetatable(opts, Reader) --[[@as runnel.store.Reader]]
  self.bell, self.has_more, self.looked = core.chan(core.sliding_buffer(1)), true, -math.huge
  self.active, self.looking = -math.huge, looking.new(consumer.store, self.bell)
  self.is_paused, self.asked = consumer.paused, consumer.asked
  local id, err = consumer:register(opts.report ~= nil)
  if not id then return nil, err end
  self.id = id
  consumer.store:add_reader(consumer.stream, self)
  guard.started(guard.go(died, self, run, self), what)
  return self
end

return reader
