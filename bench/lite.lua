-- What operations of runnel.lite cost, beside those of the C core.
--
--     lua5.4 bench/lite.lua              after `make` and eval "$(make -s env)": the core, and lite on each Lua
--     LUA bench/lite.lua MODULE [SCALE]  one of them, in ns: runnel, or runnel.lite
--
-- The ratios are to the C core on the Lua that runs this. The least CPU time of five runs, in turn. `parked` is the
-- memory of a go block that waits in a take, and how much more that is than a coroutine that waits.

local WHAT = { "chan(0)", "chan(100)", "select of 4", "spawn + take" }
local INTERPRETERS = { "luajit", "lua5.1", "lua5.2", "lua5.3", "lua5.4", "lua5.5" }
local ROUNDS = 5

local function programs(rn)
  local function pass(size)
    return 200000, function(n)
      local ch = rn.chan(size)
      rn.go(function()
        for i = 1, n do ch:put(i) end
        ch:close()
      end)
      local value = ch:take()
      while value do value = ch:take() end
    end
  end
  return {
    ["chan(0)"] = { pass(0) },
    ["chan(100)"] = { pass(100) },
    ["select of 4"] = { 100000, function(n)
      local chs = { rn.chan(), rn.chan(), rn.chan(), rn.chan() }
      rn.go(function()
        for i = 1, n do chs[i % 4 + 1]:put(i) end
      end)
      for _ = 1, n do rn.alts(chs) end
    end },
    ["spawn + take"] = { 100000, function(n)
      for i = 1, n do rn.go(function() return i end):take() end
    end },
  }
end

local function collect()
  collectgarbage()
  collectgarbage()
  return collectgarbage "count" * 1024
end

-- Bytes of a go block that waits, and of a coroutine.
local function parked(rn)
  local N = 1000
  local go, co
  rn.run(function()
    local ch, before = rn.chan(), collect()
    for _ = 1, N do rn.go(function() ch:take() end) end
    rn.yield()
    go = (collect() - before) / N
    ch:close()
    rn.yield()
  end)
  local list, yield, before = {}, coroutine.yield, collect()
  for i = 1, N do
    list[i] = coroutine.create(function() yield(list) end)
    coroutine.resume(list[i])
  end
  co = (collect() - before) / N
  return go, co
end

local function measure(name, scale)
  local rn = require(name)
  local all = programs(rn)
  for _, what in ipairs(WHAT) do
    local n, f, least = math.floor(all[what][1] * scale), all[what][2], math.huge
    for _ = 1, ROUNDS do
      collectgarbage()
      local began = os.clock()
      rn.run(function() f(n) end)
      least = math.min(least, (os.clock() - began) / n * 1e9)
    end
    print(("%s\t%.0f"):format(what, least))
  end
  local go, co = parked(rn)
  print(("parked\t%.0f"):format(go))
  print(("more\t%.0f"):format(go - co))
end

if arg[1] then
  package.path = "./lua/?.lua;" .. package.path
  return measure(arg[1], tonumber(arg[2]) or 1)
end

local function run(interpreter, name)
  local values = {}
  local pipe = assert(io.popen(("%s bench/lite.lua %s"):format(interpreter, name)))
  for line in pipe:lines() do
    local what, value = line:match "^([^\t]*)\t(%d+)$"
    if what then values[what] = tonumber(value) end
  end
  pipe:close()
  return values
end

local lua = os.getenv "LUA" or "lua5.4"
local core = run(lua, "runnel")
local function row(name, values)
  local cells = {}
  for i, what in ipairs(WHAT) do
    cells[i] = ("%6.0f %4.1f"):format(values[what], values[what] / core[what])
  end
  print(("%-18s %s   %5.0f %5.0f"):format(name, table.concat(cells, "   "), values.parked, values.more))
end
print(("%-18s %-11s   %-11s   %-11s   %-11s   parked  more"):format("ns, and ratio", table.unpack(WHAT)))
row("core, " .. lua, core)
for _, interpreter in ipairs(INTERPRETERS) do
  if os.execute(("command -v %s >/dev/null"):format(interpreter)) then
    row("lite, " .. interpreter, run(interpreter, "runnel.lite"))
  end
end
