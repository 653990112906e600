---rn.traceparent: the trace of a distributed system to which the running go block's work belongs.

local check = require "runnel.internal.check"
local contexts = require "runnel.internal.trace_context"
local raise = require("runnel.core").internal.raise

local is_held = false

local function switch(on)
  if on == is_held then return end
  is_held = on
  if on then contexts.hold() else contexts.release() end
end

---Requests and messages carry the id of the trace to which they belong, in the header traceparent of W3C's Trace
---Context. `true` switches that on: from then on http.serve and workers on NATS continue the trace of each request and
---message, or begin one; and requests of runnel.http and messages of runnel.nats carry it on. `false` switches it off.
---
---A text is a traceparent that came in another way: the running go block, and the go blocks that it starts from then
---on, belong to that trace. A text that is no traceparent begins a new trace.
---@param value? boolean|string
---@param tracestate? string that came with the text
---@return string? traceparent for a request or message of the running go block; nil if its work belongs to no trace, or
---this is off
---@return string? tracestate to be sent with it
local function traceparent(value, tracestate)
  local kind = type(value)
  if kind ~= "nil" and kind ~= "boolean" and kind ~= "string" then
    raise(("traceparent: true, false, a text or nothing expected, got %s"):format(check.article(value)))
  end
  if kind == "boolean" then switch(value) end
  if not contexts.on then return nil end
  if kind == "string" then contexts.begin(value, tracestate) end
  return contexts.headers()
end

return { traceparent = traceparent }
