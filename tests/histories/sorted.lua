---Sorts what processes have recorded by the objects that it is about, and checks each of them.

local linearizable = require "spec.support.history.linearizable"
local models = require "spec.support.history.models"
local recorder = require "spec.support.history.recorder"
local stream = require "spec.support.history.stream"
local watch = require "spec.support.history.watch"

---@class history.Sorted
---@field keys table<string, history.Operation[]> of the bucket
---@field messages table<string, history.Operation[]> of the work queue, by their ids
---@field results table<string, history.Operation[]> of once, by their keys
---@field puts history.Operation[] into the stream "log"
---@field readers table<string, table[]> of that stream
---@field watchers table<string, history.Change[]> of the bucket "watched"
---@field count integer
local Sorted = {}
Sorted.__index = Sorted

local function add(lists, name, operation)
  lists[name] = lists[name] or {}
  table.insert(lists[name], operation)
end

-- A call of once that has called the function has the value that this returned.
local function add_result(self, operation, by_number)
  if operation.what == "begin" then by_number[operation.of].computed = operation.computed end
  add(self.results, operation.key, operation)
end

local function add_one(self, operation, by_number)
  local what = operation.what
  by_number[operation.number] = operation
  if what == "call" or what == "begin" then
    add_result(self, operation, by_number)
  elseif what == "read" then
    add(self.readers, operation.process, operation)
  elseif what == "watch" then
    add(self.watchers, operation.process, operation)
    self.watchers[operation.process].is_all = operation.is_all
  elseif what == "put to log" then
    table.insert(self.puts, operation)
  elseif operation.key then
    add(self.keys, operation.key, operation)
  else
    add(self.messages, operation.id, operation)
  end
end

---@param paths string[] the logs of all processes
---@return history.Sorted
local function read(paths)
  local self = setmetatable({ keys = {}, messages = {}, results = {}, puts = {}, readers = {}, watchers = {},
    count = 0 }, Sorted)
  for _, path in ipairs(paths) do
    local by_number = {}
    for _, operation in ipairs(recorder.read(path)) do
      self.count = self.count + 1
      add_one(self, operation, by_number)
    end
  end
  return self
end

-- A process that was killed before its acknowledgement was stored has left the message, and perhaps acknowledged it.
local function with_ends(operations)
  local acks, all = {}, {}
  for _, operation in ipairs(operations) do
    if operation.what == "ack" then acks[operation.process] = operation end
    if operation.what ~= "ack" or operation.back then all[#all + 1] = operation end
  end
  for _, operation in ipairs(operations) do
    local ack = acks[operation.process]
    if operation.what == "take" and not (ack and ack.back) then
      all[#all + 1] = { process = operation.process, what = "left", call = operation.call, was_acked = ack ~= nil }
    end
  end
  return all
end

local function check_all(lists, what, model_of, problems)
  for name, operations in pairs(lists) do
    local ok, why = linearizable(operations, model_of(operations))
    if not ok then problems[#problems + 1] = ("%s %s: %s"):format(what, name, why) end
  end
end

-- Over NATS a write without a condition that was tried again may happen twice (docs/manual/streams.md).
local function with_repeats(operations)
  local all = table.move(operations, 1, #operations, 1, {})
  for _, operation in ipairs(operations) do
    local has_condition = operation.revision or operation.what ~= "put" and operation.what ~= "delete"
    if not has_condition and (not operation.back or (operation.tries or 1) > 1) then
      all[#all + 1] = { process = operation.process, what = operation.what, value = operation.value,
        call = operation.call }
    end
  end
  return all
end

-- Whether the server has given a number of the work queue to two messages: it has forgotten the numbers.
local function has_number_twice(self)
  local ids = {}
  for id, operations in pairs(self.messages) do
    for _, operation in ipairs(operations) do
      local sequence = operation.what == "put" and operation.sequence
      if sequence and ids[sequence] and not operation.is_duplicate then return true end
      if sequence then ids[sequence] = id end
    end
  end
  return false
end

-- Over NATS a message may come again after its acknowledgement (docs/machines.md): each that was put has been done.
local function check_done(self, problems)
  for id, operations in pairs(self.messages) do
    local is_put, is_done = false, false
    for _, operation in ipairs(operations) do
      is_put = is_put or operation.what == "put" and operation.back ~= nil
      is_done = is_done or operation.what == "ack"
    end
    if is_put and not is_done then problems[#problems + 1] = ("message %s was put, and not done"):format(id) end
  end
end

-- How many values the bucket "watched" has of a key; worker.lua makes it.
local WATCHED <const> = 20

-- The puts into the bucket "watched", whose keys begin with w.
local function watched_puts(self)
  local puts = {}
  for key, operations in pairs(self.keys) do
    if key:find "^w" then table.move(operations, 1, #operations, #puts + 1, puts) end
  end
  return puts
end

---Returns what is wrong.
---@param log { sequence: integer, value: any }[] what the stream "log" has at the end
---@param at number the time of the end, when the work queue is empty
---@param is_strict boolean messages never come again after their acknowledgement, and writes never happen twice
---@param forgets boolean the server may forget the numbers of a work queue, and then lose messages
---@return string[] problems
---@return boolean forgot whether it did
function Sorted:check(log, at, is_strict, forgets)
  local ids, by_value = {}, {}
  for _, put in ipairs(self.puts) do by_value[put.value] = put.id end
  for i, message in ipairs(log) do
    ids[i] = { sequence = message.sequence, value = message.value, id = by_value[message.value] or "?" }
  end
  local problems = stream(self.puts, ids, self.readers)
  local of_watches = watch(watched_puts(self), self.watchers, WATCHED)
  table.move(of_watches, 1, #of_watches, #problems + 1, problems)
  local keys = {}
  for key, operations in pairs(self.keys) do keys[key] = is_strict and operations or with_repeats(operations) end
  check_all(keys, "the key", models.kv, problems)
  check_all(self.results, "the result", models.once, problems)
  if not is_strict then
    local forgot = forgets and has_number_twice(self)
    if not forgot then check_done(self, problems) end
    return problems, forgot
  end
  local messages = {}
  for id, operations in pairs(self.messages) do
    messages[id] = with_ends(operations)
    table.insert(messages[id], { process = "end", what = "gone", call = at, back = at })
  end
  check_all(messages, "the message", models.message, problems)
  return problems, false
end

return read
