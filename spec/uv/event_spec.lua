-- uv.signal, uv.ticker.

local patience = require "spec.support.patience"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

describe("runnel.uv", function()
  local has_luv, luv = pcall(require, "luv")
  if not has_luv then return pending "luv is not installed" end
  local uv = require "runnel.uv"

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  local function raise(signal) luv.kill(luv.os_getpid(), signal) end

  describe("signals", function()
    it("arrive on a channel as their names", function()
      local ch = uv.signal "usr1"
      raise "sigusr1"
      assert.equal("usr1", ch:take())
      raise "sigusr1"
      assert.equal("usr1", ch:take())
      ch:close()
    end)

    it("of several kinds arrive on one channel", function()
      local ch = uv.signal("USR1", "sigusr2")
      raise "sigusr2"
      assert.equal("sigusr2", ch:take())
      raise "sigusr1"
      assert.equal("USR1", ch:take())
      ch:close()
    end)

    it("reach every channel that asked for them", function()
      local a, b = uv.signal "usr1", uv.signal "usr1"
      raise "sigusr1"
      assert.equal("usr1", a:take())
      assert.equal("usr1", b:take())
      a:close()
      raise "sigusr1"
      assert.equal("usr1", b:take())
      b:close()
    end)

    it("wait until they are taken, up to a limit", function()
      local ch = uv.signal "usr1"
      for _ = 1, 100 do
        raise "sigusr1"
        rn.sleep(0.1)
      end
      ch:close()
      local list = stage.drain(ch)
      assert.is_true(#list >= 1 and #list <= 16)
    end)

    it("have their former effect again once the channel is closed", function()
      local output, status = stage.script [[
        local rn, uv, luv = require "runnel", require "runnel.uv", require "luv"
        local ch = uv.signal "usr1"
        luv.kill(luv.os_getpid(), "sigusr1")
        io.write(ch:take()):flush()
        ch:close()
        rn.run()
        luv.kill(luv.os_getpid(), "sigusr1")
        io.write "not reached"
      ]]
      assert.matches("^usr1", output)
      assert.is_nil(output:find "not reached")
      assert.not_equal(0, status)
    end)

    -- Runs a script that can press Ctrl-C.
    local function interrupted(script)
      return stage.script([[
        local rn, uv, luv = require "runnel", require "runnel.uv", require "luv"
        local function press(signal)
          luv.kill(luv.os_getpid(), signal or "sigint")
          rn.sleep(5)
        end
      ]] .. script)
    end

    it("have their former effect again once nobody holds the channel", function()
      for _, signal in ipairs { "int", "term" } do
        local output, status = interrupted(([[
          local signal = %q
          rn.go(function() press("sig" .. signal) end)
          io.write(uv.signal("int", "term"):take()):flush()
          for _ = 1, 4 do
            rn.sleep(1)
            collectgarbage()
          end
          press("sig" .. signal)
          io.write "not reached"
        ]]):format(signal))
        assert.equal(signal, output:sub(1, #signal))
        assert.is_nil(output:find "not reached")
        assert.not_equal(0, status)
      end
    end)

    it("reach go blocks and callbacks that wait, although nobody else holds the channel", function()
      local output, status = interrupted [[
        rn.go(function()
          for name in uv.signal "usr1" do io.write("a go block, ", name, "\n") end
        end)
        rn.go(function()
          local ch = uv.signal "usr2"
          for _ = 1, 4 do collectgarbage() end
          local function again(name)
            io.write("a callback, ", name, "\n")
            ch:take_async(again)
          end
          ch:take_async(again)
        end)
        for _ = 1, 3 do
          rn.sleep(5)
          for _ = 1, 5 do collectgarbage() end
          press "sigusr1"
          press "sigusr2"
        end
        os.exit(0, true)
      ]]
      assert.same({ ("a go block, usr1\na callback, usr2\n"):rep(3), 0 }, { output, status })
    end)

    it("end the program by a second Ctrl-C if the first has not been taken", function()
      local output, status = interrupted [[
        local ch = uv.signal("int", "term")
        press()
        io.write("one\n"):flush()
        press()
        io.write "not reached"
        ch:close()
      ]]
      assert.equal("one\n", output:match "^[^\n]*\n")
      assert.is_nil(output:find "not reached")
      assert.not_equal(0, status)
    end)

    it("do not end it if somebody takes them, be it from another channel", function()
      local output, status = interrupted [[
        local unused, ch = uv.signal "int", uv.signal "int"
        for i = 1, 5 do
          press()
          io.write(i, ch:take(), " ")
        end
        unused:close()
        local usr1 = uv.signal "usr1"
        for _ = 1, 5 do press "sigusr1" end
        io.write(#usr1 > 1 and "several" or "")
        usr1:close()
      ]]
      assert.same({ "1int 2int 3int 4int 5int several", 0 }, { output, status })
    end)

    it("reject an invalid name", function()
      for bad, got in pairs { [{}] = "a table", [7] = "a number", foo = 'there is no signal "foo"' } do
        local _, err = pcall(function() uv.signal(bad) end)
        assert.matches("^spec/uv/event_spec.lua:%d+: signal: .*" .. got, err)
      end
      assert.error_matches(function() uv.signal() end, "signal: the name of a signal expected, got nothing")
      assert.error_matches(function() uv.signal("int", false) end, "got a boolean")
    end)

    it("that cannot be caught close the channel with an error", function()
      assert.matches("^kill: EINVAL", select(2, uv.signal("kill"):take()))
    end)
  end)

  describe("a ticker", function()
    it("ticks at a fixed rate", stage.sim(function()
      local ticks = uv.ticker(10)
      for i = 1, 5 do
        assert.equal(i, ticks:take())
        assert.equal(10 * i, sim.elapsed())
      end
      ticks:close()
    end))

    it("keeps one tick for a late taker, and drops the others", stage.sim(function()
      local ticks = uv.ticker(2.5)
      rn.sleep(26)
      assert.equal(1, ticks:take())
      assert.equal(11, ticks:take())
      assert.equal(27.5, sim.elapsed())
      ticks:close()
      rn.sleep(1)
      assert.is_nil(ticks:take())
    end))

    it("ends at once when it is closed", function()
      local before = #stage.others()
      local ticks = uv.ticker(1e6)
      rn.sleep(1)
      ticks:close()
      rn.run()
      assert.equal(before, #stage.others())
    end)

    it("is collected once it is unreachable", function()
      local before = #stage.others()
      for _ = 1, 5 do uv.ticker(0.01) end
      assert.is_true(patience.wait_until(function()
        collectgarbage()
        return #stage.others() == before
      end))
    end)

    it("rejects an invalid interval", function()
      for _, bad in ipairs { 0, -1, 0 / 0, math.huge, "1" } do
        local _, err = pcall(function() uv.ticker(bad) end)
        assert.matches("^spec/uv/event_spec.lua:%d+: ticker: a number of ms above 0 expected, got ", err)
      end
    end)
  end)
end)
