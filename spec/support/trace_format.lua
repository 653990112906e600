---Checks a file of trace events against the format: it is JSON, slices nest, arrows have two ends inside of slices,
---time does not go back.

local trace_format = {}

-- ---- JSON ----

local value

local function fail(text, at, what) error(("JSON: %s at byte %d: %s"):format(what, at, text:sub(at, at + 20)), 0) end

local function skip(text, at) return text:find("%S", at) or #text + 1 end

local ESCAPED = { n = "\n", t = "\t", r = "\r", b = "\b", f = "\f" }

local function string_at(text, at)
  local parts, from = {}, at + 1
  while true do
    local to = text:find('["\\%c]', from)
    if not to or text:find("^%c", to) then fail(text, at, "a string without an end") end
    parts[#parts + 1] = text:sub(from, to - 1)
    if text:sub(to, to) == '"' then return table.concat(parts), to + 1 end
    local code = text:match("^u(%x%x%x%x)", to + 1)
    local letter = text:sub(to + 1, to + 1)
    if not code and not letter:find '["\\/bfnrt]' then fail(text, to, "an unknown escape") end
    parts[#parts + 1] = code and utf8.char(tonumber(code, 16)) or ESCAPED[letter] or letter
    from = to + (code and 6 or 2)
  end
end

-- The members of an object or the items of an array; `read` reads one.
local function list_at(text, at, last, read)
  at = skip(text, at + 1)
  if text:sub(at, at) == last then return at + 1 end
  while true do
    at = skip(text, read(at))
    local mark = text:sub(at, at)
    if mark == last then return at + 1 end
    if mark ~= "," then fail(text, at, "no comma") end
    at = skip(text, at + 1)
  end
end

function value(text, at)
  at = skip(text, at)
  local first = text:sub(at, at)
  if first == '"' then return string_at(text, at) end
  if first == "{" then
    local object = {}
    return object, list_at(text, at, "}", function(from)
      local key, to = string_at(text, from)
      to = skip(text, to)
      if text:sub(to, to) ~= ":" then fail(text, to, "no colon") end
      object[key], to = value(text, to + 1)
      return to
    end)
  end
  if first == "[" then
    local array = {}
    return array, list_at(text, at, "]", function(from)
      local item, to = value(text, from)
      array[#array + 1] = item
      return to
    end)
  end
  local number = text:match("^%-?%d+%.?%d*", at)
  if number then return tonumber(number), at + #number end
  local word = text:match("^%a+", at)
  if word == "true" or word == "false" then return word == "true", at + #word end
  fail(text, at, "no value")
end

---@param text string
---@return any
function trace_format.decode(text)
  local decoded, at = value(text, 1)
  if skip(text, at) <= #text then fail(text, at, "something behind the end") end
  return decoded
end

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
