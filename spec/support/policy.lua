---Buffer policies written in Lua.

local policy = {}

---A queue that is full with n values; `count_calls` returns how often each method was called.
---@param n integer
---@param overrides? table<string, function> methods that replace those of the queue
---@return table
function policy.queue(n, overrides)
  local self = { values = {}, calls = { full = 0, add = 0, remove = 0, count = 0, close = 0 } }
  local methods = {
    full = function(q) return #q.values >= n end,
    add = function(q, value) table.insert(q.values, value) end,
    remove = function(q) return table.remove(q.values, 1) end,
    count = function(q) return #q.values end,
    close = function() end,
  }
  for name, method in pairs(overrides or {}) do methods[name] = method end
  for name, method in pairs(methods) do
    self[name] = function(q, ...)
      q.calls[name] = q.calls[name] + 1
      return method(q, ...)
    end
  end
  return self
end

return policy
