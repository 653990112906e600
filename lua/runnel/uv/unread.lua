---What a reader has got of a stream and has not handed out. It belongs to the stream, and the next reader gets it.
---
---A reader is a channel of lines, pieces or chunks, and a go block that cuts chunks into such items and puts them. The
---channel counts the items that were taken from it. So the chunks are kept until all that ended in them was taken, and
---what is behind the items that were taken is found by cutting once more.

local concat, sub = table.concat, string.sub

-- After how many bytes or chunks it looks for chunks that it need not keep.
local MANY_BYTES, MANY_CHUNKS = 16 * 1024, 16

---A place between two items, or in one.
---@class runnel.uv.Unread.Mark
---@field chunk integer the number of the chunk that ends there
---@field items integer how many items end up to there
---@field tail integer how many bytes after the last of those

---@class runnel.uv.Unread
---@field out runnel.Channel<string> the reader's channel
---@field after? fun(text: string, from: integer): integer where the item ends that begins at a position; nil: each
---chunk is an item
---@field first integer the number of the first chunk that is kept; an item begins there
---@field last integer the number of the last chunk
---@field cut integer the number of the last chunk that was cut completely
---@field items integer how many items end before the first chunk
---@field marks runnel.uv.Unread.Mark[] in order
---@field bytes integer how many bytes were cut since marks were looked at last
---@field chunks integer how many chunks
---@field held string bytes of a character whose rest has not come, which are in no chunk
---@field over boolean the reader's go block has closed the channel, not the program
local Unread = {}
Unread.__index = Unread

local unread = {}

---@param out runnel.Channel<string>
---@param after? fun(text: string, from: integer): integer
---@return runnel.uv.Unread
function unread.new(out, after)
  return setmetatable({
    out = out, after = after, first = 1, last = 0, cut = 0, items = 0, marks = {}, bytes = 0, chunks = 0, held = "",
    over = false,
  }, Unread)
end

---The reader has got a chunk. Call it before anything of the chunk is put.
---@param chunk string
function Unread:add(chunk)
  self.last = self.last + 1
  self[self.last] = chunk
end

-- All items up to this mark were taken: keeps only what is behind them.
local function forget(self, mark)
  local keep, tail = mark.chunk + 1, mark.tail
  while tail > 0 do
    keep = keep - 1
    tail = tail - #self[keep]
  end
  for i = self.first, keep - 1 do self[i] = nil end
  if tail < 0 then self[keep] = sub(self[keep], 1 - tail) end
  self.first, self.items = keep, mark.items
end

local function add_mark(self, tail)
  local marks, stats = self.marks, self.out:stats()
  local mark = marks[#marks]
  if mark and mark.items == stats.put_total then
    mark.chunk, mark.tail = self.cut, tail
  else
    marks[#marks + 1] = { chunk = self.cut, items = stats.put_total, tail = tail }
  end
  while marks[1] and marks[1].items <= stats.take_total do forget(self, table.remove(marks, 1)) end
end

---The items that end in the next chunk have been put.
---@param tail integer how many bytes are left of an item that has not ended yet
function Unread:done(tail)
  self.cut = self.cut + 1
  self.bytes, self.chunks = self.bytes + #self[self.cut], self.chunks + 1
  if self.bytes < MANY_BYTES and self.chunks < MANY_CHUNKS then return end
  self.bytes, self.chunks = 0, 0
  add_mark(self, tail)
end

---What was not taken.
---@return string
function Unread:rest()
  local taken = self.out:stats().take_total - self.items
  if not self.after then return concat(self, "", self.first + taken, self.last) .. self.held end
  local text, from = concat(self, "", self.first, self.last), 1
  for _ = 1, taken do from = self.after(text, from) + 1 end
  return sub(text, from)
end

---Ends the reader: nothing more is taken from its channel. Returns what was not taken. Call it once.
---@param err? any the error with which the channel closes, if it is open
---@return string
function Unread:back(err)
  local text, out = self:rest(), self.out
  self.first, self.last, self.marks = 1, 0, {}
  out:close(err)
  while out:poll() ~= nil do end -- luacheck: ignore 542
  return text
end

return unread
