---Runs a program in every order, on the C core or on lite.lua. The result is a list of stories, one for each schedule
---in the order of a depth-first search: what each operation returned, in the order in which they did; the errors that
---were reported; and the channels at the end.
---
---A program is { kinds = { kind of a, kind of b }, blocks = { { numbers of operations }, ... } }.

local lite = require "runnel.lite"
local rn = require "runnel"
local engines = require "tests.prove.engines"
local operations = require "tests.prove.operations"

local list = operations.list

local LONG = 100 -- ms; all timers of a program are shorter
local MOST_STEPS = 10000

local perform = {}

local function state(ch)
  local stats = ch:stats()
  return ("%d values, %d puts and %d takes wait, %d put, %d taken%s"):format(stats.values, stats.puts_waiting,
    stats.takes_waiting, stats.put_total, stats.take_total, stats.closed and ", closed" or "")
end

-- Returns the function that is run once for each schedule, and one that ends a run and returns its story.
local function recorder(module, program)
  local blocks, story, e = program.blocks, nil, nil
  local make_a = operations.channels[program.kinds[1]]
  local make_b = operations.channels[program.kinds[2]]
  local function say(who, text) story[#story + 1] = who .. ": " .. text end

  local function do_block(g)
    local me = { rn = module, a = e.a, b = e.b, results = e.results, g = g, say = function(what, text)
      say(what .. " of " .. g, text)
    end }
    for k, number in ipairs(blocks[g]) do
      local op = list[number]
      local ok, text = pcall(op.f, me, g * 10 + k)
      say(g .. " " .. op.name, ok and text or "raises " .. tostring(text))
      if not ok and not me.catches then error(text, 0) end
    end
    return "result of " .. g
  end

  local function main()
    story = {}
    e = { a = make_a(module), b = make_b(module), results = {} }
    for g = 1, #blocks do e.results[g] = module.go(do_block, g) end
    module.sleep(LONG)
    say("a", state(e.a))
    say("b", state(e.b))
  end

  local function report(err) say("report", tostring(err)) end

  return main, report, function()
    local text = table.concat(story, "\n")
    story = {} -- garbage of this run may still end
    return text
  end
end

---On the core.
---@return string[] stories
function perform.core(program)
  local main, report, finish = recorder(rn, program)
  return engines.core(main, report, finish, MOST_STEPS)
end

---On lite.lua.
---@return string[] stories
function perform.lite(program)
  return engines.lite(recorder(lite, program))
end

---The first difference between two lists of stories, or nil: the number of the schedule, and both stories.
function perform.difference(a, b)
  for i = 1, math.max(#a, #b) do
    if a[i] ~= b[i] then return i, a[i] or "there is no such schedule", b[i] or "there is no such schedule" end
  end
end

return perform
