---Seeing what a program does: `trace` records a timeline, `graph` shows who puts on which channel, and who takes.

local graph = require "runnel.internal.graph"
local recorder = require "runnel.internal.recorder"

return { trace = recorder.trace, graph = graph.graph }
