-- runnel.monitor's server without a browser: who may ask, that it answers while the program is busy, how it is started.
-- tests/browser has the page.

local rn = require "runnel"
local monitored = require "spec.support.monitored"
local shell = require "spec.support.shell"

it("says what to do if the C module is missing", function()
  local core = (package.searchpath("runnel.core", package.cpath))
  local text = ([[package.preload["runnel.core"] = package.loadlib(%q, "luaopen_runnel_core")
    package.cpath = "/none/?.so"
    print(select(2, pcall(require, "runnel.monitor")))]]):format(core)
  local out = shell.run(("lua -e '%s'"):format(text:gsub("'", "'\\''")))
  assert.match("make install", out)
  assert.match("runnel%.monitor%.core", out)
end)

local monitor = require "runnel.monitor"

describe("runnel.monitor", function()
  local start, stop = monitored.starter()
  after_each(stop)

  -- ---- who may ask ----

  it("serves the page with the token, and nothing without it", function()
    local p = start "local m = listen(0) rn.sleep(600000)"
    assert.equal(200, (p:get "/?"))
    assert.equal(200, (p:get "/monitor.js"))
    local among_others = ("GET /?utm=a&flag&token=%s&token=none HTTP/1.1"):format(p.token)
    assert.equal(200, (monitored.request(p.port, among_others)))
    for what, status in pairs {
      ["GET / HTTP/1.1"] = 403,
      ["GET /?token=0123456789abcdef0123456789abcdef HTTP/1.1"] = 403,
      ["GET /events HTTP/1.1"] = 403,
      ["POST /values HTTP/1.1\nContent-Length: 0"] = 403,
      ["GET /../../etc/passwd HTTP/1.1"] = 404,
      ["PUT / HTTP/1.1"] = 405,
    } do
      assert.equal(status, (monitored.request(p.port, what)), what)
    end
  end)

  it("refuses requests that other sites make the browser send, by the headers Host and Origin", function()
    local p = start "local m = listen(0) rn.sleep(600000)"
    for headers, status in pairs {
      ["Host: evil.example"] = 403,
      ["Host: 127.0.0.1:1"] = 403,
      ["Host: 127.0.0.1"] = 403,
      [("Host: localhost:%d"):format(p.port)] = 200,
      [("Host: 127.0.0.1:%d\nOrigin: http://evil.example"):format(p.port)] = 403,
      [("Host: 127.0.0.1:%d\nOrigin: null"):format(p.port)] = 403,
      [("Host: 127.0.0.1:%d\nOrigin: https://127.0.0.1:%d"):format(p.port, p.port)] = 403,
      [("Host: 127.0.0.1:%d\nOrigin: evil://127.0.0.1:%d"):format(p.port, p.port)] = 403, -- as long as http://
      [("Host: 127.0.0.1:%d\nOrigin: http://127.0.0.1:%d"):format(p.port, p.port)] = 200,
    } do
      assert.equal(status, (p:get("/?", headers)), headers)
    end
    local no_host = ("GET /?token=%s HTTP/1.0"):format(p.token)
    assert.equal(403, (monitored.request(p.port, no_host)))
    assert.equal(200, (monitored.request(p.port, no_host .. "\nHost: 127.0.0.1:" .. p.port)))
  end)

  it("refuses commands and streams of other sites, too, and a token that is nearly right", function()
    local p = start "local m = listen(0, { control = true }) rn.sleep(600000)"
    for _, headers in ipairs {
      ("Host: 127.0.0.1:%d\nOrigin: http://evil.example"):format(p.port),
      "Host: evil.example:" .. p.port,
    } do
      assert.equal(403, (p:post("/kill?", "id=1", headers)), headers)
      assert.equal(403, (p:get("/events?", headers)), headers)
      assert.equal(403, (p:get("/monitor.js", headers)), headers)
    end
    local last = p.token:sub(-1) == "0" and "1" or "0"
    for _, token in ipairs { p.token:sub(1, -2) .. last, p.token:sub(1, -2), p.token .. "0", "" } do
      assert.equal(403, (monitored.request(p.port, ("GET /?token=%s HTTP/1.1"):format(token))), token)
      assert.equal(403, (monitored.request(p.port, ("POST /kill?token=%s HTTP/1.1"):format(token), "id=1")), token)
    end
    assert.equal(202, (p:post("/kill?", "id=1")))
  end)

  it("answers though other users of the machine hold connections without the token, and closes these", function()
    local p = start "local m = listen(0) rn.sleep(600000)"
    local script = ([[
      for i in {1..100}; do exec {fd}<>/dev/tcp/127.0.0.1/%d && fds="$fds $fd"; done
      for fd in $fds; do printf "GET / HTTP/1.1\\r\\n" >&$fd; done
      echo held
      for fd in $fds; do read -t 20 -u $fd; echo $?; done]]):format(p.port) -- 1: it is closed
    local holding <close> = assert(io.popen(("bash -c '%s' 2>/dev/null"):format(script)))
    assert.equal("held", holding:read())
    assert.equal(200, (p:get "/?"))
    assert.equal(("1\n"):rep(100), holding:read "a")
  end)

  it("has no text of the program in the page itself", function()
    local p = start [[local m = listen(0, { program = "<b>title</b>" }) rn.sleep(600000)]]
    local _, page = p:get "/?"
    assert.is_nil(page:find("title</b>", 1, true))
    local list = monitored.messages(p:events(1))
    assert.equal("<b>title</b>", list[1].hello.program)
  end)

  it("lets the page run no script but its own, and names the licences of the libraries in it", function()
    local p = start "local m = listen(0) rn.sleep(600000)"
    local _, page = p:get "/?"
    assert.match("Content%-Security%-Policy: default%-src 'none'; script%-src 'self'", page)
    assert.match("Referrer%-Policy: no%-referrer", page)
    local _, licences = p:get "/licenses.txt"
    for _, name in ipairs { "uplot 1%.6%.32", "dagre 3%.1%.3", "htm 3%.1%.1", "preact 10%." } do
      assert.match("==== " .. name, licences)
    end
  end)

  -- ---- while the program is busy, or does not care ----

  it("answers while a go block computes, and says for how long, and which one", function()
    local p = start [[
      local m = listen(0)
      rn.go(function()
        rn.rename "hog"
        repeat until told()
      end)
      rn.sleep(1)
      print "computed"
    ]]
    assert.equal(200, (p:get "/?"))
    local list = monitored.messages(p:events_until '"busy":[1-9][0-9][0-9][0-9]*,"blocked":0')
    assert.is_true(list[#list].busy >= 100)
    assert.equal("hog", list[#list].who)
    assert.is_true(list[#list].runs > 0)
    assert.match("computed", p:finish())
  end)

  it("tells a go block that blocks the thread in a system call from one that computes", function()
    local p = start [[
      local m = listen(0)
      rn.go(function()
        rn.rename "hog"
        repeat
          os.execute "sleep 0.3"
          rn.sleep(1) -- the monitor may have looked between two system calls; it begins again
        until told()
      end):take()
    ]]
    local list = monitored.messages(p:events_until '"busy":[1-9][0-9][0-9][0-9]*,"blocked":1')
    assert.same({ "hog", 1 }, { list[#list].who, list[#list].blocked })
    p:finish()
  end)

  it("knows the names of a recording that has begun before", function()
    local p = start [[
      local path = os.tmpname()
      rn.trace(path)
      local go = rn.chan()
      rn.go(function()
        rn.rename "hog"
        go:take()
        repeat until told()
      end)
      rn.sleep(1)
      local m = listen(0)
      go:put(true)
      rn.sleep(1)
      rn.trace(false)
      os.remove(path)
    ]]
    local list = monitored.messages(p:events_until '"busy":[1-9][0-9][0-9]')
    assert.equal("hog", list[#list].who)
    p:finish()
  end)

  it("says that the main program computes", function()
    local p = start "local m = listen(0) rn.sleep(1) repeat until told()"
    local list = monitored.messages(p:events_until '"busy":[1-9][0-9][0-9]')
    assert.same({ "the main program", 0 }, { list[#list].who, list[#list].runs })
  end)

  it("goes on when a browser never reads #slow", function()
    local p = start [[
      local m = listen(0)
      local chs = {}
      for i = 1, 1000 do
        local ch = rn.chan(10):name(("channel %d "):format(i):rep(12))
        chs[i] = ch
        rn.go(function() for _ in ch do end end)
      end
      while not told() do
        for _, ch in ipairs(chs) do ch:put(1) end
        rn.sleep(10)
      end
      print "done"
    ]]
    local closed = p:stream "sleep 5"
    assert.equal(4, #monitored.messages(p:events(4)))
    assert.match("done", p:finish())
    closed()
  end)

  it("does not swallow Ctrl-C, which may come while it takes a picture", function()
    local p = start([[
      local m, filling = listen(0), server_module.filling
      function server_module.filling() server_module.filling = filling; error("interrupted!", 0) end
      print(pcall(function() for _ = 1, 500 do rn.sleep(20) end end))
    ]])
    p:stream "cat <&3"
    assert.matches("^false\t[^\n]*interrupted!\n$", p:wait())
  end)

  it("does not keep a program running, and does not hide a deadlock", function()
    local p = start [[
      local m = listen(0)
      local ok, err = pcall(function() rn.chan():name "nobody":take() end)
      print(err)
    ]]
    assert.match("deadlock: take on chan: nobody", p:wait())
  end)

  it("is in no list of go blocks", function()
    local _ <close> = assert(monitor.listen())
    for _, entry in ipairs(rn.ps()) do assert.not_match("monitor", entry.name) end
  end)

  -- ---- listen ----

  it("says that it cannot listen when the process has no file descriptors left, and keeps none", function()
    local output = shell.run [[ulimit -n 40; lua -e '
      local monitor = require "runnel.monitor"
      assert(monitor.listen()):close() -- loads all that it needs
      local files, failures = {}, {}
      repeat
        local file = io.open "/dev/null"
        files[#files + 1] = file
      until not file
      local m, why
      repeat
        m, why = monitor.listen()
        if not m then
          failures[why] = true
          table.remove(files):close()
        end
      until m
      m:close()
      local list = {}
      for reason in pairs(failures) do list[#list + 1] = reason end
      table.sort(list)
      print(table.concat(list, "\n"))
      local again = assert(monitor.listen())
      again:close()']]
    assert.match("^monitor: cannot listen on port 0 of 127%.0%.0%.1: [^\n]+\nmonitor: the server cannot be started\n$",
      output)
  end)

  it("has a C module that refuses what is no watch, and a monitor that was closed", function()
    local server_module = require "runnel.monitor.core"
    local m = assert(monitor.listen())
    local server = m.server
    m:close()
    server_module.stop(server)
    for _, name in ipairs { "ask", "command", "filling", "publish", "result" } do
      local _, err = pcall(server_module[name], server)
      assert.match("the monitor is closed", err)
    end
    local _, err = pcall(server_module.start, io.stdout, 0, false, "program")
    assert.match("was built for another release of runnel: run make again", err)
  end)

  it("says that the port is taken", function()
    local p = start "local m = listen(0) rn.sleep(600000)"
    local m, err = monitor.listen(p.port)
    assert.is_nil(m)
    assert.equal(("monitor: port %d of 127.0.0.1 is taken by another program"):format(p.port), err)
    assert(monitor.listen()):close() -- nothing is left of the attempt
  end)

  it("says what the system has not got, such as a descriptor", function()
    local internal = require("runnel.core").internal
    local watch = internal.watch
    function internal.watch() error("cannot make a file descriptor: Too many open files", 0) end
    local ok, m, err = pcall(monitor.listen)
    internal.watch = watch
    assert.same({ true, nil, "monitor: cannot make a file descriptor: Too many open files" }, { ok, m, err })
    assert(monitor.listen()):close() -- nothing is left of the attempt
  end)

  it("runs once in a Lua state, and again after it was closed", function()
    local m = assert(monitor.listen())
    local ok, err = pcall(function() monitor.listen() end)
    assert.is_false(ok)
    assert.match("server_spec%.lua:%d+: listen: this program has a monitor already; close it first", err)
    m:close()
    m:close()
    local again <close> = assert(monitor.listen(m.port))
    assert.equal(m.port, again.port)
    assert.not_equal(m.url, again.url)
  end)

  it("refuses arguments that are wrong, at the caller's line", function()
    for message, arguments in pairs {
      ["the port must be an integer from 0 to 65535, got 70000"] = { 70000 },
      ['the port must be an integer from 0 to 65535, got "80"'] = { "80" },
      ['unknown option "ports"'] = { 0, { ports = 1 } },
      ["control: a boolean expected"] = { 0, { control = "yes" } },
      ['show: "types", "values" or a function expected, got "all"'] = { 0, { show = "all" } },
      ["program: a string expected"] = { 0, { program = 1 } },
    } do
      local ok, err = pcall(monitor.listen, table.unpack(arguments))
      assert.is_false(ok)
      assert.match("listen: " .. message:gsub("%p", "%%%0"), err)
    end
  end)
end)

describe("runnel --monitor", function()
  local RUNNEL = os.getenv "RUNNEL" or "build/bin/runnel"

  it("prints the page's URL to stderr, and runs the script", function()
    local out, err, status = shell.run(RUNNEL .. " --monitor -e 'print(1 + 1)'")
    assert.same({ "2\n", 0 }, { out, status })
    assert.match("^monitor: http://127%.0%.0%.1:%d+/%?token=%x+\n$", err)
  end)

  it("finds the C module beside the executable", function()
    local _, err = shell.run("cd / && LUA_PATH= LUA_CPATH='/none/?.so' " .. RUNNEL .. " --monitor -e ''")
    assert.match("^monitor: http", err)
  end)

  it("says what to do if the C module is missing, and does not run the script", function()
    local _, err, status = shell.run(("d=$(mktemp -d) && cp %s $d && cd $d && LUA_PATH= LUA_CPATH=/none/?.so "
      .. "./runnel --monitor -e 'print \"ran\"'; status=$?; rm -r $d; exit $status"):format(RUNNEL))
    assert.equal(1, status)
    assert.match("make install", err)
    assert.not_match("ran\n", err)
  end)

  it("refuses an invalid port, and one that is taken", function()
    local _, err, status = shell.run(RUNNEL .. " --monitor=http -e ''")
    assert.equal(2, status)
    assert.match("'%-%-monitor' needs a port from 0 to 65535", err)
    local m <close> = assert(monitor.listen())
    _, err, status = shell.run(("%s --monitor=%d -e 'print \"ran\"'"):format(RUNNEL, m.port))
    assert.equal(1, status)
    assert.match("port %d+ of 127%.0%.0%.1 is taken by another program", err)
  end)
end)
