---The flight recorder: writes the ring of the core's trace as trace-event JSON, which Perfetto's viewer,
---chrome://tracing and speedscope open. Each go block has a track, which shows when it runs and what it is parked on.
---Arrows are messages.
---
---Events are pairs of B and E. (X events have a begin and a duration; rounded apart, they overlap.) The clock is read
---once per resume, so the events of one run are spread evenly over it: their order is exact, their times are not.

local core = require "runnel.core"
local recorder = core.internal.trace

---@class runnel.internal.recorder
local trace = {}

local RUN, PARK, SPAWN, END, IDLE, PUT, TAKE, CLOSE, CHAN, TIMER = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 -- core/trace_state.h
local DIRECT, FIFO, WAITED, RESULT, TIMEOUT = 1, 2, 4, 8, 16
local UNCOUNTED = 0x7FFFFFFF -- how many values are in a buffer
local OPERATION = { [0] = "take", "put", "alts", "sleep", "yield", "run the scheduler" } -- TraceWhat
local MAIN, DRIVER = 1, 2 -- labels
local DRIVER_TRACK = 0x7FFFFFFF

-- Sizes of the ring, in records.
local LEAST, DEFAULT, MOST = 256, 65536, 1 << 24

-- ---- JSON ----

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\" }

local function escape(byte) return ESCAPES[byte] or ("\\u%04x"):format(byte:byte()) end

-- A string as JSON. One that is not UTF-8 becomes Latin-1.
local function quote(text)
  local is_utf8 = utf8.len(text)
  return '"' .. text:gsub(is_utf8 and '[%c"\\\127]' or '[%c"\\\127-\255]', escape) .. '"'
end

-- ---- what is in the ring ----

-- A first look at the records: which messages are put and taken in them, which go blocks run, the names of all, and how
-- many values were put and taken before.
local function survey(first, last, kept)
  local found = { names = {}, taken = {}, runs = {}, buffered = {}, before = {}, ends = {} }
  local read, names = recorder.read, found.names
  local batch
  for n = first, last do
    local kind, time, go, ch, seq, how, label = read(n, kept)
    if not kind then return found end
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
      if kind == PUT and how & DIRECT == 0 and how & RESULT == 0 then found.buffered[ch] = true end
    end
    -- A batch is what has happened between two looks at the clock.
    if not batch or kind == RUN or kind == IDLE or time ~= batch.time then
      if batch then batch.till = time end
      batch = { time = time, count = 0 }
      found.ends[n] = batch
    end
    batch.count = batch.count + 1
  end
  return found
end

-- Totals of the channels that still exist: how many values were put and taken before the ring began, where the ring
-- does not tell.
local function complete(before)
  for _, ch in ipairs(recorder.chans()) do
    local ok, stats = pcall(ch.stats, ch)
    local known = ok and before[stats.id]
    if known then
      known[PUT] = known[PUT] or stats.put_total
      known[TAKE] = known[TAKE] or stats.take_total
    end
  end
end

-- ---- the events ----

---@class runnel.internal.recorder.Writer
---@field file file*
---@field found table
---@field tracks table<integer, string> track -> what its open slice shows
---@field puts table<integer, boolean> messages whose arrow has begun
---@field channels table<integer, string>
---@field lines integer
local Writer = {}
Writer.__index = Writer

function Writer:event(text)
  self.file:write(self.lines == 0 and "\n" or ",\n", text)
  self.lines = self.lines + 1
end

function Writer:slice(phase, track, ns, name)
  self:event(('{"ph":"%s","pid":1,"tid":%d,"ts":%.3f,"cat":"go","name":%s}'):format(phase, track, ns / 1000,
    quote(name)))
end

-- Begins a slice of a track, and ends the one before. The end has the name of the begin: speedscope compares them.
function Writer:switch(track, ns, name)
  local before = self.tracks[track]
  if before then self:slice("E", track, ns, before) end
  self.tracks[track] = name
  if name then self:slice("B", track, ns, name) end
end

