---Says on stderr that a function has blocked the thread, so that no other go block ran; once for each line of the
---program. csrc/lua/state/blocking.c calls it.

local debug, io = debug, io
local core = require "runnel.core"
local entries = require "runnel.internal.entries"
local living = require "runnel.internal.living"

local PROCESS <const> = 'uv.run { "sh", "-c", command } waits without that'
local SOCKET <const> = "uv.connect, or http.get, waits without that"

-- What waits instead.
local INSTEAD = {
  ["os.execute"] = PROCESS, ["io.popen"] = PROCESS, ["file:read"] = PROCESS, ["file:lines"] = PROCESS,
  ["file:close"] = PROCESS, ["io.read"] = "uv.lines(0) gives the lines without that",
  ["io.lines"] = "uv.lines(0) gives the lines without that", ["socket.sleep"] = "rn.sleep waits without that",
}

local ENDED <const> = "has blocked the thread for %d ms: no other go block ran"
local RUNS <const> = "has blocked the thread for 1 s and goes on: no other go block runs"

-- How the sources of the library begin.
local LIBRARY <const> = debug.getinfo(1, "S").source:gsub("internal/errors/blocked%.lua$", "")

-- LuaSocket's own sources in Lua.
local SOURCES <const> = "[/\\]socket[/\\]?%a*%.lua$"

local told = {}

-- The program's line that runs.
local function line()
  for level = 3, 200 do
    local info = debug.getinfo(level, "Sl")
    if not info then break end
    local source = info.source
    if info.currentline > 0 and source:sub(1, #LIBRARY) ~= LIBRARY and not source:find(SOURCES) then
      return ("%s:%d"):format(info.short_src, info.currentline)
    end
  end
  return "an unknown line"
end

-- What else is not possible.
local function of_servers()
  local _, one = next(living.servers or {})
  if not one then return "" end
  return ("; a request to this program's own server (%s) cannot be answered meanwhile"):format(one.url)
end

local function text(where, name, happened)
  local instead = INSTEAD[name] or SOCKET
  local module = instead:match "^(%a+)"
  return ("runnel: %s: %s %s. %s (runnel%s)%s\n"):format(where, name, happened, instead,
    module == "rn" and "" or "." .. module, of_servers())
end

-- Where the first go block of a thread waits if its function is one of the library, which only starts the jobs of a
-- pool (runnel.threads.thread_main).
local NOWHERE <const> = "thread:1"

-- Whether this is a thread that the program has started, in which no other of its go blocks waits for a turn. Such a
-- thread is there to be blocked.
local function is_alone()
  if not core.internal.thread_name then return false end
  for _, entry in ipairs(core.internal.waits()) do
    if entry.state ~= "running" and entry.where ~= NOWHERE and entries.is_of_program(entry) then return false end
  end
  return true
end

---@class runnel.internal.errors.blocked
local blocked = {}

---What to say of a call that begins, if it takes a second.
---@param name string of the function, as in "os.execute"
---@return string? text nil if that was told before, or need not be
function blocked.text(name)
  local where = line()
  return not told[where] and not is_alone() and text(where, name, RUNS) or nil
end

---A call has returned.
---@param name string
---@param ms integer how long it took
---@param is_told boolean it was told meanwhile
function blocked.ended(name, ms, is_told)
  local where = line()
  if told[where] or is_alone() then return end
  told[where] = true
  if not is_told then io.stderr:write(text(where, name, ENDED:format(ms))) end
end

return blocked
