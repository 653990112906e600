---What lives in this Lua state, for rn.metrics and others that must not load the parts: each part adds itself here when
---it is loaded.

local core = require "runnel.core"

---@class runnel.internal.living
---@field began integer ns since 1970: the library was loaded, and nothing was counted before
---@field flows? fun(): runnel.Flow[] the running ones
---@field flow_rows? fun(flow: runnel.Flow): runnel.FlowStats
---@field workers? table<runnel.Worker, true>
---@field pools? table<integer, runnel.Pool>
---@field busy_threads? fun(): table<runnel.Channel<any>, true> the go blocks that stand for threads of pools with calls
---@field pool_stats? fun(pool: runnel.Pool): table
---@field servers? table<integer, runnel.http.Server>
---@field server_tally? fun(server: runnel.http.Server): table
---@field exporters? table<runnel.otlp.Exporter, true>
---@field threads? fun(): integer
---@field end_threads? fun() ends them, as at the end of the program
---@field load_uv? fun() loads what runnel.uv loads late
---@field scopes? table<runnel.Scope, function> those that have not ended, and others that were not collected yet, each
---with its body
---@field fail_stuck? fun(why: string): boolean in a thread of a pool, whose go blocks would wait for ever: fails its
---jobs, and returns whether there were any. In other threads the function of the thread fails
---@field supervisors? table<runnel.internal.Supervisor, true> those that have not ended, and others that were not
---collected yet
---@field prompt? boolean a person types at a prompt
return { began = core.internal.trace.unix() }
