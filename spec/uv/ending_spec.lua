-- What becomes of processes when the program ends, in each way in which it can end.

local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"
local uv_stage = require "spec.support.uv_stage"

describe("the end of a program", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  local uv = require "runnel.uv"

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  -- Starts processes of each kind; each appends its number to a file. Waits until all have.
  local BEGIN = [[
    local rn, uv, luv = require "runnel", require "runnel.uv", require "luv"
    local path = arg[1]
    local function job(script, options)
      options = options or {}
      options[1], options[2], options[3] = "sh", "-c", script:gsub("PATH", path)
      return options
    end
    local SLEEP = "echo $$ >>PATH; exec sleep 100"
    for _ = 1, 3 do rn.go(function() rn.go(function() uv.run(job(SLEEP)) end):take() end) end
    rn.go(function() uv.run(job(SLEEP, { detached = true })) end)
    rn.go(function() uv.run(job(SLEEP, { env = { PATH = os.getenv "PATH" } })) end) -- which libuv starts
    -- The leader of a group has ended, and its child has the output.
    rn.go(function() uv.run(job("sh -c 'echo $$ >>PATH; exec sleep 100' & exit", { detached = true })) end)
    -- One that does not heed SIGTERM, and is being closed.
    local deaf = uv.spawn(job("trap '' TERM; echo $$ >>PATH; while :; do sleep 0.05; done", { grace = 1e6 }))
    repeat
      rn.sleep(1)
      local file <close> = io.open(path)
      local count = select(2, file:read("a"):gsub("\n", ""))
    until count == 7
    deaf:close()
    rn.yield()
    local function get(signal)
      luv.kill(luv.os_getpid(), signal)
      rn.sleep(60000)
    end
  ]]

  local function gone(pid)
    local file <close> = io.open(("/proc/%s/stat"):format(pid))
    local text = file and file:read "a"
    return not text or text:find "%) Z" ~= nil
  end

  local HOSTS = { { "lua5.4", os.getenv "LUA" or "lua5.4" }, { "runnel", process.runnel } }

  for _, how in ipairs {
    { "its script ends", "rn.driver(require 'runnel.driver.luv')", only = "lua5.4" },
    { "it raises an error", "error 'oops'" },
    { "it calls rn.exit", "rn.exit(3)" },
    { "it calls os.exit", "os.exit(3)" },
    { "it calls os.exit, and closes the state", "os.exit(3, true)" },
    { "a go block calls os.exit", "rn.go(os.exit, 3) rn.sleep(60000)" },
    { "a thread calls os.exit", "rn.thread(function() os.exit(3) end) rn.sleep(60000)" },
    { "SIGTERM ends it", "get 'sigterm'" },
    { "SIGHUP ends it", "get 'sighup'" },
    { "SIGINT ends it", "get 'sigint'" },
    { "SIGQUIT ends it", "get 'sigquit'", only = "lua5.4" }, -- runnel prints what waits, and goes on
    { "SIGUSR1 ends it", "get 'sigusr1'" },
    { "SIGALRM ends it", "get 'sigalrm'" },
    { "SIGPIPE ends it", "get 'sigpipe'" },
    { "SIGXFSZ ends it", "get 'sigxfsz'" },
    { "SIGTERM ends it while it computes", "luv.kill(luv.os_getpid(), 'sigterm') while true do end" },
    { "SIGTERM ends it after it was caught", [[
      local term = uv.signal "term"
      luv.kill(luv.os_getpid(), "sigterm")
      term:take()
      term:close()
      get "sigterm"
    ]] },
    { "a second SIGTERM ends it, since it is draining", [[
      local drains = rn.chan()
      local term = require "runnel.internal.sigterm"
      term.add(drains, "drain", { order = term.SERVERS, name = "", drain = function()
        drains:put(true)
        rn.sleep(60000)
      end })
      luv.kill(luv.os_getpid(), "sigterm")
      drains:take()
      get "sigterm"
    ]] },
    { "SIGTERM ends it while it is recorded", "get 'sigterm'", only = "runnel", option = "--trace=PATH/trace.json" },
  } do
    for _, host in ipairs(HOSTS) do
      if not how.only or how.only == host[1] then
        it(("in %s stops the processes of uv.run and closed ones, when %s"):format(host[1], how[1]), function()
          local dir <close> = process.directory()
          dir:write("script.lua", BEGIN .. how[2])
          dir:write("pids", "")
          local option = (how.option or ""):gsub("PATH", dir.path)
          os.execute(("%s %s DIR/script.lua DIR/pids >DIR/out 2>&1"):format(host[2], option)
            :gsub("DIR", dir.path), nil)
          local n = 0
          for pid in dir:read("pids"):gmatch "%d+" do
            n = n + 1
            local is_gone = patience.wait_until(function() return gone(pid) end, 5000)
            if not is_gone then os.execute("kill -9 " .. pid) end
            assert.is_true(is_gone)
          end
          assert.equal(7, n, dir:read "out")
        end)
      end
    end
  end

  it("stops a process of uv.run that is being started", function()
    for _, host in ipairs(HOSTS) do
      local dir <close> = process.directory()
      dir:write("script.lua", [[
        local luv = require "luv"
        local spawn = require "runnel.uv.spawn"
        local program = spawn.program
        function spawn.program(...)
          local handle, pid, err = program(...)
          local file <close> = io.open(arg[1], "w")
          file:write(pid):close()
          luv.kill(luv.os_getpid(), "sigterm")
          return handle, pid, err
        end
        require("runnel.uv").run { "sleep", "100" }
      ]])
      os.execute((host[2] .. " DIR/script.lua DIR/pid >DIR/out 2>&1")
        :gsub("DIR", dir.path), nil)
      local pid = assert(dir:read "pid", dir:read "out")
      local is_gone = patience.wait_until(function() return gone(pid) end, 5000)
      if not is_gone then os.execute("kill -9 " .. pid) end
      assert.is_true(is_gone, dir:read "out")
    end
  end)

  it("ignores the signals that nohup has it ignore, in its processes, too", function()
    for _, host in ipairs(HOSTS) do
      local command = [[(trap '' HUP; %s -e '
        local stat = require("runnel.uv").run { "cat", "/proc/self/status" }.stdout
        print(tonumber(stat:match "SigIgn:%%s*(%%x+)", 16) & 1)')]]
      assert.equal("1\n", (process.capture(command:format(host[2]))))
    end
  end)

  it("stops any number of processes of uv.run #ci", function()
    local dir <close> = process.directory()
    dir:write("script.lua", [[
      local rn, uv = require "runnel", require "runnel.uv"
      local path, n = arg[1], 70 -- csrc/port/ending.c has room for 64 at first
      for _ = 1, n do rn.go(uv.run, { "sh", "-c", "echo $$ >>" .. path .. "; exec sleep 100" }) end
      repeat
        rn.sleep(1)
        local file <close> = io.open(path)
      until file and select(2, file:read("a"):gsub("\n", "")) == n
      os.exit(3)
    ]])
    os.execute((HOSTS[1][2] .. " DIR/script.lua DIR/pids >DIR/out 2>&1")
      :gsub("DIR", dir.path), nil)
    local left, n = {}, 0
    for pid in (dir:read "pids" or ""):gmatch "%d+" do
      n = n + 1
      if not patience.wait_until(function() return gone(pid) end, 5000) then left[#left + 1] = pid end
    end
    if left[1] then os.execute("kill -9 " .. table.concat(left, " ")) end
    assert.equal(70, n, dir:read "out")
    assert.same({}, left)
  end)

  it("leaves signals as they were once no process runs", function()
    local function caught()
      for line in io.lines "/proc/self/status" do
        local mask = line:match "^SigCgt:%s*(%x+)"
        if mask then return tonumber(mask, 16) & (1 << 14 | 1) end -- SIGTERM, SIGHUP
      end
    end
    if not uv_stage.can_count then return pending "the system does not tell which signals are caught" end
    local before = caught()
    assert.equal(0, uv.run({ "true" }).code)
    rn.go(function() uv.run { "sleep", "100", timeout = 20 } end):take()
    assert.equal(before, caught())
  end)
end)
