---A process, and go blocks that talk to it, send it signals and stop it.

local children = require "tests.world.children"
local rn = require "runnel"
local uv = require "runnel.uv"

local processes = { name = "processes" }

function processes.blocks(random) return random(3) == 1 and { "user", "user", "user" } or { "user", "user" } end

processes.roles = { user = { "put", "end_input", "out", "out", "err", "exit", "exit", "kill", "kill", "stop", "close",
  "sleep",
  "run" } }

local NAMES = {}
for name in pairs(children) do NAMES[#NAMES + 1] = name end
table.sort(NAMES)

function processes.setting(random) return { op = "process", name = NAMES[random(#NAMES)], lines = random(2) == 1 } end

function processes.missing() return not os.getenv "RUNNEL" and "the environment says not where runnel is (make env)"
  or nil end

function processes.world(world)
  world:program("child", function(args, ...) return children[args[1]](args, ...) end)
end

local function command(env, name)
  if env.is_real then return { os.getenv "RUNNEL", "tests/world/child.lua", name } end
  return { "child", name }
end

function processes.setup(env, setting)
  local options = command(env, setting.name)
  options.grace, options.stdout = 15, setting.lines and "lines" or nil
  local p = uv.spawn(options)
  env.state.p = p
  env:at_end(function()
    p:close()
    p:kill "kill"
    p.exit:take()
  end)
end

local SIGNALS = { "term", "term", "kill", "usr1", "hup" }

processes.operations = {
  put = { perform = function(_, env, p) return env:within(p.stdin.put, p.stdin, "x\n") end },
  end_input = { perform = function(_, _, p) return p.stdin:close() end },
  out = { perform = function(_, env, p)
    local text, err = env:within(p.stdout.take, p.stdout)
    return text and #text > 100 and "much" or text, err
  end },
  err = { perform = function(_, env, p) return env:within(p.stderr.take, p.stderr) end },
  exit = { perform = function(_, env, p) return env:within(p.exit.take, p.exit) end },
  kill = {
    draw = function(random) return { signal = SIGNALS[random(#SIGNALS)] } end,
    perform = function(op, _, p) return p:kill(op.signal) end,
  },
  stop = { perform = function(_, env, p) return env:within(p.stop, p) end },
  close = { perform = function(_, _, p) return p:close() end },
  run = {
    draw = function(random)
      return { name = NAMES[random(#NAMES)], timeout = random(2) == 1 and 15 or nil, max = random(3) == 1 and 1000
        or nil }
    end,
    perform = function(op, env)
      local options = command(env, op.name)
      options.timeout, options.max, options.grace, options.stdin = op.timeout, op.max, 15, "in\n"
      local result, err, more = env:within(uv.run, options)
      result = type(result) == "table" and result or more
      if type(result) == "table" and #result.stdout > 100 then result.stdout = "much" end
      return result, err
    end,
  },
  sleep = {
    draw = function(random) return { ms = random(20) } end,
    perform = function(op) return rn.sleep(op.ms) end,
  },
}

for name, operation in pairs(processes.operations) do
  local perform = operation.perform
  if name ~= "run" then
    function operation.perform(op, env) return perform(op, env, env.state.p) end
  end
end

return processes
