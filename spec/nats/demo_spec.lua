-- `make demo-cluster`: what it prints, and that nothing is left of it.

local background = require "spec.support.background"
local nats_server = require "spec.support.queue.nats_server"
local patience = require "spec.support.patience"
local process = require "spec.support.process"

local nats, missing = nats_server.library()
if not nats then
  describe("the demo of a cluster", function() pending(missing) end)
  return
end

describe("the demo of a cluster #heavy", function()
  local LUA = os.getenv "LUA" or "lua5.4"
  local dir, set
  before_each(function()
    dir, set = process.directory(), background.set()
    for i = 1, 400 do dir:write(("file %d.txt"):format(i), ("line %d\n"):format(i):rep(i * 10)) end
  end)
  after_each(function()
    set:close()
    dir:remove()
  end)

  -- Starts the demo with a folder of its own for temporary files.
  local function start()
    return set:start { "env", "FILES=" .. dir.path, "TMPDIR=" .. set.dir, LUA, "scripts/interruptible.lua",
      "scripts/demo_cluster.lua" }
  end

  -- What is left in the folder for temporary files.
  local function left()
    local pipe <close> = assert(io.popen("ls -d " .. set.dir .. "/tmp.* 2>/dev/null"))
    return pipe:read "a"
  end

  it("loses nothing, stores nothing twice, and leaves nothing behind", function()
    local demo = start()
    assert.equal(0, demo:wait(), demo:output())
    assert.is_truthy(demo:output():find("400 files, ", 1, true), demo:output())
    assert.is_truthy(demo:output():find("lost: 0   stored twice: 0   not asked for: 0", 1, true), demo:output())
    assert.equal("", left())
  end)

  it("leaves no process and no files when it is interrupted or killed", function()
    -- Many more files, of a line each: so their checksums take much longer than to see that all processes have begun.
    assert(os.execute(("cd '%s' && yes more | head -n 6000 | split -l 1 -a 4 - more"):format(dir.path)))
    for _, signal in ipairs { "INT", "KILL" } do
      local demo = start()
      assert.is_true(demo:says(" workers make the checksums of "), demo:output())
      assert.not_equal("", left())
      demo:signal(signal)
      assert.equal(signal == "INT" and 130 or 137, demo:wait(), demo:output())
      if signal == "INT" then
        assert.matches("\ninterrupted\n$", demo:output())
        assert.not_matches("traceback", demo:output())
      end
      assert.is_truthy(patience.wait_until(function() return left() == "" end), signal)
      -- The brackets keep pgrep from finding its shell.
      local pipe <close> = assert(io.popen("pgrep -f '" .. set.dir .. "/[t]mp'"))
      assert.equal("", pipe:read "a")
    end
  end)
end)