function Writer:instant(track, ns, name)
  self:event(('{"ph":"i","s":"t","pid":1,"tid":%d,"ts":%.3f,"cat":"go","name":%s}'):format(track, ns / 1000,
    quote(name)))
end

-- One end of an arrow.
function Writer:arrow(phase, track, ns, id, name)
  self:event(('{"ph":"%s","pid":1,"tid":%d,"ts":%.3f,"cat":"%s","name":"%s","id":"%s"%s}'):format(phase, track,
    ns / 1000, name, name, id, phase == "f" and ',"bp":"e"' or ""))
end

function Writer:channel(id, is_result)
  if is_result then return ("result of %s #%d"):format(recorder.label(self.found.names[id] or 0), id) end
  local name = self.channels[id]
  if not name then return ("chan: #%d"):format(id) end
  return self.unnamed[id] and ("chan: #%d (%s)"):format(id, name) or "chan: " .. name
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
  self:event(('{"ph":"C","pid":1,"ts":%.3f,"name":%s,"args":{"values":%d}}'):format(ns / 1000,
    quote(self:channel(ch)), values))
end

-- A put or take: the end of an arrow, and the counter.
function Writer:move(kind, track, ch, seq, how, ns)
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

-- Which track shows a record.
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
  self:event(('{"ph":"M","pid":1,"tid":%d,"name":"thread_name","args":{"name":%s}}'):format(track, quote(name)))
end

-- Writes all events. `now` is when the last slices end. `kept`: of the copy for an error, which is older than the
-- channels are now.
function Writer:all(first, last, now, kept)
  local found = self.found
  if not kept then complete(found.before) end
  local program = type(arg) == "table" and type(arg[0]) == "string" and arg[0] or "runnel"
  self:event(('{"ph":"M","pid":1,"name":"process_name","args":{"name":%s}}'):format(quote(program)))
  self:name_track(0, recorder.label(MAIN))
  self:name_track(DRIVER_TRACK, recorder.label(DRIVER))
  for go, label in pairs(found.names) do self:name_track(go, ("%s #%d"):format(recorder.label(label), go)) end
  local origin, batch, begun, ns = nil, nil, 0, 0
  for n = first, last do
    if found.ends[n] then batch, begun = found.ends[n], n end
    local kind, time, go, ch, seq, how, label = recorder.read(n, kept)
    if not kind then break end
    origin = origin or time
    ns = time - origin + ((batch.till or now) - time) * (n - begun) // batch.count
    self:record(kind, ns, go, ch, seq, how, label)
  end
  ns = math.max(ns, now - (origin or now))
  for track, name in pairs(self.tracks) do self:slice("E", track, ns, name) end
end

-- Writes the ring, or with `kept` its copy for an error, to a file that is open. Returns how many records were written
-- and how many were overwritten.
local function write(file, kept)
  local first, next_one, dropped, now = recorder.ring(kept)
  local channels, unnamed = recorder.names()
  for id, is_unnamed in pairs(unnamed) do unnamed[id] = is_unnamed or nil end
  local last = next_one - 1
  local self = setmetatable({ file = file, found = survey(first, last, kept), tracks = {}, puts = {}, started = {},
    channels = channels, unnamed = unnamed, lines = 0 }, Writer)
  file:setvbuf("full", 1 << 16)
  file:write '{"traceEvents":['
  self:all(first, last, now, kept)
  file:write('\n],"displayTimeUnit":"ns","otherData":{"records":', next_one - first, ',"overwritten":', dropped, "}}\n")
  return next_one - first, dropped
end

-- ---- the file ----

---@class runnel.Trace what has been written
---@field file string its path
---@field records integer records in it
---@field overwritten integer older records that newer ones have replaced

local active -- { path, file, options, guard }: the recording, or nil

---Writes what the ring has now, or with `kept` its copy for an error; the recording goes on.
---@param path string
---@param kept? boolean
---@return runnel.Trace? written
---@return string? err
local function write_to(path, kept)
  local file, err = io.open(path, "w")
  if not file then return nil, err end
  local records, overwritten = write(file, kept)
  local ok
  ok, err = file:close()
  if not ok then return nil, path .. ": " .. tostring(err) end
  return { file = path, records = records, overwritten = overwritten }
