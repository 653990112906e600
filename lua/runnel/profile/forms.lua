---The forms of a profile's file: folded stacks, speedscope's JSON, and a page.

local first = require "runnel.profile.first"
local flame = require "runnel.profile.flame"
local json = require "runnel.json"
local picture = require "runnel.profile.picture"
local tree = require "runnel.profile.tree"

---@type table<string, fun(trees: runnel.profile.Trees): string> the ending of a file -> its text
local forms = {}

-- Calls f(names, us) for each stack that has time of its own; the names of a wait begin with "waiting".
local function each_stack(trees, f)
  local function walk(root, prefix)
    tree.walk(root, function(path, node)
      local us = node.own // 1000
      if us == 0 then return end
      local names = { prefix }
      for _, part in ipairs(path) do names[#names + 1] = part.text end
      f(names, us)
    end)
  end
  walk(trees.running)
  walk(trees.waiting, "waiting")
end

---One line for each stack: its frames, separated by semicolons, and its us.
function forms.folded(trees)
  local lines = {}
  each_stack(trees, function(names, us)
    for i, name in ipairs(names) do names[i] = name:gsub("[;%c]", ",") end
    lines[#lines + 1] = ("%s %d\n"):format(table.concat(names, ";"), us)
  end)
  return table.concat(lines)
end

---For speedscope (speedscope.app).
function forms.json(trees)
  local frames, numbers, samples, weights, total = json.array {}, {}, json.array {}, json.array {}, 0
  local function number_of(name)
    if not numbers[name] then
      local file, line = name:match "%(?([^()]+):(%d+)%)?$"
      frames[#frames + 1] = { name = name, file = file, line = math.tointeger(tonumber(line)) }
      numbers[name] = #frames - 1
    end
    return numbers[name]
  end
  each_stack(trees, function(names, us)
    local stack = json.array {}
    for i, name in ipairs(names) do stack[i] = number_of(name) end
    samples[#samples + 1], weights[#weights + 1], total = stack, us, total + us
  end)
  local text, problem = json.encode {
    ["$schema"] = "https://www.speedscope.app/file-format-schema.json", exporter = "runnel",
    name = first.sentence(trees), activeProfileIndex = 0, shared = { frames = frames },
    profiles = json.array { { type = "sampled", name = "ran and waited", unit = "microseconds", startValue = 0,
      endValue = total, samples = samples, weights = weights } },
  }
  return text or error(problem, 0)
end

---A page of its own: a flame graph, which needs no network.
function forms.html(trees)
  local text = picture.data(trees):gsub("%%", "%%%%")
  return (flame.html:gsub("%$DATA%$", text))
end

return forms
