---The flight recorder: records into the core's trace ring, and writes the ring to a file
---(runnel.tracing.trace_events). It also records the threads that the program starts meanwhile
---(runnel.threads.trace_threads).

local io, require = io, require
local core = require "runnel.core"
local check = require "runnel.internal.check"
local events = require "runnel.tracing.trace_events"
local parts = require "runnel.tracing.trace_parts"
local raise = core.internal.raise
local recorder = core.internal.trace

---@class runnel.tracing.trace_recorder
local trace = {}

-- Sizes of the ring, in records.
local LEAST, DEFAULT, MOST = 256, 65536, 1 << 24

-- ---- the file ----

---@class runnel.Trace what has been written
---@field file string its path
---@field records integer records in it
---@field overwritten integer older records that newer ones have replaced
---@field missing integer threads whose records are not in it

---A recording.
---@class runnel.internal.recording
---@field path? string of the file, as given; nil in a thread that is recorded for the file of another state
---@field at? string the same path from the root: the program may change its directory
---@field records integer the size of the ring
---@field guard table whose __gc ends the recording when the state closes
---@field threads? runnel.threads.trace_threads once there are any
---@field operations? runnel.internal.Operations for a file of spans

---@type runnel.internal.recording?
local active

-- The ending of files of spans.
local SPANS <const> = "%.otlp%.json$"

---Writes the records of states to the file, in the form that its ending names.
---@param path string as given
---@param at string from the root
---@param list runnel.internal.trace_part[]
---@param missing integer threads
---@param operations? runnel.internal.Operations for a file of spans
---@return runnel.Trace? written
---@return string? err
local function write_to(path, at, list, missing, operations)
  local file, err = io.open(at, "w")
  if not file then return nil, err end
  local records, overwritten
  if operations then records, overwritten = operations.otlp.write(file, list, operations.list)
  else records, overwritten = events.write(file, list) end
  local ok
  ok, err = file:close()
  if not ok then return nil, path .. ": " .. tostring(err) end
  return { file = path, records = records, overwritten = overwritten, missing = missing }
end

-- __gc of the guard, which Lua calls when the state closes.
local function on_close(guard)
  if not guard.is_over then trace.at_end() end
end

-- Finalizers run in reverse order of creation: the recording ends before objects that are older than its guard.
local function renew_guard()
  active.guard.is_over = true
  active.guard = setmetatable({}, { __gc = on_close })
end

---Ends the recording and writes its file, if there is a recording.
---@return runnel.Trace? written
---@return string? err
function trace.finish()
  if not active or not active.path then return nil end
  local path, at, threads, missing, list = active.path, active.at, active.threads, 0, {}
  local operations = active.operations
  active.guard.is_over = true
  active = nil
  if operations then operations.stop() end
  if threads then list, missing = require("runnel.threads.trace_threads").collect(threads) end
  table.insert(list, 1, parts.own())
  local written, err = write_to(path, at, list, missing, operations)
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
  if not written then return nil end
  local lines = {}
  if written.overwritten > 0 then
    lines[1] = ("%s has the last %d records; %d older ones were overwritten; a larger ring keeps more (rn.trace with "
      .. "records = N, or --trace-records=N)"):format(written.file, written.records, written.overwritten)
  end
  if written.missing > 0 then
    lines[#lines + 1] = ("%s has no records of %d %s, which did not send them within a second"):format(written.file,
      written.missing, written.missing == 1 and "thread" or "threads")
  end
  return #lines > 0 and table.concat(lines, "\nrunnel: ") or nil
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
  local base, extension = path:match "^(.*[^/])(%.otlp%.json)$"
  if not base then base, extension = path:match "^(.*[^/])(%.[^./]*)$" end
  return base and base .. ".error" .. extension or path .. ".error"
end

-- Called when the first unhandled error is about to be reported. Writes a file of its own: the recording's file is
-- written when the recording ends.
local function on_error(is_copied)
  local path, at = error_path(active.path), error_path(active.at)
  local ok, written, err = pcall(function()
    return write_to(path, at, { parts.own(is_copied) }, 0, active.operations)
  end)
  recorder.on_error(nil)
  if ok and written then io.stderr:write("runnel: ", path, " has the trace up to this error:\n")
  else io.stderr:write("runnel: the trace up to this error was not written: ", tostring(err or written), "\n") end
