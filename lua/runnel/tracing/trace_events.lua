---Writes the records of states as trace-event JSON, which Perfetto's viewer, chrome://tracing and speedscope open. Each
---state is a process, and each go block a track that shows when it runs and what it is parked on. Arrows are messages.
---
---Events are pairs of B and E. (X events have a begin and a duration; rounded apart, they overlap.) The clock is read
---once per resume, so the events of one run are spread evenly over it: their order is exact, their times are not.

local decimal = require "runnel.internal.decimal"
local json = require "runnel.json"
local short = require "runnel.internal.short"

-- As in csrc/tracing/trace_state.h.
local RUN, PARK, SPAWN, END, IDLE, PUT, TAKE, CLOSE, CHAN, TIMER = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local DIRECT, FIFO, WAITED, RESULT, TIMEOUT, BETWEEN = 1, 2, 4, 8, 16, 32
local UNCOUNTED = 0x7FFFFFFF -- how many values are in a buffer
local OPERATION = { [0] = "take", "put", "alts", "sleep", "yield", "run the scheduler" } -- TraceWhat
local MAIN, DRIVER = 1, 2 -- labels
local DRIVER_TRACK = 0x7FFFFFFF

-- ---- what is in the records ----

local events = {}

---A name as JSON.
---@param text string
---@return string
function events.quote(text) return assert(json.encode(short.utf8(text))) end

local quote = events.quote

-- A time as an event has it.
local function microseconds(ns) return decimal.format("%.3f", ns / 1000) end

---Surveys a part: which messages its records put and take, which go blocks run, all names, and how many values were put
---and taken before the first record.
---@param part runnel.internal.trace_part
---@return table found
function events.survey(part)
  local found = { names = {}, taken = {}, runs = {}, buffered = {}, before = {}, ends = {} }
  local read, names = part.read, found.names
  local batch
  for n = part.first, part.last do
    local kind, time, go, ch, seq, how, label = read(n)
    if not kind then return found end
    found.began = found.began or time
    if go ~= 0 and label ~= 0 then names[go] = label end
    if kind == RUN and go ~= 0 then found.runs[go] = true end
    if kind == CHAN then found.before[ch] = { [PUT] = 0, [TAKE] = 0 } end
    if kind == PUT or kind == TAKE then
      if how & FIFO ~= 0 then
        if kind == TAKE then found.taken[ch << 32 | seq] = true end
        local before = found.before[ch] or {}
        found.before[ch] = before
        before[kind] = before[kind] or seq - 1
      end
      if kind == PUT and how & (DIRECT | RESULT | BETWEEN) == 0 then found.buffered[ch] = true end
    end
    -- A batch holds the records between two readings of the clock.
    if not batch or kind == RUN or kind == IDLE or time ~= batch.time then
      if batch then batch.till = time end
      batch = { time = time, count = 0 }
      found.ends[n] = batch
    end
    batch.count = batch.count + 1
  end
  -- The records of these channels do not tell how many values were put and taken before: count back from the totals.
  for id, total in pairs(part.totals) do
    local known = found.before[id]
    if known then
      known[PUT] = known[PUT] or total[1]
      known[TAKE] = known[TAKE] or total[2]
    end
  end
  return found
end

