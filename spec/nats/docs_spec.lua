-- The code about NATS in the manual runs, with a server of the spec's.

local nats_server = require "spec.support.queue.nats_server"
local pages = require "spec.support.docs.pages"

local nats, missing = nats_server.library()
if not nats then
  describe("code about NATS", function() pending(missing) end)
  return
end

local LUA = os.getenv "LUA" or "lua5.4"

-- A module that stages serve; the images are numbers.
local RESIZE = "return function(image) return 10 * image end\n"

describe("code about NATS", function()
  local server
  before_each(function()
    server = nats_server.start()
    server.set:write("resize.lua", RESIZE)
  end)
  after_each(function() server:close() end)

  -- Starts code as a program, with the server's address in place of its own.
  local function start(name, code)
    local path = server.set:write(name, (code:gsub("nats://[%w.]+:%d+", server.url)))
    return server.set:start { "env", "LUA_PATH=" .. server.set.dir .. "/?.lua;" .. package.path, LUA, path }
  end

  -- What the comments with an arrow say that code prints.
  local function expected(code)
    local lines = {}
    for line in code:gmatch "%-%->%s?([^\n]*)" do lines[#lines + 1] = line .. "\n" end
    return table.concat(lines)
  end

  for page, text in pairs { ["docs/manual/nats.md"] = "conn:subscribe", ["docs/manual/streams.md"] = "conn:stage" } do
    it("prints what it says: " .. page, function()
      local code = pages.block(page, text)
      local program = start("program.lua", code)
      assert.equal(0, program:wait(), program:output())
      assert.not_equal("", expected(code))
      assert.equal(expected(code), program:output())
    end)
  end

  -- Runs a pipeline over 1 to 5, and asserts on its results.
  local function assert_resizes(code)
    local program = start("program.lua", code)
    assert.equal(0, program:wait(), program:output())
    assert.equal("10 20 30 40 50 ", program:output())
  end

  it("runs a worker, and the same pipeline in three places: docs/manual/remote.md", function()
    local worker = start("worker.lua", pages.block("docs/manual/remote.md", "worker:wait()"))
    local lines = pages.block("docs/manual/remote.md", "rn.threads(2")
    local count = 0
    for line in lines:gmatch "[^\n]+" do
      count = count + 1
      assert_resizes(([[
        local rn = require "runnel"
        local conn <close> = assert(require("runnel.nats").connect "nats://localhost:4222")
        local from = rn.to_chan { 1, 2, 3, 4, 5 }
        %s
        for image in images do io.write(image, " ") end
        os.exit(true, true)]]):format(line))
    end
    assert.equal(3, count)
    worker:signal "TERM"
    assert.equal(0, worker:wait(), worker:output())
  end)
end)
