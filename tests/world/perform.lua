---Performs a program: in reality, and in the simulated world. The operations are the same functions in both.

local environment = require "tests.world.environment"
local luv = require "luv"
local explore = require "runnel.search.explore"
local programs = require "tests.world.programs"
local rn = require "runnel"
local sim = require "runnel.sim"
local uv = require "runnel.uv"

local perform = {}

-- Performs the operations of a block, and adds what they return to `results`. `on_result`: returns whether to go on.
local function run_block(notion, env, block, results, on_result)
  local mine = {}
  for _, op in ipairs(block.script) do
    local text = env:tell(pcall(notion.operations[op.op].perform, op, env, mine))
    results[#results + 1] = text
    if on_result and not on_result() then return end
  end
  if notion.finish then pcall(notion.finish, env, mine) end
end

local function new_results(made)
  local results = {}
  for i in ipairs(made.blocks) do results[i] = {} end
  return results
end

-- ---- reality ----

-- Computes for some ms: nothing else of this program can run then, but the system goes on.
local function compute(ms)
  local over = os.clock() + ms / 1000
  repeat until os.clock() >= over
end

-- Go blocks that compute now and then, as others do in a busy program.
local function disturb(random)
  local is_over = false
  local how = random(4) -- 1: not at all
  if how > 1 then
    rn.go(function()
      while not is_over do
        if random(2) == 1 then rn.sleep(random(20) / 10) else rn.yield() rn.sleep(0) end
        compute(random(how * how * 10) / 100)
      end
    end)
  end
  return setmetatable({}, { __close = function() is_over = true end })
end

local number = 0

-- Removes a folder and what is in it.
local function remove(folder)
  for entry in uv.list(folder, { deep = true }) do
    if entry.type ~= "directory" then os.remove(entry.path) end
  end
  local folders = { folder }
  for entry in uv.list(folder, { deep = true }) do folders[#folders + 1] = entry.path end
  for i = #folders, 1, -1 do os.remove(folders[i]) end
end

---Runs a program in reality, once.
---@param made table
---@param random fun(n: integer): integer for the jitter
---@param folder string a new folder is made in it
---@return string[][] results
function perform.reality(made, random, folder)
  local notion, results = programs.notion(made.notion), new_results(made)
  number = number + 1
  local own = ("%s/%d"):format(folder, number)
  assert(luv.fs_mkdir(own, 0x1C0))
  local env = environment.new(true, own, "127.0.0.1", notion.is_punctual)
  if notion.prepare then notion.prepare() end
  rn.on_error(function() end) -- for good: what a program has begun may end after it
  local main = rn.go(function()
    if notion.setup then notion.setup(env, made.setting) end
    local disturbing <close> = disturb(random) -- luacheck: ignore 211
    local blocks = {}
    for i, block in ipairs(made.blocks) do
      local delay = random(6)
      blocks[i] = rn.go(function()
        if delay == 2 then rn.yield() elseif delay == 3 then rn.sleep(0) elseif delay > 4 then
          rn.sleep(random(30) / 10)
        end
        run_block(notion, env, block, results[i])
      end)
    end
    for _, block in ipairs(blocks) do block:take() end
  end)
  local _, err = main:take()
  for i = #env.closing, 1, -1 do env.closing[i]() end
  if err ~= nil then error(err, 0) end
  remove(own)
  return results
end

-- ---- the world ----

-- Runs a program in the world of the simulation. `on_result(results)` returns whether to go on. `has_limit`: operations
-- wait for a while, else for ever: then there are far fewer schedules.
local function simulate(made, has_limit, on_result)
  rn.on_error(function() end)
  local notion, results = programs.notion(made.notion), new_results(made)
  local world = sim.world { latency = 0 } -- as fast as the loopback can be
  local ready, ended, given_up = rn.chan(), rn.chan(#made.blocks), rn.chan(1)
  local env = environment.new(false, "/tmp", made.hosts == 2 and "server" or "127.0.0.1", notion.is_punctual)
  if not has_limit then env.limit = nil end
  if notion.world then notion.world(world, env, made.setting) end
  local function run(host)
    if host == 1 then
      if notion.setup then notion.setup(env, made.setting) end
      ready:close()
    else
      ready:take()
    end
    for i, block in ipairs(made.blocks) do
      if block.host == host or made.hosts == 1 then
        rn.go(function()
          run_block(notion, env, block, results[i], function()
            if on_result(results) then return true end
            given_up:offer(true)
          end)
          ended:put(true)
        end)
      end
    end
  end
  world:host("server", function() run(1) end)
  if made.hosts == 2 then world:host("client", function() run(2) end) end
  for _ = 1, #made.blocks do
    local ok, _, port = pcall(rn.alts, { given_up, ended }, { priority = true })
    if not ok or port == given_up then return nil end -- all may wait for ever
  end
  return results
end

local function search(made, f, schedules)
  local shortening, most = explore.shortening, explore.most_schedules
  explore.shortening, explore.most_schedules = 0, schedules
  local ok, explored = pcall(sim.explore, f, { seconds = 600, timers = not programs.notion(made.notion).is_punctual
    and "any" or nil, leaks = false })
  explore.shortening, explore.most_schedules = shortening, most
  if ok then return explored end
  if not tostring(explored):find("nothing was checked", 1, true) then error(explored, 0) end
  return { all = false, schedules = schedules } -- each run took too many steps
end

-- Searches the world for outcomes, which are removed from `missing`. A run ends when it cannot have one of `wanted`.
local function find(made, wanted, missing, schedules)
  local has_limit = programs.notion(made.notion).has_clocks or false
  for outcome in pairs(wanted) do has_limit = has_limit or outcome:find(environment.LATE, 1, true) ~= nil end
  local explored = search(made, function()
    local results = simulate(made, has_limit, function(results)
      for _, others in pairs(wanted) do
        if programs.is_beginning(results, others) then return true end
      end
      return false
    end)
    if not results then return end
    missing[programs.outcome(made, results)] = nil
    if not next(missing) then explore.most_schedules = 0 end -- the search ends
  end, schedules)
  return explored.all, explored.schedules
end

---Searches the world for outcomes, one after the other.
---@param made table
---@param wanted table<string, string[][]> the results by outcomes
---@param schedules integer how many to try at most for each
---@return table<string, boolean> missing the outcomes that were not found: true, if the world has none of them for
---certain; false: more schedules could find it
---@return integer n schedules
function perform.find(made, wanted, schedules)
  local found, n = {}, 0
  for outcome, results in pairs(wanted) do
    local one = { [outcome] = true }
    local all, tried = find(made, { [outcome] = results }, one, schedules)
    if next(one) then found[outcome] = all end
    n = n + tried
  end
  return found, n
end

---The outcomes that the world has, of so many schedules.
---@param made table
---@param schedules integer
---@return string[] outcomes sorted
function perform.outcomes(made, schedules)
  local found, list = {}, {}
  search(made, function()
    local results = simulate(made, true, function() return true end)
    found[programs.outcome(made, results)] = true
  end, schedules)
  for outcome in pairs(found) do list[#list + 1] = outcome end
  table.sort(list)
  return list
end

return perform
