-- The watches of folders, which all that watch something in them share.

local both = require "spec.support.in_world"(it)
local patience = require "spec.support.patience"
local uv_stage = require "spec.support.uv_stage"

describe("the watch of a folder", function()
  local has_luv, luv = pcall(require, "luv")
  if not has_luv then return pending "luv is not installed" end
  local uv = require "runnel.uv"

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  local function folder()
    local path = uv_stage.path()
    assert(luv.fs_mkdir(path, tonumber("700", 8)))
    return path, function() os.execute("rm -rf " .. path) end
  end

  local function write(path, text)
    local file <close> = assert(io.open(path, "a"))
    file:write(text or "x")
  end

  -- Waits until a watch has told whether something is missing.
  local function wait_for(ch, missing)
    patience.wait_for(function()
      local change = ch:poll()
      return change and change.missing == missing
    end)
  end

  it("is called once for a change, however many of its files are watched", function()
    local path, remove = folder()
    local meta, calls = getmetatable(luv.new_fs_event()), 0
    local start = meta.__index.start
    meta.__index.start = function(handle, at, flags, f)
      return start(handle, at, flags, function(...)
        if at == path .. "/." then calls = calls + 1 end
        f(...)
      end)
    end
    local chs = {}
    for i = 1, 20 do
      write(path .. "/" .. i, "")
      chs[i] = uv.follow(path .. "/" .. i)
    end
    meta.__index.start = start
    for i = 1, 20 do write(path .. "/" .. i, "line\n") end
    for i = 1, 20 do assert.equal("line", chs[i]:take()) end
    patience.wait_for(function() return calls >= 20 end)
    assert.is_true(calls <= 40) -- some systems tell twice
    for i = 1, 20 do chs[i]:close() end
    remove()
  end)

  -- Ways to put another folder in the place of one that is watched, before anybody hears of it.
  local ways = {
    ["is renamed"] = function(path) return ("mv %s/d %s/e && mkdir %s/d"):format(path, path, path) end,
    ["is removed"] = function(path) return ("rm -r %s/d && mkdir %s/d"):format(path, path) end,
    ["is below one that is renamed"] = function(path)
      return ("mv %s %s.old && mkdir -p %s/d && mv %s.old %s/old"):format(path, path, path, path, path)
    end,
    ["is exchanged twice"] = function(path)
      return ("cd %s && mkdir e && mv d o && mv e d && mv d e && mv o d"):format(path)
    end,
  }
  for name, command in pairs(ways) do
    it("is not shared with one that comes after it when it " .. name, function()
      local path, remove = folder()
      assert(luv.fs_mkdir(path .. "/d", tonumber("700", 8)))
      local first = uv.watch(path .. "/d/f", { missing = true })
      assert(os.execute(command(path)))
      local second = uv.watch(path .. "/d/f", { missing = true })
      for _ = 1, 3 do
        write(path .. "/d/f")
        for _, ch in ipairs { first, second } do wait_for(ch, nil) end
        os.remove(path .. "/d/f")
        for _, ch in ipairs { first, second } do wait_for(ch, true) end
      end
      first:close()
      second:close()
      remove()
    end)
  end

  both("goes on for the others when one of them closes", function()
    local path = uv_stage.path ""
    local top = path:match "^(.*)/"
    local chs = {}
    for i = 1, 5 do chs[i] = uv.watch(i % 2 == 0 and top or path) end
    for closed = 1, 5 do
      write(path, closed)
      for i = closed, 5 do
        local change
        repeat change = chs[i]:take() until i % 2 == 1 or change.name == path:match "[^/]*$"
        assert.is_true(change.change)
      end
      chs[closed]:close()
    end
  end)

  it("ends with the last of them", function()
    local function count()
      local n = 0
      luv.walk(function(handle)
        if tostring(handle):find "fs_event" and handle:is_active() then n = n + 1 end
      end)
      return n
    end
    local path = uv_stage.path ""
    local before = count()
    local one, two = uv.watch(path), uv.follow(path)
    assert.is_true(count() > before)
    one:close()
    two:close()
    patience.wait_for(function() return count() == before end)
  end)

  it("is not made of a folder that has gone: the name of the error is told", function()
    local path, remove = folder()
    remove()
    assert.same({ nil, "ENOENT" }, { require "runnel.uv.folder_watch".add(path, nil, print) })
  end)
end)
