-- What sim.explore finds and how fast it is: the blocking kernels of GoBench (spec/support/goker), with seeds, with one
-- run and a check for leaks, and with a search; and schedules per second of a few small programs.
--
--     lua5.4 bench/explore.lua        from the repository's root, after `make all`

local rn = require "runnel"
local sim = require "runnel.sim"

package.path = "./?.lua;" .. package.path

local goker = require "spec.support.goker"
local names, bugs = goker.names, goker.bugs

local function fails(f, options)
  local heard = false
  local before = rn.on_error(function() heard = true end)
  local ok = pcall(sim.run, f, options)
  rn.on_error(before)
  return heard or not ok
end

-- How many of the bugs a function finds.
local function count(finds)
  local n = 0
  for _, name in ipairs(names) do
    if finds(function() bugs[name](false) end) then n = n + 1 end
  end
  return n
end

local function any_seed(leaks)
  return function(f)
    for seed = 1, 300 do
      if fails(f, { seed = seed, shuffle = true, leaks = leaks }) then return true end
    end
  end
end

print(("%d kernels"):format(#names))
print("300 seeds:", count(any_seed(false)))
print("one run, leaks = true:", count(function(f) return fails(f, { leaks = true }) end))
print("300 seeds, leaks = true:", count(any_seed(true)))

local runs, began = {}, os.clock()
local found = count(function(f)
  local n = 0
  local ok, message = pcall(sim.explore, function()
    n = n + 1
    f()
  end, { seconds = 20, steps = 600 })
  if ok then return false end
  runs[#runs + 1] = tonumber(message:match "schedule (%d+)")
  return true
end)
table.sort(runs)
print(("sim.explore: %d; schedules until then: median %d, nine tenths %d, most %d; %.2f s with shortening"):format(
  found, runs[#runs // 2], runs[#runs * 9 // 10], runs[#runs], os.clock() - began))

local proved, alarms, correct = 0, 0, 0
for _, name in ipairs(names) do
  local ok, explored = pcall(sim.explore, function() bugs[name](true) end, { seconds = 2, steps = 600 })
  correct = correct + 1
  if not ok then alarms = alarms + 1
  elseif explored.all then proved = proved + 1 end
end
print(("%d correct versions: %d alarms, %d with all schedules in 2 s each"):format(correct, alarms, proved))

local PROGRAMS = {
  { "two puts and two takes", function()
    local ch = rn.chan()
    for i = 1, 2 do rn.go(function() ch:put(i) end) end
    for _ = 1, 2 do ch:take() end
  end },
  { "three writers and a reader", function()
    local ch = rn.chan()
    for _ = 1, 3 do rn.go(function() for i = 1, 3 do ch:put(i) end end) end
    for _ = 1, 9 do ch:take() end
  end },
  { "etcd#6857, corrected", function() bugs["etcd#6857"](true) end },
  { "etcd#7443, corrected", function() bugs["etcd#7443"](true) end },
}

-- Clients that connect to a server and get an answer to each of their messages.
local function world(clients, messages)
  local uv = require "runnel.uv"
  local simulated = sim.world()
  simulated:host("server", function()
    for conn in assert(uv.listen("0.0.0.0", 80)) do
      rn.go(function()
        for data in conn:read() do conn:write(data) end
        conn:close()
      end)
    end
  end)
  for i = 1, clients do
    simulated:host("client " .. i, function()
      rn.yield()
      local conn <close> = assert(uv.connect("server", 80))
      local answers = conn:read()
      for _ = 1, messages do
        conn:write "hello"
        assert(answers:take())
      end
    end)
  end
  simulated:run()
end

local has_luv = pcall(require, "luv")
if has_luv then
  PROGRAMS[#PROGRAMS + 1] = { "a client and a server, two messages, in a world", function() world(1, 1) end }
end

for _, program in ipairs(PROGRAMS) do
  local n, start = 0, os.clock()
  sim.explore(function()
    n = n + 1
    sim.choose(1 << 20) -- so that there is always another schedule
    program[2]()
  end, { seconds = 2 })
  print(("%s: %d schedules/s"):format(program[1], n // (os.clock() - start) | 0))
end

if has_luv then
  local start = os.clock()
  sim.run(function() world(100, 50) end)
  print(("100 clients and 10,000 messages in a world: %.2f s"):format(os.clock() - start))
end
