-- uv.reader: bytes, texts up to a delimiter and lines of one stream, and who gets what was read ahead.

local both = require "spec.support.in_world"(it)
local json = require "runnel.json"
local long = require "spec.support.long"
local raises = require "spec.support.raises"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local tls_files = pcall(require, "luv") and require "spec.support.tls"
local uv_stage = require "spec.support.uv_stage"

-- A channel of strings, which is closed behind them.
local function chunks(...)
  local ch = rn.chan()
  rn.onto_chan(ch, { ... })
  return ch
end

describe("uv.reader", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  local uv = require "runnel.uv"

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  -- A connection to a server, which is a function.
  local function client_of(serve, opts)
    local conns, port = assert(uv.listen("127.0.0.1", 0, opts))
    rn.go(function()
      local conn <close> = conns:take()
      conns:close()
      serve(conn)
    end)
    return assert(uv.connect("127.0.0.1", port))
  end

  both("reads numbers of bytes, texts and lines of the same bytes", function()
    local conn <close> = client_of(function(conn)
      for _, part in ipairs { "ab", "cdef\r", "\nline 1\nli", "ne 2\r\n\nres", "t", " and\n", "more" } do
        conn:write(part)
        rn.yield()
      end
    end)
    local r = uv.reader(conn)
    assert.equal("abc", r:read(3))
    assert.equal("", r:read(0))
    assert.equal("def", r:read_until "\r\n")
    assert.same({ "line 1", "line 2", "" }, { r:line(), r:line(), r:line() })
    assert.equal("rest", r:read_until " ")
    assert.equal("and\nmore", r:read(8))
    assert.same({ n = 1 }, table.pack(r:read(1)))
    assert.is_nil(r:line())
  end)

  it("says that the end came early, and keeps the bytes", stage.within(function()
    local r = uv.reader(chunks "abc")
    local value, err = r:read(5)
    assert.is_nil(value)
    assert.matches("^chan: .*: the end came after 3 bytes, before 5$", err)
    assert.matches("the end came after 3 bytes, before ", select(2, r:read_until "\r\n"))
    assert.equal("abc", r:read(3))
    assert.same({}, { r:read(1) })
    assert.same({}, { r:read_until "x" })
  end))

  it("says that a text or a line is longer than its limit, and keeps the bytes", stage.within(function()
    local r = uv.reader(chunks("abc", "def\nxy"))
    assert.matches('there is no ";" within 4 bytes', select(2, r:read_until(";", 4)))
    assert.matches('there is no "f" within 4 bytes', select(2, r:read_until("f", 4)))
    assert.equal("abc", r:read_until("d", 3))
    assert.matches("a line is longer than 1 bytes", select(2, r:line(1)))
    assert.equal("ef", r:line(2))
    assert.matches("a line is longer than 1 bytes", select(2, r:line(1)))
    assert.equal("xy", r:line(2))
    assert.is_nil(r:line())
    local crlf = uv.reader(chunks("ab\r", "\n"))
    assert.equal("ab", crlf:line(2))
  end))

  it("gives a text and a line of any length with the largest integer as limit", stage.within(function()
    local function reader() return uv.reader(chunks("ab", "c\nde", "f")) end
    local r = reader()
    assert.equal("ab", r:read_until("c\nd", math.maxinteger))
    assert.equal("ef", r:line(math.maxinteger))
    r = reader()
    assert.equal("abc", r:line(math.maxinteger))
    assert.equal("de", r:read_until("f", math.maxinteger))
    local lines = {}
    for line in reader():lines(math.maxinteger) do lines[#lines + 1] = line end
    assert.same({ "abc", "def" }, lines)
  end))

  it("gives the error with which the source closes, after the bytes before it", stage.within(function()
    local ch = rn.chan(2)
    ch:put "ab"
    ch:close "ECONNRESET"
    local r = uv.reader(ch)
    assert.same({ nil, "ECONNRESET" }, { r:read(3) })
    assert.equal("ab", r:read(2))
    assert.same({ nil, "ECONNRESET" }, { r:line() })
    assert.same({ false, "ECONNRESET" }, { pcall(r:lines()) })
    assert.same({ false, "ECONNRESET" }, { pcall(r:pieces()) })
  end))

  it("loses nothing if a read is cancelled, or its time is up", stage.within(function()
    local ch = rn.chan()
    local r = uv.reader(ch)
    for i = 1, 3 do
      rn.go(function() ch:put("part" .. i) end)
      local ok, err = pcall(rn.scope, function() return r:read(100) end, { timeout = 10 })
      assert.is_false(ok)
      assert.is_true(rn.is_timeout(err))
    end
    assert.equal("part1part2part3", r:read(15))
    ch:close()
  end))

  it("belongs to one go block at a time", stage.within(function()
    local ch = rn.chan()
    local r = uv.reader(ch)
    local first = rn.go(function() return r:read(1) end)
    rn.yield()
    raises("reader:line: another go block reads chan: .* now", function() r:line() end)
    ch:put "a"
    assert.equal("a", first:take())
    ch:close()
    assert.is_nil(r:line())
  end))

  both("of a connection leaves what it has read ahead to the next reader", function()
    local conn <close> = client_of(function(conn) conn:write "1\n2\n3\n4\n5" end)
    local r = uv.reader(conn)
    assert.equal("1", r:line())
    assert.equal(r, uv.reader(conn))
    local lines = conn:lines()
    assert.equal("2", lines:take())
    assert.matches("something else reads it now", select(2, r:read(1)))
    local again = uv.reader(conn)
    assert.equal("3", again:line())
    again:close()
    again = uv.reader(conn)
    assert.equal("4", again:line())
    assert.equal("5", table.concat(stage.drain(conn:read())))
  end)

  both("of a file closes it, and of a file that is missing tells so", function()
    local path = os.tmpname()
    local written = rn.chan(1)
    written:put "head\nbody"
    written:close()
    uv.write(path, written):take()
    do
      local r <close> = uv.reader(path)
      assert.equal("head", r:line())
    end
    assert.matches("ENOENT", select(2, uv.reader("/nowhere/file"):read(1)))
    os.remove(path)
  end)

  it("of standard input leaves what it has read ahead to the next reader", function()
    local output = stage.script([[
      local uv = require "runnel.uv"
      local r = uv.reader(0)
      print(r:line())
      r:close()
      local lines = uv.lines(0)
      print(lines:take())
      r = uv.reader(0)
      print(r:read(3))
      local rest = {}
      for chunk in uv.read(0) do rest[#rest + 1] = chunk end
      print(table.concat(rest))
    ]], "printf 'a\\nb\\ncdefg\\nh' |")
    assert.equal("a\nb\ncde\nfg\nh\n", output)
  end)

  it("does as a model does, however the text is cut into chunks", function()
    local random = math.random
    for seed = 1, long.times(300, 20000) do
      math.randomseed(seed)
      local letters, n = { "a", "b", "\n", "\r\n", ";", "--" }, random(0, 40)
      local text = {}
      for i = 1, n do text[i] = letters[random(#letters)] end
      text = table.concat(text)
      local list, at = {}, 1
      while at <= #text do
        local size = random(random(2) == 1 and 2 or 9)
        list[#list + 1] = text:sub(at, at + size - 1)
        at = at + size
      end
      stage.run(function()
        local r, rest = uv.reader(rn.to_chan(list)), text
        local function same(expected, value, what)
          if expected ~= value then
            error(("seed %d, %s: %q in place of %q"):format(seed, what, tostring(value), tostring(expected)))
          end
        end
        for _ = 1, 12 do
          local kind = random(4)
          if kind == 1 then
            local size = random(0, 6)
            local is_there = #rest >= size
            same(is_there and rest:sub(1, size) or nil, r:read(size), "read")
            if is_there then rest = rest:sub(size + 1) end
          elseif kind == 2 then
            local delimiter, max = ({ ";", "--", "a-", "\r\n", "b;a" })[random(5)], random(0, 12)
            local first = rest:find(delimiter, 1, true)
            local is_there = first and first - 1 <= max
            same(is_there and rest:sub(1, first - 1) or nil, (r:read_until(delimiter, max)), "until " .. delimiter)
            if is_there then rest = rest:sub(first + #delimiter) end
          elseif kind == 3 then
            local max = random(0, 12)
            local first = rest:find("\n", 1, true)
            local line = (rest:sub(1, first):gsub("\r?\n$", ""))
            local is_there = rest ~= "" and #line <= max
            same(is_there and line or nil, (r:line(max)), "line")
            if is_there then rest = rest:sub((first or #rest) + 1) end
          elseif random(4) == 1 then
            local piece = r:pieces()()
            same(rest ~= "" and rest:sub(1, #(piece or "x")) or nil, piece, "piece")
            rest = rest:sub(#(piece or "") + 1)
          end
        end
        while r:pieces()() do end -- luacheck: ignore 542
      end)
    end
  end)

  it("reads a long text that comes a byte at a time in time that grows with its length only", stage.within(function()
    local n = 0
    local r = uv.reader(rn.to_chan(function()
      n = n + 1
      return n <= 200000 and "x" or n == 200001 and "\n" or nil
    end))
    assert.equal(200000, #r:line())
  end))

  it("says at the caller's line what is wrong", function()
    raises("reader: a connection, a path, a file descriptor or a channel expected, got a table",
      function() uv.reader {} end)
    local r = uv.reader(rn.chan())
    raises("reader:read: n: an integer of at least 0 expected, got %-1", function() r:read(-1) end)
    raises("reader:read_until: a delimiter expected, got nothing", function() r:read_until() end)
    raises("reader:read_until: the delimiter is empty", function() r:read_until "" end)
    raises("reader:line: max: an integer of at least 0 expected, got \"x\"", function() r:line "x" end)
    raises("reader.line: call it with a colon", function() r.line() end)
  end)

  -- ---- protocols ----

  both("reads Redis' protocol", function()
    local function answer(r)
      local kind, text = assert(r:read_until "\r\n"):match "^(.)(.*)$"
      if kind == "+" then return text end
      if kind == ":" then return math.tointeger(text) end
      if kind == "-" then return nil, text end
      local n = math.tointeger(text)
      if n < 0 then return nil end
      if kind == "$" then
        local bytes = assert(r:read(n))
        assert(r:read(2) == "\r\n")
        return bytes
      end
      local list = {}
      for i = 1, n do list[i] = answer(r) end
      return list
    end

    local text = "+OK\r\n:42\r\n$5\r\na\r\nb\0\r\n*3\r\n$1\r\nx\r\n:7\r\n*1\r\n+y\r\n-ERR no\r\n"
      .. "$-1\r\n$0\r\n\r\n*0\r\n$9\r\nshort"
    local conn <close> = client_of(function(conn)
      for i = 1, #text, 3 do
        conn:write(text:sub(i, i + 2))
        rn.yield()
      end
    end)
    local r = uv.reader(conn)
    assert.same({ "OK", 42, "a\r\nb\0" }, { answer(r), answer(r), (answer(r)) })
    assert.same({ "x", 7, { "y" } }, answer(r))
    assert.same({ nil, "ERR no" }, { answer(r) })
    assert.is_nil(answer(r))
    assert.same({ "", {} }, { answer(r), (answer(r)) })
    assert.error_matches(function() answer(r) end, "the end came after 5 bytes, before 9")
  end)

  it("speaks SMTP, and begins no TLS behind bytes that came before it", function()
    -- A server: what it got.
    local folder <close> = tls_files.folder()
    local function serve(conn, got, rest)
      local r = uv.reader(conn)
      conn:write "220 here\r\n"
      for line in r:lines(512) do
        local verb = line:match "^%a+"
        if verb == "DATA" then
          conn:write "354 go on\r\n"
          got.data = assert(r:read_until("\r\n.\r\n", 10000))
        elseif verb == "STARTTLS" then
          conn:write("220 ready\r\n" .. (rest or ""))
          got.ok, got.err = conn:start_tls(require("runnel.tls").server { cert = folder.path .. "/cert",
            key = folder.path .. "/key" })
          if not got.ok then return end
        else
          got[#got + 1] = line
        end
        if verb ~= "STARTTLS" then conn:write(verb == "QUIT" and "221 bye\r\n" or "250-more\r\n250 OK\r\n") end
      end
    end

    local function reply(r)
      local text = {}
      repeat
        local line = assert(r:line(512))
        text[#text + 1] = line:sub(5)
      until line:sub(4, 4) == " "
      return table.concat(text, "\n")
    end

    local function say(conn, text)
      assert(conn:write(text .. "\r\n"))
      return reply(uv.reader(conn))
    end

    local got = {}
    local conn <close> = client_of(function(conn) serve(conn, got) end)
    assert.equal("here", reply(uv.reader(conn)))
    assert.equal("more\nOK", say(conn, "EHLO me"))
    assert.equal("ready", say(conn, "STARTTLS"))
    assert(conn:start_tls({ ca = folder.path .. "/ca", name = "localhost" }))
    say(conn, "MAIL FROM:<a@b>")
    assert.equal("go on", say(conn, "DATA"))
    say(conn, "Subject: x\r\n\r\n..body\r\n.")
    assert.equal("bye", say(conn, "QUIT"))
    assert.same({ "EHLO me", "MAIL FROM:<a@b>", "QUIT", data = "Subject: x\r\n\r\n..body", ok = true }, got)

    local attacked = {}
    local attacker <close> = client_of(function(other) serve(other, attacked) end)
    assert(attacker:write "STARTTLS\r\nMAIL FROM:<injected>\r\n")
    for _ in attacker:read() do end
    assert.is_false(attacked.ok)
    assert.matches("earlier input was not taken", attacked.err)
  end)

  it("speaks the protocol of language servers with a process", function()
    local server = [[
      local uv, json = require "runnel.uv", require "runnel.json"
      local r = uv.reader(0)
      local function receive()
        local size
        for line in r:lines() do
          if line == "" then break end
          size = line:match "^Content%-Length: (%d+)$" or size
        end
        return size and json.decode(assert(r:read(math.tointeger(size))))
      end
      for message in receive do
        local text = json.encode { jsonrpc = "2.0", id = message.id, result = { echo = message.params } }
        io.write(("Content-Length: %d\r\nContent-Type: x\r\n\r\n%s"):format(#text, text))
        io.flush()
      end
    ]]
    local path = uv_stage.path(server)
    local p <close> = uv.spawn { os.getenv "LUA" or "lua5.4", path }
    local r = uv.reader(p.stdout)
    local function ask(id, params)
      local text = json.encode { jsonrpc = "2.0", id = id, method = "echo", params = params }
      p.stdin:put(("Content-Length: %d\r\n\r\n%s"):format(#text, text))
      local size
      for line in r:lines() do
        if line == "" then break end
        size = line:match "^Content%-Length: (%d+)$" or size
      end
      return json.decode(assert(r:read(math.tointeger(size))))
    end
    for id = 1, 20 do
      local params = { text = ("é\r\n"):rep(id * 50) }
      assert.same({ jsonrpc = "2.0", id = id, result = { echo = params } }, ask(id, params))
    end
    p.stdin:close()
    assert.equal(0, p.exit:take().code)
    assert.is_nil(r:line())
  end)

  it("loses and repeats nothing, wherever a read is cancelled, in every order", function()
    require("spec.support.search").finds_nothing(function()
      local ch, got = rn.chan(), {}
      rn.go(function()
        for _, part in ipairs { "a", "b;", "c", ";d;" } do ch:put(part) end
        ch:close()
      end)
      local r = uv.reader(ch)
      for _ = 1, 2 do
        local block = rn.go(function()
          local text = r:read_until ";"
          if text then got[#got + 1] = text end
        end)
        for _ = 1, sim.choose(3) do rn.yield() end
        rn.cancel(block)
        block:take()
      end
      for text in function() return r:read_until ";" end do got[#got + 1] = text end
      assert(table.concat(got, ";") == "ab;c;d", table.concat(got, ";"))
    end)
  end)
end)
