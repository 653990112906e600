-- Buffers that are Lua objects: the priority buffer, and one that raises.
local t = ...
local rn = require "runnel"

local N = 6
local sent, got = t.ledger(N)
local ch, faulty

-- A buffer of one value whose methods all allocate.
local function allocating()
  local values = {}
  return {
    full = function() return #{ values[1] } > 0 end,
    add = function(_, v) values = { v } end,
    remove = function()
      local v = values[1]
      values = {}
      return v
    end,
    count = function() return #{ values[1] } end,
    close = function() return {} end,
  }
end

local asent, agot = t.ledger(N)

local function pump(channel, s, g)
  t.go(function()
    for i = 1, N do
      s[i] = t.TRIED
      s[i] = channel:put(i) and t.PUT or t.REFUSED
    end
    channel:close()
  end)
  t.go(function()
    while true do
      local v = channel:take()
      if v == nil then return end
      g[v] = g[v] + 1
      rn.yield()
    end
  end)
  t.go(function()
    local v = rn.alts { channel, rn.timeout(1) }
    if v then g[v] = g[v] + 1 end
  end)
end

local function attempt()
  ch = rn.chan(rn.priority_buffer(3))
  pump(ch, sent, got)
  rn.run()
  faulty = rn.chan(allocating())
  pump(faulty, asent, agot)
  rn.run()
end

-- A policy's method that raises may lose the value that it was about to return, but no value may be duplicated.
local function check()
  for channel, ledger in pairs { [ch or 1] = { sent, got }, [faulty or 2] = { asent, agot } } do
    if rn.is_chan(channel) then
      local s, g = ledger[1], ledger[2]
      t.settle(g, channel)
      for i = 1, N do
        assert(g[i] <= 1, "a value was doubled")
        if s[i] ~= t.PUT then assert(g[i] == 0, "a put that raised has put") end
        if t.refused() == 0 then assert(s[i] == t.PUT and g[i] == 1) end
      end
    end
  end
end

return attempt, check
