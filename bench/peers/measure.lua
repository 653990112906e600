-- What the peers' programs in Lua share: timing, and the command line. Works in Lua 5.4 and in LuaJIT.
--
--     lua5.4 bench/peers/runnel/main.lua [--quick] [--times=N] NAME...
--
-- Each program prints `name value` for each named workload that it has: ns of CPU time per operation, or bytes. It
-- ignores names of workloads that it lacks.

local measure = {}

local quick, times = false, nil

-- How many operations the first run does, and how many CPU seconds a run must take to count.
local function sizes(start)
  if quick then return math.max(1, math.floor(start / 10)), 0.04 end
  return start, 0.2
end

-- ns for each operation of f(n), which does n * per of them; n grows from `start` until a run takes long enough. With
-- `fixed` n stays the same. --times sets n, for counting instructions.
function measure.ns(f, start, per, fixed)
  return function()
    local n, enough = sizes(start)
    n = times or n
    while true do
      collectgarbage()
      collectgarbage()
      local from = os.clock()
      f(n)
      local seconds = os.clock() - from
      if fixed or times or seconds >= enough then return seconds / (n * (per or 1)) * 1e9 end
      n = n * math.min(10, math.ceil(1.5 * enough / math.max(seconds, 1e-6)))
    end
  end
end

-- ns by the clock for each operation of f(n), which returns the seconds that n of them took; n grows as above.
function measure.wall(f, start)
  return function()
    local n, enough = sizes(start)
    n = times or n
    while true do
      local seconds = f(n)
      if times or seconds >= 1.5 * enough then return seconds / n * 1e9 end
      n = n * 4
    end
  end
end

-- Bytes that Lua has allocated, without garbage.
function measure.lua_bytes()
  for _ = 1, 4 do collectgarbage() end -- objects with finalizers take more than one cycle
  return collectgarbage "count" * 1024
end

-- Bytes of memory that the process uses, for objects that Lua does not allocate. Linux only; nil elsewhere.
function measure.resident_bytes()
  measure.lua_bytes()
  local file = io.open "/proc/self/smaps_rollup"
  if not file then return nil end
  local kilobytes = file:read("*a"):match "Rss:%s*(%d+)"
  file:close()
  return 1024 * kilobytes
end

-- Bytes for each of n objects, by in_use(): make(n, keep) makes them and keeps them alive in `keep`.
function measure.bytes(in_use, n, make)
  return function()
    local keep = {}
    for i = 1, n do keep[i] = false end
    local before = in_use()
    if not before then return nil end
    make(n, keep)
    return (in_use() - before) / n, keep
  end
end

-- Measures the workloads that the command line names.
function measure.main(workloads)
  for _, name in ipairs(arg) do
    if name == "--quick" then
      quick = true
    elseif name:find "^%-%-times=%d+$" then
      times = tonumber(name:match "%d+")
    elseif workloads[name] then
      local value = workloads[name]()
      if value then
        io.write(("%s %.1f\n"):format(name, value))
        io.flush()
      end
    end
  end
end

return measure
