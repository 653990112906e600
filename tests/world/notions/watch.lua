---A go block that watches a path, and others that change what is there.

local rn = require "runnel"
local uv = require "runnel.uv"

local watch = { name = "watch" }

function watch.blocks(random) return random(2) == 1 and { "watcher", "changer" } or { "watcher", "changer",
  "changer" } end

watch.roles = {
  watcher = { "changes", "changes", "changes", "wait", "wait", "next", "close" },
  changer = { "write", "io_write", "io_append", "replace", "replace", "remove", "move_away", "make_folder",
    "remove_folder",
    "rename_folder", "burst", "burst", "sleep" },
}

function watch.setting(random)
  return { op = "watch", path = ({ "d", "d/f", "d/f", "d/g", "d/e/f" })[random(5)], missing = random(2) == 1 }
end

function watch.setup(env, setting)
  local luv = env.is_real and require "luv" or require("runnel.internal.world").luv
  assert(luv.fs_mkdir(env:path "d", 0x1FF))
  local file <close> = assert(io.open(env:path "d/f", "w"))
  file:write "one\n"
  file:close()
  local ch = uv.watch(env:path(setting.path), { missing = setting.missing })
  env.state.ch, env.state.luv = ch, luv
  env:at_end(function() ch:close() end)
end

local function told(change, err)
  if type(change) ~= "table" then return change, err end
  return { name = change.name, change = change.change, rename = change.rename, missing = change.missing }
end

local NAMES = { "d/f", "d/f", "d/g", "d/e/f" }

local function draw(random) return { name = NAMES[random(#NAMES)] } end

local function result(_, err, name) return name or err end

watch.operations = {
  next = { perform = function(_, env) return told(env:within(env.state.ch.take, env.state.ch)) end },
  changes = { perform = function(_, env) -- all that come, in order
    local list = {}
    repeat
      local change, err = env:within(env.state.ch.take, env.state.ch)
      list[#list + 1] = env:tell(true, told(change, err))
    until type(change) ~= "table" or #list > 20
    return table.concat(list, " ")
  end },
  close = { perform = function(_, env) return env.state.ch:close() end },
  write = { draw = draw, perform = function(op, env)
    return uv.write(env:path(op.name), rn.to_chan { "new", "er\n" }):take()
  end },
  io_write = { draw = draw, perform = function(op, env)
    local file <close>, err = io.open(env:path(op.name), "w")
    return file and file:write "w" ~= nil, err
  end },
  io_append = { draw = draw, perform = function(op, env)
    local file <close>, err = io.open(env:path(op.name), "a")
    return file and file:write "w" ~= nil, err
  end },
  replace = { draw = draw, perform = function(op, env)
    local name = env:path(op.name)
    local file, err = io.open(name .. ".new", "w")
    if not file then return err end
    file:write "replaced\n"
    file:close()
    return os.rename(name .. ".new", name)
  end },
  remove = { draw = draw, perform = function(op, env) return os.remove(env:path(op.name)) end },
  move_away = { draw = draw, perform = function(op, env) return os.rename(env:path(op.name), env:path "h") end },
  make_folder = { perform = function(_, env) return result(env.state.luv.fs_mkdir(env:path "d/e", 0x1FF)) end },
  remove_folder = { perform = function(_, env) return result(env.state.luv.fs_rmdir(env:path "d/e")) end },
  rename_folder = { perform = function(_, env) return os.rename(env:path "d", env:path "k") end },
  wait = { perform = function() return rn.sleep(8) end },
  burst = { draw = draw, perform = function(op, env) -- several changes at once
    for _ = 1, 3 do
      local file = io.open(env:path(op.name), "a")
      if file then
        file:write "x"
        file:close()
      end
    end
    return os.remove(env:path(op.name))
  end },
  sleep = {
    draw = function(random) return { ms = random(5) } end,
    perform = function(op) return rn.sleep(op.ms) end,
  },
}

return watch
