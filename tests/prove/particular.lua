---Particular programs, which random ones do not contain: those that the core and lite.lua do in the same way
---(particular_both.lua), and those that check the core alone (the files ONLY).

local both = require "tests.prove.particular_both"
local core = require "runnel.core"
local lite = require "runnel.lite"
local plain = require "tests.prove.plain"
local rn = require "runnel"
local sim = require "runnel.sim"

local ONLY = {
  "core", "library", "moving", "lives", "meddling", "finalizers", "waiting", "places", "policies", "keeping",
  "time", "threads",
}

local particular = {}

-- One at a time, with a message for each difference.
local function run_core(name, f)
  local problem
  local function is(got, expected)
    if got ~= expected and not problem then
      problem = ("%s (line %d): %s, not %s"):format(name, debug.getinfo(2, "l").currentline, tostring(got),
        tostring(expected))
    end
  end
  local ok, err = pcall(f, is)
  rn.on_error(nil)
  return not ok and ("%s: %s"):format(name, err) or problem
end

local function story_of(m, f)
  local story = {}
  local function say(...)
    local list = table.pack(...)
    for i = 1, list.n do list[i] = plain(type(list[i]) == "number" and ("%g"):format(list[i]) or list[i]) end
    story[#story + 1] = table.concat(list, " ", 1, list.n)
  end
  local ok, err = pcall(f, m, say)
  if not ok then say("raises", err) end
  return story
end

local function names_of(list)
  local names = {}
  for name in pairs(list) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- The first difference of a program on both engines, or nil.
local function difference(name, simulated)
  core.internal.seed(1)
  local ours, theirs = story_of(simulated, both[name]), story_of(lite, both[name])
  for i = 1, math.max(#ours, #theirs) do
    if ours[i] ~= theirs[i] then
      return ("%s, line %d:\nthe core: %s\nlite.lua: %s"):format(name, i, ours[i], theirs[i])
    end
  end
end

-- Some depend on real time: a problem is one if it comes again and again.
local function thrice(f, ...) return f(...) and f(...) and f(...) end

---Runs all of them. Returns the first problem, or nil and how many there are.
---@return string? problem, integer? n
function particular.check()
  local simulated = setmetatable({ sim = sim }, { __index = rn })
  local shared, n = names_of(both), 0
  for _, name in ipairs(shared) do
    local problem = thrice(difference, name, simulated)
    if problem then return problem end
  end
  for _, file in ipairs(ONLY) do
    local only = require("tests.prove.particular_" .. file)
    for _, name in ipairs(names_of(only)) do
      local problem = thrice(run_core, name, only[name])
      if problem then return problem end
      n = n + 1
    end
  end
  return nil, #shared + n
end

return particular
