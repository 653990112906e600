---The addresses of hosts: by the core's threads (csrc/port/resolver.h), because luv has few, which also read files, and
---a server of names that is silent holds each for many seconds; else by luv.

local core = require "runnel.core"
local current = require "runnel.internal.world"
local loop = require "runnel.uv.loop"

local uv, internal = loop.uv, core.internal
local alts_index = internal.alts_index
local PRIORITY = { priority = true }

-- luv translates names that are not ASCII, and rejects empty and longer ones.
local LONGEST = 253

local names = {}

-- Lets luv look it up, and puts the result on the channel: a list of addresses, or the error's name.
local function ask_luv(answers, host)
  local req, problem, name = uv.getaddrinfo(host, nil, { socktype = "stream" }, function(err, found)
    local list = {}
    for i, entry in ipairs(found or {}) do list[i] = entry.addr end
    answers:offer(err or list)
  end)
  if not req then answers:offer(name or problem) end
end

-- Reads the core's result.
local function read(text)
  local name, more = text:match "^(EAI_%u+) (.*)$"
  if name then return name == "EAI_SYSTEM" and name .. ": " .. more or name end
  local list = {}
  for address in text:gmatch "[^\n]+" do list[#list + 1] = address end
  return list
end

---Looks up the addresses of a host, by the system's resolver. Parks.
---@param host string
---@param late? runnel.Channel<any> gives up when it has a value or closes
---@return string[]? addresses at least one
---@return string? err `"ETIMEDOUT"` if it was given up
function names.look_up(host, late)
  -- Closed at the end, so that nothing waits for a result that nobody takes.
  local answers <close> = internal.trace.hide(core.chan(1))
  local is_own = not current.luv and internal.resolve and #host <= LONGEST and host:find "^[!-~]+$"
    and internal.resolve(answers, host)
  if not is_own then ask_luv(answers, host) end
  local result, i = alts_index({ answers, late }, PRIORITY)
  if i == 2 then return nil, "ETIMEDOUT" end
  if is_own then result = result and read(result) or "EAI_MEMORY" end
  if type(result) == "table" then return result end
  return nil, loop.message(result, host)
end

return names