end

-- ---- threads ----

---What a new thread of this state needs to be recorded, or nil if nothing is recorded.
---@return runnel.threads.trace_threads?
function trace.for_thread()
  if not active then return nil end
  if not active.threads then
    active.threads = require("runnel.threads.trace_threads").new(active.records)
    renew_guard() -- the new guard must run before the finalizers of the thread's channels
  end
  return active.threads
end

---Called by a thread when it ends or the recording ends.
function trace.leave()
  if not active or active.path then return end
  local threads = active.threads
  active = nil
  require("runnel.threads.trace_threads").leave(threads)
end

---Called by a thread when it begins: records it for the state that started it.
---@param threads runnel.threads.trace_threads
function trace.join(threads)
  require("runnel.threads.trace_threads").join(threads, trace.leave)
  active = { records = threads.records, guard = {}, threads = threads }
end

-- ---- rn.trace ----

local function check_records(options)
  for key in pairs(options) do
    if key ~= "records" then raise("trace: " .. check.unknown(key, { records = true })) end
  end
  local records = options.records
  if records == nil then return DEFAULT end
  if not math.tointeger(records) or records < LEAST or records > MOST then
    raise(("trace: records: an integer from %d to %d expected, got %s"):format(LEAST, MOST, tostring(records)))
  end
  return math.tointeger(records)
end

---@class runnel.internal.Operations
---@field list runnel.internal.RecordedOperation[]
---@field otlp table the module that writes them, which is loaded now: the program may change its directory
---@field stop fun()

-- Begins to record operations (runnel.internal.trace_context): at most as many as records, the newest ones.
local function record_operations(records)
  local list, contexts = {}, require "runnel.internal.trace_context"
  contexts.hold()
  function contexts.record(operation)
    local n, go = recorder.position()
    list[#list + 1] = { n = n, go = go, operation = operation }
    if #list < 2 * records then return end
    table.move(list, #list - records + 1, #list, 1)
    for i = #list, records + 1, -1 do list[i] = nil end
  end
  local function stop()
    contexts.record = nil
    contexts.release()
  end
  return { list = list, otlp = require "runnel.tracing.otlp", stop = stop }
end

---Starts to record what go blocks and channels do, in a ring of fixed size. `rn.trace(false)` ends the recording and
---writes it to the file as trace-event JSON, or, if its name ends with .otlp.json, as spans of OpenTelemetry; so does
---the end of the program, whatever its cause. When the first
---unhandled error is reported, what has led to it is written to a second file: out.error.json beside out.json.
---Perfetto's viewer (ui.perfetto.dev), chrome://tracing and speedscope show the files.
---@param file string|false the path of the file, which is created at once; false ends the recording
---@param options? { records?: integer } `records`: the size of the ring, from 256 to 16777216 (default: 65536)
---@return runnel.Trace? written what was written, or nil if nothing was being recorded
function trace.trace(file, options)
  if active and not active.path then raise("trace: this thread is being recorded for the state that has started it") end
  if file == false then
    local written, err = trace.finish()
    if err then raise("trace: " .. err) end
    return written
  end
  if type(file) ~= "string" or file == "" then
    raise("trace: the path of a file, or false, expected, got " .. (file == "" and '""' or check.article(file)))
  end
  check.no_zero(file, "trace: the path")
  if options ~= nil and type(options) ~= "table" then
    raise("trace: a table of options expected, got " .. type(options))
  end
  local records = check_records(options or {})
  if active then raise("trace: " .. active.path .. " is being recorded; end it first with rn.trace(false)") end
  local handle, err = io.open(file, "w")
  if not handle then raise("trace: cannot write " .. tostring(err)) end
  handle:close()
  recorder.hold("r", records)
  recorder.on_error(on_error)
  active = { path = file, at = core.internal.absolute(file), records = records, guard = {},
    operations = file:find(SPANS) and record_operations(records) or nil }
  renew_guard()
end

return trace
