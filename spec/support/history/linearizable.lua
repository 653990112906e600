---Whether a history is linearizable: whether its operations can be put into an order that a model allows, in which each
---operation comes after those that had returned before its call. Wing and Gong's search, with Lowe's memory: a set of
---operations and the state after them is visited once. A set that has used up more operations of unknown outcome, and
---is otherwise the same, is not visited, since it can do nothing more.
---
---    local ok, why = linearizable(operations, model)
---
---An operation has a call and a return, in ms of one clock. Without a return nobody knows its outcome, since its
---process was killed, for example: it may happen at any time after its call, or never.

---@class history.Operation
---@field process string
---@field what string
---@field call number
---@field back? number when it returned; nil: its outcome is unknown
---@field class? string operations of unknown outcome and of one class do the same: only the first of them is tried
---@field [string] any arguments and results, which the model knows

---@class history.Model
---@field first any the state at the beginning
---@field step fun(state: any, operation: history.Operation): any[]? the states that the operation may lead to; nil or
---an empty list: it is not possible in this state. States are never changed
---@field key fun(state: any): string equal for equal states

-- How many states the search visits at most.
local MOST <const> = 2000000

-- ---- the history as a list of events ----

-- The calls and returns of the operations with a known outcome in the order of time, as a doubly linked list: `after`
-- and `before` by places, 0 is the head. At the same time calls come first: then the operations are concurrent.
local function events_of(known)
  local events = {}
  for i, operation in ipairs(known) do
    events[2 * i - 1] = { i = i, time = operation.call, is_call = true }
    events[2 * i] = { i = i, time = operation.back, is_call = false }
  end
  table.sort(events, function(a, b)
    if a.time ~= b.time then return a.time < b.time end
    if a.is_call ~= b.is_call then return a.is_call end
    return a.i < b.i
  end)
  local list = { events = events, after = {}, before = {}, calls = {}, backs = {} }
  for place, event in ipairs(events) do
    list.after[place - 1], list.before[place] = place, place - 1
    if event.is_call then list.calls[event.i] = place else list.backs[event.i] = place end
  end
  return list
end

local function remove(list, place)
  local before, after = list.before[place], list.after[place]
  list.after[before] = after
  if after then list.before[after] = before end
end

local function restore(list, place)
  local before, after = list.before[place], list.after[place]
  list.after[before] = place
  if after then list.before[after] = place end
end

-- ---- the search ----

---@class history.Search
local Search = {}
Search.__index = Search

