-- to_chan, pipe, merge, into, reduce, alt.
local t = ...
local rn = require "runnel"

local list, sum, chosen = false, false, false

local function attempt()
  local merged = rn.merge { rn.to_chan { 1, 2, 3 }, rn.pipe(rn.to_chan { 4, 5 }, rn.chan(1)) }
  list = rn.into({}, merged):take()
  sum = rn.reduce(function(acc, v) return acc + v end, 0, rn.to_chan { 1, 2, 3 }):take()
  local ch = rn.chan(1)
  chosen = rn.alt {
    { ch, function() return "taken" end },
    { { ch, 1 }, function() return "put" end },
    priority = true,
  }
end

local function check(ok)
  rn.run()
  if ok and t.refused() == 0 then
    table.sort(list)
    assert(table.concat(list, " ") == "1 2 3 4 5" and sum == 6 and chosen == "put")
  end
  if list then
    local seen = {}
    for _, v in ipairs(list) do
      assert(not seen[v], "a value was doubled")
      seen[v] = true
    end
  end
end

return attempt, check
