-- The recipes (docs/recipes.md), each run as a person runs it, against servers of this process.

local rn = require "runnel"
local background = require "spec.support.background"
local free_port = require "spec.support.free_port"
local patience = require "spec.support.patience"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

local RUNNEL = os.getenv "RUNNEL" or "build/bin/runnel"

if not pcall(require, "luv") then
  describe("the recipes", function() pending "luv is not installed" end)
  return
end
local uv = require "runnel.uv"

local has_server, http = pcall(require, "runnel.http")
has_server = has_server and pcall(require, "runnel.http.server")
local has_client = pcall(require, "runnel.http.client")
local has_sqlite, sqlite = pcall(require, "runnel.sqlite")
local has_postgres = pcall(require, "luasql.postgres")

-- For requests of this process, which must leave no connection open.
local CLOSES = { headers = { Connection = "close" } }

describe("the recipes", function()
  local open

  setup(function()
    if has_server then assert(http.serve(0, print)):close() end -- opens what the state needs once
    if has_client then http.get "http://127.0.0.1:1/" end
  end)

  before_each(function()
    uv_stage.open()
    open = {}
  end)
  after_each(function()
    for i = #open, 1, -1 do open[i]:close() end
    uv_stage.close()
  end)

  local function kept(thing)
    open[#open + 1] = thing
    return thing
  end

  -- Runs a recipe to its end: output, complaints, status.
  local function run(name, ...)
    local result = assert(uv.run { RUNNEL, "examples/recipes/" .. name .. ".lua", timeout = 60000, ... })
    return result.stdout, result.stderr, result.code
  end

  local function start(name, ...)
    return kept(uv.spawn { RUNNEL, "examples/recipes/" .. name .. ".lua", stdout = "lines", stderr = "lines", ... })
  end

  local function serve(f) return kept(assert(http.serve(0, f))) end

  local wait_for = patience.wait_for

  if has_server and has_client then
    if has_sqlite then it("crawler: visits each page once, and lists the links that do not work", function()
      local asked = {}
      local site = serve(function(req)
        asked[req.path] = (asked[req.path] or 0) + 1
        local html = { ["content-type"] = "text/html" }
        if req.path == "/" then
          return 200, html, '<a href="a.html">a</a> <a href="/b/">b</a> <a href="mailto:x@y">m</a>'
        end
        if req.path == "/a.html" then return 200, html, '<a href="/#top">up</a> <a href="missing">m</a>' end
        if req.path == "/b/" then return 200, html, '<a href="c">c</a> <a href="../a.html">a</a>' end
        if req.path == "/b/c" then return 200, nil, '<a href="/never">not a page of HTML</a>' end
        return 404
      end)
      local db = uv_stage.path()
      run("crawler", site.url, db)
      local out, err, code = run("crawler", site.url, db) -- the pages are there already
      assert.match("4 links work, 1 do not", out, 1, true)
      assert.match(site.url .. "missing: ", out, 1, true)
      assert.match(" (on " .. site.url .. "a.html)\n", out, 1, true)
      assert.same({ "", 1 }, { err, code })
      assert.is_nil(asked["/never"])
      assert.equal(1, asked["/a.html"])
    end) end

    it("gateway: answers with what has come in time", function()
      local quick = serve(function() return 200, nil, "42" end)
      local slow = serve(function()
        rn.sleep(60000)
        return 200
      end)
      local program = start("gateway", "0", quick.url, slow.url)
      local url, answers = program.stdout:take(), nil
      wait_for(function() -- on a busy machine, 300 ms may be too short for the quick one, too
        answers = assert(http.get(url, CLOSES)):json().answers
        return answers[1].answer
      end)
      assert.same({ "42", quick.url }, { answers[1].answer, answers[1].from })
      assert.match("300 ms", answers[2].error)
      program:kill()
      assert.equal(0, program.exit:take().code)
    end)

    it("webhook: answers at once, processes in the background with retries, and finishes before it ends", function()
      local path = uv_stage.path()
      local command = ("cat >> %s; test -e %s.ok || { touch %s.ok; exit 1; }"):format(path, path, path)
      local program = kept(uv.spawn { RUNNEL, "examples/recipes/webhook.lua", "0", command, env = { SECRET = "s" },
        stdout = "lines", stderr = "lines" })
      local url = program.stdout:take()
      local function post(secret, body)
        return assert(http.request { url = url, method = "POST", body = body,
          headers = { ["X-Secret"] = secret, Connection = "close" } }).status
      end
      assert.same({ 403, 400, 202 }, { post("wrong", "{}"), post("s", "{"), post("s", '{"id":1}') })
      assert.equal(200, assert(http.get(url .. "health", CLOSES)).status)
      program:kill()
      assert.equal(0, program.exit:take().code)
      assert.equal('{"id":1}{"id":1}', table.concat(stage.drain(uv.read(path))))
      os.remove(path .. ".ok")
    end)

    it("ratelimited: repeats what was refused, and reports what fails", function()
      local n = 0
      local server = serve(function(req)
        n = n + 1
        if req.path == "/busy" and n < 3 then return 429, { ["retry-after"] = "0.01" } end
        if req.path == "/gone" then return 410 end
        return 200, nil, req.path
      end)
      local out, err, code = run("ratelimited", "100", server.url .. "busy", server.url .. "a", server.url .. "gone")
      assert.equal("/busy\n/a\n", out)
      assert.match("/gone: status 410", err)
      assert.equal(0, code)
    end)

    it("ratelimited: keeps to the rate, also with what it repeats", function()
      local times, printed = {}, {}
      local _ <close> = setmetatable({}, { __close = function() http.fake(nil) end })
      local program = assert(loadfile("examples/recipes/ratelimited.lua", "t", setmetatable({
        arg = { "2", "http://a/1", "http://a/2", "http://a/3" },
        io = { write = function(text) table.insert(printed, text) end, stderr = io.stderr },
      }, { __index = _G })))
      local tries = {}
      sim.run(function()
        http.fake(function(req)
          table.insert(times, sim.elapsed())
          tries[req.path] = (tries[req.path] or 0) + 1
          if tries[req.path] < 3 then return 503 end
          return 200, nil, req.path
        end)
        program()
      end)
      assert.same({ "/1", "/2", "/3" }, printed)
      assert.equal(9, #times)
      for i = 3, #times do assert.is_true(times[i] - times[i - 2] >= 1000, table.concat(times, " ")) end
    end)

    it("logwatch: posts new lines that are like the pattern, and again if the receiver fails", function()
      local path, got, n = uv_stage.path "ERROR one\n", {}, 0
      local receiver = serve(function(req)
        n = n + 1
        if n == 1 then return 503 end
        for _, line in ipairs(req:json().lines) do got[#got + 1] = line end
        return 200
      end)
      start("logwatch", path, "ERROR", receiver.url)
      local file = assert(io.open(path, "a"))
      file:write("all well\nERROR two\n")
      file:close()
      wait_for(function() return #got == 2 end)
      assert.same({ "ERROR one", "ERROR two" }, got)
    end)
  else
    pending "libcurl is not installed: crawler, gateway, webhook, ratelimited, logwatch"
  end

  it("chat: passes lines on, and disconnects a client that does not read", function()
    local program = start("chat", "0")
    local port = tonumber(program.stdout:take():match "%d+")
    local a = kept(assert(uv.connect("127.0.0.1", port)))
    local lines = kept(a:lines())
    a:write "first\n" -- nobody hears it
    local b = kept(assert(uv.connect("127.0.0.1", port)))
    assert.match("is here$", lines:take())
    b:write "hello\n"
    assert.match(": hello$", lines:take())
    local many = {}
    for i = 1, 1000 do many[i] = i .. "\n" end
    b:write(table.concat(many)) -- more at once than may wait for a client
    for i = 1, 1000 do assert.match((": %d$"):format(i), lines:take()) end
    local deaf = kept(assert(uv.connect("127.0.0.1", port))) -- reads nothing
    assert.match("is here$", lines:take())
    rn.go(function()
      local long = ("x"):rep(900) .. "\n"
      while b:write(long) do rn.sleep(0) end
    end)
    for line in lines do
      if line:find "has left$" then break end
    end
    deaf:close()
  end)

  it("toplog: counts", function()
    local out, err, code = run("toplog", "examples/access.log", "^%S+", "3")
    assert.same({ "", 0 }, { err, code })
    local counts = {}
    for line in io.lines "examples/access.log" do
      local key = line:match "^%S+"
      counts[key] = (counts[key] or 0) + 1
    end
    local n = 0
    for count, key in out:gmatch "(%d+)  (%S+)\n" do
      n = n + 1
      assert.equal(counts[key], tonumber(count))
    end
    assert.equal(3, n)
  end)

  if has_sqlite then
    it("etl: reads JSON lines into SQLite, goes on where it was, and says which line is wrong", function()
      local lines = {}
      for i = 1, 5000 do lines[i] = ('{"id":%d,"name":"it\'s %d","value":%d.5}\n'):format(i, i, i) end
      local path, db = uv_stage.path(table.concat(lines) .. "nonsense\n"), uv_stage.path()
      local out, err, code = run("etl", path, db)
      assert.same({ "", 1 }, { out, code })
      assert.match("not JSON: nonsense", err)
      local file = assert(io.open(path, "w"))
      file:write(table.concat(lines), '{"id":9000,"name":"it\'s 9000","value":1}\n')
      file:close()
      for _ = 1, 2 do assert.same({ "5001 rows\n", "", 0 }, { run("etl", path, db) }) end -- each piece once
      local reader <close> = sqlite.open(db)
      local row = reader:one "select count(*) as n, sum(value) as sum, max(name) as name from events"
      assert.same({ n = 5001, sum = 12505001.0, name = "it's 999" }, row)
      out, err, code = run("etl", uv_stage.path '{"id":1,"name":"x","value":1}\n', db)
      assert.same({ "", 1 }, { out, code })
      assert.match("UNIQUE constraint failed: events.id, in: insert into events", err)
      out, err, code = run("etl", path, "/nowhere/db")
      assert.same({ "", 1 }, { out, code })
      assert.match("^[^\n]+/nowhere/db: unable to open database file; there is no folder /nowhere: make it first\n"
        .. "stack traceback:\n", err) -- and no other error
    end)

    it("etl: waits while another program writes", function()
      local path = uv_stage.path()
      local db <close> = sqlite.open(path)
      local program
      db:transaction(function(tx)
        tx:exec "create table other(a)"
        program = start("etl", uv_stage.path '{"id":2,"name":"y","value":1}\n', path)
        assert.is_nil((rn.alts { program.exit, rn.timeout(50) }))
      end)
      assert.same({ 0, "1 rows" }, { program.exit:take().code, program.stdout:take() })
    end)

    it("mailer: sends each mail once, tries again what fails, and goes on after it was killed", function()
      local box, sent, db = os.tmpname(), uv_stage.path(), uv_stage.path()
      os.remove(box)
      assert(os.execute(("mkdir %s; echo one >%s/1.eml; echo two >%s/2.eml"):format(box, box, box)))
      -- The second mail fails until the file `ok` is there.
      local command = ('read m; [ $m = one ] || [ -e %s.ok ] || { echo "no server" >&2; exit 1; }; echo $m >>%s')
        :format(sent, sent)
      local function mailer(pause)
        return kept(uv.spawn { "env", "PAUSE=" .. pause, RUNNEL, "examples/recipes/mailer.lua", box, db, "sh", "-c",
          command, stdout = "lines", stderr = "lines" })
      end
      local program = mailer(1000) -- so that no command runs when it is killed
      assert.equal("1.eml: sent", program.stdout:take())
      assert.equal("2.eml: no server", program.stderr:take())
      program:kill "kill"
      program.exit:take()
      assert(io.open(sent .. ".ok", "w")):close()
      program = mailer(0.01)
      local lines = { program.stdout:take(), program.stdout:take() }
      table.sort(lines)
      assert.same({ "1.eml: sent", "2.eml: sent" }, lines)
      program:kill()
      program.exit:take()
      assert.equal("one\ntwo\n", table.concat(stage.drain(uv.read(sent))))
      os.execute(("rm -r %s %s.ok"):format(box, sent))
    end)

    it("nightly: runs each command once a night, and goes on with the one that has failed", function()
      local log, db = uv_stage.path(), uv_stage.path()
      local first = ("echo first >>%s"):format(log)
      local second = ("[ -e %s.ok ] || { touch %s.failed; exit 3; }; echo second >>%s"):format(log, log, log)
      local function nightly() return start("nightly", "00:00", db, first, second) end
      local program = nightly()
      wait_for(function()
        local failed = io.open(log .. ".failed")
        return failed and failed:close()
      end)
      program:kill "kill"
      program.exit:take()
      assert(io.open(log .. ".ok", "w")):close()
      program = nightly()
      assert.match("^%d%d%d%d%-%d%d%-%d%d: done$", program.stdout:take())
      program:kill()
      program.exit:take()
      assert.equal("first\nsecond\n", table.concat(stage.drain(uv.read(log))))
      os.execute(("rm %s.ok %s.failed"):format(log, log))
    end)
  else
    pending "libsqlite3 is not installed: etl, mailer, nightly"
  end

  if background.has_command "redis-server" then
    it("redis: shares a connection", function()
      local dir <close> = background.set()
      local port = free_port()
      dir:start { "redis-server", "--port", tostring(port), "--save", "", "--appendonly", "no" }
      local function is_up()
        local conn = uv.connect("127.0.0.1", port)
        if conn then conn:close() end
        return conn
      end
      wait_for(is_up)
      assert.same({ "1000\n", "", 0 }, { run("redis", "127.0.0.1", tostring(port), "1000") })
    end)
  else
    pending "redis-server is not installed: redis"
  end

  local initdb = io.popen("ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null"):read "l"
  if has_postgres and initdb then
    it("postgres: asks several questions at a time #ci", function()
      local bin, dir = initdb:match "^(.*)/", uv_stage.path()
      local id = io.popen("id -u"):read "n"
      local as = id == 0 and "su postgres -s /bin/sh -c " or "sh -c "
      local function shell(command) return os.execute(as .. "'" .. command .. "' >/dev/null 2>&1") end
      local _ <close> = setmetatable({}, { __close = function()
        shell(("%s/pg_ctl -D %s/data -m immediate stop"):format(bin, dir))
        os.execute("rm -rf " .. dir)
      end })
      shell(("mkdir -p %s && %s/initdb -A trust -D %s/data"):format(dir, bin, dir))
      shell(("%s/pg_ctl -D %s/data -o \"-k %s -h \\\"\\\"\" -w start"):format(bin, dir, dir))
      local user = id == 0 and " user=postgres" or ""
      local out, err, code = run("postgres", ("host=%s dbname=postgres%s"):format(dir, user),
        "SELECT 1 AS one, 2 AS two", "nonsense", "CREATE TABLE t (a int)", "SELECT pg_sleep(60)")
      assert.match("one = 1, two = 2\n", out)
      assert.match("nonsense: .*syntax error", err)
      assert.match("pg_sleep%(60%): .*statement timeout", err)
      assert.equal(0, code)
    end)
  else
    pending "luasql-postgres or PostgreSQL is not installed: postgres"
  end

  it("are shorter than 60 lines", function()
    for path in io.popen("ls examples/recipes/*.lua"):lines() do
      local n = 0
      for _ in io.lines(path) do n = n + 1 end
      assert.is_true(n < 60, path)
    end
  end)

  it("progress counts what is done and what has failed, also on a terminal", function()
    local dir <close> = require("spec.support.process").directory()
    for i = 1, 20 do dir:write("f" .. i, tostring(i)) end
    local command = ("%s examples/recipes/progress.lua %s/f* /no/such/file"):format(RUNNEL, dir.path)
    local result = uv.run { "sh", "-c", command }
    assert.equal(1, result.code)
    assert.equal(20, select(2, result.stdout:gsub("%x+  [^\n]*/f%d+\n", "")))
    assert.matches("^21 of 21 done, 1 failed\n/no/such/file: sha256sum: [^\n]*\n", result.stderr)
    local on_terminal = uv.run { "sh", "-c", ("script -qec '%s >/dev/null' /dev/null </dev/null"):format(command) }
    assert.matches("\r\27%[K1 of 21 done, [01] failed", on_terminal.stdout)
    assert.matches("\r\27%[K21 of 21 done, 1 failed\r\n", on_terminal.stdout)
  end)
end)
