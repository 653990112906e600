---Models of what the keepers promise, for linearizable.lua: a key of a bucket, a message of a work queue, and a key of
---once. Each is a description in plain Lua, and shares no code with the library.
---
---An operation with `refused` has failed and must have done nothing. One with `failed` has failed because of its
---condition, which must have been false.

local models = {}

local NONE <const> = {}

-- ---- a key of a bucket ----

-- The state: the last revision, 0 if there was none, false if nobody has seen which one it is; the value, unless it was
-- deleted; a revision that is not after the last one; and how many of the writes with a known revision there were.
local kv = { first = { revision = 0, least = 0, writes = 0 } }

function kv.key(state) return ("%s %s %d %d"):format(state.revision, state.value, state.least, state.writes) end

local function written(state, operation)
  local revision = operation.new_revision
  if not revision then
    return { { revision = false, least = state.least, writes = state.writes, value = operation.value } }
  end
  if revision <= state.least or operation.rank ~= state.writes + 1 then return NONE end
  return { { revision = revision, least = revision, writes = operation.rank, value = operation.value } }
end

-- Whether the condition of a write holds.
local CONDITIONS <const> = {
  put = function() return true end,
  create = function(state) return state.value == nil end,
  update = function(state, operation) return state.revision == operation.revision end,
  delete = function(state, operation) return not operation.revision or state.revision == operation.revision end,
}

local function read(state, operation)
  if state.value ~= operation.value then return NONE end
  local revision = operation.value ~= nil and operation.seen_revision
  if not revision or revision == state.revision then return { state } end
  if state.revision or revision <= state.least then return NONE end
  return { { revision = revision, least = revision, writes = state.writes, value = state.value } }
end

function kv.step(state, operation)
  if operation.refused then return { state } end
  if operation.what == "get" then return read(state, operation) end
  local holds = CONDITIONS[operation.what](state, operation)
  if operation.failed then return holds and NONE or { state } end
  return holds and written(state, operation) or NONE
end

-- The revisions that gets have seen with each value, and that no write has returned; in their order.
local function seen_revisions(operations)
  local seen, known = {}, {}
  for _, operation in ipairs(operations) do
    if operation.new_revision then known[operation.new_revision] = true end
  end
  for _, operation in ipairs(operations) do
    local value, revision = operation.value, operation.seen_revision
    if operation.what == "get" and value ~= nil then
      seen[value] = seen[value] or {}
      if revision and not known[revision] then
        known[revision] = true
        table.insert(seen[value], revision)
      end
    end
  end
  for _, revisions in pairs(seen) do table.sort(revisions) end
  return seen
end

---A key of a bucket: get (value, seen_revision), put, create, update and delete (value, revision; new_revision). Makes
---the search short: gives a write whose revision is unknown one that a get has seen with its value, and each write its
---rank by that; and those of which nothing was seen are of one class.
---@param operations history.Operation[] of one key; values are written once
---@return history.Model
function models.kv(operations)
  local seen, ranked = seen_revisions(operations), {}
  for _, operation in ipairs(operations) do
    local value, has_happened = operation.value, not operation.failed and not operation.refused
    if operation.what ~= "get" and has_happened then
      if value ~= nil and not operation.new_revision and seen[value] then
        operation.new_revision = table.remove(seen[value], 1)
      end
      if operation.new_revision then
        ranked[#ranked + 1] = operation
      elseif not operation.back and seen[value] == nil then
        operation.class = ("%s %s"):format(operation.what, operation.revision)
        if value ~= nil then operation.value = "not seen" end
      end
    end
  end
  table.sort(ranked, function(a, b) return a.new_revision < b.new_revision end)
  for rank, operation in ipairs(ranked) do operation.rank = rank end
  return kv
end

-- ---- a message of a work queue ----

-- Put (is_duplicate), taken by a process, acknowledged by it, and then never taken again. `left`: its process was
-- killed after it has taken the message, and perhaps acknowledged it (`was_acked`). `gone`: the queue does not have it.
local message = { first = { is_stored = false, is_done = false } }

function message.key(state) return ("%s %s %s"):format(state.is_stored, state.holder, state.is_done) end

local STEPS <const> = {
  put = function(state, operation)
    if operation.is_duplicate ~= nil and operation.is_duplicate ~= state.is_stored then return NONE end
    return { state.is_stored and state or { is_stored = true, is_done = false } }
  end,
  take = function(state, operation)
    if not state.is_stored or state.holder or state.is_done then return NONE end
    return { { is_stored = true, holder = operation.process, is_done = false } }
  end,
  ack = function(state, operation)
    if state.holder ~= operation.process then return NONE end
    return { { is_stored = true, is_done = true } }
  end,
  left = function(state, operation)
    if state.holder ~= operation.process then return NONE end
    local free = { is_stored = true, is_done = false }
    return operation.was_acked and { free, { is_stored = true, is_done = true } } or { free }
  end,
  gone = function(state) return (state.is_done or not state.is_stored) and { state } or NONE end,
}

function message.step(state, operation)
  if operation.refused then return { state } end
  return STEPS[operation.what](state, operation)
end

---@return history.Model
function models.message() return message end

-- ---- a key of once ----

-- A call that finds no result calls the function: `begin`, a moment. Its own return ends that: with the result, which
-- is stored, or without one. Calls that do not call the function return what is stored.
local once = { first = {} }

function once.key(state) return ("%s %s"):format(state.value, state.runs) end

function once.step(state, operation)
  if operation.what == "begin" then
    if state.value ~= nil or state.runs then return NONE end
    return { { runs = operation.process } }
  end
  if operation.computed == nil then
    if operation.refused then return { state } end
    return operation.back and state.value ~= nil and state.value == operation.value and { state } or NONE
  end
  if state.runs ~= operation.process then return NONE end
  if operation.refused then return { once.first } end
  if operation.back then return operation.value == operation.computed and { { value = operation.value } } or NONE end
  return { once.first, { value = operation.computed } }
end

---Operations: `begin`, and `call` (value), which has the value as `computed`, too, if it has called the function.
---@return history.Model
function models.once() return once end

return models
