---The connections and stores of this Lua state, for the monitor's tab of queues and for :queues at the prompt.

local owners = {}

-- Those that are open, or were: the newest has the highest number.
local numbers, count = setmetatable({}, { __mode = "k" }), 0

---Adds a connection or a store.
---@param owner { has_ended?: boolean }
function owners.add(owner)
  count = count + 1
  numbers[owner] = count
end

---The newest one that is open; nil if there is none.
---@return any
function owners.latest()
  local latest
  for owner, number in pairs(numbers) do
    if not owner.has_ended and number > (numbers[latest] or 0) then latest = owner end
  end
  return latest
end

return owners
