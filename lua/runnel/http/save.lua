---Writes what comes over the network to a file, which has its name only when it is whole and on the disk.

local require, os = require, os
local core = require "runnel.core"
local guard = require "runnel.internal.guard"

local random = core.internal.seed -- seeded by a simulation, unlike math.random

local save = {}

-- The file while it is written. Unless it is kept, nothing of it stays.
local Partial = {}
Partial.__index = Partial

function Partial:__close()
  self.ch:close()
  guard.insist(self.written.take, self.written) -- it may only now be opened
  if self.is_kept == nil then os.remove(self.name) end
end

-- Writes all pieces; returns the number of bytes, or nil and the error.
local function write(self, read)
  for piece in read do
    if not self.ch:put(piece) then break end -- it cannot be written
  end
  self.ch:close()
  return self.written:take()
end

---Writes pieces to a file whose name ends with ".part", then gives it its name. Each call has a file of its own, since
---several may write to one path at once: then the last one that ends is there, whole.
---@param path string
---@param read fun(): string? the next piece; nil at the end; raises if the end does not come
---@return integer? bytes
---@return string? err why the file cannot be written; then there is none
function save.whole(path, read)
  local name = ("%s.%08x%08x.part"):format(path, random(), random())
  local partial <close> = save.open(name)
  local bytes, err = write(partial, read)
  if not bytes then return nil, err end
  local ok, why = os.rename(name, path)
  if not ok then return nil, ("%s: %s"):format(path, why) end
  partial.is_kept = true
  return bytes
end

---Begins to write a file.
---@param name string
---@param opts? { append?: boolean }
---@return { ch: runnel.Channel<string>, written: runnel.Channel<integer>, is_kept?: boolean } partial a `<close>`
---variable: it removes the file, unless `is_kept` is set
function save.open(name, opts)
  local ch = core.chan()
  local written = require("runnel.uv").write(name, ch, { sync = true, append = opts and opts.append })
  return setmetatable({ name = name, ch = ch, written = written }, Partial)
end

return save
