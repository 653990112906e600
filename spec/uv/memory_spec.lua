-- Reads of files: of what is in memory, at once; of the rest by threads.

local core = require "runnel.core"
local rn = require "runnel"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

describe("the reads of a file", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  local uv = require "runnel.uv"
  local descriptors = core.internal.descriptors
  local read_in_memory = descriptors.read_in_memory

  before_each(uv_stage.open)
  after_each(function()
    descriptors.read_in_memory = read_in_memory
    uv_stage.close()
  end)

  -- What the system may say: all is in memory, nothing is, a part is, it cannot tell, or one or the other.
  local SYSTEMS = {
    ["all in memory"] = read_in_memory,
    ["nothing in memory"] = function() return false end,
    ["parts in memory"] = function(fd, n, at) return read_in_memory(fd, math.random(n), at) end,
    ["unknown"] = function() end,
    ["some in memory"] = function(fd, n, at) return math.random(2) == 1 and read_in_memory(fd, n, at) end,
    ["unknown later"] = function(fd, n, at)
      if math.random(3) > 1 then return read_in_memory(fd, math.random(n), at) end
    end,
  }

  for name, system in pairs(SYSTEMS) do
    it("give the same with " .. name, function()
      descriptors.read_in_memory = system
      local list = {}
      for i = 1, 5000 do list[i] = ("line %d "):format(i):rep(math.random(0, 12)) end
      local text = table.concat(list, "\n") .. "\n"
      local path = uv_stage.path(text)
      assert.is_true(text == table.concat(stage.drain(uv.read(path))))
      assert.same(list, stage.drain(uv.lines(path)))
      for _, n in ipairs { 1000, 100000, 1000000 } do
        assert.is_true(text == table.concat(stage.drain(uv.lines(path, { pieces = n }))))
      end

      local ch, taken = uv.follow(path), 0
      local function take_to(n)
        while taken < n do
          taken = taken + 1
          assert.equal(list[taken], ch:take())
        end
      end
      take_to(2000)
      for _ = 1, 10 do
        local file <close> = assert(io.open(path, "a"))
        for _ = 1, math.random(30) do
          list[#list + 1] = "more " .. #list
          file:write(list[#list], "\n")
        end
        file:flush()
        if math.random(2) == 1 then take_to(math.random(taken, #list)) end
      end
      take_to(#list)
      io.open(path, "w"):close() -- is truncated
      rn.sleep(20)
      local file <close> = assert(io.open(path, "a"))
      file:write "begins anew\n"
      file:flush()
      assert.equal("begins anew", ch:take())
      ch:close()
    end)
  end

  it("give the error of the system", function()
    local path = uv_stage.path "text"
    for number, message in pairs { [5] = "EIO: i/o error", [22] = "EINVAL: invalid argument" } do
      descriptors.read_in_memory = function() return nil, number end
      for _, ch in ipairs { uv.read(path), uv.lines(path), uv.follow(path) } do
        assert.same({ nil, path .. ": " .. message }, { ch:take() })
      end
    end
  end)

  it("come from a thread where the file is not in memory", function()
    if not read_in_memory then return pending "not on Linux" end
    local text = ("x"):rep(1000)
    local path, is_said = uv_stage.path(text), false
    descriptors.read_in_memory = function(...)
      local chunk, size = read_in_memory(...)
      is_said = is_said or chunk == false
      return chunk, size
    end
    for _ = 1, 10 do -- the system drops it, but not while it is busy with it
      os.execute(("sync %s && dd if=%s iflag=nocache count=0 2>/dev/null"):format(path, path))
      assert.equal(text, table.concat(stage.drain(uv.read(path))))
      if is_said then break end
    end
    if not is_said then return pending "this file system has all files in memory, or cannot tell" end
  end)

  it("come without a thread where the file is in memory", function()
    if not read_in_memory or not io.open "/proc/self/io" then return pending "not on Linux" end
    local path, count = uv_stage.path(("x\n"):rep(100000)), 0
    descriptors.read_in_memory = function(...)
      local chunk, size = read_in_memory(...)
      if chunk then count = count + 1 end
      return chunk, size
    end
    assert.equal(100000, #stage.drain(uv.lines(path)))
    if count == 0 then return pending "this file system cannot tell what is in memory" end
    assert.equal(5, count) -- 200,000 bytes in pieces of 64 KB, and the end
  end)
end)
