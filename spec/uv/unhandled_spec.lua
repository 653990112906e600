-- Errors of streams and writes that nobody takes are reported, once.

local rn = require "runnel"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

describe("runnel.uv", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  local uv = require "runnel.uv"

  local grace = require("runnel.core").internal.grace
  local previous
  before_each(function()
    uv_stage.open()
    previous = grace(20) -- rn.run waits until errors are reported
  end)
  after_each(function()
    grace(previous)
    uv_stage.close()
  end)

  -- Runs until nothing is left to do; asserts that these errors, and no others, were reported since the last call.
  local function assert_reported(...)
    rn.run()
    local heard, expected = stage.heard(), { ... }
    for i, pattern in ipairs(expected) do assert.matches(pattern, heard[i] and heard[i].err or "(no error)") end
    assert.equal(#expected, #heard, heard[#expected + 1] and heard[#expected + 1].err)
  end

  -- Two ends of a connection.
  local function pair()
    local conns, port = assert(uv.listen("127.0.0.1", 0))
    local a = assert(uv.connect("127.0.0.1", port))
    local b = conns:take()
    conns:close()
    return a, b
  end

  -- Closes a connection so that its other end gets ECONNRESET.
  local function reset(conn)
    conn.handle:close_reset(function() end)
    conn.handle = nil
  end

  local SOURCES = {
    ["a missing file's lines"] = function() return uv.lines "no-such-file" end,
    ["a missing file's bytes"] = function() return uv.read "no-such-file" end,
    ["a watch of a missing file"] = function() return uv.watch "no-such-file" end,
    ["a directory that is followed"] = function() return uv.follow "/" end,
    ["a list of a missing folder"] = function() return uv.list "no-such-file" end,
    ["a host without an address"] = function() return uv.resolve "no such host" end,
    ["a process that cannot be started"] = function() return uv.spawn({ "no-such-file" }).stdout end,
  }

  for name, open in pairs(SOURCES) do
    local message = name:find "directory" and "only a file can be followed" or "^[^\n]*no.such"

    it("reports the error that a loop or a pmap drops, once: " .. name, function()
      for _ in open() do end
      assert_reported(message)
      for _ in rn.pmap(2, function(v) return v end, open()) do end
      assert_reported(message)
      rn.pipe(open(), rn.chan(10))
      assert_reported(message)
    end)

    if not name:find "process" then
      it("reports no error that is taken after the loop, nor one of what nobody reads: " .. name, function()
        local ch = open()
        for _ in ch do end
        assert.matches(message, select(2, ch:take()))
        open()
        assert_reported()
      end)
    end
  end

  it("reports that a process cannot be started, unless that is taken from its exit", function()
    uv.spawn { "no-such-command" }
    assert_reported "^no%-such%-command: ENOENT"
    local p = uv.spawn { "no-such-command", stdout = "lines" }
    for _ in p.stdout do end
    assert.matches("ENOENT", select(2, p.exit:take()))
    assert.matches("ENOENT", select(2, uv.run { "no-such-command" }))
    assert_reported()
  end)

  it("reports the error of a write that nobody takes", function()
    uv.write("/no/such/file", rn.to_chan { "text" })
    assert_reported "^ENOENT: .*/no/such/file$"
    uv.write("/dev/full", rn.to_chan { "text" })
    assert_reported "ENOSPC"
    uv.write(uv_stage.path(), rn.to_chan { {} })
    assert_reported "only strings can be written, not a table"
    assert.matches("ENOENT", select(2, uv.write("/no/such/file", rn.to_chan { "text" }):take()))
    assert_reported()
  end)

  it("reports the error with which the source of a write closed", function()
    local function failing()
      local ch = rn.chan()
      rn.go(function()
        ch:put "text"
        ch:close "the source failed"
      end)
      return ch
    end
    uv.write(uv_stage.path(), failing())
    assert_reported "^the source failed$"
    assert.same({ nil, "the source failed" }, { uv.write(uv_stage.path(), failing()):take() })
    assert_reported()
    local a, b = pair()
    a:writer(failing())
    for _ in b:read() do end
    a:close()
    b:close()
    assert_reported "^the source failed$"
    assert.equal("the source failed", select(2, uv.run { "cat", stdin = failing() }))
    assert_reported()
  end)

  it("reports the error of a connection that a writer cannot write to any more", function()
    local a, b = pair()
    local out = a:writer()
    reset(b)
    while out:put(("x"):rep(100000)) do rn.sleep(1) end
    a:close()
    assert_reported "E%u+: "
  end)

  it("reports nothing of a process that ends before it has read its input", function()
    local p = uv.spawn { "head", "-n", 1, stdin = rn.to_chan { "a\n", ("b"):rep(1000000), "c" }, stdout = "lines" }
    assert.equal("a", p.stdout:take())
    assert.same({ code = 0 }, p.exit:take())
    assert_reported()
  end)

  it("reports nothing of streams that the program has closed, or left before they failed", function()
    local a, b = pair()
    a:read():close()
    b:write "x"
    reset(b)
    a:close()
    a, b = pair()
    b:write "first"
    assert.equal("first", a:read()())
    reset(b)
    rn.sleep(5)
    a:close()
    a, b = pair()
    local input = a:read()
    a:close()
    for _ in input do end
    b:close()
    assert_reported()
  end)

  for way, serve in pairs {
    ["a go block for each connection"] = function(conns, handle)
      for conn in conns do rn.go(handle, conn) end
    end,
    ["a pmap"] = function(conns, handle)
      for _ in rn.pmap(10, function(conn)
        handle(conn)
        return true
      end, conns) do end
    end,
  } do
    it("goes on serving when a client resets its connection, and names that client: " .. way, function()
      local conns, port = assert(uv.listen("127.0.0.1", 0))
      local serving = rn.go(serve, conns, function(conn)
        for line in conn:lines() do
          if not conn:write(line:upper() .. "\n") then break end
        end
        conn:close()
      end)
      local client = assert(uv.connect("127.0.0.1", port))
      client:write "one\n"
      assert.equal("ONE", client:lines():take())
      local _, own_port = client:address()
      reset(client)
      client:close()
      client = assert(uv.connect("127.0.0.1", port))
      client:write "two\n"
      assert.equal("TWO", client:lines():take())
      client:close()
      conns:close()
      serving:take()
      assert_reported(("^127%%.0%%.0%%.1:%d: ECONNRESET"):format(own_port))
    end)
  end
end)