-- What may come next: operations that were called before the first return that is left, with the states they lead to.
-- Those with a known outcome come first, since an operation that nobody has seen mostly explains nothing.
function Search:choices(state)
  local list, choices, limit = self.list, {}, math.huge
  local function add(number)
    for _, next_state in ipairs(self.model.step(state, self.operations[number]) or {}) do
      choices[#choices + 1] = { number = number, state = next_state }
    end
  end
  local place = list.after[0]
  while place do
    local event = list.events[place]
    if not event.is_call then
      limit = event.time
      break
    end
    add(event.i)
    place = list.after[place]
  end
  local tried = {}
  for number = self.known + 1, #self.operations do
    local operation = self.operations[number]
    local class = operation.class or number
    if not self.done[number] and operation.call <= limit and not tried[class] then
      tried[class] = true
      add(number)
    end
  end
  return choices
end

-- The sets of operations are words of bits: of those with a known outcome, and of the others.
local function flip(self, number)
  local words, at = self.words, number
  if number > self.known then words, at = self.unknown, number - self.known end
  local word = (at - 1) // 63 + 1
  words[word] = words[word] ~ 1 << (at - 1) % 63
  self.done[number] = not self.done[number] or nil
end

function Search:enter(number)
  flip(self, number)
  if number > self.known then return end
  self.left = self.left - 1
  remove(self.list, self.list.calls[number])
  remove(self.list, self.list.backs[number])
end

function Search:leave(number)
  flip(self, number)
  if number > self.known then return end
  self.left = self.left + 1
  restore(self.list, self.list.backs[number])
  restore(self.list, self.list.calls[number])
end

local function is_part(words, of)
  for i, word in ipairs(words) do
    if word & ~of[i] ~= 0 then return false end
  end
  return true
end

-- Whether this set of operations with this state is new.
function Search:is_new(state)
  local key = table.concat(self.words, " ") .. " " .. self.model.key(state)
  local sets = self.seen[key] or {}
  for _, set in ipairs(sets) do
    if is_part(set, self.unknown) then return false end
  end
  sets[#sets + 1] = table.move(self.unknown, 1, #self.unknown, 1, {})
  self.seen[key], self.visited = sets, self.visited + 1
  return true
end

-- ---- what to say ----

local HIDDEN <const> = { process = true, what = true, call = true, back = true, number = true, class = true,
  rank = true }

local function shown(operation)
  local names, parts = {}, {}
  for name in pairs(operation) do
    if not HIDDEN[name] then names[#names + 1] = name end
  end
  table.sort(names)
  for i, name in ipairs(names) do parts[i] = ("%s=%s"):format(name, tostring(operation[name])) end
  return ("  %.3f to %s  %s: %s %s"):format(operation.call,
    operation.back and ("%.3f"):format(operation.back) or "an unknown time", operation.process, operation.what,
    table.concat(parts, " "))
end

-- How many operations of the longest order are shown.
local LAST <const> = 12

-- Keeps the longest order that was found.
local function note(self, frames)
  if self.deepest and self.deepest.left <= self.left then return end
  local order = {}
  for i = math.max(2, #frames - LAST + 1), #frames do order[#order + 1] = self.operations[frames[i].number] end
  local stuck, place = {}, self.list.after[0]
  while place do
    local event = self.list.events[place]
    stuck[#stuck + 1] = self.operations[event.i]
    if not event.is_call then
      stuck[#stuck] = nil
      break
    end
    place = self.list.after[place]
  end
  self.deepest = { left = self.left, order = order, stuck = stuck, state = frames[#frames].state }
end

local function explanation(self)
  local deepest, lines = self.deepest, { "in no order of its operations is this history right. After" }
  for _, operation in ipairs(deepest.order) do lines[#lines + 1] = shown(operation) end
  lines[#lines + 1] = ("the state is [%s], and one of these must come next:"):format(self.model.key(deepest.state))
  for _, operation in ipairs(deepest.stuck) do lines[#lines + 1] = shown(operation) end
  return table.concat(lines, "\n")
end

---Whether the history is linearizable; else why not. Raises if that takes more than 2 million states.
---@param operations history.Operation[] in any order
---@param model history.Model
---@return boolean ok, string? why
return function(operations, model)
  local all, known = {}, 0
  for _, operation in ipairs(operations) do
    if operation.back then
      known = known + 1
      all[known] = operation
    end
  end
  for _, operation in ipairs(operations) do
    if not operation.back then all[#all + 1] = operation end
  end
  local self = setmetatable({
    operations = all, known = known, left = known, model = model, seen = {}, visited = 0, done = {},
    words = {}, unknown = {},
    list = events_of(table.move(all, 1, known, 1, {})),
  }, Search)
  for word = 1, known // 63 + 1 do self.words[word] = 0 end
  for word = 1, (#all - known) // 63 + 1 do self.unknown[word] = 0 end
  local frames = { { state = model.first, choices = self:choices(model.first), at = 0 } }
  note(self, frames)
  while self.left > 0 do
    local frame = frames[#frames]
    frame.at = frame.at + 1
    local choice = frame.choices[frame.at]
    if choice then
      self:enter(choice.number)
      if self:is_new(choice.state) then
        if self.visited > MOST then error(("not decided after %d states"):format(MOST), 0) end
        frames[#frames + 1] = { number = choice.number, state = choice.state, at = 0,
          choices = self.left > 0 and self:choices(choice.state) or {} }
        note(self, frames)
      else
        self:leave(choice.number)
      end
    else
      frames[#frames] = nil
      if #frames == 0 then return false, explanation(self) end
      self:leave(frame.number)
    end
  end
  return true
end
