---runnel.lite in OpenResty (lua-nginx-module): a go block is a light thread, so cosockets, ngx.sleep and subrequests
---work in it, and the handler of a request is one, too. Channels may be shared by all requests of a worker.
---
---    local rn = require("runnel.lite.nginx").rn

local ngx = ngx -- luacheck: ignore 113
local rn, semaphore = require "runnel.lite", require "ngx.semaphore"

local LONG = 60 -- seconds; a semaphore has no wait without a limit

-- Where threads cannot begin: a timer begins them.
local NO_THREADS = { balancer = true, body_filter = true, exit_worker = true, header_filter = true, init_worker = true,
  log = true, set = true, ssl_session_store = true }

local M = { rn = rn }

local function semaphore_of(go)
  go.host = go.host or semaphore.new(0)
  return go.host
end

-- The go blocks of this request that have not ended.
local function blocks()
  local ctx = ngx.ctx
  if not ctx.runnel_blocks then ctx.runnel_blocks = {} end
  return ctx.runnel_blocks
end

local function report(err, trace, where)
  local text = tostring(select(2, pcall(tostring, err))) -- an object's __tostring may raise
  ngx.log(ngx.ERR, "runnel: error in ", where, ": ", text, trace and "\n" .. trace or "")
end
rn.on_error(rn.on_error(report) or report) -- the program's own comes first

rn.host {
  now = function()
    ngx.update_time()
    return ngx.now() * 1000
  end,
  current = coroutine.running,
  spawn = function(f, go)
    local function run()
      local list = blocks()
      if go then list[go] = true end
      f()
      if go then list[go] = nil end
    end
    if NO_THREADS[ngx.get_phase()] then
      local ok, err = ngx.timer.at(0, run)
      if not ok then report("it cannot begin: " .. err, nil, go and "rn.go" or "a callback") end
      return
    end
    if go then blocks()[go] = true end
    ngx.thread.spawn(function() -- runs at once until it first yields
      coroutine.yield()
      run()
    end)
  end,
  park = function(go, ms)
    if ms == 0 then return ngx.sleep(0.001) end -- of 0, an nginx without OpenResty's patches complains
    blocks()[go] = true
    semaphore_of(go):wait(ms and math.max(0.001, ms / 1000) or LONG)
  end,
  wake = function(go) semaphore_of(go):post(1) end,
}

---Call it in log_by_lua if requests share channels: nginx ends the light threads of a request without telling them, at
---ngx.exit or when the client has gone. Withdraws what they wait for, so that no value goes to them.
function M.ended()
  for go in pairs(ngx.ctx.runnel_blocks or {}) do rn.killed(go) end
end

return M
