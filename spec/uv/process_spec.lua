-- uv.spawn: processes, their input and output, their end.

local patience = require "spec.support.patience"
local raises = require "spec.support.raises"
local process = require "spec.support.process"
local rn = require "runnel"
local shell_command = require "spec.support.shell"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

describe("uv.spawn", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  local uv = require "runnel.uv"

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  local function shell(script, options)
    options = options or {}
    options[1], options[2], options[3] = "sh", "-c", script
    return uv.spawn(options)
  end

  local function all(ch) return table.concat(stage.drain(ch)) end

  it("gives the output, the errors and the status", function()
    local p = shell "echo out; echo err >&2; exit 3"
    assert.is_true(math.type(p.pid) == "integer")
    assert.equal("out\n", all(p.stdout))
    assert.equal("err\n", all(p.stderr))
    assert.same({ code = 3 }, p.exit:take())
    assert.same({ code = 3 }, p.exit:take())
  end)

  it("passes arguments as they are", function()
    local p = uv.spawn { "printf", "%s|", "a b", "$x", 'q"', "", 7, stdout = "lines" }
    assert.equal('a b|$x|q"||7|', p.stdout:take())
  end)

  it("gives lines, also a last one without a newline", function()
    local p = shell("printf 'a\\n\\nb\\nc'", { stdout = "lines", stderr = "lines" })
    assert.same({ "a", "", "b", "c" }, stage.drain(p.stdout))
    assert.same({}, stage.drain(p.stderr))
  end)

  it("feeds the values put on stdin, until that closes", function()
    local p = uv.spawn { "cat" }
    rn.go(function()
      assert(p.stdin:put "a")
      assert(p.stdin:put(1))
      p.stdin:close()
    end)
    assert.equal("a1", all(p.stdout))
    assert.equal(0, p.exit:take().code)
  end)

  it("closes stdin, and lines of output, if the go block that moves them is cancelled", function()
    rn.run(function()
      local p = uv.spawn { "cat", stdout = "lines" }
      p.stdin:put "a\n"
      assert.equal("a", p.stdout:take())
      for _, entry in ipairs(rn.ps()) do
        if entry.state ~= "running" then rn.cancel(entry.result, "killed") end
      end
      rn.yield()
      assert.is_false(p.stdin:put "b\n")
      assert.same({ nil, "killed" }, { p.stdout:take() })
      assert.equal(0, p.exit:take().code)
    end)
  end)

  it("feeds the values of a channel", function()
    local p = uv.spawn { "sort", stdin = rn.to_chan { "b\n", "c\n", "a\n" }, stdout = "lines" }
    assert.same({ "a", "b", "c" }, stage.drain(p.stdout))
  end)

  it("gives an empty input without stdin", function()
    local p = uv.spawn { "cat", stdin = false }
    assert.is_nil(p.stdin)
    assert.equal("", all(p.stdout))
  end)

  it("gives lines of any length with the largest integer as max", function()
    local p = shell("printf a; printf 'b\\nc'", { stdout = "lines", max = math.maxinteger })
    assert.equal("ab", p.stdout:take())
    assert.equal("c", p.stdout:take())
    p.exit:take()
  end)

  it("closes lines that are too long with an error", function()
    local p = shell("echo short; yes | tr -d '\\n'", { stdout = "lines", max = 100 })
    assert.equal("short", p.stdout:take())
    assert.same({ nil, "sh: a line is longer than 100 bytes; the option max allows longer ones" }, { p.stdout:take() })
    p.exit:take()
    assert.error_matches(function() uv.spawn { "true", max = 0 } end, "max: a number of bytes, at least 1, expected")
    assert.error_matches(function() uv.spawn { "true", max = 7 } end, "neither stdout nor stderr is \"lines\"")
  end)

  it("closes the channel that feeds it when it stops reading", function()
    local ch = rn.chan()
    local p = uv.spawn { "head", "-c", 1, stdin = ch }
    local puts = 0
    while ch:put(("x"):rep(100000)) do puts = puts + 1 end
    assert.is_true(puts >= 1)
    assert.equal("x", all(p.stdout))
    local _, err = ch:take()
    assert.is_true(err == "the process has ended" or err == "head: EPIPE: broken pipe", err)
  end)

  it("feeds strings only", function()
    local ch = rn.chan()
    local p = uv.spawn { "cat", stdin = ch }
    ch:put {}
    assert.is_false(ch:put "more")
    assert.same({ nil, "cat: only strings can be written, not a table" }, { ch:take() })
    assert.equal(0, p.exit:take().code)
  end)

  it("runs in a directory, with changes to the environment", function()
    local p = shell("pwd; echo $RUNNEL_A; echo ${HOME-none}; echo ${PATH:+path}", {
      cwd = "/", env = { RUNNEL_A = "b c", HOME = false }, stdout = "lines",
    })
    assert.same({ "/", "b c", "none", "path" }, stage.drain(p.stdout))
  end)

  it("looks for the command in the PATH of its environment, and runs scripts without a first line for an interpreter",
    function()
      local dir = process.directory()
      local file = dir.path .. "/made-for-this"
      finally(function() dir:remove() end)
      dir:write("made-for-this", "echo $0 $1")
      assert(os.execute("chmod +x " .. file))
      local p = uv.spawn { "made-for-this", "word", env = { PATH = dir.path .. ":" .. os.getenv "PATH" } }
      assert.equal(file .. " word\n", all(p.stdout))
      assert.equal(file .. " word\n", all(uv.spawn({ file, "word" }).stdout))
      assert.equal(file .. " word\n", all(uv.spawn({ file, "word", env = { PATH = "/bin" } }).stdout)) -- by luv
      p = uv.spawn { "made-for-this", env = { PATH = "/nowhere::/bin" }, cwd = dir.path, stderr = false }
      assert.same({ code = 0 }, p.exit:take()) -- an empty part is the current directory
    end)

  it("prefers the PATH of the process's environment to that of the program", function()
    local dir = process.directory()
    finally(function() dir:remove() end)
    dir:write("ls", "#!/bin/sh\necho mine")
    assert(os.execute("chmod +x " .. dir.path .. "/ls"))
    assert.equal("mine\n", all(uv.spawn({ "ls", env = { PATH = dir.path .. ":/bin" } }).stdout))
  end)

  -- Newer versions of libuv leave that to the program.
  it("runs scripts without a first line for an interpreter by the shell, where luv does not", function()
    local luv = require "luv"
    local dir, real = process.directory(), luv.spawn
    local file = dir.path .. "/made-for-this"
    finally(function()
      luv.spawn = real
      dir:remove()
    end)
    dir:write("made-for-this", "echo $0 $1")
    assert(os.execute("chmod +x " .. file))
    function luv.spawn(name, ...) -- luacheck: ignore 122
      if name ~= "/bin/sh" then return nil, "ENOEXEC: exec format error", "ENOEXEC" end
      return real(name, ...)
    end
    for _, command in ipairs { "made-for-this", file } do
      local p = uv.spawn { command, "word", env = { PATH = "/nowhere:" .. dir.path }, stderr = false }
      assert.equal(file .. " word\n", all(p.stdout))
    end
    local p = uv.spawn { "absent", env = { PATH = dir.path }, stderr = false }
    assert.is_true(p.exit:take().code > 0) -- the shell does not find it either
  end)

  it("ends a process whose end it cannot wait for", function()
    local luv = require "luv"
    local real = luv.new_poll
    finally(function() luv.new_poll = real end)
    function luv.new_poll() return nil, "ENOMEM: not enough memory", "ENOMEM" end -- luacheck: ignore 122
    local status, err = uv.spawn({ "sleep", "1000" }).exit:take()
    assert.is_nil(status)
    assert.matches("^sleep: ENOMEM", err)
    luv.new_poll = real
    assert.same({ code = 0 }, uv.spawn({ "true" }).exit:take())
  end)

  it("gives the process the usual reaction to signals, and none that is blocked", function()
    local p = shell "grep -E '^Sig(Blk|Ign)' /proc/self/status"
    local out = all(p.stdout)
    if p.exit:take().code ~= 0 then return pending "this system has no /proc" end
    local file <close> = assert(io.open "/proc/self/status")
    local of_shell = tonumber(file:read("a"):match "SigIgn:%s*(%x+)", 16) & 7 -- SIGHUP, SIGINT and SIGQUIT
    for mask in out:gmatch "%x%x%x+" do -- without 32 and 33, which the C library uses itself
      assert.equal(0, tonumber(mask, 16) & ~(3 << 31) & ~of_shell, out)
    end
  end)

  -- Runs a program in a process of its own, by `lua` of spec.support.shell or another command, after `before`.
  local function run(code, before, lua)
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write(code)
    file:close()
    local out, err = shell_command.run(("%s\n%s %s"):format(before or "", lua or "lua", path))
    os.remove(path)
    return out, err
  end

  it("swaps descriptors, and gives the process no others", function()
    local list = "for fd in 3 4 5 6 7 8 9; do { true >&$fd; } 2>/dev/null && echo $fd >&2; done; true"
    local out, err = run(("require('runnel.uv').spawn({ 'sh', '-c', %q, stdout = 2, stderr = 1 }).exit:take()"):format(
      "echo out; echo err >&2; " .. list), ("sh -c '%s'"):format(list))
    local inherited, rest = err:match "^([%d\n]*)(.*)$"
    assert.equal("out\n", rest)
    assert.equal("err\n" .. inherited, out)
  end)

  it("gets the status also where the program was started with SIGCHLD ignored", function()
    local out, err = run("print(require('runnel.uv').spawn({ 'sh', '-c', 'exit 7' }).exit:take().code)", nil,
      [[bash -c 'trap "" CHLD; "$0" "$1"' $LUA]])
    assert.same({ "7\n", "" }, { out, err })
  end)

  it("says that there are too many open files, and starts nothing", function()
    local out, err = run([[
      local uv, rn = require "runnel.uv", require "runnel"
      local files, results = {}, {}
      uv.run { "true" } -- opens what later ones need, too
      repeat
        local file = io.open "/dev/null"
        files[#files + 1] = file -- each one: the collector closes none
      until not file
      repeat
        local p = uv.spawn { "echo", stdin = false, stderr = false }
        local status, why = p.exit:take()
        if status then assert(p.stdout:take() == "\n") else assert(why:find "too many open files", why) end
        results[#results + 1] = status and "started" or "refused"
        p:close()
        rn.sleep(1)
        table.remove(files):close()
      until status
      assert(#results < 12, #results)
      print(results[1], results[#results])]], "ulimit -n 40")
    assert.same({ "refused\tstarted\n", "" }, { out, err })
  end)

  it("names channels after the command", function()
    local p <close> = uv.spawn { "cat", stdout = "lines" }
    local names = { p.stdin:name(), p.stdout:name(), p.stderr:name() }
    assert.same({ "stdin of cat", "stdout of cat", "stderr of cat" }, names)
  end)

  it("sends errors to the same channel as the output", function()
    local p = shell("echo 1; echo 2 >&2; echo 3", { stderr = "stdout", stdout = "lines" })
    assert.same({ "1", "2", "3" }, stage.drain(p.stdout))
    assert.is_nil(p.stderr)
    assert.same({ code = 0 }, shell("echo lost >&2", { stdout = false, stderr = "stdout" }).exit:take())
  end)

  it("writes to a file descriptor", function()
    local luv = require "luv"
    local path = uv_stage.path ""
    local fd = luv.fs_open(path, "w", 0)
    assert.same({ code = 0 }, shell("echo here", { stdout = fd, stdin = false, stderr = false }).exit:take())
    luv.fs_close(fd)
    assert.equal("here\n", uv_stage.contents(path))
  end)

  it("starts a process without an input also by luv, which looks into the PATH of its environment", function()
    local p = shell("cat; echo here", { stdin = false, stderr = false, env = { PATH = os.getenv "PATH" } })
    assert.equal("here\n", all(p.stdout))
    assert.same({ code = 0 }, p.exit:take())
  end)

  it("gives the process pipes that it can open by name", function()
    assert.equal("a\n", all(shell "echo a >/dev/stdout".stdout))
  end)

  it("gives the signal that ended the process", function()
    assert.same({ code = 128 + 9, signal = 9 }, shell "kill -9 $$".exit:take())
  end)

  it("kills", function()
    local p = uv.spawn { "sleep", 100 }
    assert.is_true(p:kill "int")
    assert.same({ code = 130, signal = 2 }, p.exit:take())
    assert.same({ false, "it has ended" }, { p:kill() })
    p = uv.spawn { "sleep", 100 }
    p:kill()
    assert.equal(15, p.exit:take().signal)
    assert.error_matches(function() p:kill "nothing" end, 'kill: there is no signal "signothing"')
    assert.error_matches(function() p:kill {} end, "kill: the name or number of a signal expected, got a table")
  end)

  it("stops the process when it is closed", function()
    local p = uv.spawn { "sleep", 100 }
    p:close()
    p:close()
    assert.is_nil(p.stdout:take())
    assert.is_false(p.stdin:put "x")
    assert.equal(15, p.exit:take().signal)
  end)

  it("leaves nothing behind that rn.run would wait for", function()
    local before = rn.now()
    local p = uv.spawn { "sleep", 100, grace = 60000 }
    p:close()
    assert.equal(15, p.exit:take().signal)
    rn.run()
    assert.is_true(rn.now() - before < 50000)
  end)

  it("stops the process at the end of a scope", function()
    local exit
    do
      local p <close> = uv.spawn { "sleep", 100 }
      exit = p.exit
    end
    assert.equal(15, exit:take().signal)
  end)

  it("kills the process when it does not stop in time", function()
    local p = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done", { grace = 30 })
    p.stdout:take()
    p:close()
    assert.equal(9, p.exit:take().signal)
  end)

  describe("that is being closed", function()
    local ORDERLY = "trap 'echo one; sleep 0.02; echo two; exit 7' TERM; echo ready; while :; do sleep 0.01; done"

    it("can write to the end, and its output is read to the end", function()
      local p = shell(ORDERLY, { stdout = "lines", grace = 60000 })
      assert.equal("ready", p.stdout:take())
      p:close()
      assert.same({ "one", "two" }, stage.drain(p.stdout))
      assert.same({ code = 7 }, p.exit:take())
    end)

    it("is not blocked by output that nobody takes, the end of which is kept", function()
      for _, asked in ipairs { true, false } do
        local p = shell("trap 'head -c 3000000 /dev/zero; echo end; exit 7' TERM; echo ready >&2; "
          .. "head -c 200000 /dev/zero; while :; do sleep 0.01; done", { grace = 60000 })
        local out = asked and p.stdout
        assert.equal("ready\n", p.stderr:take())
        if asked then assert.is_true(#out:take() > 0) end
        p:close()
        assert.same({ code = 7 }, p.exit:take())
        local text = all(p.stdout)
        assert.equal("end\n", text:sub(-4))
        assert.is_true(#text >= 65536 and #text < 1000000, #text)
        assert.matches("^%d+ bytes of stdout were dropped, because nobody took them$", select(2, p.stdout:take()))
      end
    end)

    it("closes its output when it has ended, although others have it, too", function()
      local p = shell("sleep 100 & echo $!; wait", { stdout = "lines" })
      local child = p.stdout:take()
      p:close()
      assert.is_nil(p.stdout:take())
      assert.equal(15, p.exit:take().signal)
      os.execute("kill " .. child)
    end)
  end)

  describe("stop", function()
    it("waits for the end and returns the status", function()
      local p = shell("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done", { stdout = "lines" })
      assert.equal("ready", p.stdout:take())
      assert.same({ code = 7 }, p:stop())
      assert.equal("bye", p.stdout:take())
      assert.same({ code = 7 }, p:stop(0))
    end)

    it("kills the process after the given time, also if it was closed before", function()
      for _, closed in ipairs { true, false } do
        local p = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done", { grace = 600000 })
        p.stdout:take()
        if closed then p:close() end
        local before = rn.now()
        assert.same({ code = 137, signal = 9 }, p:stop(20))
        assert.is_true(rn.now() - before < 300000)
      end
    end)

    it("sends one SIGTERM, also if it is stopped again", function()
      local p = shell("trap 'echo term' TERM; echo ready; while :; do sleep 0.01; done", { stdout = "lines" })
      assert.equal("ready", p.stdout:take())
      p:close()
      assert.equal("term", p.stdout:take())
      p:stop(50)
      assert.same({}, stage.drain(p.stdout))
    end)

    it("returns nil and the error if the process could not be started", function()
      local status, err = uv.spawn({ "no-such-command" }):stop()
      assert.is_nil(status)
      assert.matches("^no%-such%-command: ENOENT", err)
    end)

    it("rejects an invalid time at the caller's line", function()
      local p <close> = uv.spawn { "true" }
      for _, bad in ipairs { -1, "soon", 1 / 0 } do
        local ok, err = pcall(function() p:stop(bad) end)
        assert.is_false(ok)
        assert.equal(stage.here(-2) .. ": stop: ms: a number of milliseconds", err:match "^.-milliseconds")
      end
    end)
  end)

  describe("a detached process", function()
    -- Whether a process is gone, or only waits for its parent to ask.
    local function is_gone(pid)
      local stat = io.open(("/proc/%s/stat"):format(pid))
      if not stat then return true end
      local text = stat:read "a" -- nil if it has gone since
      stat:close()
      return not text or text:find "%) Z" ~= nil
    end

    local function assert_gone(pid)
      local before = rn.now()
      while not is_gone(pid) do
        if rn.now() - before > 30000 then error(("process %s is still there"):format(pid), 2) end
        rn.sleep(1)
      end
    end

    local groups = {}
    after_each(function()
      for _, pid in ipairs(groups) do os.execute(("kill -9 -%d 2>/dev/null"):format(pid)) end
      groups = {}
    end)

    -- A shell that has started another one, and the number of that process, which it prints between the two parts of
    -- its script. Their stderr is discarded: a shell writes to it when a command is killed, and a closed pipe would end
    -- the shell.
    local function family(setup, rest, parent, options)
      options = options or {}
      options.detached, options.stdout, options.stderr = true, "lines", false
      local p = shell(("sh -c '%s echo $$; %s' & %s"):format(setup, rest, parent), options)
      groups[#groups + 1] = p.pid
      return p, p.stdout:take()
    end

    it("gets signals together with all that it has started", function()
      local p, child = family("", "exec sleep 100", "wait")
      assert.is_false(is_gone(child))
      assert.is_true(p:kill "term")
      assert.equal(15, p.exit:take().signal)
      assert_gone(child)
    end)

    it("is closed together with all that it has started", function()
      local p, child = family("", "exec sleep 100", "sleep 100; true")
      p:close()
      assert.equal(15, p.exit:take().signal)
      assert_gone(child)
    end)

    it("has its children killed that do not stop in time, though the process itself has", function()
      local p, child = family('trap "" TERM;', "while :; do sleep 0.01; done", "exec sleep 100", { grace = 100 })
      local before = rn.now()
      p:close()
      assert.equal(15, p.exit:take().signal)
      local gone = is_gone(child)
      assert.is_true(not gone or rn.now() - before >= 100)
      rn.run() -- which waits for the grace
      assert_gone(child)
    end)

    it("lets its children end in their time when it is closed", function()
      local path = uv_stage.path()
      local setup = ('trap "sleep 0.05; echo cleaned up >%s; exit" TERM;'):format(path)
      local p, child = family(setup, "while :; do sleep 0.01; done", "exec sleep 100", { grace = 20000 })
      p:close()
      assert.equal(15, p.exit:take().signal)
      assert_gone(child)
      assert.equal("cleaned up\n", uv_stage.contents(path))
    end)

    it("does not outlive the program once it is closed, nor do its children", function()
      local output = stage.script [[
        local uv = require "runnel.uv"
        local p = uv.spawn { "sh", "-c", "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.01; done'",
          detached = true, stdout = "lines" }
        print(p.stdout:take())
        p:close()
      ]]
      assert_gone(output:match "%d+")
    end)

    it("is the only group that gets signals, also once the process itself has ended", function()
      local p = shell("sleep 100 & echo $!; wait", { stdout = "lines" })
      local child = p.stdout:take()
      p:close()
      assert.equal(15, p.exit:take().signal)
      assert.is_false(is_gone(child))
      os.execute("kill " .. child)
      p, child = family("", "exec sleep 100 >/dev/null 2>&1", "true")
      assert.same({ code = 0 }, p.exit:take())
      assert.is_false(is_gone(child))
      assert.same({ true }, { p:kill() })
      assert_gone(child)
      patience.wait_for(function() return not p:kill() end) -- init has taken the status of the child
      assert.same({ false, "it has ended" }, { p:kill() })
    end)

    it("is stopped by its close although the process itself has ended, with its grace", function()
      for _, setup in ipairs { "", "trap '' TERM;" } do
        local p, child = family(setup:gsub("'", '"'), "while :; do sleep 0.01; done", "true", { grace = 50 })
        assert.same({ code = 0 }, p.exit:take())
        p:close()
        rn.run() -- which waits for the grace
        assert_gone(child)
      end
    end)

    it("is waited for no longer once its last process has ended, also if the first one had ended before", function()
      for _, parent in ipairs { "exec sleep 100", "true" } do
        local p, child = family("", "exec sleep 100 >/dev/null 2>&1", parent, { grace = 600000 })
        if parent == "true" then p.exit:take() end
        p:close()
        rn.run()
        assert_gone(child)
        assert.is_nil(p.ending) -- the program's end sends nothing to that number any more
      end
    end)

    it("that is not detached and has ended gets no signal for what it has left behind", function()
      local p = shell("sh -c 'echo $$; exec sleep 100' & exit", { stdout = "lines" })
      local child = p.stdout:take()
      assert.same({ code = 0 }, p.exit:take())
      assert.same({ false, "it has ended" }, { p:kill() })
      p:close()
      rn.run()
      assert.is_false(is_gone(child))
      os.execute("kill " .. child)
    end)
  end)

  it("makes the process wait while nobody takes its output", function()
    local path = uv_stage.path()
    local p = shell("head -c 1000000 /dev/zero; touch " .. path)
    local out = p.stdout
    rn.sleep(50)
    assert.is_nil(io.open(path))
    assert.equal(1000000, #all(out))
    p.exit:take()
    assert.is_not_nil(io.open(path)):close()
  end)

  it("gives the output before the close also to later takers", function()
    for _, ask_first in ipairs { true, false } do
      local p = shell "echo said; echo ready >&2; exec sleep 100"
      local out = ask_first and p.stdout
      assert.equal("ready\n", p.stderr:take())
      rn.step() -- reads what was written before
      p:close()
      out = out or p.stdout
      assert.equal("said\n", all(out))
      assert.same({ n = 1 }, table.pack(out:take()))
      assert.equal(15, p.exit:take().signal)
    end
  end)

  it("does not wait until unused output is taken, and keeps the end of it", function()
    local p = shell "head -c 3000000 /dev/zero; echo end; echo small >&2"
    assert.same({ code = 0 }, p.exit:take())
    local text = all(p.stdout)
    local _, reason = p.stdout:take()
    assert.equal("end\n", text:sub(-4))
    assert.is_true(#text >= 65536 and #text < 1000000)
    assert.equal(3000004 - #text .. " bytes of stdout were dropped, because nobody took them", reason)
    assert.equal("small\n", all(p.stderr))
  end)

  it("lets run end when the process has ended", function()
    local done = false
    rn.go(function()
      shell "sleep 0.02".exit:take()
      done = true
    end)
    rn.run()
    assert.is_true(done)
  end)

  it("leaves no zombie, whether or not its status is taken", function()
    local pids = {}
    for i = 1, 5 do pids[i] = uv.spawn({ "true" }).pid end
    rn.run()
    for _, pid in ipairs(pids) do assert.is_nil(io.open(("/proc/%d/stat"):format(pid))) end
  end)

  it("runs many processes at a time", function()
    local results = rn.pipeline_async(20, rn.chan(), function(i, result)
      rn.go(function()
        local p = uv.spawn { "echo", i, stdin = false, stderr = false, stdout = "lines" }
        result:put(p.stdout:take())
        result:close()
      end)
    end, rn.to_chan { table.unpack((function()
      local list = {}
      for i = 1, 50 do list[i] = i end
      return list
    end)()) })
    local i = 0
    for text in results do
      i = i + 1
      assert.equal(tostring(i), text)
    end
    assert.equal(50, i)
  end)

  it("closes the output of an unreachable process", function()
    local unread = uv.spawn({ "yes" }).pid
    local function read_a_piece()
      local p = uv.spawn { "yes" }
      return p.pid, p.stdout:take()
    end
    local pid, chunk = read_a_piece()
    assert.matches("^y\n", chunk)
    patience.wait_for(function() -- SIGPIPE ends it
      collectgarbage()
      return not os.execute(("kill -0 %d 2>/dev/null"):format(pid))
    end)
    os.execute("kill " .. unread) -- of whose output nothing was wanted: it is read on
    rn.run()
  end)

  describe("a failure", function()
    it("closes all channels with the error", function()
      local p = uv.spawn { "no-such-command-here" }
      local err = "no-such-command-here: ENOENT: no such file or directory"
      assert.same({ nil, err }, { p.exit:take() })
      assert.same({ nil, err }, { p.stdout:take() })
      assert.same({ nil, err }, { p.stderr:take() })
      assert.is_false(p.stdin:put "x")
      assert.is_nil(p.pid)
      assert.same({ false, "it has ended" }, { p:kill() })
      p:close()
    end)

    it("leaves no descriptor open until the collector comes", function()
      local luv = require "luv"
      local function count()
        local n, list = 0, assert(luv.fs_scandir "/proc/self/fd")
        while luv.fs_scandir_next(list) do n = n + 1 end
        return n
      end
      if not uv_stage.can_count then return end
      finally(function() collectgarbage "restart" end)
      collectgarbage "stop"
      local before = count()
      for _ = 1, 3 do assert.is_nil(uv.spawn({ "no-such-command-here" }).exit:take()) end
      rn.run()
      assert.equal(before, count())
    end)

    it("reports a missing directory, and a file that cannot be executed", function()
      local _, err = uv.spawn({ "true", cwd = "/no/such" }).exit:take()
      assert.equal("true, in /no/such: ENOENT: no such file or directory", err)
      _, err = uv.spawn({ uv_stage.path "x" }).exit:take()
      assert.matches("EACCES: permission denied$", err)
    end)

    it("does not end the program when the process ends at once", function()
      local output, status = stage.script [[
        require "runnel.uv".spawn { "no-such-command-here" }
        print "end"
      ]]
      assert.equal("end\n", output)
      assert.is_true(status == 0)
    end)
  end)

  it("ends the process with the program once it is closed", function()
    local output = stage.script [[
      local uv = require "runnel.uv"
      local p = uv.spawn { "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done" }
      p.stdout:take()
      p:close()
      print(p.pid)
    ]]
    local pid = output:match "%d+"
    assert.is_true(patience.wait_until(function()
      local stat <close> = io.open(("/proc/%s/stat"):format(pid))
      return not stat or stat:read "a":find "%) Z" ~= nil
    end))
  end)

  it("rejects invalid commands and unknown options", function()
    for _, case in ipairs {
      { { nil }, 'with the command and its arguments expected, .*, got nothing' },
      { { "ls" }, 'got "ls"' },
      { { {} }, "the name of a command expected as the first value, got nothing" },
      { { { "" } }, 'the name of a command expected as the first value, got ""' },
      { { { "ls", true } }, "argument 1: a string expected, got true" },
      { { { "ls", "a\0b" } }, "argument 1 has a zero byte" },
      { { { "ls", "a", "\0" } }, "argument 2 has a zero byte" },
      { { { "ls", dir = "x" } }, 'unknown option "dir"' },
      { { { "ls", cwd = 1 } }, "cwd: a path expected, got 1" },
      { { { "ls", stdin = "text" } }, 'stdin: a channel, true for a new one, .*, got "text"' },
      { { { "ls", stdout = "line" } }, 'stdout: "chunks", "lines", false .* got "line"' },
      { { { "ls", stderr = true } }, 'stderr: "chunks", "lines", "stdout" for the same, .*, got true' },
      { { { "ls", env = "A=b" } }, 'env: a table of names and values expected, got "A=b"' },
      { { { "ls", env = { "A=b" } } }, "env: the name of a variable expected, got 1" },
      { { { "ls", env = { ["A=b"] = "c" } } }, 'env: the name of a variable expected, got "A=b"' },
      { { { "ls", env = { [""] = "c" } } }, 'env: the name of a variable expected, got ""' },
      { { { "ls", max = 0, stdout = "lines" } }, "max: a number of bytes, at least 1, expected, got 0" },
      { { { "ls", env = { A = true } } }, "env: A: a string expected, or false to leave it out, got true" },
      { { { "ls", grace = -1 } }, "grace: a number of ms expected, got %-1" },
      { { { "ls", detached = 1 } }, "detached: true or false expected, got 1" },
    } do
      local here = stage.here(1)
      local ok, err = pcall(function() return uv.spawn(case[1][1]), "no tail call" end)
      assert.is_false(ok)
      assert.equal(here, err:match "^[^:]+:%d+")
      assert.matches("spawn: .*" .. case[2], err)
    end
    for message, f in pairs {
      ["uv.spawn: call it with a dot"] = function() uv:spawn { "true" } end,
      ["p.kill: call it with a colon"] = function() uv.spawn({ "true" }).kill() end,
      ["p.stop: call it with a colon"] = function() uv.spawn({ "true" }).stop() end,
    } do
      raises(message, f)
    end
  end)

  it("takes the smallest limits", function()
    local p <close> = uv.spawn { "echo", "a", stdout = "lines", max = 1, grace = 0 }
    assert.same({ "a" }, stage.drain(p.stdout))
  end)

  it("refuses options in a second table", function()
    for _, name in ipairs { "spawn", "run" } do
      local here = stage.here(1)
      local ok, err = pcall(function() return uv[name]({ "sort" }, { cwd = "/" }), "no tail call" end)
      assert.is_false(ok)
      assert.equal(here .. ": " .. name .. ": the options go into the table of the command, as in uv." .. name
        .. ' { "sort", cwd = "/tmp" }; got a second table', err)
    end
  end)
end)
