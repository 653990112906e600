-- A go block of the library dies: what it feeds closes with the reason, although its give_up finds no memory.
local t = ...
local rn = require "runnel"
local guard = require "runnel.internal.guard"

local policy = {
  full = function() return false end,
  add = function() end,
  remove = function() end,
  count = function() return 0 end,
}
local kind = t.variant("plain", "named", "transducer", "policy", "shared", "list")
local out = kind == "shared" and rn.shared_chan() or kind == "transducer" and rn.chan(1, rn.xf.map(tostring))
  or kind == "policy" and rn.chan(policy) or rn.chan()
local second = rn.chan()
if kind == "named" then second:done() end
if kind ~= "plain" then out:name "fed" end
local fed = kind == "list" and { out, second } or out

local ends, errors = { false, false }, { false, false }
local function wait_for(i, ch)
  t.go(function()
    local _, err = ch:take()
    ends[i], errors[i] = true, err
  end)
end
wait_for(1, out)
wait_for(2, second)
rn.run()

local REASON = "the reason for which it has died, too long to fit into a value"
local block

-- Like those of the library that have more to do than to close a channel.
local function give_up(channels, reason)
  local _ = { reason }
  guard.close(channels, reason)
end

local function attempt()
  block = guard.go(give_up, fed, function()
    guard.close(second, REASON)
    error(REASON, 0)
  end)
  rn.run()
end

local function expected(i)
  assert(ends[i], "the channel is open")
  if errors[i] ~= REASON and errors[i] ~= "out of memory" then t.expected(errors[i]) end
  assert(errors[i] == REASON or t.refused() > 0, "the reason is another one")
end

local function check()
  rn.run()
  if block then expected(1) end
  if block and kind == "list" or ends[2] then expected(2) end
  out:close() -- for those who still wait
  second:close()
  rn.run()
end

return attempt, check, true
