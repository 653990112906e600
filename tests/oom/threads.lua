-- A thread that gets tables over one shared channel and puts others on a second; the failures are here or there.
local t = ...
local rn = require "runnel"

local N = 4
local where = t.variant("here", "there")
local got, results, ended = {}, rn.shared_chan(N), nil
local jobs = rn.shared_chan(N)
for i = 1, N do jobs:put { i, "a string that has to be allocated", { i } } end
jobs:close()
if where == "there" then t.fail_in_threads() end

local function attempt()
  local result = rn.thread(function(from, to)
    for job in from do to:put { job[1], job[2] .. ".", job } end
    return { "all", "done, with a string that is longer than a value" }
  end, jobs, results)
  local v, err = result:take()
  ended = v and v[1] or err or "nothing"
end

-- Takes what is left, on either channel.
local function drain(ch)
  local v = ch:poll()
  while v do
    got[v[1]] = (got[v[1]] or 0) + 1
    v = ch:poll()
  end
end

local function check(ok)
  rn.run()
  drain(results)
  drain(jobs)
  for i = 1, N do
    -- A thread that dies may have a job that it has taken; nothing comes twice.
    assert((got[i] or 0) <= 1)
    if ended == "all" then assert(got[i] == 1, "a job is lost") end
  end
  if ok and t.refused() == 0 then assert(ended == "all", ended) end
end

return attempt, check, where == "there"
