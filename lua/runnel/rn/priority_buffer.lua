---priority_buffer: a buffer policy from which the least value leaves first. It is a binary heap.

local check = require "runnel.internal.check"
local class = require "runnel.internal.class"
local internal = require("runnel.core").internal

local PriorityBuffer = {}
PriorityBuffer.__name = "priority_buffer"

function PriorityBuffer:full() return self.n >= self.limit end

function PriorityBuffer:count() return self.n end

-- Whether entry a leaves before entry b. Equal values leave in the order in which they were added.
local function before(self, a, b)
  local less = self.less
  if less(a.value, b.value) then return true end
  if less(b.value, a.value) then return false end
  return a.seq < b.seq
end

-- Finds the new entry's place before it moves anything, so that the heap is unchanged if `less` raises.
function PriorityBuffer:add(value)
  local heap, entry = self.heap, { value = value, seq = self.seq }
  local path, place = {}, self.n + 1
  while place > 1 and before(self, entry, heap[place // 2]) do
    path[#path + 1] = place
    place = place // 2
  end
  for i = 1, #path do heap[path[i]] = heap[path[i] // 2] end
  heap[place] = entry
  self.n, self.seq = self.n + 1, self.seq + 1
end

function PriorityBuffer:remove()
  local heap, n = self.heap, self.n
  local first, last = heap[1], heap[n]
  local path, place = { 1 }, 1
  while 2 * place < n do
    local child = 2 * place
    if child + 1 < n and before(self, heap[child + 1], heap[child]) then child = child + 1 end
    if not before(self, heap[child], last) then break end
    path[#path + 1] = child
    place = child
  end
  for i = 1, #path - 1 do heap[path[i]] = heap[path[i + 1]] end
  heap[place] = last
  heap[n] = nil
  self.n = n - 1
  return first.value
end

-- Whether `<` may compare this value with any other. One with a protected metatable is tried.
local function has_order(value)
  local meta = getmetatable(value)
  return meta ~= nil and (type(meta) ~= "table" or meta.__lt ~= nil)
end

-- The default of `less`.
local function less_than(a, b)
  local kind = type(a)
  if (kind ~= type(b) or kind ~= "number" and kind ~= "string") and not (has_order(a) or has_order(b)) then
    local _, origin = internal.origin "priority_buffer" -- the line that called put, take, rn.pipe, ...
    error(("%spriority_buffer: `<` cannot compare %s with %s; give it a function that can: "
      .. "rn.priority_buffer(n, less)"):format(origin and origin:match " at (.*)$" .. ": " or "",
      check.article(a), check.article(b)), 0)
  end
  return a < b
end

---Makes a buffer from which the least value leaves first. Equal values leave in the order in which they were added.
---@param n integer how many values it holds before puts must wait
---@param less? fun(a: any, b: any): boolean whether a leaves before b; default `<`
---@return runnel.Policy buffer for rn.chan; each channel needs its own
local function priority_buffer(n, less)
  check.integer(n, 1, "priority_buffer: size")
  check.callable_or_nil(less, "priority_buffer: less")
  return setmetatable({ limit = n, less = less or less_than, heap = {}, n = 0, seq = 0 }, PriorityBuffer)
end

class.finish(PriorityBuffer)

return { priority_buffer = priority_buffer }
