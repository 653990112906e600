-- runnel.uv on the standard streams: print, io, children and the shell find them as they were.

local process = require "spec.support.process"
local rn = require "runnel"
local shell = require "spec.support.shell"
local terminal = require "spec.support.terminal"
local uv_stage = require "spec.support.uv_stage"

describe("the standard streams of a program that uses runnel.uv", function()
  local has_luv, luv = pcall(require, "luv")
  if not has_luv then return pending "luv is not installed" end
  if not uv_stage.can_count then return pending "/proc does not show the mode of a descriptor here" end
  local uv = require "runnel.uv"
  local has_script = os.execute "command -v script >/dev/null 2>&1" == true
  local lua = os.getenv "LUA" or "lua5.4"
  local hosts = { runnel = process.runnel, lua = lua }

  local dir
  before_each(function()
    uv_stage.open()
    dir = terminal.begin()
  end)
  after_each(function()
    terminal.finish()
    uv_stage.close()
  end)

  -- ---- all uses, with all kinds of streams ----

  -- Takes all of a stream, much more slowly than it comes.
  local function collect(ch)
    return rn.go(function()
      local parts = {}
      for chunk in ch do
        parts[#parts + 1] = chunk
        rn.sleep(1)
      end
      return table.concat(parts)
    end)
  end

  local function spawned(options)
    local p = uv.spawn(options)
    return { p = p, outputs = { collect(p.stdout), p.stderr and collect(p.stderr) },
      feed = function(text) p.stdin:put(text) end, finish = function() p.stdin:close() end }
  end

  -- Each starts a command with standard streams of its kind, and returns the process; `outputs`: the texts of its
  -- outputs, to be taken; `feed`: writes to its input; and `finish`.
  local kinds = {}

  function kinds.pipe(command) return spawned(command) end

  function kinds.terminal(command)
    for i, word in ipairs(command) do command[i] = shell.quote(word) end
    return spawned { "script", "-qfec", table.concat(command, " "), "/dev/null", stderr = "stdout" }
  end

  function kinds.file(command)
    for _, name in ipairs { "in", "out", "err" } do dir:write(name, "") end
    local path = dir.path
    local p = uv.spawn { "sh", "-c", ("exec \"$@\" <%s/in >>%s/out 2>>%s/err"):format(path, path, path), "sh",
      table.unpack(command) }
    local function output(name)
      return rn.go(function()
        p.exit:take()
        return dir:read(name)
      end)
    end
    local input = assert(io.open(path .. "/in", "a"))
    return { p = p, outputs = { output "out", output "err" }, finish = function() input:close() end,
      feed = function(text) input:write(text):flush() end }
  end

  function kinds.socket(command)
    local one, two = assert(luv.socketpair()), assert(luv.socketpair())
    command.stdin, command.stdout, command.stderr = one[2], one[2], two[2]
    local p = uv.spawn(command)
    luv.fs_close(one[2])
    luv.fs_close(two[2])
    return { p = p, outputs = { collect(uv.read(one[1])), collect(uv.read(two[1])) }, finish = function() end,
      feed = function(text) luv.fs_write(one[1], text) end }
  end

  function kinds.closed(command)
    local p = uv.spawn { "sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", table.unpack(command) }
    return { p = p, outputs = {}, finish = function() end }
  end

  local MANY = { pipe = "1000", terminal = "1000", socket = "3000", file = "10", closed = "1" }

  local function count(text, word) return select(2, text:gsub(word, "")) end

  for kind, start in pairs(kinds) do
    for host, command in pairs(hosts) do
      it(("are as they were whatever it does with them: %s, %s #ci"):format(kind, host), function()
        if kind == "terminal" and not has_script then return pending "script is not installed" end
        if kind == "socket" and not luv.socketpair then return pending "this luv has no socketpair" end
        assert(os.execute(("mkfifo %s/ask %s/answer"):format(dir.path, dir.path)))
        local started = start { command, "spec/support/standard_probe.lua", dir.path, kind, MANY[kind] }
        if kind ~= "closed" then
          local answers = rn.chan()
          uv.write(dir.path .. "/answer", answers)
          rn.go(function()
            for line in uv.lines(dir.path .. "/ask") do
              started.feed(line .. "\n")
              answers:put "ok\n"
            end
            answers:close()
          end)
        end
        local status = started.p.exit:take()
        started.finish()
        local texts = {}
        for i, output in ipairs(started.outputs) do texts[i] = output:take() end
        local report = dir:read "result" or "no report: " .. table.concat(texts, "\n"):sub(-2000)
        local out, err = report:match "^written: (%d+) (%d+)\n$"
        assert(out, report)
        assert.equal(0, status.code)
        local text = table.concat(texts)
        assert.same({ tonumber(out), tonumber(err) }, { count(text, "OUT"), count(text, "ERR") })
      end)
    end
  end

  -- ---- the end of the program, and what else has them ----

  local FLAGS = "for fd in 0 1 2; do grep flags /proc/self/fdinfo/$fd; done"

  it("are as they were for a shell, also after kill -9 and while the program is stopped", function()
    dir:write("used.lua", [[
      local rn, uv = require "runnel", require "runnel.uv"
      local lines = uv.lines(0)
      local out, err = rn.chan(), rn.chan()
      uv.write(1, out)
      uv.write(2, err)
      for _ = 1, 2 do
        out:put "\n"
        err:put "\n"
        rn.sleep(1)
      end
      require "luv".kill(require "luv".os_getpid(), arg[1])
      lines:take()
    ]])
    for host, program in pairs(hosts) do
      dir:write("shell", ([[
        %s >%s/before
        %s %s/used.lua sigkill
        %s >%s/after
        %s %s/used.lua sigstop &
        pid=$!
        until grep -q '^State:.*stopped' /proc/$pid/status; do sleep 0.01; done
        %s >%s/stopped
        kill -9 $pid
      ]]):format(FLAGS, dir.path, program, dir.path, FLAGS, dir.path, program, dir.path, FLAGS, dir.path))
      for _, command in ipairs { "script -qfec 'sh %s/shell' /dev/null", "sh %s/shell 2>&1" } do
        if has_script or not command:find "script" then
          command = command:format(dir.path)
          local p = uv.spawn { "sh", "-c", command .. " | cat", stderr = "stdout" }
          p.exit:take()
          p.stdin:close()
          local before = dir:read "before"
          assert.matches("flags", before)
          assert.same({ before, before }, { dir:read "after", dir:read "stopped" }, host .. ": " .. command)
        end
      end
    end
  end)

  it("are as they were also if another descriptor is the same", function()
    dir:write("used.lua", [[
      local rn, uv = require "runnel", require "runnel.uv"
      os.execute "grep flags /proc/self/fdinfo/[012] >&2"
      local lines, out = uv.lines(3), rn.chan()
      local done = uv.write(4, out)
      out:put "four\n"
      out:put "\n"
      os.execute "grep flags /proc/self/fdinfo/[012] >&2"
      out:close()
      lines:close()
      print(done:take())
    ]])
    local input = rn.chan()
    local result = uv.run { "sh", "-c", ("exec %s %s/used.lua 3<&0 4>&1"):format(lua, dir.path), stdin = input }
    assert.equal("four\n\n6\n", result.stdout)
    local half = #result.stderr // 2
    assert.matches("flags", result.stderr)
    assert.equal(result.stderr:sub(1, half), result.stderr:sub(half + 1))
  end)

  -- The controlling side of a terminal cannot be opened anew.
  it("are read and written without waiting also where they cannot be opened anew", function()
    local descriptors = require("runnel.core").internal.descriptors
    local fd = luv.fs_open("/dev/ptmx", "r+", 0)
    if not fd then return pending "there are no pseudoterminals here" end
    local function flags()
      local info <close> = assert(io.open("/proc/self/fdinfo/" .. fd))
      return info:read "a":match "flags:%s*(%d+)"
    end
    local before = flags()
    local reader, writer = descriptors.polled(fd, false), descriptors.polled(fd, true)
    assert.is_false(reader:read())
    for i = 1, 6 do assert.equal(1, writer:write("hello\n", i)) end -- it may have room for one byte only
    local text = ""
    while not text:find "\n" do -- the terminal's echo
      text = text .. (reader:read() or "")
      rn.sleep(1)
    end
    assert.equal("hello\r\n", text)
    local lines, total = (("x"):rep(60) .. "\n"):rep(1000), 0
    repeat
      local n = writer:write(lines, 1)
      total = total + (n or 0)
    until not n
    assert.is_true(total < 1e6)
    assert.equal(before, flags())
    reader:close()
    writer:close()
    luv.fs_close(fd)
  end)

  it("can be closed while another one is used, which does not get their numbers", function()
    dir:write("closed.lua", [[
      local rn, uv, luv = require "runnel", require "runnel.uv", require "luv"
      assert(luv.fs_close(0))
      local out = rn.chan()
      local done = uv.write(1, out)
      out:put "one\n"
      out:put "two\n" -- is taken when the first is written
      io.stderr:write(tostring(luv.fs_readlink "/proc/self/fd/0" == luv.fs_readlink "/proc/self/fd/1"))
      out:close()
      assert(done:take() == 8)
    ]])
    for _, program in pairs(hosts) do
      local result = uv.run { "sh", "-c", ("%s %s/closed.lua | cat"):format(program, dir.path) }
      assert.same({ "false", "one\ntwo\n" }, { result.stderr, result.stdout })
    end
  end)

  it("can be closed by the program, and nothing else gets their numbers", function()
    dir:write("closed.lua", [[
      local uv = require "runnel.uv"
      local clients, port = uv.listen("127.0.0.1", 0)
      local conn = uv.connect("127.0.0.1", port)
      print "to nobody"
      io.stdout:flush()
      conn:close()
      io.stderr:write(tostring(clients:take():read():take()))
      clients:close()
    ]])
    for _, program in pairs(hosts) do
      local result = uv.run { "sh", "-c", ("exec %s %s/closed.lua <&- >&-"):format(program, dir.path) }
      assert.same({ "nil", "", 0 }, { result.stderr, result.stdout, result.code })
    end
  end)

  if terminal.available then
    it("are as they were at the prompt", function()
      local term = terminal.prompt()
      term:enter 'uv = require "runnel.uv"; ch = rn.chan(); done = uv.write(1, ch)'
      term:enter 'ch:put "by uv.write\\n"; ch:put ""; print(os.execute "echo by a child")'
      term:expect "by a child\ntrue +exit +0"
      term:expect "by uv.write"
      term:enter 'lines = uv.lines(0); rn.sleep(10); lines:close(); print(os.execute "stty -a >/dev/null", "once more")'
      term:expect "true +once more"
    end)
  end
end)
