---rn.file reads a file that is part of the program.

local io = io
local check = require "runnel.internal.check"

---@class runnel.file
local file = {}

-- Reads a file inside a program that `runnel build` has made; nil elsewhere.
local inside = package.preload["runnel.host.files"] and require "runnel.host.files"

---Reads a whole file that belongs to the program: in an executable that `runnel build` has made, one of those that its
---option `--file` has put inside, by the path that was given there; otherwise the file at that path.
---
---    local page = assert(rn.file "templates/index.html")
---@param path string
---@return string? bytes nil if there is no such file
---@return string? why
function file.file(path)
  check.path(path, "a path", "file")
  if inside then
    local bytes = inside((path:gsub("^%./", "")))
    if bytes then return bytes end
    return nil, ("%s: it is not in this program; build it with --file %s"):format(path, path)
  end
  local opened <close>, why = io.open(path, "rb")
  if not opened then return nil, why end
  local bytes, wrong = opened:read "a"
  return bytes, wrong and ("%s: %s"):format(path, wrong)
end

return file