end

---Ends the recording and writes its file, if there is a recording.
---@return runnel.Trace? written
---@return string? err
function trace.finish()
  if not active then return nil end
  local path = active.path
  active.guard.is_over = true
  active = nil
  local written, err = write_to(path)
  recorder.on_error(nil)
  recorder.release "r"
  return written, err
end

---The message about a recording that has ended: nil if it was written completely.
---@param written runnel.Trace?
---@param err string?
---@return string?
function trace.message(written, err)
  if err then return "the trace was not written: " .. err end
  if not written or written.overwritten == 0 then return nil end
  return ("%s has the last %d records; %d older ones were overwritten; a larger ring keeps more (rn.trace with "
    .. "records = N, or --trace-records=N)"):format(written.file, written.records, written.overwritten)
end

---Ends the recording when the program ends: at its last line, after an error, after Ctrl-C. Does not raise.
function trace.at_end()
  if not active then return end
  local ok, written, err = pcall(trace.finish)
  local message = ok and trace.message(written, err) or not ok and "the trace was not written: " .. tostring(written)
  if message then io.stderr:write("runnel: ", message, "\n") end
end

-- Where the trace up to the first unhandled error is written: out.error.json beside out.json.
local function error_path(path)
  local base, extension = path:match "^(.*[^/])(%.[^./]*)$"
  return base and base .. ".error" .. extension or path .. ".error"
end

-- Called when the first unhandled error is about to be reported. The file of the recording gets its end, so this goes
-- to a file of its own.
local function on_error(is_kept)
  local path = error_path(active.path)
  local ok, written, err = pcall(write_to, path, is_kept)
  recorder.on_error(nil)
  if ok and written then io.stderr:write("runnel: ", path, " has the trace up to this error:\n")
  else io.stderr:write("runnel: the trace up to this error was not written: ", tostring(err or written), "\n") end
end

-- __gc of the guard, which Lua calls when the state closes.
local function on_close(guard)
  if not guard.is_over then trace.at_end() end
end

local function check_records(options)
  for key in pairs(options) do
    if key ~= "records" then error(("trace: unknown option '%s'"):format(tostring(key)), 3) end
  end
  local records = options.records
  if records == nil then return DEFAULT end
  if not math.tointeger(records) or records < LEAST or records > MOST then
    error(("trace: records: an integer from %d to %d expected, got %s"):format(LEAST, MOST, tostring(records)), 3)
  end
  return math.tointeger(records)
end

---Starts to record what go blocks and channels do, in a ring of fixed size. `rn.trace(false)` ends the recording and
---writes it to the file as trace-event JSON; so does the end of the program, whatever its cause. When the first
---unhandled error is reported, what has led to it is written to a second file: out.error.json beside out.json.
---Perfetto's viewer (ui.perfetto.dev), chrome://tracing and speedscope show the files.
---@param file string|false the path of the file, which is created at once; false ends the recording
---@param options? { records?: integer } `records`: the size of the ring, from 256 to 16777216 (default: 65536)
---@return runnel.Trace? written what was written, or nil if nothing was being recorded
function trace.trace(file, options)
  if file == false then
    local written, err = trace.finish()
    if err then error("trace: " .. err, 2) end
    return written
  end
  if type(file) ~= "string" or file == "" then
    error("trace: the path of a file, or false, expected, got " .. (file == "" and '""' or type(file)), 2)
  end
  if options ~= nil and type(options) ~= "table" then
    error("trace: a table of options expected, got " .. type(options), 2)
  end
  local records = check_records(options or {})
  if active then error("trace: " .. active.path .. " is being recorded; end it first with rn.trace(false)", 2) end
  local handle, err = io.open(file, "w")
  if not handle then error("trace: cannot write " .. tostring(err), 2) end
  handle:close()
  recorder.hold("r", records)
  recorder.on_error(on_error)
  active = { path = file, guard = setmetatable({}, { __gc = on_close }) }
end

return trace
