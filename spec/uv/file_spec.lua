-- uv.read, uv.lines, uv.write, uv.stdin: files, named pipes and descriptors.

local patience = require "spec.support.patience"
local raises = require "spec.support.raises"
local both = require "spec.support.in_world"(it)
local rn = require "runnel"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

describe("runnel.uv", function()
  local has_luv, luv = pcall(require, "luv")
  if not has_luv then return pending "luv is not installed" end
  local uv = require "runnel.uv"

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  local function all(ch) return table.concat(stage.drain(ch)) end

  local function fifo()
    local path = uv_stage.path()
    assert(os.execute("mkfifo " .. path))
    return path
  end

  -- The values of a channel, and the reason of its closing.
  local function outcome(ch)
    local list = {}
    while true do
      local value, err = ch:take()
      if value == nil then return list, err end
      list[#list + 1] = value
    end
  end

  both("names channels after the file", function()
    local none = ("/none"):rep(100)
    for _, ch in ipairs { uv.lines(none), uv.read(none), uv.lines(none, { pieces = 100 }), uv.follow(none) } do
      assert.equal(none:sub(1, 200), ch:name())
      ch:close()
    end
    local ch = uv.read(1000)
    assert.equal("descriptor 1000", ch:name())
    assert.matches("EBADF", select(2, ch:take()))
  end)

  describe("lines", function()
    both("of a file are read", function()
      for text, expected in pairs {
        [""] = {}, ["\n"] = { "" }, ["a"] = { "a" }, ["a\n"] = { "a" }, ["a\nb"] = { "a", "b" },
        ["\n\na\n\n"] = { "", "", "a", "" }, ["a\r\nb\0c\n"] = { "a", "b\0c" },
        ["\r\n\r\n"] = { "", "" }, ["a\rb\n\r\r\n"] = { "a\rb", "\r" }, ["a\nb\r"] = { "a", "b\r" },
      } do
        assert.same({ expected }, { outcome(uv.lines(uv_stage.path(text))) })
      end
    end)

    both("may be longer than one read, and may span several", function()
      local list = {}
      for i = 1, 60 do list[i] = (string.char(64 + i % 60)):rep(i * i * i) end
      list[61] = ("x"):rep(1000000)
      assert.same(list, stage.drain(uv.lines(uv_stage.path(table.concat(list, "\n")))))
      for shift = 0, 3 do
        local text = ("a"):rep(65536 - 2 + shift) .. "\nb\n"
        assert.same({ ("a"):rep(65534 + shift), "b" }, stage.drain(uv.lines(uv_stage.path(text))))
      end
    end)

    both("end with \\r\\n also where that spans two reads", function()
      for shift = -2, 2 do
        local long = ("a"):rep(65536 + shift)
        assert.same({ long, "b" }, stage.drain(uv.lines(uv_stage.path(long .. "\r\nb\r\n"))))
      end
    end)

    it("of a large piece are read at once, up to 1 MB", function()
      local path, read = uv_stage.path(("x\n"):rep(1 << 20)), luv.fs_read
      local descriptors = require("runnel.core").internal.descriptors
      local read_in_memory = descriptors.read_in_memory
      descriptors.read_in_memory = function() end -- as where the system cannot tell what is in memory
      for n, expected in pairs { [100] = 1 << 16, [1 << 18] = 1 << 18, [1 << 21] = 1 << 20 } do
        local sizes = {}
        luv.fs_read = function(fd, size, ...)
          sizes[size] = true
          return read(fd, size, ...)
        end
        stage.drain(uv.lines(path, { pieces = n }))
        luv.fs_read = read
        assert.same({ [expected] = true }, sizes)
      end
      descriptors.read_in_memory = read_in_memory
    end)

    it("let others run while a long one is read", function()
      local turns, is_over = 0, false
      rn.go(function()
        while not is_over do
          turns = turns + 1
          rn.yield()
        end
      end)
      assert.equal(1 << 23, #uv.lines(uv_stage.path(("x"):rep(1 << 23)), { max = 1 << 23 }):take())
      is_over = true
      assert.is_true(turns >= 8)
    end)

    both("come in pieces of about n bytes, which are together what is in the file #ci", function()
      local list = {}
      for i = 1, 3000 do list[i] = ("x"):rep(i * 7919 % 97) .. (i % 3 == 0 and "\r\n" or "\n") end
      for _, text in ipairs { table.concat(list), table.concat(list) .. "end", "", "\n", "end" } do
        local path = uv_stage.path(text)
        for _, n in ipairs { 1, 50, 1000, 65535, 65536, 65537, 1000000 } do
          local pieces, err = outcome(uv.lines(path, { pieces = n }))
          assert.is_nil(err)
          assert.is_true(text == table.concat(pieces))
          for i = 1, #pieces - 1 do
            assert.equal("\n", pieces[i]:sub(-1))
            assert.is_true(#pieces[i] >= n and not pieces[i]:sub(n, -2):find "\n")
          end
        end
      end
    end)

    both("in pieces close with an error if the end of a line is more than max bytes behind the nth", function()
      local path = uv_stage.path("1\n" .. ("x"):rep(100) .. "\n")
      assert.same({ { "1\n" .. ("x"):rep(100) .. "\n" } }, { outcome(uv.lines(path, { pieces = 10, max = 93 })) })
      assert.same({ {}, path .. ": a line is longer than 92 bytes; the option max allows longer ones" },
        { outcome(uv.lines(path, { pieces = 10, max = 92 })) })
      raises("^lines: pieces: an integer of at least 1 expected, got 0$", function()
        uv.lines("x", { pieces = 0 })
      end)
      raises('^lines: unknown option "piece"; known: max, pieces$', function() uv.lines("x", { piece = 1 }) end)
    end)

    it("that are too long close the channel with an error, after the lines before them", function()
      local function message(path, max)
        return path .. ": a line is longer than " .. max .. " bytes; the option max allows longer ones"
      end
      for _, max in ipairs { 1, 100, 65535, 65536, 65537, 200000 } do
        local fits = ("x"):rep(max)
        for _, newline in ipairs { "\n", "\r\n" } do
          local path = uv_stage.path("1" .. newline .. fits .. newline .. fits .. newline)
          assert.same({ { "1", fits, fits } }, { outcome(uv.lines(path, { max = max })) })
          path = uv_stage.path("1" .. newline .. fits .. "x" .. newline .. "2" .. newline)
          assert.same({ { "1" }, message(path, max) }, { outcome(uv.lines(path, { max = max })) })
        end
        assert.same({ { fits } }, { outcome(uv.lines(uv_stage.path(fits), { max = max })) })
        local path = uv_stage.path(fits .. "x")
        assert.same({ {}, message(path, max) }, { outcome(uv.lines(path, { max = max })) })
      end
      assert.matches("^/dev/zero: a line is longer than 1048576 bytes", select(2, uv.lines("/dev/zero"):take()))
    end)

    both("have any length with the largest integer as max", function()
      local text = ("x"):rep(200000)
      local path = uv_stage.path(text)
      assert.same({ { text } }, { outcome(uv.lines(path, { max = math.maxinteger })) })
      assert.same({ { text } }, { outcome(uv.lines(path, { max = math.maxinteger, pieces = math.maxinteger })) })
    end)

    both("reject invalid options at the caller's line", function()
      for message, opts in pairs {
        ['unknown option "longest"; known: max, pieces'] = { longest = 1 },
        ["max: an integer of at least 1 expected, got 0"] = { max = 0 },
        ["a table of options expected, got a number"] = 7,
      } do
        local _, err = pcall(function() uv.lines("/dev/null", opts) end)
        assert.equal(("%s: lines: %s"):format(stage.here(-1), message), err)
      end
    end)

    it("of a large file are complete", function()
      local list = {}
      for i = 1, 50000 do list[i] = tostring(i) end
      local path = uv_stage.path(table.concat(list, "\n") .. "\n")
      assert.same(list, rn.run(function() return stage.drain(uv.lines(path)) end))
    end)

    it("of a named pipe arrive as they are written", function()
      local path = fifo()
      local lines = uv.lines(path)
      local ch = rn.chan()
      local result = uv.write(path, ch)
      ch:put "one\ntw"
      assert.equal("one", lines:take())
      ch:put "o\nthree"
      assert.equal("two", lines:take())
      ch:close()
      assert.equal("three", lines:take())
      assert.is_nil(lines:take())
      assert.equal(13, result:take())
    end)

    it("end when the channel is closed while a put of them waits", function()
      local lines = uv.lines(uv_stage.path(("line\n"):rep(1000)))
      assert.equal("line", lines:take())
      assert.is_true(patience.wait_until(function() return lines:stats().puts_waiting > 0 end))
      assert.equal(1, #stage.others())
      lines:close()
      assert.is_true(patience.wait_until(function() return #stage.others() == 0 end))
    end)

    it("of a whole file end when the channel is closed while a put waits", function()
      local chunks = uv.read(uv_stage.path(("line\n"):rep(100000)))
      assert.is_true(patience.wait_until(function() return chunks:stats().puts_waiting > 0 end))
      chunks:close()
      assert.is_true(patience.wait_until(function() return #stage.others() == 0 end))
    end)

    it("end when the channel is closed", function()
      local path = fifo()
      local lines = uv.lines(path)
      local ch = rn.chan()
      local result = uv.write(path, ch)
      ch:put "a\n"
      assert.equal("a", lines:take())
      lines:close()
      rn.sleep(5)
      while ch:put "b\n" do rn.sleep(1) end
      assert.same({ nil, path .. ": EPIPE: broken pipe" }, { result:take() })
    end)
  end)

  describe("read", function()
    both("returns the whole file", function()
      local text = ("0123456789"):rep(100000)
      local chunks = stage.drain(uv.read(uv_stage.path(text)))
      assert.equal(text, table.concat(chunks))
      assert.is_true(#chunks > 1)
    end)

    it("reads a descriptor from its current position, and closes it", function()
      local fd = luv.fs_open(uv_stage.path "abcdef", "r", 0)
      luv.fs_read(fd, 2, -1)
      assert.equal("cdef", all(uv.read(fd)))
      assert.is_nil((luv.fs_fstat(fd)))
    end)

    it("reads no more than is taken from an endless file", function()
      local chunks = uv.read "/dev/zero"
      for _ = 1, 3 do assert.matches("^%z+$", chunks:take()) end
      chunks:close()
      chunks = uv.spawn({ "yes" }).stdout
      for _ = 1, 3 do assert.matches("^[y\n]+$", chunks:take()) end
      assert.is_true(uv_stage.growth(20) < 1000)
      chunks:close()
    end)

    both("closes the file of an abandoned channel", function()
      for _ = 1, 20 do uv.read("/dev/zero"):take() end
      for _ = 1, 3 do
        collectgarbage()
        rn.sleep(1)
      end
      assert.equal("abc", all(uv.read(uv_stage.path "abc")))
    end)

    both("stops when the channel is closed before the file is open", function()
      uv.read("/dev/zero"):close()
      uv.lines("/dev/zero"):close "reason"
    end)
  end)

  it("reads the program's standard input", function()
    local script = [[
      local uv = require "runnel.uv"
      local n = 0
      for chunk in uv.stdin() do n = n + #chunk end
      print(n)
    ]]
    local sources = { ["printf 12345 |"] = "5\n", ["</dev/null"] = "0\n", ["<" .. uv_stage.path "1234567"] = "7\n" }
    for source, output in pairs(sources) do assert.equal(output, (stage.script(script, source))) end
  end)

  it("leaves a pipe on standard input in the mode that it had", function()
    local path = uv_stage.path [[
      local uv = require "runnel.uv"
      local lines = uv.lines(0)
      io.write(lines:take(), ";")
      lines:close()
      require "runnel".run()
      os.remove(arg[0])
    ]]
    local lua = os.getenv "LUA" or "lua5.4"
    local wait = ("i=0; while [ -e %s ] && [ $i -lt 600 ]; do sleep 0.05; i=$((i + 1)); done"):format(path)
    local pipe = io.popen(("{ echo a; %s; echo b; } | { %s %s; cat; } 2>&1"):format(wait, lua, path))
    assert.equal("a;b\n", pipe:read "a")
    pipe:close()
  end)

  describe("write", function()
    both("writes the values of a channel to a file", function()
      local path = uv_stage.path "something longer that was there"
      assert.equal(4, uv.write(path, rn.to_chan { "a", "bc", 1 }):take())
      assert.equal("abc1", uv_stage.contents(path))
    end)

    both("appends, and adds newlines", function()
      local path = uv_stage.path "a\n"
      assert.equal(5, uv.write(path, rn.to_chan { "b", "cd" }, { append = true, lines = true }):take())
      assert.equal("a\nb\ncd\n", uv_stage.contents(path))
    end)

    both("copies a file that is read", function()
      local text = ("0123456789"):rep(100000)
      local path = uv_stage.path()
      assert.equal(#text, uv.write(path, uv.read(uv_stage.path(text))):take())
      assert.equal(text, uv_stage.contents(path))
    end)

    both("makes an empty file from an empty channel", function()
      local path = uv_stage.path()
      assert.equal(0, uv.write(path, rn.to_chan {}):take())
      assert.equal("", uv_stage.contents(path))
    end)

    both("ends with the error of its channel", function()
      local path, ch = uv_stage.path(), rn.chan()
      local result = uv.write(path, ch)
      ch:put "a"
      ch:close "source failed"
      assert.same({ nil, "source failed" }, { result:take() })
      assert.equal("a", uv_stage.contents(path))
    end)

    both("ends when its result is closed, and takes no more", function()
      local ch = rn.chan()
      local result = uv.write(uv_stage.path(), ch)
      ch:put "a"
      repeat rn.sleep(1) until ch:stats().takes_waiting == 1 -- "a" is written
      result:close()
      rn.sleep(5)
      assert.is_false(ch:put "b")
    end)

    it("waits for the reader of a named pipe", function()
      local path = fifo()
      local result = uv.write(path, rn.to_chan { ("x"):rep(1000000) })
      rn.sleep(30)
      assert.is_nil(result:poll())
      assert.equal(1000000, #all(uv.read(path)))
      assert.equal(1000000, result:take())
    end)
  end)

  describe("a failure", function()
    both("closes the channel with the error: no such file, a directory", function()
      assert.same({ nil, "ENOENT: no such file or directory: /no/such" }, { uv.lines("/no/such"):take() })
      assert.same({ nil, "ENOENT: no such file or directory: /no/such" }, { uv.read("/no/such"):take() })
      assert.same({ nil, "/: EISDIR: illegal operation on a directory" }, { uv.read("/"):take() })
      assert.matches("EBADF", select(2, uv.read(987):take()))
    end)

    both("closes the channel with the error: a Unix socket's path", function()
      local path = uv_stage.path()
      local conns = assert(uv.listen(path))
      local err = "ENXIO: no such device or address: " .. path
      for _, ch in ipairs { uv.lines(path), uv.read(path), uv.write(path, rn.to_chan { "x" }) } do
        local timer = rn.after(5000, ch.close, ch)
        local value, problem = ch:take()
        timer:stop()
        assert.same({ nil, err }, { value, problem })
      end
      conns:close()
    end)

    it("closes the result with the error when the disk is full", function()
      local ch = rn.chan()
      local result = uv.write("/dev/full", ch)
      local n = 0
      while ch:put(("x"):rep(10000)) do n = n + 1 end
      local err = "/dev/full: ENOSPC: no space left on device"
      assert.same({ nil, err }, { result:take() })
      assert.same({ nil, err }, { ch:take() })
    end)

    it("writes nothing twice when the file must not grow #ci", function()
      local path, text = uv_stage.path(), {}
      for i = 1, 20000 do text[i] = ("%07d\n"):format(i) end
      local output = stage.script(([[
        local rn, uv = require "runnel", require "runnel.uv"
        local luv = require "luv"
        luv.new_signal():start("sigxfsz", function() end)
        local ch = rn.chan()
        local result = uv.write(%q, ch)
        for i = 1, 20000 do if not ch:put(("%%07d\n"):format(i)) then break end end
        ch:close()
        print(result:take())
        os.exit(0)
      ]]):format(path), "ulimit -f 64;")
      assert.matches("nil\t.*EFBIG", output)
      local contents = uv_stage.contents(path)
      assert.is_true(#contents == 65536 or #contents == 32768)
      assert.equal(table.concat(text):sub(1, #contents), contents)
    end)

    both("is the error of a value that is not a string", function()
      local path, ch = uv_stage.path(), rn.chan()
      local result = uv.write(path, ch)
      ch:put "a"
      ch:put {}
      assert.same({ nil, "only strings can be written, not a table" }, { result:take() })
      assert.is_false(ch:put "b")
    end)

    for bad, name in pairs { [{}] = "table", [false] = "boolean" } do
      both(("is that of a %s, after the strings that have been put before it"):format(name), function()
        local path, ch = uv_stage.path(), rn.chan(4)
        for _, value in ipairs { "a", "b", bad, "c" } do ch:put(value) end
        ch:close()
        local result = uv.write(path, ch)
        assert.same({ nil, "only strings can be written, not a " .. name }, { result:take() })
        assert.equal("ab", uv_stage.contents(path))
      end)
    end

    both("of a buffer policy in Lua loses nothing that was put before and after it", function()
      local list, removed = { "a", "b", "c" }, 0
      local ch = rn.chan {
        full = function() return true end, add = function() end, count = function() return #list end,
        remove = function()
          removed = removed + 1
          if removed == 2 then error "once" end
          return table.remove(list, 1)
        end,
      }
      ch:close()
      local path = uv_stage.path()
      assert.equal(3, uv.write(path, ch):take())
      assert.equal("abc", uv_stage.contents(path))
    end)

    both("closes the result with the error when the file cannot be opened", function()
      local ch = rn.chan()
      local result = uv.write("/no/such/file", ch)
      assert.is_false(ch:put "a" and ch:put "b")
      assert.same({ nil, "ENOENT: no such file or directory: /no/such/file" }, { result:take() })
    end)
  end)

  both("offers lines to any channel, as many as the channel accepts at once", function()
    local offer_lines = require("runnel.core").internal.offer_lines
    local ch = rn.chan(2)
    assert.same({ 5, nil }, { offer_lines(ch, "a\nb\nc\nd", 1, 9) })
    assert.same({ "a", "b" }, { ch:take(), ch:take() })
    assert.same({ 7, true }, { offer_lines(ch, "a\nb\nc\nd", 5, 9) })
    assert.same({ 8, true }, { offer_lines(ch, "a\nb\nc\nd", 8, 9) })
    ch:take()
    assert.same({ 4, nil }, { offer_lines(ch, "d\r\nefg\nh\n", 1, 2) })
    assert.same({ "d" }, { ch:take() })
    ch:close()
    assert.same({ 1, false }, { offer_lines(ch, "a\n", 1, 9) })
    assert.error_matches(function() offer_lines(ch, "a", 3, 9) end, "not a position in the text")
    assert.error_matches(function() offer_lines("a", "a", 1, 9) end, "offer_lines")
  end)

  describe("a cancelled go block", function()
    local function kill_all()
      for _, entry in ipairs(rn.ps()) do
        if entry.state ~= "running" then rn.cancel(entry.result, "killed") end
      end
    end

    it("closes what it reads into, with the reason", function()
      rn.run(function()
        local big = uv_stage.path(("line\n"):rep(100000))
        for _, open in ipairs { uv.read, uv.lines } do
          local ch = open(big)
          assert(ch:take())
          rn.sleep(5)
          kill_all()
          assert.equal("killed", select(2, outcome(ch)))
        end
      end)
    end)

    it("leaves no descriptor open if the system is opening the file", function()
      rn.run(function()
        local path = uv_stage.path "x"
        for _ = 1, 20 do
          local ch = uv.read(path)
          rn.yield()
          kill_all()
          local read, err = outcome(ch)
          assert.is_true(err == "killed" or read[1] == "x") -- a file that was opened just before is read without a wait
        end
      end)
    end)

    -- Lets luv hold a call back, as it does while all its threads are busy. Returns a function that waits until it was
    -- called; this returns a function that lets luv begin.
    local function hold_back(name)
      local real, held = luv[name], nil
      luv[name] = function(...)
        luv[name], held = real, table.pack(...)
        return true
      end
      finally(function() luv[name] = real end)
      return function()
        patience.wait_until(function() return held end)
        return function() real(table.unpack(held, 1, held.n)) end
      end
    end

    it("keeps its descriptor until the system has written, so that no other file gets the text", function()
      local wait = hold_back "fs_write"
      rn.run(function()
        local path, other = uv_stage.path(), uv_stage.path()
        local ch = rn.chan()
        local result = uv.write(path, ch)
        ch:put "text"
        local begin = wait()
        kill_all()
        assert.same({ nil, "killed" }, { result:take() })
        local file <close> = assert(io.open(other, "w"))
        begin()
        patience.wait_until(function() return assert(luv.fs_stat(path)).size + assert(luv.fs_stat(other)).size > 0 end)
        assert.equal(0, assert(luv.fs_stat(other)).size)
        file:write "else"
      end)
    end)

    it("ends after the system has made the file, so that it can be removed then", function()
      local wait = hold_back "fs_open"
      rn.run(function()
        local path = uv_stage.path()
        os.remove(path)
        local result = uv.write(path, rn.chan())
        local begin = wait()
        for _ = 1, 2 do
          kill_all()
          rn.yield()
          assert.is_false(result:closed())
        end
        begin()
        assert.same({ nil, "killed" }, { result:take() })
        assert.is_true(os.remove(path))
      end)
    end)

    it("closes the channel that it writes from, and its result", function()
      rn.run(function()
        local ch = rn.chan()
        local result = uv.write(uv_stage.path(), ch)
        ch:put "x"
        rn.sleep(5)
        kill_all()
        rn.yield()
        assert.is_false(ch:put "y")
        assert.same({ nil, "killed" }, { result:take() })
      end)
    end)
  end)

  both("rejects invalid paths and channels", function()
    for message, f in pairs {
      ["read: a path or a file descriptor expected, got nothing"] = function() uv.read() end,
      ["lines: a path or a file descriptor expected, got %-1"] = function() uv.lines(-1) end,
      ["lines: a path or a file descriptor expected, got a table"] = function() uv.lines {} end,
      ["write: a path or a file descriptor expected, got 1.5"] = function() uv.write(1.5, rn.chan()) end,
      ["write: channel: a channel expected, got a string"] = function() uv.write("x", "y") end,
      ['write: unknown option "mode"'] = function() uv.write("x", rn.chan(), { mode = 1 }) end,
    } do
      local _, err = pcall(f)
      assert.matches("^spec/uv/file_spec.lua:%d+: " .. message, err)
    end
  end)
end)
