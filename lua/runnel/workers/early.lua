---The values that a pool of workers takes before those of its input: first those of `first`, then those of `grow`.

---@class runnel.internal.Early
---@field package values any[]
---@field package at integer the place of the next one
---@field package last integer the place of the last one
---@field package firsts integer how many of them are from `first`
local Early = {}
Early.__index = Early

local early = {}

---@return runnel.internal.Early
function early.new() return setmetatable({ values = {}, at = 1, last = 0, firsts = 0 }, Early) end

---How many there are.
---@return integer
function Early:count() return self.last - self.at + 1 end

---@return any value nil if there is none
function Early:take()
  local at = self.at
  if at > self.last then return nil end
  local value = self.values[at]
  self.values[at] = nil
  self.at, self.firsts = at + 1, math.max(self.firsts - 1, 0)
  return value
end

---Adds a value behind all others.
---@param value any
function Early:grow(value)
  self.last = self.last + 1
  self.values[self.last] = value
end

---Adds a value behind those of `first`, and before those of `grow`.
---@param value any
function Early:first(value)
  local at = self.at + self.firsts
  table.move(self.values, at, self.last, at + 1)
  self.values[at], self.firsts, self.last = value, self.firsts + 1, self.last + 1
end

---Adds a value before all others.
---@param value any
function Early:give_back(value)
  self.at, self.firsts = self.at - 1, self.firsts + 1
  self.values[self.at] = value
end

---Removes all.
---@return any[] values
function Early:drop()
  local values = table.move(self.values, self.at, self.last, 1, {})
  self.values, self.at, self.last, self.firsts = {}, 1, 0, 0
  return values
end

return early
