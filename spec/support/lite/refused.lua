---A program that waits in all places where some Lua refuses it. Run: LUA_PATH=lua/?.lua lua refused.lua. It prints for
---each place and operation "waits", or the error, with how much waits on the channels then.

local rn = require "runnel.lite"
local unpack = table.unpack or unpack -- luacheck: ignore 113 143

local PLACES = {
  { "pcall", function(wait) return { pcall(wait) } end },
  { "xpcall", function(wait) return { xpcall(wait, tostring) } end },
  { "a tail call of pcall", function(wait)
    local function protected() return pcall(wait) end
    return { protected() }
  end },
  { "an iterator", function(wait)
    local n = 0
    for _ in function()
      wait()
      n = n + 1
      return n < 2 or nil
    end do n = n + 1 end
    return {}
  end },
  { "a metamethod", function(wait)
    return { setmetatable({}, { __index = function() return wait() end }).x }
  end },
  { "a comparison", function(wait)
    local meta = { __lt = function() return wait() ~= nil end }
    return { setmetatable({}, meta) < setmetatable({}, meta) }
  end },
  { "table.sort", function(wait) table.sort({ 2, 1, 3 }, function(a, b) wait() return a < b end) return {} end },
  { "string.gsub", function(wait) ("a"):gsub("a", function() wait() end) return {} end },
  { "tostring", function(wait)
    return { tostring(setmetatable({}, { __tostring = function() wait() return "" end })) }
  end },
  { "pcall below table.sort", function(wait)
    table.sort({ 2, 1 }, function(a, b)
      local ok, err = pcall(wait)
      if not ok then error(err, 0) end
      return a < b
    end)
    return {}
  end },
}

local ch, other = nil, nil
local OPERATIONS = {
  { "take", function() return ch:take() end },
  { "put", function() return ch:put(1) end },
  { "alts", function() return (rn.alts { ch, { other, 1 } }) end },
  { "alt", function() return rn.alt { { ch, function() end }, { { other, 1 }, function() end } } end },
  { "sleep", function() rn.sleep(1) end },
  { "yield", function() rn.yield() end },
  { "scope", function() rn.scope(function() rn.sleep(1) end) end },
}

rn.on_error(function(err) print("reported: " .. tostring(err)) end)
rn.sim.run(function()
  for _, place in ipairs(PLACES) do
    for _, operation in ipairs(OPERATIONS) do
      ch, other = rn.chan(), rn.chan()
      local go = rn.go(function()
        local results = place[2](operation[2])
        if results[1] == false and #results == 2 then error(results[2], 0) end
        return true
      end)
      rn.yield()
      local waiting = ch:stats().takes_waiting + ch:stats().puts_waiting + other:stats().puts_waiting
      local _, err = nil, nil
      if go:closed() then _, err = go:take() else rn.cancel(go) end
      print(("%s, %s: %s"):format(place[1], operation[1], err ~= nil and ("%d %s"):format(waiting, err) or "waits"))
    end
  end
  rn.go(function() ch:put "is taken" end)
  print(unpack { ch:take() })
end)
