-- docs/manual/system.md: what it says of a program and its system, where no snippet of the page can show it.

local pages = require "spec.support.docs.pages"
local process = require "spec.support.process"

local PAGE <const> = "docs/manual/system.md"
local text = pages.read(PAGE)
local has_luv = pcall(require, "luv")

describe(PAGE, function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  -- Runs a program as a file; `around` is a shell command in which RUNNEL stands for running it.
  local function run(code, around)
    dir:write("program.lua", code)
    local command = (around or "RUNNEL"):gsub("RUNNEL", function() return process.runnel .. " program.lua" end)
    return process.run(dir.path, command)
  end

  it("lists every environment variable that the sources read", function()
    local missing = {}
    local grep = [[grep -rhoE 'getenv *[( ]"[A-Z_]+"' lua csrc --include='*.lua' --include='*.c']]
    local sources <close> = assert(io.popen(grep))
    local count = 0
    for name in sources:read "a":gmatch '"([%u_]+)"' do
      count = count + 1
      if not text:find("`" .. name .. "`", 1, true) then missing[#missing + 1] = name end
    end
    local options = pages.read "lua/runnel/nats/internal/options.lua":match "local ENVIRONMENT = (%b{})"
    for name in options:gmatch '"([%l_]+)"' do
      count = count + 1
      local variable = "RUNNEL_NATS_" .. name:upper()
      if not text:find("`" .. variable .. "`", 1, true) then missing[#missing + 1] = variable end
    end
    assert.is_true(count > 15, count)
    assert.same({}, missing)
  end)

  it("says with which status a program ends", function()
    local parked = 'local rn = require "runnel" local ch = rn.chan() rn.go(function() ch:take() end)'
    for _, case in ipairs {
      { 0, "" }, { 0, parked }, { 1, "error 'x'" }, { 1, "require 'runnel'.go(error, 'x')" },
      { 1, parked, "--deadlock=error" }, { 0, "require 'runnel'.go(error, 'x')", "--errors=warn" },
      { 2, "", "--nosuch" }, { 7, "require 'runnel'.exit(7)" }, { 9, "os.exit(9)" },
      { 143, "os.execute 'kill -TERM $PPID' require 'runnel'.sleep(60000)" },
    } do
      dir:write("program.lua", case[2])
      local result = process.run(dir.path, ("%s %s program.lua; echo $?"):format(process.runnel, case[3] or ""))
      assert.equal(case[1] .. "\n", result.out, case[2] .. result.err)
    end
  end)

  it("finds the next time of a day, also where summer time begins and ends", function()
    local f = assert(text:match "\n(local function next_time.-\nend\n)")
    local result = run([[
      local date, time, now = os.date, os.time, nil
      os.date = function(form) return date(form, now) end
      os.time = function(t) return t and time(t) or now end
      ]] .. f .. [[
      local function show(year, month, day, hour)
        now = time { year = year, month = month, day = day, hour = hour }
        local next = next_time(2, 30)
        print(date("%d %H:%M", next), (next - now) / 3600)
      end
      show(2026, 3, 28, 3) show(2026, 3, 29, 4) show(2026, 10, 24, 3) show(2026, 10, 25, 4)
    ]], "TZ=CET-1CEST,M3.5.0,M10.5.0/3 RUNNEL")
    assert.equal("29 03:30\t23.5\n30 02:30\t22.5\n25 02:30\t23.5\n26 02:30\t22.5\n", result.out, result.err)
  end)

  it("says what modes files and sockets get, and what is left behind", function()
    local reason = require "spec.support.missing" "luv runnel.sqlite"
    if reason then return pending(reason) end
    local code = [[
      local rn, uv = require "runnel", require "runnel.uv"
      uv.write("written", rn.to_chan { "x" }):take()
      local store = require "runnel.store".open "store.db"
      local kept = { uv.listen "socket", (uv.listen("mine", nil, { mode = 384 })) }
      require("runnel.prompt").listen "prompt"
      if MODE == "killed" then os.execute "kill -KILL $PPID" end
      os.execute "stat -c '%a %n' mine prompt socket store.db written"
      for _, ch in pairs(kept) do ch:close() end
      store:close()
      os.exit(0, true)
    ]]
    local result = run(code, "umask 022; RUNNEL; ls")
    assert.equal("600 mine\n600 prompt\n755 socket\n644 store.db\n644 written\n"
      .. "program.lua\nstore.db\nstore.db-locks\nwritten\n", (result.out:gsub("prompt\n(program)", "%1")), result.err)
    result = run(code, "rm store.db* written; umask 077; RUNNEL")
    assert.equal("600 mine\n600 prompt\n700 socket\n600 store.db\n600 written\n", result.out, result.err)
    result = run('MODE = "killed"\n' .. code, "RUNNEL; ls")
    assert.equal("mine\nprogram.lua\nprompt\nsocket\nstore.db\nstore.db-locks\nstore.db-shm\nstore.db-wal\nwritten\n",
      result.out, result.err)
    result = run([[print(require "runnel.uv".listen "socket")
      print(pcall(require("runnel.prompt").listen, "prompt"))
      os.exit(0)]])
    assert.matches("^nil\tsocket: EADDRINUSE.*\ntrue\t", result.out, nil, result.err)
  end)

  it("says how a program ends whose output nobody reads", function()
    if not has_luv then return pending "luv is not installed" end
    local write = [[
      for i = 1, 100000 do
        local ok, err = io.write("line ", i, "\n")
        if not ok then io.stderr:write(err) os.exit(3) end
      end]]
    local result = run(write, "{ RUNNEL; echo $? >status; } | head -n 1; cat status")
    assert.equal("line 1\n141\n", result.out, result.err)
    result = run([[
      local rn, uv = require "runnel", require "runnel.uv"
      assert(uv.run { "true" })
      local p = uv.spawn { "echo", "read" }
      assert(p.stdout:take() == "read\n" and p.exit:take())
      local clients, port = assert(uv.listen("127.0.0.1", 0))
      assert(uv.connect("127.0.0.1", port))
    ]] .. write, "{ RUNNEL; echo $? >status; } | head -n 1; cat status")
    assert.equal("line 1\n141\n", result.out, result.err)
    result = run([[
      local rn, uv = require "runnel", require "runnel.uv"
      local clients, port = assert(uv.listen("127.0.0.1", 0))
      assert(uv.connect("127.0.0.1", port)):write "x"
    ]] .. write, "{ RUNNEL; echo $? >status; } | head -n 1; cat status")
    assert.same({ "line 1\n3\n", "Broken pipe" }, { result.out, result.err })
    result = run([[
      local rn, uv = require "runnel", require "runnel.uv"
      local ch = rn.chan()
      local written = uv.write(1, ch)
      repeat until not ch:put(("x"):rep(1000))
      io.stderr:write(tostring(select(2, written:take())))
    ]], "RUNNEL | true")
    assert.matches("EPIPE", result.err)
  end)

  it("says what happens without descriptors", function()
    if not has_luv then return pending "luv is not installed" end
    local result = run([[
      require "runnel.all"
      local rn, uv = require "runnel", require "runnel.uv"
      local clients, port = assert(uv.listen("127.0.0.1", 0))
      rn.go(function()
        for client in clients do
          rn.go(function()
            client:read():take()
            client:close()
          end)
        end
      end)
      local list, why = {}, nil
      repeat
        local conn, err = uv.connect("127.0.0.1", port)
        list[#list + 1], why = conn, err
      until not conn
      print(why:match "EMFILE")
      print(select(2, uv.lines("/etc/passwd"):take()):match "EMFILE")
      print(select(2, uv.run { "true" }):match "EMFILE")
      for _, conn in ipairs(list) do conn:close() end
      repeat
        rn.sleep(1)
        local result = uv.run { "true" }
      until result
      local conn = assert(uv.connect("127.0.0.1", port))
      conn:close()
      print "goes on"
      os.exit(0)
    ]], "ulimit -n 40; RUNNEL")
    assert.equal("EMFILE\nEMFILE\nEMFILE\ngoes on\n", result.out, result.err)
  end)

  it("is right that every thread may wait for a signal", function()
    if not has_luv then return pending "luv is not installed" end
    local result = run [[
      local rn = require "runnel"
      local ready = rn.shared_chan()
      local function wait(to)
        local stop = require("runnel.uv").signal "term"
        to:put(true)
        return stop:take()
      end
      local threads = { rn.thread(wait, ready), rn.thread(wait, ready) }
      for _ = 1, 2 do ready:take() end
      os.execute "kill -TERM $PPID"
      print(threads[1]:take(), threads[2]:take())
    ]]
    assert.equal("term\tterm\n", result.out, result.err)
  end)
end)
