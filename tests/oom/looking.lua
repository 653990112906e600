-- Inspecting channels and go blocks: names, tostring, stats, done, ps, the text of a deadlock; wrong arguments.
local t = ...
local rn = require "runnel"

local ch, bounded = rn.chan(), rn.chan(3)
local closing = rn.chan()
local told = false

local function attempt()
  ch:name("jobs")
  rn.go(function() ch:put(1) end)
  rn.go(function() rn.alts { rn.chan(), rn.chan() } end)
  rn.run()
  assert(#tostring(ch) + #tostring(bounded) > 0)
  assert(ch:stats().closed == false)
  assert(#rn.ps() <= 2)
  local done = closing:done()
  assert(done == closing:done())
  t.go(function()
    done:take()
    told = true
  end)
  closing:close()
  rn.run()
  local ok, err = pcall(bounded.take, bounded)
  assert(not ok)
  if t.refused() == 0 then assert(err:find("deadlock", 1, true) and err:find("jobs", 1, true), err) end
  assert(not pcall(ch.put, ch, nil))
  assert(not pcall(ch.put, 1, 1))
  assert(not pcall(rn.go, 1))
  assert(not pcall(rn.alts, { ch, 1 }))
  assert(not pcall(rn.chan, -1))
  assert(not pcall(rn.timeout, 0 / 0))
end

local function check()
  rn.run()
  if closing:closed() and t.deaths() == 0 and t.refused() == 0 then assert(told) end
  assert(ch:poll() == 1 or t.refused() > 0)
end

return attempt, check