---Calls f(n, kind, ns, go, ch, seq, how, label) with each record. The times of those between two readings of the clock
---are spread evenly over that time.
---@param part runnel.internal.trace_part
---@param found table what events.survey has returned
---@param f function
function events.each(part, found, f)
  local batch, begun = nil, 0
  for n = part.first, part.last do
    if found.ends[n] then batch, begun = found.ends[n], n end
    local kind, time, go, ch, seq, how, label = part.read(n)
    if not kind then return end
    f(n, kind, time + ((batch.till or part.now) - time) * (n - begun) // batch.count, go, ch, seq, how, label)
  end
end

-- ---- the events ----

---Writes the events of all parts to a file.
---@class runnel.tracing.trace_events.Output
---@field file file*
---@field lines integer written so far
---@field messages table<string, table> those on shared channels: where they were put and taken
local Output = {}
Output.__index = Output

function Output:event(text)
  self.file:write(self.lines == 0 and "\n" or ",\n", text)
  self.lines = self.lines + 1
end

-- One end of an arrow.
function Output:arrow(phase, process, track, ns, id, name)
  self:event(('{"ph":"%s","pid":%d,"tid":%d,"ts":%s,"cat":"%s","name":"%s","id":"%s"%s}'):format(phase, process,
    track, microseconds(ns), name, name, id, phase == "f" and ',"bp":"e"' or ""))
end

-- The arrows of messages on shared channels. The times of two threads within their runs are not exact, so a take may
-- seem to precede its put.
function Output:between()
  local arrows = {}
  for id, message in pairs(self.messages) do
    if message[PUT] and message[TAKE] then
      message.id = id
      arrows[#arrows + 1] = message
    end
  end
  table.sort(arrows, function(a, b)
    if a[PUT].ns ~= b[PUT].ns then return a[PUT].ns < b[PUT].ns end
    return a.id < b.id
  end)
  for _, message in ipairs(arrows) do
    local from, to = message[PUT], message[TAKE]
    self:arrow("s", from.process, from.track, from.ns, message.id, "message")
    self:arrow("f", to.process, to.track, math.max(from.ns, to.ns), message.id, "message")
  end
end

---Writes the events of one part.
---@class runnel.tracing.trace_events.Writer
---@field out runnel.tracing.trace_events.Output
---@field part runnel.internal.trace_part
---@field process integer the number of the part, from 1
---@field found table
---@field tracks table<integer, string> track -> what its open slice shows
---@field puts table<integer, boolean> messages whose arrow has begun
---@field started table<integer, boolean> go blocks whose arrow has begun
local Writer = {}
Writer.__index = Writer

-- An event of a track, with these further fields.
function Writer:event(phase, track, ns, name, more)
  self.out:event(('{"ph":"%s"%s,"pid":%d,"tid":%d,"ts":%s,"cat":"go","name":%s}'):format(phase, more or "",
    self.process, track, microseconds(ns), quote(name)))
end

-- One end of an arrow inside of the part.
function Writer:arrow(phase, track, ns, id, name)
  self.out:arrow(phase, self.process, track, ns, self.process .. "." .. id, name)
end

-- Begins a slice of a track and ends the previous one. Begin and end have the same name: speedscope compares them.
function Writer:switch(track, ns, name)
  local before = self.tracks[track]
  if before then self:event("E", track, ns, before) end
  self.tracks[track] = name
  if name then self:event("B", track, ns, name) end
end

function Writer:instant(track, ns, name) self:event("i", track, ns, name, ',"s":"t"') end

-- The name of a channel; `is_result`: of the go block with this id.
function Writer:channel(id, is_result)
  local part = self.part
  if is_result then return ("result of %s #%d"):format(part.label(self.found.names[id] or 0), id) end
  local name = part.channels[id]
  if not name then return ("chan: #%d"):format(id) end
  return part.unnamed[id] and ("chan: #%d (%s)"):format(id, name) or "chan: " .. name
end

-- The counter of a channel's values after a put or take.
function Writer:count(kind, ch, seq, how, ns)
  if not self.found.buffered[ch] or how & RESULT ~= 0 then return end
  local values = seq
  if how & FIFO == 0 then
    if values == UNCOUNTED then return end
  else
    local known = self.found.before[ch]
    known[kind] = seq
    if not known[PUT] or not known[TAKE] then return end
    values = math.max(known[PUT] - known[TAKE], 0)
  end
  self.out:event(('{"ph":"C","pid":%d,"ts":%s,"name":%s,"args":{"values":%d}}'):format(self.process, microseconds(ns),
    quote(self:channel(ch)), values))
end

-- A put or take on a shared channel, whose counterpart may be in another part.
function Writer:move_between(kind, track, ch, seq, ns)
  local shared = self.part.shared[ch]
  if not shared or seq == 0 then return end
  local id, messages = ("%x.%d"):format(shared, seq), self.out.messages
  local message = messages[id] or {}
  messages[id] = message
  message[kind] = { process = self.process, track = track, ns = ns }
end

-- A put or take: the end of an arrow, and the counter.
function Writer:move(kind, track, ch, seq, how, ns)
  if how & BETWEEN ~= 0 then return self:move_between(kind, track, ch, seq, ns) end
  local key = ch << 32 | seq
  if how & FIFO ~= 0 then
    local id = ("%d.%d"):format(ch, seq)
    if kind == PUT and self.found.taken[key] and not self.puts[key] then
      self.puts[key] = true
      self:arrow("s", track, ns, id, "message")
    elseif kind == TAKE and self.puts[key] then
      self.puts[key] = nil
      self:arrow("f", track, ns, id, "message")
    end
  end
  self:count(kind, ch, seq, how, ns)
end

-- The track that shows a record.
local function track_of(go, label) return go ~= 0 and go or label == DRIVER and DRIVER_TRACK or 0 end

local RUNNING = "running"

function Writer:record(kind, ns, go, ch, seq, how, label)
  local track = track_of(go, label)
  local found = self.found
  if kind == RUN then
    self:switch(track, ns, RUNNING)
    if self.started[go] then
      self.started[go] = nil
      self:arrow("f", track, ns, "go." .. go, "go")
    end
    return
  elseif kind == IDLE then
    return
  end
  local is_callback = track == DRIVER_TRACK and kind ~= TIMER
  if is_callback then
    self:switch(track, ns, "callback")
  elseif not self.tracks[track] then
    self:switch(track, ns, (how & WAITED ~= 0 or kind == TIMER) and "parked" or RUNNING)
  end
  if kind == PARK then
    local what = OPERATION[how] or "?"
    local on = ch ~= 0 and " on " .. self:channel(ch, found.names[ch]) or ""
    if seq > 1 then on = ("%s and %d more"):format(on, seq - 1) end
    self:switch(track, ns, what .. on)
  elseif kind == END then
    if how ~= 0 then self:instant(track, ns, "error") end
    self:switch(track, ns, nil)
  elseif kind == SPAWN then
    if found.runs[seq] then
      self.started[seq] = true
      self:arrow("s", track, ns, "go." .. seq, "go")
    end
  elseif kind == PUT or kind == TAKE then
    self:move(kind, track, ch, seq, how, ns)
  elseif kind == CLOSE and how & (RESULT | TIMEOUT) == 0 then
    self:instant(track, ns, "close " .. self:channel(ch))
  end
  if is_callback then self:switch(track, ns, nil) end
end

function Writer:name_track(track, name)
  self.out:event(('{"ph":"M","pid":%d,"tid":%d,"name":"thread_name","args":{"name":%s}}'):format(self.process, track,
    quote(name)))
end

-- Writes all events; times are from `origin` on.
function Writer:all(origin)
  local part, found = self.part, self.found
  self.out:event(('{"ph":"M","pid":%d,"name":"process_name","args":{"name":%s}}'):format(self.process,
    quote(part.name)))
  self:name_track(0, part.label(MAIN))
  self:name_track(DRIVER_TRACK, part.label(DRIVER))
  for go, label in pairs(found.names) do self:name_track(go, ("%s #%d"):format(part.label(label), go)) end
  local ns = 0
  events.each(part, found, function(_, kind, time, ...)
    ns = time - origin
    self:record(kind, ns, ...)
  end)
  ns = math.max(ns, part.now - origin)
  for track, name in pairs(self.tracks) do self:event("E", track, ns, name) end
end

---Writes the records of states to an open file. Returns how many records it wrote, and how many older ones were
---overwritten.
---@param file file*
---@param parts runnel.internal.trace_part[]
---@return integer records
---@return integer overwritten
function events.write(file, parts)
  local out = setmetatable({ file = file, lines = 0, messages = {} }, Output)
  local writers, origin, records, overwritten = {}, math.huge, 0, 0
  for i, part in ipairs(parts) do
    writers[i] = setmetatable({ out = out, part = part, process = i, found = events.survey(part), tracks = {},
      puts = {}, started = {} }, Writer)
    origin = math.min(origin, writers[i].found.began or part.now)
    records, overwritten = records + part.last - part.first + 1, overwritten + part.overwritten
  end
  file:setvbuf("full", 1 << 16)
  file:write '{"traceEvents":['
  for _, writer in ipairs(writers) do writer:all(origin) end
  out:between()
  file:write('\n],"displayTimeUnit":"ns","otherData":{"records":', records, ',"overwritten":', overwritten, "}}\n")
  return records, overwritten
end

return events
