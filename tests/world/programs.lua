---Random programs: two or three go blocks, each with one to four operations of one notion.
---
---A program is plain data, of the form that spec/support/model/shrink.lua makes smaller: { notion =, setting =, hosts
---=, blocks = { { name =, host =, script = { operation, ... } }, ... } }. `hosts`: 2, if in the world the blocks are on
---the hosts that they name.

local generator = require "spec.support.generator"

local programs = {}

local NOTIONS = { "sockets", "udp", "files", "watch", "sqlite", "processes", "timers", "http", "websocket", "keepers",
  "nats" }

programs.notions = {}

---Loads the notions, but for those of which a module is missing.
---@param only? string the name of one
---@return string[] missing
function programs.load(only)
  local missing = {}
  for _, name in ipairs(NOTIONS) do
    if not only or name == only then
      local notion = require("tests.world.notions." .. name)
      local problem = notion.missing and notion.missing()
      if problem then missing[#missing + 1] = ("%s: %s"):format(name, problem)
      else table.insert(programs.notions, notion) end
    end
  end
  return missing
end

---@param name string
---@return table notion
function programs.notion(name) return require("tests.world.notions." .. name) end

local function draw_script(random, notion, role, n)
  local script = {}
  for i = 1, n do
    local names = notion.roles[role]
    local name = names[random(#names)]
    local draw = notion.operations[name].draw
    script[i] = draw and draw(random) or {}
    script[i].op, script[i].role = name, role
  end
  return script
end

---@param seed integer
---@return table program
function programs.make(seed)
  local random = generator(seed)
  local notion = programs.notions[random(#programs.notions)]
  local made = { notion = notion.name, hosts = notion.hosts and random(notion.hosts) or 1, channels = {}, blocks = {},
    collector = "usual", setting = notion.setting and notion.setting(random) or nil }
  local n = notion.blocks(random)
  for i, role in ipairs(n) do
    made.blocks[i] = { name = role .. i, role = role, host = role == "server" and 1 or made.hosts,
      script = draw_script(random, notion, role, random(#n == 2 and 4 or 3)) }
  end
  return made
end

-- ---- as text ----

local function text_of(op)
  local parts = {}
  for name, value in pairs(op) do
    if name ~= "op" and name ~= "role" then parts[#parts + 1] = ("%s=%s"):format(name, tostring(value)) end
  end
  table.sort(parts)
  return op.op .. (#parts > 0 and "(" .. table.concat(parts, " ") .. ")" or "")
end

---@param made table
---@return string
function programs.text(made)
  local lines = { ("  %s%s, %s"):format(made.notion, made.setting and " " .. text_of(made.setting) or "",
    made.hosts == 2 and "two hosts" or "one host") }
  for i, block in ipairs(made.blocks) do
    local list = {}
    for k, op in ipairs(block.script) do list[k] = text_of(op) end
    lines[i + 1] = ("  %s: %s"):format(block.name, table.concat(list, "; "))
  end
  return table.concat(lines, "\n")
end

-- ---- outcomes ----

---An outcome as text: the results of each block.
---@param made table
---@param results string[][]
---@return string
function programs.outcome(made, results)
  local parts = {}
  for i, block in ipairs(made.blocks) do
    parts[i] = ("%s: %s"):format(block.name, table.concat(results[i], " ; "))
  end
  return table.concat(parts, " | ")
end

---Whether results are the beginning of others.
---@param results string[][]
---@param others string[][]
function programs.is_beginning(results, others)
  for i, list in ipairs(results) do
    for k, text in ipairs(list) do
      if others[i][k] ~= text then return false end
    end
  end
  return true
end

return programs
