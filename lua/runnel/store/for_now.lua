---That the file of a store cannot be written for now is no failure of a program's function: the message or the job that
---the function has is handed back, and comes again.

local core = require "runnel.core"
local hand_back = require "runnel.queue.hand_back"
local problems = require "runnel.store.problems"

local for_now = {}

local function hand_back_if_passing(path, err)
  if err ~= nil and problems.is_for_now(err, path) then hand_back.hand_back((core.internal.error_text(err))) end
end

local ForNow = { __close = function(self, err) hand_back_if_passing(self.path, err) end }

local function returned(path, result, err, ...)
  if result == nil then hand_back_if_passing(path, err) end
  return result, err, ...
end

---The same function, but an error that says that the file cannot be written for now, raised or returned after nil,
---becomes that of `hand_back`.
---@param store runnel.store.Store
---@param f function
---@return function
function for_now.hands_back(store, f)
  local judge = setmetatable({ path = store.path }, ForNow)
  return function(...)
    local _ <close> = judge
    return returned(store.path, f(...))
  end
end

return for_now
