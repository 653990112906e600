---The connections and stores of this Lua state, for the monitor's tab of queues and for :queues at the prompt.

local owners = {}

---A connection to NATS, or a store.
---@class runnel.internal.queue.Owner
---@field url? string of a connection's server
---@field path? string of a store, for people
---@field file? string that of a store; nil if it is in memory
---@field has_ended? boolean
---@field queues fun(self): table[]?, any

-- Those that are open, or were: the newest has the highest number.
local numbers, count = setmetatable({}, { __mode = "k" }), 0

---Adds a connection or a store.
---@param owner runnel.internal.queue.Owner
function owners.add(owner)
  count = count + 1
  numbers[owner] = count
end

-- What tells which queues it has: two connections to one server have the same ones, two stores in memory do not.
local function place_of(owner) return owner.url or owner.file or owner end

---Those that are open, in the order in which they were added: of those with the same queues the newest.
---@return runnel.internal.queue.Owner[]
function owners.open()
  local newest, list = {}, {}
  for owner, number in pairs(numbers) do
    local place = place_of(owner)
    if not owner.has_ended and number > (numbers[newest[place]] or 0) then newest[place] = owner end
  end
  for _, owner in pairs(newest) do list[#list + 1] = owner end
  table.sort(list, function(a, b) return numbers[a] < numbers[b] end)
  return list
end

---The queues of one or more owners as lines, for people: each owner's below its name, if there are several. Waits.
---@param list runnel.internal.queue.Owner[]
---@param change? fun(queues: table[]): table[] what is to be shown of them
---@return string[]
function owners.lines(list, change)
  local lines, view = {}, require "runnel.queue.view"
  for i, owner in ipairs(list) do
    if i > 1 then lines[#lines + 1] = "" end
    if #list > 1 then lines[#lines + 1] = owner.url and "NATS at " .. owner.url or "the store " .. owner.path end
    local queues, err = owner:queues()
    if queues and change then queues = change(queues) end
    local more = queues and view.queues(queues, true) or { tostring(err) }
    table.move(more, 1, #more, #lines + 1, lines)
  end
  return lines
end

return owners
