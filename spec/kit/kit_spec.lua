-- The parts of C modules over a library with a thread: csrc/kit, base/thread.h; by the module of tests/kit/kit.c.

local interrupted = require "spec.support.interrupted"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"

describe("a C module made of csrc/kit", function()
  local dir, kit
  setup(function()
    dir = process.directory()
    local parts = { "tests/kit/kit.c" }
    for _, part in ipairs { "base/clock", "base/loaded", "base/thread", "base/wakeup", "kit/events", "kit/handle" } do
      parts[#parts + 1] = "csrc/" .. part .. ".c"
    end
    local library = dir.path .. "/kit.so"
    local lua = _VERSION:lower():gsub(" ", "") -- lua5.4
    local command = "${CC:-cc} -std=c11 -fPIC -shared -D_POSIX_C_SOURCE=200809L -iquote csrc $(pkg-config --cflags " ..
      "%s || echo -I/usr/include/%s) -o '%s' %s -pthread"
    assert(os.execute(command:format(lua, lua, library, table.concat(parts, " "))))
    kit = assert(package.loadlib(library, "luaopen_kit"))()
  end)
  teardown(function() dir:remove() end)

  it("puts what its thread has done on a channel, all of it and in order #ci", function()
    local results, n = rn.chan(1), 1000
    local doubler = kit.open(results)
    for i = 1, n do doubler:double(i) end
    for i = 1, n do assert.equal(2 * i, results:take()) end
    doubler:close()
    assert.is_nil(results:take())
    assert.equal(0, select(3, kit.counts()))
  end)

  it("raises what Ctrl-C raises while its port is opened, and not that this has failed", function()
    local doubler
    local n = interrupted.each("interrupted!", function() return kit.open(rn.chan()) end, function(ok, result)
      if ok then doubler = result else assert.equal("interrupted!", result) end
    end)
    assert.is_true(n > 3, n) -- calls within kit.open, too
    doubler:close()
    collectgarbage() -- frees those that could not be opened
  end)

  it("closes a handle once, and then its methods raise", function()
    local closed, freed = kit.counts()
    local doubler = kit.open(rn.chan())
    doubler:close()
    doubler:close()
    assert.same({ closed + 1, freed + 1 }, { kit.counts(), (select(2, kit.counts())) })
    local _, err = pcall(doubler.double, doubler, 1)
    assert.matches("the doubler is closed$", err)
    doubler = nil -- luacheck: ignore
    collectgarbage()
    assert.same({ closed + 1, freed + 1 }, { kit.counts(), (select(2, kit.counts())) })
  end)

  it("closes a handle that the collector finds, and drops what nobody gets any more", function()
    local closed, freed = kit.counts()
    for _ = 1, 10 do
      local doubler = kit.open(rn.chan())
      for i = 1, 100 do doubler:double(i) end
    end
    collectgarbage()
    assert.same({ closed + 10, 0 }, { kit.counts(), (select(3, kit.counts())) })
    patience.wait_until(function() -- the threads end, and the scheduler drops the last messages of their ports
      collectgarbage()
      return select(2, kit.counts()) == freed + 10
    end)
    assert.same({ closed + 10, freed + 10, 0 }, { kit.counts() })
  end)

  it("refuses a userdata of another type", function()
    local doubler = kit.open(rn.chan())
    local _, err = pcall(doubler.double, io.stdout, 1)
    assert.matches("test.doubler expected, got FILE%*", err)
    doubler:close()
  end)

  it("has a thread with a name, which ends with its handle", function()
    if not io.open "/proc/self/comm" then return pending "this system has no /proc" end
    local function names()
      local pipe <close> = assert(io.popen "cat /proc/$PPID/task/*/comm")
      return pipe:read "a"
    end
    local doubler = kit.open(rn.chan())
    assert.matches("test%-doubler\n", names())
    doubler:close()
    assert.not_matches("test%-doubler\n", names())
  end)
end)
