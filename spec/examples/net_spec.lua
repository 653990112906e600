-- Runs the examples of servers and clients as a person does, in processes of their own, and talks to them.

local rn = require "runnel"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

local LUA = os.getenv "LUA" or "lua5.4"

local has_luv, luv = pcall(require, "luv")
if not has_luv then
  describe("the examples of servers and clients", function() pending "luv is not installed" end)
  return
end
local uv = require "runnel.uv"

local open -- objects that are closed after the test, if the test has not closed them

local function kept(thing)
  open[#open + 1] = thing
  return thing
end

local function setup_stage()
  uv_stage.open()
  open = {}
end

local function close_stage()
  for _, thing in ipairs(open) do thing:close() end
  uv_stage.close()
end

-- Starts a script with arguments. What it writes is in `stdout` and `stderr`, by lines.
local function start(script, ...)
  return kept(uv.spawn { LUA, "examples/" .. script .. ".lua", stdout = "lines", stderr = "lines", stdin = false, ... })
end

-- Waits until a script has ended: its lines, its complaints, and its status.
local function outcome(process)
  local complaints = rn.into({}, process.stderr)
  local lines = stage.drain(process.stdout)
  return lines, complaints:take(), process.exit:take().code
end

local function assert_usage(script, ...)
  local lines, complaints, status = outcome(start(script, ...))
  assert.same({}, lines)
  assert.matches("^usage: lua5.4 examples/" .. script, complaints[1])
  assert.equal(2, status)
end

-- The next line of a channel that is like a pattern, and its captures.
local function wait_for(lines, pattern)
  for line in lines do
    if line:find(pattern) then return line:match(pattern) end
  end
  error("there was no line like " .. pattern)
end

-- Sends a signal, and waits for the end.
local function interrupt(process)
  process:kill "int"
  return process.exit:take().code
end

-- Waits until a port refuses connections.
local function until_refused(port)
  while true do
    local conn = uv.connect("127.0.0.1", port)
    if not conn then return end
    conn:close()
  end
end

-- A test that runs as a go block, at most 100 s. (A timeout of runnel's would go on after the test.)
local function within(f)
  return function()
    local late, timer = rn.chan(), luv.new_timer()
    timer:start(100000, 0, function() late:close() end)
    rn.run(function()
      local result = rn.alts { rn.go(function() return { pcall(f) } end), late }
      timer:close()
      assert.is_truthy(result, "the test takes too long")
      if not result[1] then error(result[2], 0) end
    end)
  end
end

describe("examples/echo.lua", function()
  before_each(setup_stage)
  after_each(close_stage)

  local function serve(...)
    local process = start("echo", ...)
    return process, tonumber((wait_for(process.stderr, "^listening on 127.0.0.1, port (%d+)$")))
  end

  it("sends back what it is sent, and ends with Ctrl-C", within(function()
    local process, port = serve "0"
    local conns = {}
    for i = 1, 10 do conns[i] = assert(uv.connect("127.0.0.1", port)) end
    for i, conn in ipairs(conns) do
      conn:write("message " .. i)
      conn:shutdown()
    end
    for i, conn in ipairs(conns) do
      assert.equal("message " .. i, table.concat(stage.drain(conn:read())))
      conn:close()
    end
    local idle = assert(uv.connect("127.0.0.1", port))
    idle:write "x"
    assert.equal("x", idle:read():take())
    assert.equal(0, interrupt(process))
    assert.is_nil(idle:read():take())
    idle:close()
    assert.equal("served 10 clients", process.stderr:take())
  end))

  it("serves examples/echo_load.lua", within(function()
    local process, port = serve("127.0.0.1", "0")
    local lines, complaints, status = outcome(start("echo_load", "-c", "50", "-n", "20", port))
    assert.same({ {}, 0 }, { complaints, status })
    assert.matches("^1000 answers of 100 bytes to 50 clients in [%d.]+ s: .*; 0 clients failed$", lines[1])
    lines, complaints, status = outcome(start("echo_load", "-c", "2", "-n", "2", "-s", "3000000", "127.0.0.1", port))
    assert.matches("^4 answers of 3000000 bytes to 2 clients", lines[1])
    assert.same({ {}, 0 }, { complaints, status })
    assert.equal(0, interrupt(process))
  end))

  it("says where it cannot listen", within(function()
    local process, port = serve "0"
    local _, complaints, status = outcome(start("echo", port))
    assert.matches("^echo: .*address already in use", complaints[1])
    assert.equal(1, status)
    assert.equal(0, interrupt(process))
  end))

  it("says how to use it", within(function()
    assert_usage("echo")
    assert_usage("echo", "x")
    assert_usage("echo", "65536")
    assert_usage("echo", "127.0.0.1", "1", "2")
  end))
end)

describe("examples/echo_load.lua", function()
  before_each(setup_stage)
  after_each(close_stage)

  -- The load on a server that answers each chunk with f(chunk).
  local function against(f)
    local clients, port = uv.listen("127.0.0.1", 0)
    kept(clients)
    rn.go(function()
      for conn in clients do
        rn.go(function()
          for chunk in conn:read() do
            local answer = f(chunk)
            if not answer or not conn:write(answer) then break end
          end
          conn:close()
        end)
      end
    end)
    local lines, complaints, status = outcome(start("echo_load", "-c", "3", "-n", "2", port))
    clients:close()
    return lines[1], complaints, status
  end

  it("reports a server that sends something else", within(function()
    local line, complaints, status = against(function(chunk) return ("?"):rep(#chunk) end)
    assert.matches("^0 answers .* 3 clients failed$", line)
    assert.equal("echo_load: the answer is not what was sent", complaints[1])
    assert.equal(1, status)
  end))

  it("reports a server that ends, or is not there", within(function()
    local line, complaints, status = against(function() return nil end)
    assert.matches("^0 answers .* 3 clients failed$", line)
    assert.equal(3, #complaints)
    assert.equal(1, status)
    local clients, port = uv.listen("127.0.0.1", 0)
    clients:close()
    until_refused(port)
    local lines
    lines, complaints, status = outcome(start("echo_load", port))
    assert.matches("^0 answers .* 100 clients failed$", lines[1])
    assert.matches("^echo_load: .*connection refused", complaints[1])
    assert.equal(1, status)
  end))

  it("says how to use it", within(function()
    for _, words in ipairs { {}, { "x" }, { "0" }, { "-c", "0", "1" }, { "-n" }, { "-x", "1" }, { "a", "1", "2" } } do
      assert_usage("echo_load", table.unpack(words))
    end
  end))
end)

describe("examples/httpcheck.lua", function()
  if not pcall(require, "runnel.http.curl") then return pending "libcurl is not installed" end
  before_each(setup_stage)
  after_each(close_stage)

  -- A server that answers a request for a path with what pages[path](conn, how often it was asked) says. Returns its
  -- channel of connections, its port and how many requests ran at a time at most.
  local function serve(pages)
    local clients, port = uv.listen("127.0.0.1", 0)
    kept(clients)
    local asked, running = {}, { now = 0, peak = 0 }
    rn.go(function()
      for conn in clients do
        rn.go(function()
          running.now = running.now + 1
          running.peak = math.max(running.peak, running.now)
          local lines = conn:lines()
          local path = (lines:take() or ""):match "^GET (%S+) HTTP/1%.1$"
          for line in lines do
            if line == "" then break end
          end
          local page = pages[path]
          asked[path] = (asked[path] or 0) + 1
          if type(page) == "function" then page = page(asked[path], conn) end
          running.now = running.now - 1
          if page then conn:write(page) end
          conn:close()
        end)
      end
    end)
    return clients, port, running
  end

  -- Runs it on paths, with more time for an attempt than by default. Returns the rows without times, and the status.
  local function check(port, paths, ...)
    local words = { "-t", "60000", ... }
    for _, path in ipairs(paths) do words[#words + 1] = ("http://127.0.0.1:%d%s"):format(port, path) end
    local lines, complaints, status = outcome(start("httpcheck", table.unpack(words)))
    assert.same({}, complaints)
    assert.equal("status        ms     bytes  tries  URL", table.remove(lines, 1))
    local rows = {}
    for i, line in ipairs(lines) do
      local code, bytes, tries, rest = line:match "^(%S+) +%d+ +(%S+) +(%d+)  http://127.0.0.1:%d+(/.*)$"
      rows[i] = ("%s %s %s %s"):format(code, bytes, tries, rest)
    end
    return rows, status
  end

  local function ok(body) return ("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"):format(#body, body) end

  it("prints what came of each page, in order", within(function()
    local clients, port = serve {
      ["/"] = ok "hello",
      ["/chunked"] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" ..
        "5\r\nhello\r\nb;x=y\r\n and others\r\n0\r\n\r\n",
      ["/until-the-end"] = "HTTP/1.0 200 OK\n\nas long as it goes",
      ["/moved"] = "HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
      ["/missing?x=1"] = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone",
      ["/empty"] = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
      ["/large"] = function()
        rn.sleep(20)
        return ok(("x"):rep(1000000))
      end,
    }
    local rows, status = check(port, {
      "/large", "/", "/chunked", "/until-the-end", "/moved", "/missing?x=1", "/empty",
    })
    assert.same({
      "200 1000000 1 /large", "200 5 1 /", "200 16 1 /chunked", "200 18 1 /until-the-end", "301 0 1 /moved",
      "404 4 1 /missing?x=1", "204 0 1 /empty",
    }, rows)
    assert.equal(1, status)
    rows, status = check(port, { "/" })
    assert.same({ { "200 5 1 /" }, 0 }, { rows, status })
    clients:close()
  end))

  it("tries again what fails, with growing pauses", within(function()
    local times = {}
    local clients, port = serve {
      ["/third"] = function(n)
        times[n] = rn.now()
        return n < 3 and "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n" or ok "at last"
      end,
      ["/never"] = function() return nil end,
      ["/nonsense"] = "what?\n\n",
      ["/short"] = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
      ["/failing"] = "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
    }
    local rows, status = check(port, { "/third", "/never", "/nonsense", "/short", "/failing" })
    assert.equal("200 7 3 /third", rows[1])
    assert.is_true(times[2] - times[1] >= 100 and times[3] - times[2] >= 200)
    local why = rows[2]:match "^%- %- 3 /never: 127.0.0.1:%d+: (.*)$" -- libcurl has two texts for that
    assert.is_truthy(why:find "^Empty reply" or why:find "^Server returned nothing", rows[2])
    assert.matches("^%- %- 3 /nonsense: 127.0.0.1:%d+: .*HTTP/0.9", rows[3])
    assert.matches("^%- %- 3 /short: 127.0.0.1:%d+: .*5 bytes %a+ing", rows[4])
    assert.equal("500 0 3 /failing", rows[5])
    assert.equal(1, status)
    assert.same({ "500 0 1 /failing" }, (check(port, { "/failing" }, "-r", "0")))
    clients:close()
    until_refused(port)
    assert.matches("^%- %- 2 /: .*Connection refused", check(port, { "/" }, "-r", "1")[1])
  end))

  it("gives up an attempt after its time", within(function()
    local never = rn.chan()
    local clients, port = serve {
      ["/slow"] = function(n)
        if n == 1 then never:take() end
        return ok "fast"
      end,
      ["/drop-by-drop"] = function(_, conn)
        conn:write "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
        repeat rn.sleep(20) until not conn:write "x"
      end,
    }
    assert.equal("200 4 2 /slow", check(port, { "/slow" }, "-t", "3000")[1])
    local dropped = check(port, { "/drop-by-drop" }, "-t", "200", "-r", "0")[1]
    assert.matches("^%- %- 1 /drop%-by%-drop: .*timed out after", dropped)
    never:close()
    clients:close()
  end))

  it("asks for n pages at a time", within(function()
    local pages, paths, running = {}, {}, nil
    for i = 1, 30 do
      paths[i] = "/" .. i
      pages[paths[i]] = function()
        repeat rn.sleep(10) until running.peak >= 7
        return ok "page"
      end
    end
    local clients, port
    clients, port, running = serve(pages)
    assert.equal(30, #check(port, paths, "-n", "7"))
    assert.equal(7, running.peak)
    clients:close()
  end))

  it("reports URLs that are none", within(function()
    local lines, _, status = outcome(start("httpcheck", "-r", "0", "ftp://x/", "http://:80/", "http://x:99999/"))
    assert.matches("^%-.* 1  ftp://x/: not an http:// or https:// URL: ftp://x/$", lines[2])
    assert.matches("^%-.* 1  http://:80/: :80: .*URL", lines[3])
    assert.matches("^%-.* 1  http://x:99999/: x:99999: .*URL", lines[4])
    assert.equal(1, status)
  end))

  it("reads URLs from standard input, and ends with Ctrl-C", within(function()
    local clients, port = serve { ["/"] = ok "page", ["/hangs"] = function() rn.sleep(2000) end }
    local process = kept(uv.spawn { LUA, "examples/httpcheck.lua", stdout = "lines", stderr = 2 })
    process.stdin:put(("http://127.0.0.1:%d/\n\nhttp://127.0.0.1:%d/hangs\n"):format(port, port))
    process.stdout:take()
    assert.matches("^200", process.stdout:take())
    assert.equal(130, interrupt(process))
    clients:close()
  end))

  it("says how to use it when there is no URL, and on a terminal", within(function()
    local lines, complaints, status = outcome(start "httpcheck")
    assert.same({ "status        ms     bytes  tries  URL" }, lines)
    assert.equal("httpcheck: standard input has no URL", complaints[1])
    assert.matches("^usage: lua5.4 examples/httpcheck.lua", complaints[2])
    assert.equal(2, status)
    if not os.execute "script --version >/dev/null 2>&1" then return pending "there is no script(1)" end
    local command = 'exec script -qec "$(command -v "$0") examples/httpcheck.lua" /dev/null'
    local process = kept(uv.spawn { "sh", "-c", command, LUA, stdin = false, stdout = "lines", stderr = 2 })
    lines = stage.drain(process.stdout)
    assert.matches("^usage: lua5.4 examples/httpcheck.lua", lines[1])
    assert.equal(2, process.exit:take().code)
  end))

  it("names a sample that it can read", within(function()
    local _, complaints = outcome(start "httpcheck")
    local sample = table.concat(complaints, "\n"):match "< (examples/%S+)"
    local n = 0
    for line in io.lines(sample) do
      assert.matches("^https?://%w[%w.:]+/", line)
      n = n + 1
    end
    assert.is_true(n > 2)
  end))

  it("says how to use it", within(function()
    for _, words in ipairs { { "-n", "0" }, { "-n" }, { "-t", "0" }, { "-t", "x" }, { "-r", "-1" }, { "-x" } } do
      assert_usage("httpcheck", table.unpack(words))
    end
  end))
end)

describe("examples/tail.lua", function()
  before_each(setup_stage)
  after_each(close_stage)

  local function append(path, text)
    local file <close> = assert(io.open(path, "a"))
    file:write(text)
  end

  it("begins with the last lines, and continues with new ones", within(function()
    local path = uv_stage.path "1\n2\n3\n4\nhalf"
    local process = start("tail", "-n", "2", path)
    assert.equal("3", process.stdout:take())
    assert.equal("4", process.stdout:take())
    append(path, " and half\nnext\nno newline yet")
    assert.equal("half and half", process.stdout:take())
    assert.equal("next", process.stdout:take())
    append(path, "\n")
    assert.equal("no newline yet", process.stdout:take())
    assert.equal(0, interrupt(process))
  end))

  it("merges files, also one that comes later, is cut off, or is replaced", within(function()
    local first, second = uv_stage.path "one\n", uv_stage.path()
    local process = start("tail", first, second)
    assert.equal("tail: " .. second .. ": does not exist yet", process.stderr:take())
    assert.equal(first .. ": one", process.stdout:take())
    append(second, "two\n")
    assert.equal(second .. ": two", process.stdout:take())
    assert(io.open(first, "w")):close()
    rn.sleep(50)
    append(first, "1\n")
    assert.equal(first .. ": 1", process.stdout:take())
    append(second .. ".new", "a new two, which is longer\n")
    os.rename(second .. ".new", second)
    assert.equal(second .. ": a new two, which is longer", process.stdout:take())
    append(second, "and goes on\n")
    assert.equal(second .. ": and goes on", process.stdout:take())
    assert.equal(0, interrupt(process))
  end))

  it("says what cannot be followed, and fails when nothing is left to follow", within(function()
    local process = start("tail", "/")
    assert.equal("tail: /: only a file can be followed, and it is a directory", process.stderr:take())
    assert.equal(1, process.exit:take().code)
  end))

  it("begins with 10 lines, or as many as there are, or none", within(function()
    local lines = {}
    for i = 1, 20000 do lines[i] = ("line %d"):format(i) end
    local path = uv_stage.path(table.concat(lines, "\n") .. "\n")
    for words, first in pairs { [{ path }] = 19991, [{ "-n", "15000", path }] = 5001, [{ "-n", "99999", path }] = 1 } do
      local process = start("tail", table.unpack(words))
      for i = first, 20000 do
        local line = process.stdout:take()
        if line ~= lines[i] then assert.equal(lines[i], line) end -- assert is slow
      end
      assert.equal(0, interrupt(process))
    end
    local process = start("tail", "-n", "0", path)
    local line
    repeat -- the first ones may come before it has looked at the file
      append(path, "new\n")
      line = rn.alts { process.stdout, rn.timeout(100) }
    until line
    assert.equal("new", line)
    assert.equal(0, interrupt(process))
  end))

  it("says how to use it", within(function()
    assert_usage("tail")
    assert_usage("tail", "-n", "x", "file")
    assert_usage("tail", "-n", "-1", "file")
    assert_usage("tail", "-x")
  end))
end)

describe("examples/prompt_server.lua", function()
  before_each(setup_stage)
  after_each(close_stage)

  it("is looked into and changed while it runs", within(function()
    local path = uv_stage.path()
    local process = start("prompt_server", path)
    assert.equal("the prompt is at " .. path, process.stderr:take())
    local conn = kept(assert(uv.connect(path)))
    conn:write "state.interval\nstate.interval = 1\nnews:take()\n"
    conn:shutdown()
    assert.matches('> 1000\n%[2%]> %[3%]> "tick 1"\n%[4%]> $', table.concat(stage.drain(conn:read())))
    assert.equal(0, interrupt(process))
    assert.is_nil(luv.fs_stat(path))
  end))

  it("says how to use it", within(function()
    for _, words in ipairs { {}, { "a", "b" }, { "--other" } } do
      assert_usage("prompt_server", table.unpack(words))
    end
  end))
end)
