---Tracing: `trace` records a timeline; `graph` shows which go blocks put on and take from which channels.

local graph = require "runnel.tracing.graph"
local recorder = require "runnel.tracing.trace_recorder"

return { trace = recorder.trace, graph = graph.graph }
