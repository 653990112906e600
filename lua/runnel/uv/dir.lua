---uv.list: what is in a directory.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local loop = require "runnel.uv.loop"

local put_while_open = core.internal.moving.put_while_open
local uv = loop.uv

---An entry of a directory.
---@class runnel.uv.Entry
---@field name string
---@field path string the directory's path, a slash and the name
---@field type "file"|"directory"|"link"|"fifo"|"socket"|"char"|"block"|"unknown" unknown where the file system does not
---say

-- What luv has found in a directory. Emptied at the end, since luv keeps the callback of fs_scandir for ever.
local Found = { __close = function(self) self.answers, self.names, self.kinds = nil, nil, nil end }

-- Reads a directory. Returns the names and their types, in the order of the names, as libuv sorts them; or nil and the
-- error. Parks.
local function scan(dir)
  local found <close> = setmetatable({ answers = core.chan(1), err = nil, names = nil, kinds = nil }, Found)
  local req, problem = uv.fs_scandir(dir, function(err, list)
    local names, kinds
    if list then names, kinds = loop.entries(list) end
    if not found.answers then return end -- the go block has been cancelled
    found.err, found.names, found.kinds = err, names, kinds
    found.answers:offer(true)
  end)
  if not req then return nil, loop.message(problem, dir) end
  found.answers:take()
  if found.err then return nil, loop.message(found.err, dir) end
  return found.names, found.kinds
end

-- The type of what is at a path. Parks.
local function type_of(path)
  local answers = core.chan(1)
  local req = uv.fs_lstat(path, function(_, stat) answers:offer(stat and stat.type or "unknown") end)
  return req and answers:take() or "unknown"
end

-- Puts the entries of a directory; with `deep` each directory is followed by its own. Returns whether to go on.
local function list_into(out, dir, deep, is_below)
  local names, kinds = scan(dir)
  if not names then
    local err = kinds --[[@as string]]
    if is_below and err:find "^ENOENT" then return true end -- it was removed meanwhile
    out:close(err)
    return false
  end
  local prefix = dir:sub(-1) == "/" and dir or dir .. "/"
  for i, name in ipairs(names) do
    local path, kind = prefix .. name, kinds[i]
    if deep and kind == "unknown" then kind = type_of(path) end
    if not put_while_open(out, { name = name, path = path, type = kind }) then return false end
    if deep and kind == "directory" and not list_into(out, path, deep, true) then return false end
  end
  return true
end

local function run(out, dir, deep)
  if list_into(out, dir, deep, false) then out:close() end
end

local OPTIONS = { deep = check.kinds.boolean }

---@class runnel.uv.dir
local directory = {}

---Lists a directory, in the order of the names, as a channel.
---@param dir string its path
---@param opts? { deep?: boolean } `deep`: also what is in the directories below; each is followed by its own entries.
---Links are not followed
---@return runnel.Channel<runnel.uv.Entry> entries closes with an error if a directory cannot be read
function directory.list(dir, opts)
  check.path(dir, "a path", "list: dir")
  check.options(opts, OPTIONS, "list")
  local deep = opts and opts.deep
  loop.check "list"
  local out = loop.chan(dir)
  guard.started(guard.go(guard.close, out, run, out, dir, deep), "uv.list")
  return out
end

return directory
