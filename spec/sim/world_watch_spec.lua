-- uv.watch in a simulated world tells what it tells in reality: random programs run in both.

local long = require "spec.support.long"
local rn = require "runnel"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

describe("uv.watch in a simulated world", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  local uv = require "runnel.uv"
  local luv = require("runnel.uv.loop").uv -- that of the world, where one runs

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  local FOLDER <const> = tonumber("700", 8)
  local WATCHED = { "f", "a", "a/f", "a/b", "a/b/f" }
  local PATHS = { "a", "a/b", "a/f", "a/b/f", "f", "g", "c" }

  -- ---- what a program does: each returns whether it could ----

  local function write(mode)
    return function(state, path)
      local file <close> = io.open(state.root .. path, mode)
      return file ~= nil and file:write "x" ~= nil and file:flush() ~= nil
    end
  end

  local ACTS = {
    write = write "w", append = write "a",
    create = function(state, path)
      local file <close> = io.open(state.root .. path, "a")
      return file ~= nil
    end,
    remove = function(state, path) return (luv.fs_unlink(state.root .. path)) end,
    rename = function(state, path, to) return os.rename(state.root .. path, state.root .. to) end,
    make = function(state, path) return (luv.fs_mkdir(state.root .. path, FOLDER)) end,
    clear = function(state, path) return (luv.fs_rmdir(state.root .. path)) end,
    mode = function(state, path) return (luv.fs_chmod(state.root .. path, FOLDER)) end,
    hold = function(state, path) -- a file that is open while others act
      if state.held then state.held:close() end
      state.held = io.open(state.root .. path, "a")
      return state.held ~= nil
    end,
    go_on = function(state) return state.held ~= nil and state.held:write "x" ~= nil and state.held:flush() ~= nil end,
  }

  local NAMES = { "write", "append", "create", "create", "remove", "rename", "rename", "make", "make", "clear", "mode",
    "hold", "go_on" }

  local function random_program(n)
    local acts = {}
    for i = 1, n do
      acts[i] = { NAMES[math.random(#NAMES)], PATHS[math.random(#PATHS)], PATHS[math.random(#PATHS)] }
    end
    return acts
  end

  -- ---- what the watches tell ----

  -- All that a watch has told since, as a text: for each name its flags; how often does not count.
  local function told(ch)
    local flags, names = {}, {}
    while true do
      local change = ch:poll()
      if not change then break end
      local name = change.name or "itself"
      if not flags[name] then names[#names + 1] = name end
      flags[name] = flags[name] or {}
      for _, flag in ipairs { "change", "rename" } do flags[name][flag] = flags[name][flag] or change[flag] end
      flags[name].missing = change.missing
      for _ = 1, 4 do rn.yield() end -- lets the watch put the next one
    end
    table.sort(names)
    for i, name in ipairs(names) do
      local f = flags[name]
      names[i] = name .. (f.change and not f.missing and " change" or "") .. (f.rename and " rename" or "")
        .. (f.missing and " missing" or "")
    end
    return table.concat(names, ", ")
  end

  -- Runs a program. `settle` parks until all that has happened was told. Returns a line for each act.
  local function run(acts, root, settle)
    local state, channels, lines = { root = root }, {}, {}
    for i, path in ipairs(WATCHED) do channels[i] = uv.watch(root .. path, { missing = true }) end
    for i, act in ipairs(acts) do
      local parts = { ("%d. %s %s%s: %s"):format(i, act[1], act[2], act[1] == "rename" and " " .. act[3] or "",
        ACTS[act[1]](state, act[2], act[3]) and "done" or "failed") }
      settle()
      for k, ch in ipairs(channels) do
        local what = told(ch)
        if what ~= "" then parts[#parts + 1] = ("  %s: %s"):format(WATCHED[k], what) end
      end
      lines[i] = table.concat(parts, "\n")
    end
    if state.held then state.held:close() end
    for _, ch in ipairs(channels) do ch:close() end
    return lines
  end

  local function in_reality(acts)
    local root, sign = uv_stage.path() .. "/", uv_stage.path ""
    assert(luv.fs_mkdir(root, FOLDER))
    local signs = uv.watch(sign)
    -- The system tells events in the order in which they happened, and a watch looks once more when it is told.
    local function settle()
      for _ = 1, 3 do
        local file <close> = assert(io.open(sign, "a"))
        file:write("x"):flush()
        assert(signs:take())
      end
    end
    local lines = run(acts, root, settle)
    signs:close()
    os.execute("rm -rf " .. root)
    return lines
  end

  local function in_world(acts)
    local lines
    sim.run(function()
      local world = sim.world()
      world:host("here", function()
        luv.fs_mkdir("/tmp/root", FOLDER)
        lines = run(acts, "/tmp/root/", function() rn.sleep(1) end)
      end)
      world:run()
    end)
    return lines
  end

  local function compare(acts)
    local real, simulated = in_reality(acts), in_world(acts)
    for i, line in ipairs(real) do
      if line ~= simulated[i] then
        error(("%s\n\nin reality:\n%s\n\nin the world:\n%s"):format(table.concat(real, "\n", 1, i - 1), line,
          simulated[i]), 0)
      end
    end
  end

  it("tells what it tells in reality, whatever happens to the path #ci", function()
    for _ = 1, long.times(20, 400) do compare(random_program(30)) end
  end)
end)
