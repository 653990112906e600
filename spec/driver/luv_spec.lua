-- runnel.driver.luv: libuv's timers, pipes and sockets beside go blocks.

local rn = require "runnel"
local stage = require "spec.support.stage"
local starving = require "spec.support.starving"
local has_luv, uv = pcall(require, "luv")

describe("runnel.driver.luv", function()
  if not has_luv then return pending "luv is not installed" end
  local driver = require "runnel.driver.luv"

  before_each(function()
    stage.open()
    rn.driver(driver)
  end)
  after_each(function()
    uv.walk(function(handle) if not handle:is_closing() then handle:close() end end)
    uv.run()
    stage.close()
  end)

  local function nothing() end

  -- A channel of the ticks of a timer of luv's.
  local function ticker(ms)
    local ticks, timer = rn.chan(100), uv.new_timer()
    timer:start(ms, ms, function() ticks:put_async(true) end)
    return ticks, timer
  end

  it("runs luv's timers while everybody is parked", function()
    local ticks = ticker(1)
    for _ = 1, 3 do assert.is_true(ticks:take()) end
    rn.run(function() assert.is_true(ticks:take()) end)
  end)

  it("keeps run going while a handle is active", function()
    local log = {}
    local timer = uv.new_timer()
    timer:start(5, 0, function() rn.go(function() log[#log + 1] = "started by the timer" end) end)
    rn.run()
    assert.same({ "started by the timer" }, log)
  end)

  it("may have what a loop of polls waits for", function()
    local ch, timer = rn.chan(1), uv.new_timer()
    timer:start(60000, 0, nothing)
    for _ = 1, 110000 do ch:poll() end -- more than 100000 are an error where nothing can help
    timer:start(0, 0, function() ch:put_async "came" end)
    local value
    repeat value = ch:poll() until value
    assert.equal("came", value)
  end)

  it("wakes for runnel's timers while luv has nothing to do", function()
    uv.new_timer():start(60000, 0, nothing)
    local start = rn.now()
    rn.sleep(5)
    local took = rn.now() - start
    assert.is_true(took >= 5 and took < 30000, took)
  end)

  it("leaves luv's loop without a handle of its own when it is not waiting", function()
    rn.sleep(1)
    assert.is_false(driver:alive())
    assert.is_false(uv.loop_alive())
    assert.error_matches(function() rn.chan():take() end, "deadlock")
  end)

  it("waits for a fraction of a millisecond, and for longer than libuv can count", function()
    rn.sleep(0.01)
    uv.new_timer():start(5, 0, nothing)
    for _, ms in ipairs { 1e300, math.huge, 0 } do
      driver:wait(ms)
      uv.new_timer():start(5, 0, nothing)
    end
  end)

  it("sees a signal that is not luv's, such as Ctrl-C, while nothing happens #slow", function()
    -- As the lua executable does it for Ctrl-C: with a hook.
    stage.check_interrupt [[
      require "runnel".driver(require "runnel.driver.luv")
      require "luv".new_timer():start(60000, 0, function() end)
    ]]
  end)

  it("sees a timer that does not keep luv's loop alive", function()
    local ticks, timer = ticker(5)
    timer:unref()
    assert.is_false(driver:alive())
    assert.is_true(rn.run(function() return (rn.alts { ticks, rn.timeout(60000) }) end))
  end)

  it("does not wait when a callback has made a go block ready, or a deadline nearer", function()
    local start = rn.now()
    local function soon(f)
      local timer = uv.new_timer()
      timer:start(0, 0, f)
      uv.new_timer():start(60000, 0, nothing)
    end
    local ch = rn.chan()
    soon(function() ch:put_async "from a callback" end)
    assert.equal("from a callback", ch:take())
    soon(function() rn.go(function() ch:put "from a go block" end) end)
    assert.equal("from a go block", ch:take())
    soon(function() rn.timeout(5):take_async(function() ch:close() end) end)
    assert.is_nil(ch:take())
    assert.is_true(rn.now() - start < 30000)
  end)

  it("keeps luv's loop for a program that loads runnel and luv again, as busted does", function()
    local output, status = stage.script [[
      for _ = 1, 20 do
        local rn, driver = require "runnel", require "runnel.driver.luv"
        rn.driver(driver)
        local uv, ch = require "luv", rn.chan()
        local timer = uv.new_timer()
        timer:start(1, 0, function()
          timer:close()
          ch:put_async "fired"
        end)
        assert(ch:take() == "fired")
        rn.driver(nil)
        for name in pairs(package.loaded) do
          if name:find "^runnel" or name == "luv" then package.loaded[name] = nil end
        end
        for _ = 1, 3 do collectgarbage() end
        local others = {} -- use the memory that a collected loop would have had
        for i = 1, 1000 do others[i] = ("x"):rep(800 + i) end
      end
    ]]
    assert.same({ "", 0 }, { output, status })
  end)

  it("carries bytes between a pipe of luv's and go blocks", function()
    local ends = uv.pipe({ nonblock = true }, { nonblock = true })
    local reader, writer = uv.new_pipe(), uv.new_pipe()
    reader:open(ends.read)
    writer:open(ends.write)
    local chunks = rn.chan(100)
    reader:read_start(function(err, chunk)
      if chunk then chunks:put_async(chunk) else chunks:close(err) end
    end)
    local sent = {}
    rn.go(function()
      for i = 1, 50 do
        sent[i] = ("line %d\n"):format(i)
        local written = rn.promise_chan()
        writer:write(sent[i], function(err) written:put_async(err or "done") end)
        assert.equal("done", written:take())
      end
      writer:close()
    end)
    local received = table.concat(stage.drain(chunks))
    assert.equal(table.concat(sent), received)
  end)

  it("serves connections of luv's from go blocks", function()
    local server = uv.new_tcp()
    server:bind("127.0.0.1", 0)
    server:listen(16, function()
      local socket = uv.new_tcp()
      server:accept(socket)
      socket:read_start(function(_, chunk)
        if not chunk then return socket:close() end
        rn.go(function()
          rn.sleep(1)
          socket:write(chunk:upper())
        end)
      end)
    end)
    local answers = rn.chan(10)
    for i = 1, 10 do
      local client = uv.new_tcp()
      client:connect("127.0.0.1", server:getsockname().port, function(err)
        assert(not err, err)
        client:write("hello " .. i)
        client:read_start(function(_, chunk)
          if chunk then answers:put_async(chunk) end
          client:close()
        end)
      end)
    end
    local got = {}
    for i = 1, 10 do got[i] = answers:take() end
    table.sort(got)
    assert.equal("HELLO 1", got[1])
    assert.equal("HELLO 10", got[2])
    assert.equal("HELLO 9", got[10])
  end)

  it("leaves the loop alone while the program runs it", function()
    local log = {}
    rn.go(function() log[#log + 1] = "stepped" end)
    local timer = uv.new_timer()
    timer:start(1, 1, function()
      local ms = rn.step() -- which looks at the driver
      log[#log + 1] = ms
      log[#log + 1] = select(2, pcall(function() rn.chan():take() end))
      timer:close()
    end)
    uv.run()
    assert.equal("stepped", log[1])
    assert.is_true(log[2] > 0)
    assert.matches("^the program is running luv's loop", log[3])
  end)

  it("and a busy go block: neither starves the other #slow", function()
    starving(ticker(1))
  end)
end)
