---Checks a file of trace events against the format: it is JSON, slices nest, arrows have two ends inside of slices,
---time does not go back.

local json = require "runnel.json"

local trace_format = {}

---@param text string
---@return any
function trace_format.decode(text) return assert(json.decode(text)) end

-- ---- trace events ----

local function demand(ok, event, what)
  if ok then return end
  error(("%s: %s of track %s at %s"):format(what, event.ph, tostring(event.tid), tostring(event.ts)), 0)
end

-- Checks the arrows between processes, which follow all other events, in the order of their beginnings. Their ends need
-- not be inside slices, since the times within a run are not exact.
local function check_between(events, named)
  local begin, last = nil, -1
  for _, event in ipairs(events) do
    demand(named[event.pid .. "/" .. event.tid], event, "a track without a name")
    if not begin then
      demand(event.ph == "s" and event.ts >= last, event, "arrows without an order")
      begin, last = event, event.ts
    else
      demand(event.ph == "f" and event.bp == "e" and event.id == begin.id and event.ts >= last, event,
        "an arrow that has no end, or goes back")
      demand(begin.name == event.name and begin.cat == event.cat, event, "an arrow changes its name")
      begin = nil
    end
  end
  if begin then error("arrow " .. begin.id .. " has no end", 0) end
end

---Raises an error for a fault in the events.
---@param events table[]
function trace_format.check(events)
  local times, open, arrows, named, between, ids = {}, {}, {}, {}, {}, {}
  for _, event in ipairs(events) do
    local phase, track, id = event.ph, event.tid and event.pid .. "/" .. event.tid, event.id
    demand(math.type(event.pid) == "integer", event, "no process")
    local is_between = id and not id:find("^" .. event.pid .. "%.")
    if phase == "s" then
      demand(not ids[id], event, "two arrows have the same id")
      ids[id] = true
    end
    if phase == "M" then
      demand(type(event.args.name) == "string", event, "no name")
      named[track or event.pid] = true
    elseif is_between then
      between[#between + 1] = event
      phase = "between"
    else
      demand(#between == 0, event, "an event behind the arrows between processes")
      demand(named[event.pid], event, "a process without a name")
      demand(type(event.ts) == "number" and event.ts >= (times[event.pid] or 0), event, "time goes back")
      times[event.pid] = event.ts
      demand(phase == "C" or named[track], event, "a track without a name")
    end
    if phase == "B" then
      demand(not open[track], event, "slices overlap")
      demand(type(event.name) == "string" and event.name ~= "", event, "no name")
      open[track] = event.name
    elseif phase == "E" then
      demand(open[track], event, "an end without a begin")
      demand(open[track] == event.name, event, "an end has not the name of its begin")
      open[track] = nil
    elseif phase == "s" then
      demand(open[track], event, "an arrow outside of slices")
      arrows[event.id] = event
    elseif phase == "f" then
      demand(open[track], event, "an arrow outside of slices")
      demand(arrows[event.id] and event.bp == "e", event, "an arrow has no begin")
      local begin = arrows[event.id]
      demand(begin.name == event.name and begin.cat == event.cat, event, "an arrow changes its name")
      arrows[event.id] = nil
    elseif phase == "C" then
      demand(math.type(event.args.values) == "integer" and event.args.values >= 0, event, "no count")
    else
      demand(phase == "i" and event.s == "t" or phase == "M" or phase == "between", event, "an unknown phase")
    end
  end
  check_between(between, named)
  for track in pairs(open) do error("a slice of track " .. track .. " has no end", 0) end
  local id = next(arrows)
  if id then error("arrow " .. id .. " has no end", 0) end
end

---Reads a file, checks it and returns its events and the whole.
---@param path string
---@return table[] events
---@return table all
function trace_format.read(path)
  local file = assert(io.open(path))
  local all = trace_format.decode(file:read "a")
  file:close()
  trace_format.check(all.traceEvents)
  return all.traceEvents, all
end

return trace_format
