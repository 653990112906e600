-- One stream, several readers: what one has got and has not handed out belongs to the next one.

local both = require "spec.support.in_world"(it)
local long = require "spec.support.long"
local process = require "spec.support.process"
local readers = require "spec.support.readers"
local rn = require "runnel"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

describe("the next reader of a stream gets what the last one has not handed out", function()
  local has_luv, luv = pcall(require, "luv")
  if not has_luv then return pending "luv is not installed" end
  local uv = require "runnel.uv"

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  local function all(ch) return table.concat(stage.drain(ch)) end

  local function pair()
    local conns, port = assert(uv.listen("127.0.0.1", 0))
    local a = assert(uv.connect("127.0.0.1", port))
    local b = conns:take()
    conns:close()
    return a, b
  end

  -- A connection that has got a text, and its end.
  local function with(text)
    local a, b = pair()
    a:write(text)
    a:close()
    return b
  end

  -- ---- connections ----

  both("of a connection: lines, then chunks, then lines", function()
    local conn <close> = with "1\n2\r\n3\n\r\n4"
    assert.equal("1", conn:lines():take())
    assert.equal("2", conn:lines():take())
    assert.equal("3\n\r\n4", all(conn:read()))
    assert.same({}, stage.drain(conn:lines()))
    local other <close> = with "1\n2\r\n3\n\r\n4"
    assert.equal("1", other:lines():take())
    other:read():close()
    assert.same({ "2", "3", "", "4" }, stage.drain(other:lines()))
  end)

  both("of a connection: after a close, of the channel or of the connection", function()
    local conn = with "1\n2\n3\n4\n"
    local lines = conn:lines()
    assert.equal("1", lines:take())
    lines:close()
    assert.is_nil(lines:take())
    assert.equal("2", conn:lines():take())
    conn:close()
    assert.equal("3\n4\n", conn:read():take())
    assert.is_nil(conn:read():take())
  end)

  both("and a reader that was replaced ends with an error that says so", function()
    local conn <close> = with "1\n2\n"
    local lines = conn:lines()
    assert.equal("1", lines:take())
    local chunks = conn:read()
    assert.matches(": another call of read or lines reads it now$", select(2, lines:take()))
    assert.equal("2\n", chunks:take())
    assert.is_nil(chunks:take())
    assert.equal(chunks, conn:read())
    conn:lines()
    assert.is_nil(select(2, chunks:take())) -- it had ended
  end)

  both("of a connection: a line that was too long", function()
    local conn <close> = with(("1\n%s\n2\n"):format(("x"):rep(100)))
    local lines = conn:lines { max = 50 }
    assert.equal("1", lines:take())
    assert.matches("longer than 50 bytes", select(2, lines:take()))
    assert.equal(lines, conn:lines())
    assert.equal(("x"):rep(100) .. "\n2\n", all(conn:read()))
  end)

  it("and chunks of a slow reader are not kept once they were taken", function()
    local a, b = pair()
    local lines = b:lines()
    local line = ("x"):rep(99) .. "\n"
    rn.go(function()
      for _ = 1, 20000 do a:write(line) end
      a:close()
    end)
    for _ = 1, 1000 do lines:take() end
    local before = uv_stage.growth(0) and collectgarbage "count"
    for _ = 1, 18000 do lines:take() end
    collectgarbage()
    assert.is_true(collectgarbage "count" - before < 500)
    assert.equal(1000 * 100, #all(b:read()))
    b:close()
  end)

  local function check_connection(seed)
    local random = readers.random(seed)
    local text = readers.text(random)
    local a, b = pair()
    rn.go(function()
      readers.send(readers.random(seed), text, function(piece) a:write(piece) end)
      a:close()
    end)
    local got, story = readers.all(random, {
      lines = function() return b:lines() end, read = function() return b:read() end,
    })
    b:close()
    if got ~= text then error(("seed %d: %d of %d bytes: %s"):format(seed, #got, #text, table.concat(story, ", "))) end
  end

  both("of a connection: in any order, however they end", function()
    for seed = 1, long.times(40, 1000) do check_connection(seed) end
  end)

  -- ---- standard input ----

  -- Runs a script with standard input of a kind.
  local run_with = {}

  function run_with.pipe(command, text, seed)
    local p = uv.spawn(command)
    rn.go(function()
      readers.send(readers.random(seed), text, function(piece) p.stdin:put(piece) end)
      p.stdin:close()
    end)
    return all(p.stdout)
  end

  function run_with.file(command, text)
    local path = uv_stage.path(text)
    local fd = luv.fs_open(path, "r", 0)
    command.stdin = fd
    local p = uv.spawn(command)
    luv.fs_close(fd)
    return all(p.stdout)
  end

  function run_with.socket(command, text, seed)
    local ends = assert(luv.socketpair())
    command.stdin = ends[2]
    local p = uv.spawn(command)
    luv.fs_close(ends[2])
    local ch = rn.chan()
    uv.write(ends[1], ch)
    rn.go(function()
      readers.send(readers.random(seed), text, function(piece) ch:put(piece) end)
      ch:close()
    end)
    return all(p.stdout)
  end

  local SCRIPT = [[
    local rn, uv, readers = require "runnel", require "runnel.uv", require "spec.support.readers"
    local random = readers.random(tonumber(arg[1]))
    local got = readers.all(random, {
      lines = function() return uv.lines(0) end, read = function() return uv.read(0) end, stdin = uv.stdin,
      pieces = function() return uv.lines(0, { pieces = random(100) }) end,
    })
    assert(uv.lines(0):take() == nil)
    io.write(got)
  ]]

  for kind, run in pairs(run_with) do
    it("of standard input: in any order, however they end: a " .. kind, function()
      if kind == "socket" and not luv.socketpair then return pending "this luv has no socketpair" end
      local path = uv_stage.path(SCRIPT)
      for seed = 1, long.times(10, 300) do
        local text = readers.text(readers.random(seed + 1000))
        local host = seed % 2 == 0 and process.runnel or os.getenv "LUA" or "lua5.4"
        local got = run({ host, path, tostring(seed), stderr = "stdout" }, text, seed)
        if got ~= text then
          error(("seed %d: %d of %d bytes; %s"):format(seed, #got, #text, got:sub(-1000)))
        end
      end
    end)
  end

  it("of standard input that is a file: also a child, and io.read #ci", function()
    for _, n in ipairs { 4, 5, 128, 129, 1000, 300000 } do -- also with room for all of it in a channel of lines
      local list = {}
      for i = 1, n do list[i] = i .. "\n" end
      local path = uv_stage.path(table.concat(list))
      local output = stage.script(([[
        local rn, uv = require "runnel", require "runnel.uv"
        local lines = uv.lines(0)
        print(lines:take())
        rn.sleep(1)
        lines:close()
        print(io.popen "head -n 1":read "l")
        lines = uv.lines(0)
        print(lines:take())
        rn.sleep(1)
        lines:close()
        print(io.read())
      ]]), "<" .. path)
      assert.equal("1\n2\n3\n4\n", output)
      output = stage.script([[
        local rn, uv = require "runnel", require "runnel.uv"
        local function line()
          local reader <close> = uv.reader(0)
          print(reader:line())
          rn.sleep(1)
        end
        line()
        print(io.popen "head -n 1":read "l")
        line()
        print(io.read())
      ]], "<" .. path)
      assert.equal("1\n2\n3\n4\n", output)
    end
  end)
end)
