---The methods with which a simulated world notes what happens, if a story is recorded.

local core = require "runnel.core"
local current = require "runnel.internal.world"

local note = core.internal.explore.note

---A line of a story.
---@class runnel.sim.Note
---@field what string
---@field from? runnel.sim.Host the host that does it, or sends it
---@field to? runnel.sim.Host the host to which it is sent
---@field arrives? number when it arrives there, ms
---@field more? string what else happens to it
---@field fault? string the fault that this is
---@field kind? "connect"|"reset"|"crash"|"start" nil: a message with data, or anything else that a host does

---@class runnel.sim.Story
local Story = {}

---Adds a line to the story, if one is recorded.
---@param told runnel.sim.Note
---@return runnel.sim.Note? told nil: no story is recorded
function Story:tell(told) -- luacheck: ignore 212
  local notes = current.notes
  if not notes then return nil end
  notes[#notes + 1] = told
  note(#notes)
  return told
end

---Adds what a host does.
---@param host runnel.sim.Host
---@param fault? string the fault that it is
---@param format string
---@param ... any
---@return runnel.sim.Note? told nil: no story is recorded
function Story:log(host, fault, format, ...)
  if not current.notes then return nil end
  return self:tell { from = host, fault = fault, what = format:format(...) }
end

---Adds what a host sends to another one.
---@param from runnel.sim.Host
---@param to runnel.sim.Host
---@param ms? number how long it takes; nil: it does not arrive
---@param fault? string the fault that happens to it
---@param format string
---@param ... any
---@return runnel.sim.Note? told nil: no story is recorded
function Story:log_message(from, to, ms, fault, format, ...)
  if not current.notes then return nil end
  return self:tell { from = from, to = to, arrives = ms and core.now() + ms, fault = fault, what = format:format(...) }
end

return Story
