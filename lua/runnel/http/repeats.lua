---The options `tries` and `backoff` of requests: what may succeed later is sent again, when the server says.

local os = os
local backoff = require "runnel.internal.backoff"
local conditions = require "runnel.http.conditions"
local core = require "runnel.core"

local repeats = {}

-- The longest wait that a server may ask for, in ms.
local LONGEST <const> = 60000

---The statuses after which a later request may succeed: too many requests; a proxy without its server; a server without
---room.
---@type table<integer, true>
repeats.LATER = { [429] = true, [502] = true, [503] = true, [504] = true }

---What the header Retry-After asks for, in ms: seconds, or a date; nil if it says nothing.
---@param response { headers: table<string, string> }
---@return number?
function repeats.asked(response)
  local text = response.headers["retry-after"] or ""
  if text:find "^%d+$" then return tonumber(text) * 1000 end
  local time = conditions.time(text)
  return time and math.max(0, time - os.time()) * 1000
end

---How long to wait before the next try, in ms; nil: the result is final.
---@param settings runnel.http.Settings with tries
---@param tried integer
---@param response? runnel.http.Response nil: there was none
---@return number?
function repeats.pause(settings, tried, response)
  if tried >= settings.tries then return nil end
  if response and not repeats.LATER[response.status] then return nil end
  local ms = response and repeats.asked(response)
  if not ms then return backoff.pause(settings.backoff, tried) end
  if ms > LONGEST then return nil end
  return math.max(ms, backoff.pause(settings.backoff, tried)) -- clients that wait for one time do not all come at once
end

---Makes a request, and again while it fails and there are tries.
---@param perform fun(what: string, url: string, settings: runnel.http.Settings): any, any
---@param what string
---@param url string
---@param settings runnel.http.Settings
---@return runnel.http.Response?
---@return any err
function repeats.perform(perform, what, url, settings)
  local tried = 0
  while true do
    local response, err = perform(what, url, settings)
    tried = tried + 1
    local ms = repeats.pause(settings, tried, response)
    if not ms then return response, err end
    core.sleep(ms)
  end
end

return repeats
