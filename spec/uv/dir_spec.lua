-- uv.list: what is in a directory, on a real disk and on a simulated one.

local process = require "spec.support.process"
local raises = require "spec.support.raises"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

describe("uv.list", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  local uv = require "runnel.uv"

  local dir
  before_each(function()
    uv_stage.open()
    dir = process.directory()
    local make = "cd %s && mkdir -p a/deep/er b empty && touch z.txt a/1 a/deep/2 b/3 && ln -s a link && mkfifo pipe"
    assert(os.execute(make:format(dir.path)))
  end)
  after_each(function()
    dir:remove()
    uv_stage.close()
  end)

  -- The entries as texts "TYPE PATH", with paths from the directory on.
  local function texts(entries, root)
    local list = {}
    for i, entry in ipairs(entries) do
      assert.equal(entry.name, entry.path:match "[^/]+$")
      list[i] = entry.type .. " " .. entry.path:sub(#root + 2)
    end
    return list
  end

  it("gives the entries in the order of their names, with their types", function()
    assert.same({ "directory a", "directory b", "directory empty", "link link", "fifo pipe", "file z.txt" },
      texts(stage.drain(uv.list(dir.path)), dir.path))
    assert.same({}, stage.drain(uv.list(dir.path .. "/empty")))
  end)

  it("gives each directory before what is in it, with deep", function()
    assert.same({ "directory a", "file a/1", "directory a/deep", "file a/deep/2", "directory a/deep/er", "directory b",
      "file b/3", "directory empty", "link link", "fifo pipe", "file z.txt" },
      texts(stage.drain(uv.list(dir.path, { deep = true })), dir.path))
  end)

  it("gives what is in each directory, with deep, where the file system does not say the types", function()
    local luv = require "luv"
    local original, found = luv.fs_scandir_next, {}
    for i, kind in ipairs { "directory", "unknown", false } do
      if i > 1 then luv.fs_scandir_next = function(list) return (original(list)), kind or nil end end
      found[i] = texts(stage.drain(uv.list(dir.path, { deep = true })), dir.path)
      luv.fs_scandir_next = original
    end
    assert.equal(11, #found[1])
    assert.same({ found[1], found[1] }, { found[2], found[3] })
  end)

  it("joins paths with one slash", function()
    assert.equal(dir.path .. "/a", uv.list(dir.path .. "/"):take().path)
  end)

  it("passes over directories that are removed meanwhile", function()
    local entries = uv.list(dir.path, { deep = true })
    assert.equal("a", entries:take().name)
    assert(os.execute(("rm -r %s/b"):format(dir.path)))
    local list = texts(stage.drain(entries), dir.path)
    assert.equal("directory b", list[5])
    assert.equal("directory empty", list[6])
  end)

  it("stops when the channel is closed", function()
    local entries = uv.list(dir.path, { deep = true })
    entries:take()
    entries:close()
    assert.is_nil((entries:take()))
  end)

  it("reads each of luv's lists to the end, so that luv frees it, also if the channel closes before", function()
    local luvs, open = require("runnel.uv.loop").uv, {}
    local begin, next_entry = luvs.fs_scandir, luvs.fs_scandir_next
    function luvs.fs_scandir(path, on_end)
      return begin(path, function(err, list)
        if list then open[list] = true end
        on_end(err, list)
      end)
    end
    function luvs.fs_scandir_next(list)
      local name, kind = next_entry(list)
      if not name then open[list] = nil end
      return name, kind
    end
    local restored <close> = setmetatable({}, { __close = function() -- luacheck: ignore 211
      luvs.fs_scandir, luvs.fs_scandir_next = begin, next_entry
    end })
    for taken = 0, 4 do
      local entries = uv.list(dir.path, { deep = true })
      for _ = 1, taken do entries:take() end
      entries:close()
    end
    stage.rest()
    assert.is_nil(next(open))
  end)

  it("keeps nothing of what it has listed", function()
    assert(os.execute(("cd %s/empty && touch $(seq 1000)"):format(dir.path)))
    local function list(taken)
      local entries = uv.list(dir.path .. "/empty")
      for _ = 1, taken do entries:take() end
      entries:close()
    end
    local function memory()
      stage.rest()
      collectgarbage()
      collectgarbage()
      return collectgarbage "count"
    end
    list(1001)
    local before = memory()
    for i = 1, 20 do list(i) end
    for _ = 1, 10 do list(1001) end
    assert.is_true(memory() - before < 200, "the names of each listing take 32 KB and more")
  end)

  it("closes the channel with the error if there is no such directory", function()
    for path, problem in pairs { ["/none"] = "^ENOENT: no such file or directory: /none", ["/z.txt"] = "^ENOTDIR" } do
      local value, err = uv.list(path == "/none" and path or dir.path .. path):take()
      assert.is_nil(value)
      assert.matches(problem, err)
    end
  end)

  it("raises at the caller's line if it is called wrongly", function()
    raises("^list: dir: a path expected, got nothing", function() uv.list() end)
    raises('^list: unknown option "depth"; known: deep', function() uv.list("/", { depth = 2 }) end)
    raises("^list: deep: true or false expected, got 1", function() uv.list("/", { deep = 1 }) end)
  end)

  it("lists the disk of a simulated host, where it may fail", function()
    local seen = {}
    local function run(faults, seed)
      return sim.run(function()
        local world, result = sim.world { faults = faults }, nil
        local host = world:host("host", function()
          local entries, list = uv.list("/data", { deep = true }), {}
          local entry, err = entries:take()
          while entry do
            list[#list + 1] = entry.type .. " " .. entry.path
            entry, err = entries:take()
          end
          result = err or table.concat(list, ", ")
        end)
        host:put("/data/b/two", "2")
        host:put("/data/one", "1")
        world:run()
        return result
      end, { seed = seed })
    end
    assert.equal("directory /data/b, file /data/b/two, file /data/one", run())
    for seed = 1, 40 do
      local text = run({ eio = 1 }, seed)
      seen[text:match "^EIO" or text] = true
    end
    assert.is_true(seen.EIO)
    assert.is_true(seen["directory /data/b, file /data/b/two, file /data/one"])
  end)
end)
