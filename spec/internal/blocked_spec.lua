-- What a go block calls that blocks the thread: it is told, with the line and with what waits instead.

local process = require "spec.support.process"

local has_socket = pcall(require, "socket")
local no_http = require "spec.support.missing" "luv runnel runnel.http.core"

-- Runs a program by lua5.4. Returns the lines on stderr, and its output. Each line of the program is a list's element.
local function run(lines, input)
  local dir <close> = process.directory()
  dir:write("p.lua", 'local rn = require "runnel"\n' .. table.concat(lines, "\n") .. "\nrn.run()\n")
  local lua = os.getenv "LUA" or "lua5.4"
  local ran = process.run(dir.path, ("(%s) | %s p.lua"):format(input or "true", lua))
  local told = {}
  for line in ran.err:gmatch "[^\n]+" do told[#told + 1] = line end
  return told, ran.out
end

-- What is told of calls with one of these heads: on a busy machine others are slow, too, such as io.popen.
local function told_of(told, heads)
  local list = {}
  for _, text in ipairs(told) do
    for _, head in ipairs(heads) do
      if text:find("^runnel: p%.lua:" .. head .. " has blocked") then
        list[#list + 1] = text
        break
      end
    end
  end
  return list
end

local function assert_told(told, lines)
  local heads = {}
  for i, line in ipairs(lines) do heads[i] = line[1] end
  told = told_of(told, heads)
  assert.equal(#lines, #told, table.concat(told, "\n"))
  for i, line in ipairs(lines) do
    local head, instead = table.unpack(line)
    assert.matches("^runnel: p%.lua:" .. head .. " has blocked the thread for %d+ ms: no other go block ran%. ",
      told[i])
    assert.is_truthy(told[i]:find(instead, 1, true), told[i])
  end
end

describe("a call that blocks the thread in a go block", function()
  it("of os, io or a process is told once for each line, with what waits instead", function()
    -- A child that waits until the program does, and then for long enough. What else may be slow is in other lines.
    local wait = process.until_it_sleeps "$PPID" .. "; sleep 0.1"
    local told, out = run({
      "rn.go(function()",
      '  for _ = 1, 2 do os.execute "sleep 0.1" end',
      '  io.open("begun", "w"):close()',
      "  print(io.read())",
      '  io.open("begun", "w"):close()',
      "  for line in io.lines() do print(line) end",
      ("  local p = io.popen(%q)"):format(wait .. "; echo c; exec >&-; sleep 0.05;" .. wait .. "; exit 3"),
      "  print(p:read 'a')",
      "  print(p:close())",
      ("  p = io.popen(%q)"):format(wait .. "; echo d"),
      "  for line in p:lines() do print(line) end",
      "end)",
    }, "for i in a b; do while [ ! -e begun ]; do sleep 0.01; done; sleep 0.4; rm begun; echo $i; done")
    assert.equal("a\nb\nc\n\nnil\texit\t3\nd\n", out)
    assert_told(told, {
      { "3: os%.execute", 'uv.run { "sh", "-c", command } waits without that (runnel.uv)' },
      { "5: io%.read", "uv.lines(0) gives the lines without that (runnel.uv)" }, { "7: io%.lines", "uv.lines(0)" },
      { "9: file:read", "uv.run" }, { "10: file:close", "uv.run" }, { "12: file:lines", "uv.run" },
    })
  end)

  it("of LuaSocket is told, at the program's line", function()
    if not has_socket then return pending "LuaSocket is not installed" end
    local told = run {
      'local socket, http = require "socket", require "socket.http"',
      'local server = socket.bind("127.0.0.1", 0)',
      "local _, port = server:getsockname()",
      "http.TIMEOUT = 0.1",
      "rn.go(function()",
      "  socket.sleep(0.1)",
      "  server:settimeout(0.1)",
      "  socket.udp():settimeout(0)",
      "  local client = socket.tcp()",
      "  client:settimeout(0.1)",
      '  client:connect("127.0.0.1", port)',
      "  client:receive()",
      '  http.request("http://127.0.0.1:" .. port)',
      "  client = server:accept()",
      "  client = server:accept()",
      "  server:accept()",
      "  socket.select({ server }, nil, 0.1)",
      "end)",
    }
    assert_told(told, {
      { "7: socket%.sleep", "rn.sleep waits without that (runnel)" },
      { "13: socket:receive", "uv.connect, or http.get, waits without that (runnel.uv)" },
      { "14: socket:receive", "uv.connect" }, { "17: socket:accept", "uv.connect" },
      { "18: socket%.select", "uv.connect" },
    })
  end)

  it("of a thread is told if another go block of the program is there", function()
    local told, out = run {
      "local pool <close> = rn.threads(1, function()",
      '  os.execute "sleep 0.1"',
      "end)",
      "pool(1)",
      "pool(2)",
      "rn.thread(function()",
      '  os.execute "sleep 0.1"',
      "end):take()",
      "rn.thread(function()",
      '  local rn = require "runnel"',
      "  local first = rn.go(function() rn.sleep(0) end)",
      '  os.execute "sleep 0.1"',
      "  first:take()",
      "end):take()",
      "local several <close> = rn.threads(1, function(v)",
      '  local rn = require "runnel"',
      '  if v == "waits" then rn.sleep(1e6) else',
      '    os.execute "sleep 0.1"',
      "  end",
      "end, { n = 2 })",
      'local waits = rn.go(several, "waits")',
      "rn.yield()",
      'several "blocks"',
      "rn.cancel(waits)",
      "print 'ended'",
    }
    assert.equal("ended\n", out)
    assert_told(told, { { "13: os%.execute", "uv.run" }, { "19: os%.execute", "uv.run" } })
    assert.equal(2, #told, table.concat(told, "\n"))
  end)

  it("and may wait for this program's own server is told while it runs", function()
    if no_http then return pending(no_http) end
    local told, out = run {
      'local server = require "runnel.http".serve(0, function() return 200 end, { host = "127.0.0.1" })',
      "rn.go(function()",
      '  for _ = 1, 2 do os.execute "sleep 1.5" end',
      "  print(pcall(os.execute, {}))",
      "  print(pcall(function() os.execute {} end))",
      '  local p = io.popen "sleep 1.5; echo a"', -- it may have slept for a while before the read begins
      "  print(p:read 'a', p:close())",
      "  server:close()",
      "end)",
    }
    assert.matches("^false\tbad argument #1 to '[%a.]+' %(string expected, got table%)\n"
      .. "false\tp%.lua:6: bad argument #1 to 'execute' %(string expected, got table%)\na\n\ttrue\texit\t0\n$", out)
    told = told_of(told, { "4: os%.execute", "8: file:read" })
    assert.equal(2, #told, table.concat(told, "\n"))
    assert.matches("^runnel: p%.lua:4: os%.execute has blocked the thread for 1 s and goes on: no other go block "
      .. "runs%. uv%.run .*; a request to this program's own server %(http://127%.0%.0%.1:%d+/%) cannot be answered "
      .. "meanwhile$", told[1])
    assert.matches("^runnel: p%.lua:8: file:read has blocked .* cannot be answered meanwhile$", told[2])
  end)

  it("returns as ever if the program has taken require away, and is not told", function()
    local told, out = run {
      "rn.go(function()",
      "  local require = require",
      "  _G.require = nil",
      '  print(os.execute "sleep 0.06")',
      "  _G.require = require",
      "end)",
    }
    assert.equal("true\texit\t0\n", out)
    assert.same({}, told)
  end)

  it("is not told outside of go blocks, nor if it computes, nor in virtual time", function()
    assert.same({}, (run {
      'os.execute "sleep 0.1"',
      "rn.go(function() local at = os.clock() repeat until os.clock() > at + 0.1 end)",
      'require "runnel.sim".run(function() rn.go(function() os.execute "sleep 0.1" end):take() end)',
    }))
  end)

  it("keeps the name and the line of its errors, and what it returns", function()
    local _, out = run {
      "rn.go(function()",
      "  print(pcall(function() os.execute {} end))",
      '  print(pcall(function() io.read "*z" end))',
      '  print(pcall(function() return io.popen("true", "z"), "no tail call" end))',
      '  io.popen("true"):close()',
      '  print(pcall(function() io.stdout.read(1) end))',
      '  print(os.execute "exit 7")',
      '  print(pcall(require, "socket.no_such_part"))',
      "end)",
    }
    assert.matches("^false\tp%.lua:3: bad argument #1 to 'execute' %(string expected, got table%)\n"
      .. "false\tp%.lua:4: bad argument #1 to 'read' %(invalid format%)\n"
      .. "false\tp%.lua:5: bad argument #2 to 'popen' %(invalid mode%)\n"
      .. "false\tp%.lua:7: bad argument #1 to 'read' %(FILE%* expected, got number%)\n"
      .. "nil\texit\t7\nfalse\tmodule 'socket.no_such_part' not found:\n", out)
  end)

  it("of LuaSocket that is not installed is the usual error", function()
    local _, out = run {
      'package.cpath = "?.none"',
      'print(pcall(require, "socket.core"))',
    }
    assert.matches("^false\tmodule 'socket.core' not found:\n", out)
  end)
end)
