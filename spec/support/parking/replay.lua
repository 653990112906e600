-- lua replay.lua [N]: prints how each call, or each Nth call, of parks.lua and keepers.lua goes in a simulation, twice,
-- as sim.explore tells it: where, its name, and the whole story in one line. Each process must print the same, and the
-- second time must be like the first.

local endings = require "spec.support.endings"
local keepers = require "spec.support.parking.keepers"
local parks = require "spec.support.parking.parks"
local rn = require "runnel"
local settings = require "spec.support.parking.settings"
local sim = require "runnel.sim"

require("runnel.search.explore").shortening = 0

local function story(where, kind, f, keeper)
  local _, message = pcall(sim.explore, function()
    settings[where](kind, f, keeper, true)
    error "the end"
  end, { seconds = 0 })
  return (tostring(message):gsub("\n%s*", " | "))
end

local step, calls = tonumber(arg[1]) or 1, tonumber(arg[2]) or 0

local function tell(where, kind, list, keeper)
  local names = {}
  for name in pairs(list) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    calls = calls + 1
    for _ = 1, calls % step == 0 and 2 or 0 do
      print(where, keeper or kind, name, story(where, kind, list[name], keeper))
    end
  end
end

local operations = {}
for name, operation in pairs(endings.operations) do
  operations[name] = function(_, call)
    call(function()
      operation(endings.setting(true, function() return false end))
      rn.sleep(100)
    end)
  end
end
tell("simulation", "operations", operations)

for _, where in ipairs { "simulation", "world" } do
  tell(where, "core", parks.core)
  if pcall(require, "runnel.sqlite.core") then
    tell(where, "sqlite", parks.sqlite)
    tell(where, "stores", keepers.stores)
    tell(where, "both", keepers.both, "stores")
  end
end
tell("world", "io", parks.io)
if pcall(require, "runnel.http.curl") then tell("world", "http", parks.http) end
if pcall(require, "runnel.nats.core") then
  tell("world", "nats", keepers.nats)
  tell("world", "both", keepers.both, "nats")
end
