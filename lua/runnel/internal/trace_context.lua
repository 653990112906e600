---The traces of a distributed system to which the work of go blocks belongs, as W3C's Trace Context has them
---(https://www.w3.org/TR/trace-context/): requests and messages carry the header traceparent.
---
---A go block's context is an operation: the request, the message or the like that is being handled. The go blocks that
---it starts belong to the same operation. Off, which is the default, this costs one test for each request and message.

local core = require "runnel.core"

local internal = core.internal
local recorder = internal.trace
local random = internal.seed -- seeded by a simulation, unlike math.random

---An operation.
---@class runnel.internal.Operation
---@field trace string the id of the trace: 32 hexadecimal digits
---@field span string the id of the operation: 16
---@field parent? string the id of the operation that asked for it; nil: it is the first of its trace
---@field flags string "01": the trace is recorded; "00": it is not, or that is not known
---@field state? string what other systems pass on with the trace: the header tracestate
---@field name? string of the operation, as in "GET /users"
---@field kind? "server"|"consumer" nil: begun by the program
---@field sink? runnel.internal.Sink that gets it when it ends
---@field began? integer ns since 1970, if there is a sink, as the next one
---@field attributes? table<string, string|number|boolean>
---@field run? any the run of a store to which the go block belongs (runnel.store.runs.run_steps)

---Who gets the operations that end.
---@class runnel.internal.Sink
---@field sample number how many of the new traces are recorded, from 0 to 1
---@field add fun(operation: runnel.internal.Operation, ended: integer, err: any) must not park

---@class runnel.internal.trace_context
---@field on boolean
---@field sinks table<integer, runnel.internal.Sink> by the number of the host of a simulated world; 0: none
---@field record? fun(operation: runnel.internal.Operation) gets each new operation, while spans are recorded
local contexts = { on = false, record = nil, sinks = {} }

local holds = 0

---Switches contexts on, until they are released as often.
function contexts.hold()
  holds = holds + 1
  recorder.hold "c"
  contexts.on = true
end

function contexts.release()
  holds = holds - 1
  contexts.on = holds > 0
  recorder.release "c"
end

-- ---- the header ----

-- The longest tracestate that is passed on; the standard asks for 512 at least.
local LONGEST_STATE <const> = 512

-- VERSION-TRACE-PARENT-FLAGS; later versions may append more.
local FORM <const> = "^(%x%x)%-(%x+)%-(%x+)%-(%x%x)(.*)$"

-- The trace, the parent and the flags of a header; nothing if it is not valid.
local function parse(text)
  if type(text) ~= "string" or text:find "%u" then return nil end
  local version, trace, parent, flags, rest = text:match(FORM)
  if not version or version == "ff" or #trace ~= 32 or #parent ~= 16 then return nil end
  if not trace:find "[^0]" or not parent:find "[^0]" then return nil end
  if rest ~= "" and (version == "00" or rest:byte() ~= 45) then return nil end
  return trace, parent, tonumber(flags, 16) & 1 == 1 and "01" or "00"
end

---A random id.
---@param n integer how many times 8 hexadecimal digits it has, not all of them 0
---@return string
function contexts.new_id(n)
  local parts = {}
  for i = 1, n do parts[i] = ("%08x"):format(random()) end
  local id = table.concat(parts)
  return id:find "[^0]" and id or contexts.new_id(n)
end

-- Whether a new trace is recorded.
local function is_recorded(sink)
  return contexts.record or sink and random() / 0x100000000 < sink.sample
end

---Begins an operation in the running code: that of a header, or the first one of a new trace.
---@param traceparent any the header, if there is one
---@param tracestate? any
---@param name? string
---@param kind? "server"|"consumer"
---@param attributes? table<string, string|number|boolean>
---@return runnel.internal.Operation
function contexts.begin(traceparent, tracestate, name, kind, attributes)
  local trace, parent, flags = parse(traceparent)
  local sink = kind and next(contexts.sinks) and contexts.sinks[internal.host()] or nil
  local state = trace and type(tracestate) == "string" and #tracestate <= LONGEST_STATE
    and not tracestate:find "[%c\127-\255]" and tracestate ~= "" and tracestate or nil
  local operation = {
    trace = trace or contexts.new_id(4), span = contexts.new_id(2), parent = parent, state = state, name = name,
    kind = kind, flags = flags or is_recorded(sink) and "01" or "00", sink = sink, began = sink and recorder.unix(),
    attributes = attributes, run = (recorder.context() or {}).run,
  }
  recorder.set_context(operation)
  if contexts.record then contexts.record(operation) end
  return operation
end

---An operation that has a kind ends. Further calls do nothing.
---@param operation runnel.internal.Operation
---@param err? any why it has failed
function contexts.finish(operation, err)
  local sink = operation.sink
  if not sink then return end
  operation.sink = nil
  sink.add(operation, recorder.unix(), err)
end

---The operation to which the running code belongs.
---@return runnel.internal.Operation?
function contexts.current()
  local operation = recorder.context()
  return operation and operation.trace and operation or nil
end

---The headers for a request or a message of the running code; nil if it belongs to no operation.
---@return string? traceparent
---@return string? tracestate
function contexts.headers()
  local operation = contexts.current()
  if not operation then return nil end
  return ("00-%s-%s-%s"):format(operation.trace, operation.span, operation.flags), operation.state
end

---The headers of a message with these two, unless it has a traceparent.
---@param headers? table<string, any>
---@return table<string, any>? headers
function contexts.add(headers)
  local traceparent, tracestate = contexts.headers()
  if not traceparent or headers and headers.traceparent then return headers end
  local all = { traceparent = traceparent, tracestate = tracestate }
  for name, value in pairs(headers or {}) do all[name] = value end
  return all
end

return contexts
