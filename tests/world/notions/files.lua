---Go blocks that read, write, rename and remove the same files, by runnel.uv and by Lua's io.

local rn = require "runnel"
local uv = require "runnel.uv"

local files = { name = "files" }

-- A program uses runnel.uv, or Lua's io: in reality threads work for runnel.uv, also between two calls of io.
function files.blocks(random)
  local role = random(2) == 1 and "uv" or "io"
  return random(2) == 1 and { role, role } or { role, role, role }
end

files.roles = {
  uv = { "write", "write", "append", "read", "read", "lines", "list", "rename", "remove", "tick", "copy" },
  io = { "rename", "remove", "io_write", "io_read", "io_update", "io_pieces", "opened", "tick", "sleep" },
}

local NAMES = { "f", "g", "d/f", "d", "f/x" }

local function draw_name(random) return NAMES[random(random(2) == 1 and 2 or #NAMES)] end

function files.setup(env)
  if env.is_real then assert(require("luv").fs_mkdir(env:path "d", 0x1FF)) else
    assert(require("runnel.internal.world").luv.fs_mkdir(env:path "d", 0x1FF))
  end
  local file <close> = assert(io.open(env:path "f", "w"))
  file:write "one\ntwo\n"
end

local function draw(random) return { name = draw_name(random) } end

local function draw_text(random) return { name = draw_name(random), text = ({ "x\n", "yyyyyyyyyyyy\n",
  "" })[random(3)] } end

local function all(ch)
  local list = {}
  for text in ch do list[#list + 1] = text end
  local _, err = ch:take()
  list[#list + 1] = err
  return table.concat(list, "|")
end

local function with(path, mode, f)
  local file, err, number = io.open(path, mode)
  if not file then return err, number end
  local results = table.pack(f(file))
  file:close()
  return table.unpack(results, 1, results.n)
end

files.operations = {
  write = { draw = draw_text, perform = function(op, env)
    return uv.write(env:path(op.name), rn.to_chan { op.text, "z\n" }):take()
  end },
  append = { draw = draw_text, perform = function(op, env)
    return uv.write(env:path(op.name), rn.to_chan { op.text }, { append = true, sync = true }):take()
  end },
  read = { draw = draw, perform = function(op, env)
    local list, ch = {}, uv.read(env:path(op.name))
    for text in ch do list[#list + 1] = text end
    return table.concat(list), select(2, ch:take())
  end },
  lines = { draw = draw, perform = function(op, env) return all(uv.lines(env:path(op.name))) end },
  list = { draw = function(random) return { name = ({ ".", "d", "f" })[random(3)], deep = random(2) == 1 } end,
    perform = function(op, env)
      local list, ch = {}, uv.list(env:path(op.name), { deep = op.deep })
      for entry in ch do list[#list + 1] = entry.name .. " " .. entry.type end
      return table.concat(list, "|"), select(2, ch:take())
    end },
  rename = {
    draw = function(random) return { name = draw_name(random), to = draw_name(random) } end,
    perform = function(op, env) return os.rename(env:path(op.name), env:path(op.to)) end,
  },
  remove = { draw = draw, perform = function(op, env) return os.remove(env:path(op.name)) end },
  io_write = { draw = draw_text, perform = function(op, env)
    return with(env:path(op.name), "w", function(file) return file:write(op.text) ~= nil end)
  end },
  io_update = { draw = draw_text, perform = function(op, env)
    return with(env:path(op.name), "r+", function(file)
      file:seek("set", 2)
      return file:write(op.text) ~= nil, file:seek "cur"
    end)
  end },
  io_read = { draw = draw, perform = function(op, env)
    return with(env:path(op.name), "r", function(file) return file:read "l", file:read "a" end)
  end },
  io_pieces = { draw = draw, perform = function(op, env) -- others come between
    return with(env:path(op.name), "r", function(file)
      local first = file:read(2)
      rn.sleep(1)
      file:seek("set", 2)
      return first, file:read "a"
    end)
  end },
  opened = { draw = draw, perform = function(op, env) -- the file is replaced or removed while it is open
    return with(env:path(op.name), "a+", function(file)
      rn.sleep(1)
      local written = file:write "w"
      file:flush()
      file:seek "set"
      return written ~= nil, file:read "a"
    end)
  end },
  copy = { draw = function(random) return { name = draw_name(random), to = draw_name(random) } end,
    perform = function(op, env) return uv.write(env:path(op.to), uv.read(env:path(op.name))):take() end },
  sleep = { perform = function() return rn.sleep(1) end },
  tick = { perform = function(_, env)
    env.state.n = (env.state.n or 0) + 1
    return env.state.n
  end },
}

return files
