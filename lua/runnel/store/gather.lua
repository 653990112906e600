---Statements that answer many go blocks: what they ask at the same time is asked by one statement.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"

local internal = core.internal
local chan, take = core.chan, internal.moving.take

local gather = {}

-- How many questions a statement answers at most.
local MOST <const> = 128

---@class runnel.store.Gather
---@field private store runnel.store.Store
---@field private ask fun(questions: any[]): table<integer, any>?, any
---@field private batch? table the questions that no statement has been asked yet
local Gather = {}
Gather.__index = Gather

---@param store runnel.store.Store
---@param ask fun(questions: any[]): table<integer, any>?, any answers 1 to MOST questions by one statement: a table
---with the answers by their places; or nil and an error. Parks
---@return runnel.store.Gather
function gather.new(store, ask) return setmetatable({ store = store, ask = ask }, Gather) end

local function answer(batch)
  internal.trace.set_context(nil) -- it belongs to all
  local of = batch.of
  if of.batch == batch then of.batch = nil end -- what is asked from now on belongs to the next one
  batch.answers, batch.problem = of.ask(batch)
  batch.over:close()
end

-- Called when the go block has died.
local function died(batch, reason, block)
  internal.excuse(block, reason)
  if batch.of.batch == batch then batch.of.batch = nil end
  batch.problem = internal.error_text(reason)
  batch.over:close()
end

---The answer to a question; nil and an error, if the statement has failed. Parks.
---@param question any
---@return any answer, any err
function Gather:get(question)
  local batch = self.batch
  if not batch then
    batch = { of = self, over = chan() }
    if self.store.db.disk then batch.over:name "runnel.store" end -- so that stories do not tell of it
    self.batch = batch
    guard.started(guard.go(died, batch, answer, batch), "store") -- it runs after the go blocks that are ready now
  end
  local place = #batch + 1
  batch[place] = question
  if place == MOST then self.batch = nil end
  take(batch.over)
  if not batch.answers then return nil, batch.problem end
  return batch.answers[place]
end

---Answers a list of questions, of any length. Parks.
---@param questions any[]
---@return table<integer, any>? answers by their places
---@return any err
function Gather:all(questions)
  local answers = {}
  for first = 1, #questions, MOST do
    local some, problem = self.ask(table.move(questions, first, math.min(first + MOST, #questions + 1) - 1, 1, {}))
    if not some then return nil, problem end
    for place, one in pairs(some) do answers[first + place - 1] = one end
  end
  return answers
end

---A statement for some questions, and its values. Those for 1, 2, 4 up to MOST questions are kept, also by SQLite: if
---there are fewer questions, the last one is asked several times.
---@param kept table<integer, string> the texts for so many questions
---@param text string with $ROWS in place of the questions
---@param width integer how many values a question has
---@param questions any[]
---@param add fun(all: any[], at: integer, question: any) puts its values behind all[at]; the place comes before them
---@return string sql, any ... values
function gather.statement(kept, text, width, questions, add)
  local n, all = 1, {}
  while n < #questions do n = 2 * n end
  for i = 1, n do
    local place, at = math.min(i, #questions), (i - 1) * (width + 1) + 1
    all[at] = place
    add(all, at, questions[place])
  end
  if not kept[n] then
    local row = "(?" .. (", ?"):rep(width) .. ")"
    kept[n] = text:gsub("%$ROWS", row .. (", " .. row):rep(n - 1))
  end
  return kept[n], table.unpack(all)
end

return gather
