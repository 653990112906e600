-- The part `recovery` of `make bench-machines`: how long jobs take while workers are killed, as a multiple of the
-- ideal. That is computed for the same kills: 4 workers of 16 slots, which start jobs without delay, and jobs of a
-- killed worker run again at once in any free slot.

local rn = require "runnel"

local WORKERS, SLOTS <const> = 4, 16

-- The rows: ms of a job, how many, and ms between two kills. Without the last there is one kill, after a quarter of the
-- time.
-- Jobs of 10 s with a kill a second would not end, since a worker then lives for 4 s.
local ROWS = {
  { 20, 16000 }, { 20, 16000, 1000 }, { 200, 1600 }, { 200, 1600, 1000 }, { 2000, 256 }, { 2000, 512, 1000 },
  { 10000, 128 }, { 10000, 256, 7000 },
}

-- The ideal seconds. `lives`: for each worker a list of { begins, ends }, in ms from the start.
local function ideal(count, ms, lives)
  local events = {} -- free slots: { time, when their worker is killed }
  for _, list in ipairs(lives) do
    for _, life in ipairs(list) do
      for _ = 1, SLOTS do events[#events + 1] = { math.max(0, life[1]), life[2] } end
    end
  end
  local done, last, lost = 0, 0, {} -- lost: times at which jobs come back
  local started = 0
  while done < count do
    table.sort(events, function(a, b) return a[1] < b[1] end)
    local slot = table.remove(events, 1)
    if not slot then return math.huge end
    local from = slot[1]
    if started == count then -- waits for a job that comes back
      if not lost[1] then break end
      table.sort(lost)
      from = math.max(from, table.remove(lost, 1))
    else
      started = started + 1
    end
    if from >= slot[2] then
      lost[#lost + 1] = from
    elseif from + ms > slot[2] then
      lost[#lost + 1] = slot[2]
    else
      done, last = done + 1, math.max(last, from + ms)
      events[#events + 1] = { from + ms, slot[2] }
    end
  end
  return last / 1000
end

-- Runs a row; returns the seconds, the ideal ones, and the number of kills.
local function run(server, conn, command_of, row)
  local ms, count, every = row[1], row[2], row[3]
  local name = ("recovery%d-%d"):format(ms, every or 0)
  local command = command_of(name, SLOTS, ms)
  local workers, lives, start = {}, {}, nil
  local function launch(i)
    workers[i] = server.set:start(command)
    local life = { math.huge, math.huge }
    lives[i] = lives[i] or {}
    table.insert(lives[i], life)
    local program = workers[i]
    rn.go(function()
      if program:says("ready") then life[1] = rn.now() - (start or rn.now()) end
    end)
    return life
  end
  for i = 1, WORKERS do launch(i) end
  for i = 1, WORKERS do assert(workers[i]:says "ready", workers[i]:output()) end
  rn.sleep(100) -- they have asked for jobs
  start = rn.now()
  for i = 1, WORKERS do lives[i][1][1] = 0 end
  local over, kills = false, 0
  local killer = rn.go(function()
    rn.sleep(every or count * ms / WORKERS / SLOTS / 4)
    while not over do
      local i = math.random(WORKERS) -- in turns, the last job could go to the next victim again and again
      workers[i]:signal "KILL"
      lives[i][#lives[i]][2] = rn.now() - start
      kills = kills + 1
      launch(i)
      if not every then return end
      rn.sleep(every)
    end
  end)
  local i = 0
  local function next_job()
    i = i + 1
    return i <= count and i or nil
  end
  local results = 0
  local remote <close> = conn:remote(name, { starts = 1000 })
  for _ in rn.pmap_unordered(2 * WORKERS * SLOTS, remote, rn.to_chan(next_job)) do results = results + 1 end
  assert(results == count, "results are missing")
  local seconds = (rn.now() - start) / 1000
  over = true
  rn.cancel(killer)
  for k = 1, WORKERS do workers[k]:signal "KILL" end
  return seconds, ideal(count, ms, lives), kills
end

---Runs the rows. `command_of(name, n, ms)` is the command that starts a worker.
local function recovery(server, conn, command_of, show, longest)
  for _, row in ipairs(ROWS) do
    if row[1] <= longest then
      local seconds, best, kills = run(server, conn, command_of, row)
      show("recovery     %6d ms: %6.2f s, ideal %6.2f s with %d kill%s: %.2f times (at most 1.3)", row[1], seconds,
        best, kills, kills == 1 and "" or "s", seconds / best)
    end
  end
end

return recovery
