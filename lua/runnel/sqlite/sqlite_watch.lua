---Says on stderr that a transaction waits for something other than its own statements, such as a request: all other
---statements of the program wait for it meanwhile, and what they belong to may exceed its time limits.

local coroutine, io = coroutine, io
local core = require "runnel.core"
local guard = require "runnel.internal.guard"

local internal = core.internal
local getinfo = debug.getinfo

-- How often a transaction is looked at, in ms. One that has no statement from one look to the next waits.
local LOOK <const> = 150

local WAITS <const> = "runnel: a transaction of %s waits for something other than its statements at %s, and all other "
  .. "statements wait for it: do that before the transaction, or after it\n"

-- How the sources of the library begin.
local LIBRARY <const> = getinfo(1, "S").source:gsub("sqlite/sqlite_watch%.lua$", "")

-- The program's line at which a coroutine is.
local function line_of(thread)
  for level = 0, 200 do
    local info = getinfo(thread, level, "Sl")
    if not info then break end
    if info.currentline > 0 and info.source:sub(1, #LIBRARY) ~= LIBRARY then
      return ("%s:%d"):format(info.short_src, info.currentline)
    end
  end
  return "an unknown line"
end

local function look(tx, thread)
  local seen
  repeat
    local before = seen
    core.sleep(LOOK)
    seen = tx.idle_since
  until seen and seen == before
  local line, told = line_of(thread), tx.db.told
  if told[line] then return end
  told[line] = true
  io.stderr:write(WAITS:format(tx.db.path, line))
end

local Watch = { __close = function(self)
  if self.block then core.cancel(self.block) end
end }

---Watches a transaction of the running code until the result, a to-be-closed variable, is closed. (In a simulation
---nothing waits for real.)
---@param tx { db: { path: string, disk?: any, told: table<string, true> }, idle_since?: number } `idle_since`: since
---when none of its statements has run; nil: one runs
---@return any watch
return function(tx)
  local block
  if not tx.db.disk and not internal.is_simulation() then
    block = internal.trace.hide(guard.go(guard.nothing, nil, look, tx, (coroutine.running())))
  end
  return setmetatable({ block = block }, Watch)
end
