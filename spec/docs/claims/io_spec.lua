-- What the documents say of processes, files, sockets and signals.

local rn = require "runnel"
local process = require "spec.support.process"
local no_luv = require "spec.support.missing" "luv"
local uv = not no_luv and require "runnel.uv"
local claim = require "spec.support.docs.claims"(no_luv and pending or it, no_luv)

-- Two ends of a connection.
local function pair()
  local clients, port = assert(uv.listen("127.0.0.1", 0))
  local conn = assert(uv.connect("127.0.0.1", port))
  local other = clients:take()
  clients:close()
  return conn, other
end

describe("the documents say of processes", function()
  claim("of more than 64 KB only about the last 64 KB are kept", function()
    for size, least in pairs { [300000] = 64 * 1024, [60000] = 60000 } do
      local p = uv.spawn { "sh", "-c", ("head -c %d /dev/zero; printf END"):format(size) }
      p.exit:take()
      local pieces = {}
      for piece in p.stdout do pieces[#pieces + 1] = piece end
      local kept, _, err = table.concat(pieces), p.stdout:take()
      assert.equal("END", kept:sub(-3))
      assert.is_true(#kept >= least and #kept < 2 * 64 * 1024, #kept)
      if size > 64 * 1024 then assert.matches("bytes of stdout were dropped", err) else assert.is_nil(err) end
    end
  end)

  claim("`code`: the exit status, 0 to 255; 128 + the signal's number if a signal killed the process, as in a shell. "
    .. "`signal`: the number of that signal, or nil", function()
    local function ends(script)
      local result = assert(uv.run { "sh", "-c", script })
      return { result.code, result.signal }
    end
    assert.same({ 0 }, ends "exit 0")
    assert.same({ 255 }, ends "exit 255")
    assert.same({ 128 + 9, 9 }, ends "kill -KILL $$")
    assert.same({ 128 + 15, 15 }, ends "kill -TERM $$")
  end)

  claim("nil and an error if it could not be started; `nil, err, result` if it was stopped or its input "
    .. "failed", function()
    local result, err, more = uv.run { "/nosuch/program" }
    assert.is_nil(result)
    assert.matches("ENOENT", tostring(err))
    assert.is_nil(more)
    result, err, more = uv.run { "sh", "-c", "echo begun; exec sleep 60", timeout = 100 }
    assert.is_nil(result)
    assert.is_true(rn.is_timeout(err))
    assert.equal(15, more.signal)
    result, err, more = uv.run { "sh", "-c", "echo 12345; exec sleep 60", max = 3 }
    assert.is_nil(result)
    assert.is_string(tostring(err))
    assert.equal("table", type(more))
    local input = rn.chan()
    input:close "no input"
    result, err, more = uv.run { "cat", stdin = input }
    assert.same({ nil, "no input" }, { result, err })
    assert.equal("", more.stdout)
  end)

  claim("changes of the environment; false removes a variable", function()
    local result = uv.run { "sh", "-c", "echo $A ${HOME-none} ${PATH:+path}", env = { A = "a", HOME = false } }
    assert.equal("a none path\n", result.stdout)
  end)

  claim("The child gets the three standard streams, or pipes in their place, and no connection or file that runnel has "
    .. "opened. What other libraries leave open to children it gets, too: above all the files of `io.open`", function()
      local function of_child()
        local _, n = uv.run { "ls", "/proc/self/fd" }.stdout:gsub("\n", "")
        return n
      end
      local before = of_child()
      if before == 0 then return end -- no /proc
      local conn, other = pair()
      local zeros = uv.read "/dev/zero"
      zeros:take()
      assert.equal(before, of_child())
      local file = assert(io.open "/dev/null")
      assert.equal(before + 1, of_child())
      file:close()
      zeros:close()
      conn:close()
      other:close()
    end)
end)

describe("the documents say of files", function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  claim("A line ends with `\\n` or `\\r\\n`, which are left out, and may have up to 1 MB", function()
    local function lines(text, opts)
      dir:write("lines", text)
      local ch = uv.lines(dir.path .. "/lines", opts)
      local list = {}
      for line in ch do list[#list + 1] = line end
      return list, select(2, ch:take())
    end
    assert.same({ "a", "b", "", "c\rd", "e" }, (lines "a\nb\r\n\nc\rd\ne"))
    local list, err = lines(("x"):rep(1048576) .. "\nlast\n")
    assert.same({ 1048576, "last" }, { #list[1], list[2] })
    assert.is_nil(err)
    list, err = lines("first\n" .. ("x"):rep(1048577) .. "\nlast\n")
    assert.same({ "first" }, list)
    assert.matches("a line is longer than 1048576 bytes; ", err)
    assert.matches("longer than 3 bytes", select(2, lines("abcd\n", { max = 3 })))
    assert.same({ "abc" }, (lines("abc\n", { max = 3 })))
  end)

  claim("A piece has `n` bytes and what is left of the line then, so only the last one is shorter.", function()
    local list = {}
    for i = 1, 2000 do list[i] = ("x"):rep(i % 37) end
    local text = table.concat(list, "\n") .. "\n"
    dir:write("text", text)
    local pieces = rn.into({}, uv.lines(dir.path .. "/text", { pieces = 1000 })):take()
    assert.equal(text, table.concat(pieces))
    for i = 1, #pieces - 1 do
      assert.is_true(#pieces[i] >= 1000 and #pieces[i] < 1000 + 38, #pieces[i])
      assert.equal("\n", pieces[i]:sub(-1))
    end
  end)

  claim("A channel of what is in a directory, in the order of the names", function()
    for _, name in ipairs { "b", "a", "C", "a.b", "1" } do dir:write(name, "") end
    assert(os.execute(("cd '%s' && mkdir sub && ln -s a zlink && touch sub/x"):format(dir.path)))
    local function names(opts)
      local list = {}
      for entry in uv.list(dir.path, opts) do list[#list + 1] = entry.name .. ":" .. entry.type end
      return table.concat(list, " ")
    end
    assert.equal("1:file C:file a:file a.b:file b:file sub:directory zlink:link", names())
    assert.equal("1:file C:file a:file a.b:file b:file sub:directory x:file zlink:link", names { deep = true })
  end)

  claim("Writes the strings of `ch` to a file until `ch` closes. Returns a channel that gives the number of bytes",
    function()
      local path = dir.path .. "/out"
      assert.equal(4, uv.write(path, rn.to_chan { "ab", "cd" }):take())
      assert.equal(6, uv.write(path, rn.to_chan { "ef", "gh" }, { append = true, lines = true }):take())
      assert.equal("abcdef\ngh\n", dir:read "out")
      assert.equal(1, uv.write(path, rn.to_chan { "x" }, { sync = true }):take())
      assert.equal("x", dir:read "out")
    end)

  claim("that closes with the error, and so does `ch`", function()
    local ch = rn.chan()
    local written = uv.write(dir.path .. "/nosuch/x", ch)
    assert.matches("ENOENT", tostring(select(2, written:take())))
    assert.is_true(ch:closed())
    assert.matches("ENOENT", tostring(select(2, ch:take())))
  end)

  claim("`uv.follow` only: begins with so many of the existing lines", function()
    dir:write("log", "1\n2\n3\n4\n")
    local lines = uv.follow(dir.path .. "/log", { last = 2 })
    assert.same({ "3", "4" }, { lines:take(), lines:take() })
    lines:close()
    local all = uv.follow(dir.path .. "/log")
    assert.equal("1", all:take())
    all:close()
    local later = uv.follow(dir.path .. "/later")
    dir:write("later", "here\n")
    assert.equal("here", later:take())
    later:close()
  end)
end)

describe("the documents say of sockets and signals", function()
  claim("What has come in belongs to the stream, not to its reader.", function()
    local conn, other = pair()
    other:write "first\nsecond\nrest"
    assert.equal("first", conn:lines():take())
    assert.equal("second", conn:lines():take())
    assert.equal("rest", conn:read():take())
    conn:close()
    other:close()
  end)

  claim("Ends writing; reading goes on", function()
    local conn, other = pair()
    conn:shutdown()
    assert.is_nil(other:read():take())
    other:write "still"
    assert.equal("still", conn:read():take())
    assert.is_falsy((conn:write "x"))
    conn:close()
    other:close()
  end)

  claim("A channel of the numbers 1, 2, 3 ... at that rate. A tick is skipped if the one before it has not been taken",
    function()
      local sim = require "runnel.sim"
      sim.run(function()
        local ticks <close> = uv.ticker(10)
        assert.equal(1, ticks:take())
        rn.sleep(45)
        local second, third = ticks:take(), ticks:take()
        assert.same({ 2, 60 }, { second, math.floor(sim.elapsed() + 0.5) })
        assert.equal(6, third)
      end)
    end)

  claim("Meanwhile they do nothing else", function()
    local signals <close> = uv.signal("hup", "usr1")
    uv.run { "sh", "-c", "kill -HUP $PPID" }
    assert.equal("hup", signals:take())
    uv.run { "sh", "-c", "kill -USR1 $PPID" }
    assert.equal("usr1", signals:take())
  end)

  claim("Each name is looked up in a thread of its own, up to 1000 at once", function()
    local list = rn.into({}, uv.resolve "127.0.0.1"):take()
    assert.same({ "127.0.0.1" }, list)
  end)
end)
