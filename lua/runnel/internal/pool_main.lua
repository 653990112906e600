---What each thread of rn.threads runs: it takes jobs and calls the function for them, some at a time.

local rn = require "runnel"
local core = require "runnel.core"
local thread_function = require "runnel.internal.thread_function"

-- Calls f for a job, in a go block that is cancelled when its result channel is closed from the other side.
local function do_job(f, job)
  local out <close> = job.out
  local call = job.is_async and rn.go(f, job.value, out) or rn.go(f, job.value)
  core.internal.on_close(out, function() rn.cancel(call, "the result channel was closed") end)
  local value, err = call:take()
  if err ~= nil then
    out:close(err)
  elseif job.is_async then
    out:done():take()
  elseif value ~= nil then
    local ok, why = pcall(out.put, out, value)
    if not ok then out:close(why) end
  end
end

---@param what table see runnel.internal.thread_function
---@param n integer jobs at a time
---@param jobs runnel.Channel<table> each with `value`, `out` and `is_async`
---@param ready runnel.Channel<any> gets true, or why the function cannot be called
return function(what, n, jobs, ready)
  local ok, f = pcall(thread_function, what)
  ready:put(ok or { core.internal.error_text(f) })
  if not ok then return end
  local workers = {}
  for i = 1, n do
    workers[i] = rn.go(function()
      for job in jobs do do_job(f, job) end
    end)
  end
  for i = 1, n do
    local _, err = workers[i]:take()
    if err ~= nil then error(err, 0) end
  end
end
