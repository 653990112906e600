-- A schedule and a seed replay in another process, where strings have other hashes, and objects other addresses.

local long = require "spec.support.long"
local process = require "spec.support.process"

local PROCESSES <const> = 8

-- What the processes print that run a command at the same time; each must print something.
local function outputs(command, n)
  local dir <close> = process.directory()
  local here = io.popen("pwd"):read "l"
  local script = { ("cd '%s'"):format(here) }
  for i = 1, n do script[#script + 1] = ("(%s) >%s/%d 2>&1 &"):format(command, dir.path, i) end
  script[#script + 1] = "wait"
  local result = process.run(dir.path, table.concat(script, "\n"))
  assert.equal(0, result.status)
  local list = {}
  for i = 1, n do
    list[i] = assert(dir:read(tostring(i)))
    assert.is_true(#list[i] > 0)
  end
  return list
end

local function assert_same(command, n)
  local list = outputs(command, n)
  for i = 2, n do assert.equal(list[1], list[i]) end
  return list[1]
end

local PROGRAM = [[
  local rn, sim, json = require "runnel", require "runnel.sim", require "runnel.json"
  local function names()
    local list = {}
    for i = 1, 12 do list[("name %d"):format(i)] = i % 3 end
    return list
  end
  local function test()
    local order, ch = {}, rn.chan(1)
    rn.scope(function(scope)
      for name, ms in pairs(names()) do
        scope:go(function()
          rn.sleep(ms)
          order[#order + 1] = name
        end)
      end
      local name = next(names())
      ch:put(name .. tostring {} .. ("%p"):format(order) .. math.random(1000))
    end)
    local text = table.concat(order, ",") .. ch:take() .. json.encode(names())
    if #order[1] == 7 then error(text, 0) end
    return text
  end
]]

describe("in each of eight processes", function()
  it("a search finds the same failure, with the same schedule, which replays in the others", function()
    local dir <close> = process.directory()
    dir:write("search.lua", PROGRAM .. [[
      require("runnel.search.explore").shortening = 1e6 -- on a slow machine, too, the shortest schedule
      local _, message = pcall(sim.explore, test, { seconds = 1000 })
      print(message)
      local schedule = message:match 'schedule = "([^"]*)"'
      print(select(2, pcall(sim.explore, test, { schedule = schedule })) )
    ]])
    local text = assert_same(("%s %s/search.lua"):format(process.runnel, dir.path), PROCESSES)
    local schedule = assert(text:match 'schedule = ("[^"]*")')
    dir:write("replay.lua", PROGRAM .. ("print(pcall(sim.explore, test, { schedule = %s }))"):format(schedule))
    assert.matches("^false%s+sim.explore: error: name ",
      assert_same(("%s %s/replay.lua"):format(process.runnel, dir.path), PROCESSES))
  end)

  it("a seed gives the same", function()
    local dir <close> = process.directory()
    dir:write("seed.lua", PROGRAM .. [[
      for seed = 1, 20 do print(pcall(sim.run, test, { seed = seed, shuffle = true })) end
    ]])
    assert_same(("%s %s/seed.lua"):format(process.runnel, dir.path), PROCESSES)
    dir:write("script.lua", PROGRAM:gsub("if #order.-end\n", "") .. "print(test())")
    assert_same(("%s --sim --seed 7 %s/script.lua"):format(process.runnel, dir.path), PROCESSES)
  end)
end)

describe("each call of the manual that parks #heavy", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end

  it("goes the same way in two processes, and the second time as the first", function()
    local step = long.times(16, 1)
    local text = assert_same(("%s spec/support/parking/replay.lua %d %d"):format(process.runnel, step, long.turn), 2)
    local lines = {}
    for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
    assert.is_true(#lines > 200 // step)
    for i = 1, #lines, 2 do
      assert.matches("the end", lines[i])
      assert.equal(lines[i], lines[i + 1])
    end
  end)
end)
