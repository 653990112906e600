---The results that a function used last, in memory: LEAST of them at least, twice as many at most, but no large ones.
---When there are LEAST young ones, they become the old ones, and the old ones are forgotten. An old one that is used
---becomes young again.

local LEAST <const>, LONGEST <const> = 10000, 1 << 16

---@class runnel.store.Memory
---@field young table<any, runnel.store.Entry>
---@field old table<any, runnel.store.Entry>
---@field count integer of the young ones
local Memory = {}
Memory.__index = Memory

---Keeps an entry, unless it is large.
---@param key any
---@param entry runnel.store.Entry
function Memory:add(key, entry)
  local data = entry.data
  if type(data) == "string" and #data > LONGEST then return end
  if self.count == LEAST then self.young, self.old, self.count = {}, self.young, 0 end
  if not self.young[key] then self.count = self.count + 1 end
  self.young[key] = entry
end

---@param key any
---@return runnel.store.Entry?
function Memory:find(key)
  local entry = self.young[key]
  if entry then return entry end
  entry = self.old[key]
  if entry then self:add(key, entry) end
  return entry
end

---@param key any
function Memory:remove(key)
  if self.young[key] then self.count = self.count - 1 end
  self.young[key], self.old[key] = nil, nil
end

---Forgets all.
function Memory:clear() self.young, self.old, self.count = {}, {}, 0 end

---@return runnel.store.Memory
local function new() return setmetatable({ young = {}, old = {}, count = 0 }, Memory) end

return new
