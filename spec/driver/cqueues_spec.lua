-- runnel.driver.cqueues: threads of cqueues', their timers and sockets, beside go blocks.

local rn = require "runnel"
local stage = require "spec.support.stage"
local starving = require "spec.support.starving"
local has_cqueues, cqueues = pcall(require, "cqueues")

describe("runnel.driver.cqueues", function()
  if not has_cqueues then return pending "cqueues is not installed" end
  local socket = require "cqueues.socket"
  local driver = require "runnel.driver.cqueues"
  local threads

  before_each(function()
    stage.open()
    driver.controller = cqueues.new()
    threads = driver.controller
    rn.driver(driver)
  end)
  after_each(function()
    threads:close()
    stage.close()
  end)

  it("runs threads that sleep while everybody is parked", function()
    local ch = rn.chan()
    threads:wrap(function()
      cqueues.sleep(0.002)
      ch:put_async "from a thread"
    end)
    assert.equal("from a thread", ch:take())
  end)

  it("keeps run going while there is a thread", function()
    local log = {}
    threads:wrap(function()
      rn.go(function() log[1] = "started by a thread" end)
      cqueues.sleep(0.002)
      log[2] = "ended"
    end)
    rn.run()
    assert.same({ "started by a thread", "ended" }, log)
    assert.error_matches(function() rn.chan():take() end, "deadlock")
  end)

  it("does not wait for a thread that ends silently", function()
    threads:wrap(function() end)
    rn.run()
  end)

  it("wakes for runnel's timers while the threads sleep", function()
    threads:wrap(function() cqueues.sleep(60) end)
    local start = rn.now()
    rn.sleep(5)
    local took = rn.now() - start
    assert.is_true(took >= 5 and took < 30000, took)
  end)

  it("does not wait when a thread has made a go block ready", function()
    threads:wrap(function() cqueues.sleep(60) end)
    local ch = rn.chan()
    threads:wrap(function() ch:put_async "at once" end)
    local start = rn.now()
    assert.equal("at once", ch:take())
    assert.is_true(rn.now() - start < 30000)
  end)

  it("reports to on_error the error of a thread, and goes on", function()
    threads:wrap(function() error "this thread fails" end)
    local ch = rn.chan()
    threads:wrap(function() ch:put_async "this one does not" end)
    assert.equal("this one does not", ch:take())
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.matches("this thread fails", heard[1].err)
    assert.equal("a thread of cqueues", heard[1].name)
  end)

  it("carries lines from a socket to go blocks and back", function()
    local server = assert(socket.listen("127.0.0.1", 0))
    local _, _, port = server:localname()
    threads:wrap(function()
      local peer = server:accept()
      for line in peer:lines() do
        -- A thread waits for go blocks the way of cqueues.
        local answer = require("cqueues.condition").new()
        local text
        rn.go(function()
          rn.sleep(1)
          text = line:upper()
          answer:signal()
        end)
        if not text then answer:wait() end
        peer:write(text, "\n")
        peer:flush()
      end
      peer:close()
    end)
    local answers = rn.chan(10)
    threads:wrap(function()
      local client = socket.connect("127.0.0.1", port)
      for i = 1, 5 do
        client:write("line ", i, "\n")
        client:flush()
        answers:put_async(client:read "*l")
      end
      client:close()
      answers:close()
    end)
    assert.same({ "LINE 1", "LINE 2", "LINE 3", "LINE 4", "LINE 5" }, stage.drain(answers))
    server:close()
  end)

  describe("with runnel.uv", function()
    if not pcall(require, "luv") then return pending "luv is not installed" end
    local uv = require "runnel.uv"

    it("runs threads of cqueues and processes in one program", function()
      local log = rn.chan(10)
      threads:wrap(function()
        for i = 1, 3 do
          cqueues.sleep(0.002)
          log:put_async("thread " .. i)
        end
        log:close()
      end)
      assert.equal("a process\n", uv.run({ "sh", "-c", "sleep 0.02; echo a process" }).stdout)
      assert.same({ "thread 1", "thread 2", "thread 3" }, stage.drain(log))
    end)

    it("carries bytes between a connection of runnel.uv and a socket of cqueues", function()
      local clients, port = uv.listen("127.0.0.1", 0)
      rn.go(function()
        local conn = clients:take()
        for line in conn:lines() do conn:write(line:upper() .. "\n") end
        conn:close()
      end)
      local answers = rn.chan(10)
      threads:wrap(function()
        local client = socket.connect("127.0.0.1", port)
        for i = 1, 3 do
          client:write("line ", i, "\n")
          client:flush()
          answers:put_async(client:read "*l")
        end
        client:close()
        answers:close()
      end)
      assert.same({ "LINE 1", "LINE 2", "LINE 3" }, stage.drain(answers))
      clients:close()
      rn.run()
    end)

    it("knows when nothing of either can happen", function()
      assert.equal(0, uv.run({ "true" }).code)
      threads:wrap(function() end)
      assert.error_matches(function() rn.chan():take() end, "deadlock")
    end)

    it("uses them in whatever order the program requires them", function()
      for _, lines in ipairs {
        'require "runnel.uv" rn.driver(require "runnel.driver.cqueues")',
        'rn.driver(require "runnel.driver.cqueues") require "runnel.uv"',
      } do
        assert.equal("process\nthread\n", (stage.script('local rn = require "runnel"\n' .. lines .. [[

          local ch = rn.chan(1)
          require("runnel.driver.cqueues").controller:wrap(function()
            require("cqueues").sleep(0.01)
            ch:put_async "thread"
          end)
          io.write(require("runnel.uv").run({ "echo", "process" }).stdout)
          print(ch:take())
        ]])))
      end
    end)
  end)

  it("sees Ctrl-C while nothing happens #slow", function()
    stage.check_interrupt [[
      local cqueues, driver = require "cqueues", require "runnel.driver.cqueues"
      driver.controller = cqueues.new()
      require "runnel".driver(driver)
      driver.controller:wrap(function() cqueues.sleep(60) end)
    ]]
  end)

  it("and a busy go block: neither starves the other #slow", function()
    local ticks = rn.chan(100)
    threads:wrap(function()
      for _ = 1, 100 do
        cqueues.sleep(0.001)
        ticks:put_async(true)
      end
    end)
    starving(ticks)
  end)
end)
