---What is in a file of a simulated disk, in pages, so that a write and a sync copy what they touch and not the whole
---file: the write-ahead log of a database has megabytes.

local PAGE <const> = 4096 -- bytes

---@class runnel.sim.Contents
---@field size integer bytes
---@field pages table<integer, string> by number from 0; of PAGE bytes or fewer: zeros follow, up to the size
local Contents = {}
Contents.__index = Contents

---@return runnel.sim.Contents empty
local function new() return setmetatable({ size = 0, pages = {} }, Contents) end

-- n bytes of a page from a place in it.
local function part(page, from, n)
  local text = page and page:sub(from + 1, from + n) or ""
  return #text == n and text or text .. ("\0"):rep(n - #text)
end

---Up to n bytes from a position on; fewer at the end of the file.
---@param pos integer
---@param n integer
---@return string
function Contents:read(pos, n)
  local parts, last = {}, math.min(pos + n, self.size)
  while pos < last do
    local from = pos % PAGE
    local size = math.min(PAGE - from, last - pos)
    parts[#parts + 1], pos = part(self.pages[pos // PAGE], from, size), pos + size
  end
  return table.concat(parts)
end

---@return string
function Contents:text() return self:read(0, self.size) end

---Makes the file longer, by zeros, or shorter.
---@param size integer
function Contents:resize(size)
  if size < self.size then
    local last = size // PAGE
    for number = last + 1, (self.size - 1) // PAGE do self.pages[number] = nil end
    self.pages[last] = part(self.pages[last], 0, size % PAGE)
  end
  self.size = size
end

---@param pos integer where; the file grows if that is beyond its end
---@param data string
function Contents:write(pos, data)
  local at = 0
  while at < #data do
    local number, from = (pos + at) // PAGE, (pos + at) % PAGE
    local n = math.min(PAGE - from, #data - at)
    local page, new_part = self.pages[number] or "", data:sub(at + 1, at + n)
    self.pages[number] = n == PAGE and new_part or part(page, 0, from) .. new_part .. page:sub(from + n + 1)
    at = at + n
  end
  self.size = math.max(self.size, pos + #data)
end

---@return runnel.sim.Contents
function Contents:copy()
  local pages = {}
  for number, page in pairs(self.pages) do pages[number] = page end -- in any order: nothing depends on it
  return setmetatable({ size = self.size, pages = pages }, Contents)
end

---Takes over, from a file that has been written to since both were equal, but not made shorter, the pages in which
---there are n bytes from a position on, and the size.
---@param other runnel.sim.Contents
---@param pos integer
---@param n integer
function Contents:take(other, pos, n)
  for number = pos // PAGE, (pos + n - 1) // PAGE do self.pages[number] = other.pages[number] end
  self.size = other.size
end

---@param other runnel.sim.Contents
---@return boolean
function Contents:equals(other)
  if self.size ~= other.size then return false end
  for number = 0, (self.size - 1) // PAGE do
    local a, b = self.pages[number], other.pages[number]
    local n = math.min(PAGE, self.size - number * PAGE)
    if a ~= b and part(a, 0, n) ~= part(b, 0, n) then return false end
  end
  return true
end

return { new = new }
