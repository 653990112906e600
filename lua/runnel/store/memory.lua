---The results of a function that were used last, in memory: between LEAST and twice LEAST of them, without large ones.
---When there are LEAST young results, they become old, and the previous old ones are forgotten. An old result that is
---used becomes young again.

local LEAST <const>, LONGEST <const> = 10000, 1 << 16

---@class runnel.store.Memory
---@field young table<any, runnel.store.Entry>
---@field old table<any, runnel.store.Entry>
---@field count integer how many are young
---@field forgets integer how often results were forgotten for good
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
local function new() return setmetatable({ young = {}, old = {}, count = 0, forgets = 0 }, Memory) end

return new
