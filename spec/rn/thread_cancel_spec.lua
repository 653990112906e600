local rn = require "runnel"
local patience = require "spec.support.patience"
local stage = require "spec.support.stage"

local since_5_4_3 = stage.is_5_4_3 and it or pending

describe("rn.cancel of a thread", function()
  before_each(stage.open)
  after_each(stage.close)

  -- Starts a thread, which says that it is there, and cancels it.
  local function assert_is_cancelled(f)
    local says = rn.shared_chan()
    local result = rn.thread(f, says)
    assert.equal("here", says:take())
    assert.is_true(rn.cancel(result, "enough"))
    assert.same({ nil, "enough" }, { result:take() })
    rn.run()
    assert.is_false(rn.cancel(result))
    assert.same({}, stage.heard())
  end

  -- A function for a thread that says on `says` that it is there, and then waits for ever, as `where` tells.
  local WAITS = {
    ["in a sleep"] = function(says)
      says:put "here"
      require "runnel".sleep(1e7)
    end,
    ["in a take on a shared channel"] = function(says)
      says:put "here"
      says:take()
    end,
    ["in a put on a shared channel"] = function(says)
      says:put "here"
      says:put(1)
    end,
    ["for a go block of its own"] = function(says)
      local rn = require "runnel" -- luacheck: ignore
      local _ <const> = rn.go(function()
        says:put "here"
        rn.sleep(1e7)
      end):take()
    end,
    ["for a thread of its own"] = function(says)
      local rn = require "runnel" -- luacheck: ignore
      rn.thread(function(ch)
        ch:put "here"
        require "runnel".sleep(1e7)
      end, says):take()
    end,
  }
  for where, f in pairs(WAITS) do
    it("that waits " .. where .. " raises the reason there, which is its result, and not reported", function()
      assert_is_cancelled(f)
    end)
  end

  -- Functions that compute for ever, once they have said that they are there.
  local COMPUTES = {
    ["in a loop"] = function(says)
      says:put "here"
      while true do end
    end,
    ["in a loop that catches all errors"] = function(says)
      says:put "here"
      while true do pcall(function() while true do end end) end
    end,
    ["in another go block"] = function(says)
      local rn = require "runnel" -- luacheck: ignore
      rn.go(function()
        says:put "here"
        while true do end
      end)
      rn.sleep(1e7)
    end,
    ["after it has caught the reason"] = function(says)
      says:put "here"
      pcall(require "runnel".sleep, 1e7)
      while true do end
    end,
    ["while it closes a variable"] = function(says)
      local _ <close> = setmetatable({}, { __close = function() while true do end end })
      says:put "here"
      require "runnel".sleep(1e7)
    end,
  }
  for how, f in pairs(COMPUTES) do
    it("that computes for ever " .. how .. " ends it with the reason, which is not reported #ci", function()
      assert_is_cancelled(f)
    end)
  end

  since_5_4_3("lets it compute in its own time while it closes its variables", function()
    local says = rn.shared_chan(1)
    local result = rn.thread(function(ch)
      local _ <close> = setmetatable({}, { __close = function()
        local till = os.clock() + 0.15
        while os.clock() < till do end
        ch:put "closed"
      end })
      ch:put "here"
      require "runnel".sleep(1e7)
    end, says)
    assert.equal("here", says:take())
    rn.cancel(result, "enough")
    assert.equal("closed", says:take())
    assert.same({ nil, "enough" }, { result:take() })
    rn.run()
  end)

  it("that has not begun ends it", function()
    local result = rn.thread(function() require "runnel".sleep(1e7) end)
    assert.is_true(rn.cancel(result))
    assert.same({ nil, "cancelled" }, { result:take() })
    rn.run()
  end)

  since_5_4_3("closes its variables, which may wait, and may catch it once", function()
    local says = rn.shared_chan(10)
    local result = rn.thread(function(ch)
      local rn = require "runnel" -- luacheck: ignore
      local _ <close> = setmetatable({}, { __close = function(_, err)
        rn.sleep(1)
        ch:put("closed: " .. err)
      end })
      ch:put "here"
      local ok, err = pcall(rn.sleep, 1e7)
      ch:put(("%s %s"):format(ok, err))
      rn.sleep(1e7)
    end, says)
    assert.equal("here", says:take())
    rn.cancel(result, "enough")
    assert.equal("false enough", says:take())
    assert.equal("closed: enough", says:take())
    assert.same({ nil, "enough" }, { result:take() })
    rn.run()
    assert.same({}, stage.heard())
  end)

  it("reports another error that the function raises then, once, unless it is taken", function()
    local function start(says)
      local result = rn.thread(function(ch)
        ch:put "here"
        pcall(require "runnel".sleep, 1e7)
        error("at the end", 0)
      end, says)
      says:take()
      rn.cancel(result)
      return result
    end
    local says = rn.shared_chan()
    assert.same({ nil, "at the end" }, { start(says):take() })
    rn.run()
    assert.same({}, stage.heard())
    local result = start(says)
    result:done():take()
    rn.run()
    local heard = stage.heard()
    assert.equal(1, #heard)
    assert.equal("at the end", heard[1].err)
    assert.is_truthy(result)
  end)

  it("gives its text for a reason that cannot be copied, and takes any other one", function()
    local odd = setmetatable({}, { __tostring = function() return "why" end })
    for _, reason in ipairs { false, 7, { code = 3 }, odd } do
      local result = rn.thread(function() require "runnel".sleep(1e7) end)
      rn.cancel(result, reason)
      local _, err = result:take()
      assert.same(getmetatable(reason) and "why" or reason, err)
    end
    rn.run()
  end)

  it("after its end, or twice, does nothing; and it is an error for another channel", function()
    local result = rn.thread(function() return 1 end)
    assert.equal(1, result:take())
    patience.wait_for(function() return not rn.cancel(result) end)
    result = rn.thread(function() require "runnel".sleep(1e7) end)
    assert.is_true(rn.cancel(result, "first"))
    assert.is_true(rn.cancel(result, "second"))
    assert.same({ nil, "first" }, { result:take() })
    rn.run()
    assert.error_matches(function() rn.cancel(rn.shared_chan():name "other") end,
      "cancel: chan: other is not the result channel of a go block or a thread; to end the operations on it, close it")
  end)

  it("is not done by a cancel of the go block that has started it", function()
    local gate, says = rn.shared_chan(), rn.shared_chan(1)
    local block = rn.go(function()
      rn.thread(function(from, to)
        from:take()
        to:put "goes on"
      end, gate, says):take()
    end)
    rn.yield()
    rn.cancel(block)
    block:take()
    gate:close()
    assert.equal("goes on", says:take())
    rn.run()
  end)
end)

describe("a thread of a scope", function()
  before_each(stage.open)
  after_each(stage.close)

  -- How the scope ends: the function of the scope, its options; what it raises.
  local function parked(says)
    says:put "here"
    require "runnel".sleep(1e7)
  end
  local ENDS = {
    { "its timeout, while it computes for ever", function(s, says)
      s:thread(function(ch)
        ch:put "here"
        while true do end
      end, says)
      says:take()
      rn.sleep(1e7)
    end, { timeout = 100 }, "after 100 ms" },
    { "its timeout", function(s, says)
      s:thread(parked, says)
      says:take()
      rn.sleep(1e7)
    end, { timeout = 100 }, "after 100 ms" },
    { "s:cancel", function(s, says)
      s:thread(parked, says)
      says:take()
      s:cancel "enough"
    end },
    { "an error of its body", function(s, says)
      s:thread(parked, says)
      says:take()
      error("oops", 0)
    end, nil, "^oops$" },
    { "an error of another go block", function(s, says)
      s:thread(parked, says)
      says:take()
      s:go(error, "oops")
    end, nil, "^oops$" },
    { "an error of another thread", function(s, says)
      s:thread(parked, says)
      says:take()
      s:thread(function() error("oops", 0) end)
    end, nil, "^oops$" },
    { "an error of its own", function(s) s:thread(function() error("oops", 0) end) end, nil, "^oops$" },
    { "a cancel of its caller", function(s, says)
      s:thread(parked, says)
      says:take()
      rn.cancel(s.test_caller, "from outside")
    end, nil, "^from outside$" },
  }
  for _, one in ipairs(ENDS) do
    local how, body, opts, err = table.unpack(one, 1, 4)
    it("ends with it: by " .. how, function()
      local says, caller = rn.shared_chan(), nil
      caller = rn.go(function()
        return { pcall(rn.scope, function(s)
          s.test_caller = caller
          body(s, says)
          return "returned"
        end, opts) }
      end)
      local ok, value = table.unpack(caller:take())
      if err then
        assert.is_false(ok)
        assert.matches(err, tostring(value))
      else
        assert.same({ true, "returned" }, { ok, value })
      end
      rn.run() -- returns when no thread runs
      assert.same({}, stage.heard())
    end)
  end

  since_5_4_3("is waited for although its scope is cancelled again meanwhile", function()
    local says, gate = rn.shared_chan(), rn.shared_chan()
    local caller = rn.go(rn.scope, function(s)
      s:thread(function(to, may_end)
        local _ <close> = setmetatable({}, { __close = function()
          to:put "cleans up"
          may_end:take()
        end })
        to:put "here"
        may_end:take()
      end, says, gate)
    end)
    assert.equal("here", says:take())
    rn.cancel(caller, "first")
    assert.equal("cleans up", says:take())
    rn.cancel(caller, "second")
    for _ = 1, 50 do rn.yield() end
    assert.is_false(caller:closed())
    gate:close()
    assert.same({ nil, "second" }, { caller:take() })
  end)

  it("is waited for, and gives its result", function()
    local gate = rn.shared_chan()
    local taken
    assert.equal("body", rn.scope(function(s)
      local result = s:thread(function(n, from)
        from:take()
        return 2 * n
      end, 21, gate)
      s:go(function() taken = result:take() end)
      rn.go(function() gate:close() end)
      return "body"
    end))
    assert.equal(42, taken)
    rn.run()
  end)

  it("fails as a go block of a scope does", function()
    for _, kind in ipairs { "go", "thread" } do
      local why
      assert.equal("body", rn.scope(function(s)
        local result = s[kind](s, function() return nil, "not found" end)
        why = table.pack(result:take())
        return "body"
      end))
      assert.same({ nil, "not found", n = 2 }, why)
      local ok, err = pcall(rn.scope, function(s) s[kind](s, function() error() end) end)
      assert.is_false(ok)
      assert.matches(stage.raised_nil or "raised nil", err)
      ok, err = pcall(rn.scope, function(s) s[kind](s, function() error { code = 7 } end) end)
      assert.same({ false, { code = 7 } }, { ok, err })
      if kind == "go" then stage.heard() end -- the go block that has raised nil
    end
    rn.go(rn.scope, function(s) s:thread(function() error("nobody takes this", 0) end) end)
    rn.run()
    local heard = stage.heard()
    assert.same({ 1, "nobody takes this" }, { #heard, heard[1].err })
    assert.matches("\nin thread [^\n]*thread_cancel_spec.lua:%d+, stack traceback:\n.*thread_cancel_spec.lua:%d+: in ",
      heard[1].trace)
  end)

  it("that cannot start is an error at the caller's line", function()
    rn.scope(function(s)
      assert.error_matches(function() s:thread(print) end,
        "^scope:thread: a function written in C cannot be sent")
      assert.error_matches(function() s.thread(nil, print) end, "s.thread: call it with a colon: s:thread%(...%)")
    end)
    local kept
    rn.scope(function(s) kept = s end)
    assert.error_matches(function() kept:thread(function() end) end, "scope:thread: the scope has ended")
  end)
end)
