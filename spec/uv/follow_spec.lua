-- uv.follow: the lines of files that grow, are cut off, and are replaced.

local both = require "spec.support.in_world"(it)
local rn = require "runnel"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

describe("uv.follow", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  local uv = require "runnel.uv"
  local watch = uv.watch

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  local function append(path, text)
    local file <close> = assert(io.open(path, "a"))
    file:write(text)
  end

  -- So many lines of a channel.
  local function take(ch, n)
    local list = {}
    for i = 1, n do list[i] = ch:take() end
    return list
  end

  -- Lets the follower read the file, and asserts that it puts no line.
  local function assert_no_line(ch)
    rn.sleep(20)
    assert.is_nil(ch:poll())
  end

  both("gives the present lines, and the new ones", function()
    local path = uv_stage.path "1\n\n2\n"
    local ch = uv.follow(path)
    assert.same({ "1", "", "2" }, take(ch, 3))
    append(path, "3\n4\n")
    assert.same({ "3", "4" }, take(ch, 2))
    assert_no_line(ch)
    append(path, "5\n")
    assert.equal("5", ch:take())
    ch:close()
  end)

  both("begins with the last lines, or with none", function()
    for last, expected in pairs {
      [0] = { "half more" }, [1] = { "3", "half more" }, [3] = { "1", "2", "3", "half more" },
      [9] = { "1", "2", "3", "half more" },
    } do
      local path = uv_stage.path "1\n2\n3\nhalf"
      local ch = uv.follow(path, { last = last })
      append(path, " more\n") -- that is new, though nothing may have been opened yet
      assert.same(expected, take(ch, #expected))
      ch:close()
    end
  end)

  it("finds the last lines of a large file", function()
    local list = {}
    for i = 1, 30000 do list[i] = ("line %d"):format(i) end
    local ch = uv.follow(uv_stage.path(table.concat(list, "\n") .. "\n"), { last = 20000 })
    assert.same({ table.unpack(list, 10001, 10200) }, take(ch, 200))
    ch:close()
  end)

  both("gives a line when its newline is written", function()
    local path = uv_stage.path "unfin"
    local ch = uv.follow(path)
    assert_no_line(ch)
    append(path, "ish")
    assert_no_line(ch)
    append(path, "ed\nnext")
    assert.equal("unfinished", ch:take())
    assert_no_line(ch)
    ch:close()
  end)

  both("waits for a file that does not exist yet", function()
    local path = uv_stage.path()
    local ch = uv.follow(path, { last = 0 })
    assert_no_line(ch)
    append(path, "from the beginning\n")
    assert.equal("from the beginning", ch:take())
    append(path, "on\n")
    assert.equal("on", ch:take())
    ch:close()
  end)

  both("continues with the new file after a rotation, and loses nothing of either", function()
    local path, old = uv_stage.path "1\n", uv_stage.path()
    local ch = uv.follow(path)
    assert.equal("1", ch:take())
    assert(os.rename(path, old))
    append(old, "2\n")
    rn.sleep(10)
    append(old, "3\nno newline")
    append(path, "a\n")
    assert.same({ "2", "3", "no newline", "a" }, take(ch, 4))
    append(path, "b\n")
    assert.equal("b", ch:take())
    ch:close()
  end)

  both("follows a file through many rotations, at any moment", function()
    local path, old = uv_stage.path "", uv_stage.path()
    local ch = uv.follow(path)
    local written = rn.go(function()
      local n = 0
      for round = 1, 10 do
        for _ = 1, round * 7 do
          n = n + 1
          append(path, n .. "\n")
          if n % 5 == 0 then rn.yield() end
        end
        -- The follower must see each file, so there is only one rotation between two of its checks.
        while ch:stats().put_total < n do rn.sleep(1) end
        os.rename(path, old)
        n = n + 1
        append(old, n .. "\n")
        append(path, "")
      end
      return n
    end)
    local got = 0
    repeat
      local value, port = rn.alts { ch, written }
      if port == ch then
        got = got + 1
        assert.equal(tostring(got), value)
      end
    until port == written and value
    ch:close()
    assert.is_true(got >= 385)
  end)

  -- Returns a function that parks until the follower has seen all that has happened, and one that ends this.
  local function settling()
    local path = uv_stage.path ""
    local signs = watch(path)
    return function()
      for _ = 1, 3 do
        append(path, "x")
        assert(signs:take())
      end
    end, function() signs:close() end
  end

  both("loses no line of files that are replaced while nobody takes, however often #ci", function()
    local settle, finish = settling()
    for _, rotations in ipairs { 1, 2, 3, 20, 64 } do
      local path, old = uv_stage.path "", uv_stage.path()
      local ch = uv.follow(path)
      for i = 1, rotations + 1 do
        append(path, ("%d\n"):format(i):rep(300)) -- more than the channel buffers
        settle()
        if i <= rotations then os.rename(path, old) end
      end
      for i = 1, rotations + 1 do
        for _ = 1, 300 do assert.equal(tostring(i), ch:take()) end
      end
      append(path, "on\n")
      assert.equal("on", ch:take())
      ch:close()
    end
    finish()
  end)

  both("says that lines are lost, after those that are not, if more files are replaced than it keeps open", function()
    local settle, finish = settling()
    local path, old = uv_stage.path "", uv_stage.path()
    local ch = uv.follow(path)
    for i = 1, 70 do
      append(path, ("%d\n"):format(i):rep(300))
      settle()
      os.rename(path, old)
    end
    local n, last = 0, nil
    for line in ch do n, last = n + 1, line end
    local _, err = ch:take()
    assert.same({ 65 * 300, "65" }, { n, last })
    assert.equal(path .. ": 64 files were replaced before they were read, which is too slow: lines are lost", err)
    finish()
  end)

  both("reads a truncated file from its beginning", function()
    local path = uv_stage.path "one\ntwo\nrest"
    local ch = uv.follow(path)
    assert.same({ "one", "two" }, take(ch, 2))
    rn.sleep(10)
    io.open(path, "w"):close()
    assert.equal("rest", ch:take())
    append(path, "1\n")
    assert.equal("1", ch:take())
    ch:close()
  end)

  both("polls the file where the system reports no changes #slow", function()
    -- No watch can be started, as on a system whose limit of watches is reached.
    local luv = require "luv"
    local meta = getmetatable(luv.new_fs_event())
    local start = meta.__index.start
    meta.__index.start = function() return nil, "ENOSPC" end
    local path = uv_stage.path "1\n"
    local ch = uv.follow(path)
    assert.equal("1", ch:take())
    rn.sleep(10)
    append(path, "2\n")
    local line = ch:take()
    meta.__index.start = start
    assert.equal("2", line)
    ch:close()
  end)

  both("reads nothing while nobody takes", function()
    local path = uv_stage.path(("a line of some bytes\n"):rep(1000000))
    local ch = uv.follow(path)
    assert.equal("a line of some bytes", ch:take())
    rn.sleep(20)
    assert.is_true(uv_stage.growth(50) < 200)
    ch:close()
  end)

  it("ends when its channel is closed, at any point, and leaves nothing for run to wait for", function()
    local shortest = math.huge -- of some times, since a busy machine may be slow
    for _ = 1, 50 do
      local before = rn.now()
      uv.follow(uv_stage.path()):close()
      uv.follow(uv_stage.path "1\n"):close()
      local waiting, absent, full = uv.follow(uv_stage.path ""), uv.follow(uv_stage.path()), uv.follow(uv_stage.path(
        ("x\n"):rep(1000)))
      rn.sleep(20)
      for _, ch in ipairs { waiting, absent, full } do ch:close() end
      rn.run()
      shortest = math.min(shortest, rn.now() - before)
      assert.same({}, stage.others())
      if shortest < 900 then break end
    end
    assert.is_true(shortest < 900)
  end)

  it("closes with the error if the path is not a file, or cannot be read", function()
    assert.same({ nil, "/: only a file can be followed, and it is a directory" }, { uv.follow("/"):take() })
    assert.matches("/dev/null: only a file", select(2, uv.follow("/dev/null"):take()))
    assert.same({ nil, "ENOTDIR: not a directory: /dev/null/x" }, { uv.follow("/dev/null/x"):take() })
  end)

  it("waits while something else is at the path for a moment", function()
    local path, old = uv_stage.path "1\n", uv_stage.path()
    local ch = uv.follow(path)
    assert.equal("1", ch:take())
    assert(os.rename(path, old))
    assert(os.execute("mkdir " .. path))
    append(old, "2\n")
    assert.equal("2", ch:take())
    rn.sleep(20)
    assert(os.execute("rmdir " .. path))
    append(path, "a\n")
    assert.equal("a", ch:take())
    ch:close()
  end)

  both("closes with an error if a line is too long, and takes \\r\\n as the end of a line", function()
    local path = uv_stage.path "1234\r\n"
    local ch = uv.follow(path, { max = 4 })
    assert.equal("1234", ch:take())
    append(path, "12345")
    append(path, "6")
    assert.same({ nil, path .. ": a line is longer than 4 bytes; the option max allows longer ones" }, { ch:take() })
  end)

  both("gives lines of any length with the largest integer as max", function()
    local path = uv_stage.path "12"
    local ch = uv.follow(path, { max = math.maxinteger })
    append(path, "34\n5")
    assert.equal("1234", ch:take())
    append(path, "6\n")
    assert.equal("56", ch:take())
    ch:close()
  end)

  it("has go blocks that are named after the call", function()
    local ch = uv.follow(uv_stage.path())
    local here = stage.here(-1)
    local entries = stage.entries()
    assert.equal("uv.follow at " .. here, entries[#entries].name:match "^uv.follow at [^ ]+")
    ch:close()
    rn.run()
  end)

  both("rejects invalid paths and unknown options", function()
    assert.is_function(watch)
    for message, f in pairs {
      ["follow: a path expected, got nothing"] = function() uv.follow() end,
      ["follow: a path expected, got a number"] = function() uv.follow(0) end,
      ['follow: unknown option "lines"'] = function() uv.follow("x", { lines = 1 }) end,
      ["follow: last: an integer of at least 0 expected, got %-1"] = function() uv.follow("x", { last = -1 }) end,
      ["follow: max: an integer of at least 1 expected, got 0"] = function() uv.follow("x", { max = 0 }) end,
      ["follow: last: an integer of at least 0 expected, got 0.5"] = function() uv.follow("x", { last = 0.5 }) end,
    } do
      local _, err = pcall(f)
      assert.matches("^spec/uv/follow_spec.lua:%d+: " .. message, err)
    end
  end)
end)
