-- What the luv of a simulated world does is what luv does: the same scripts run on both, and each result, error and
-- callback is compared.

local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local has_luv, luv = pcall(require, "luv")

-- A text for a result: handles and requests are only there or not.
local function text_of(value)
  if type(value) == "userdata" then return "a handle or request" end
  if type(value) ~= "table" then return tostring(value) end
  if next(value) == nil or getmetatable(value) then return "a handle or request" end
  local parts = {} -- without the protocol, whose name is in a file that not every system has
  for _, key in ipairs { "ip", "family", "addr", "socktype", "type", "size", "name" } do
    if value[key] ~= nil then parts[#parts + 1] = key .. "=" .. tostring(value[key]) end
  end
  return "{" .. table.concat(parts, " ") .. "}"
end

-- A log with a list of lines for each name: callbacks of different handles come in any order.
local function new_log()
  local lists, names = {}, {}
  local function log(name, ...)
    if not lists[name] then
      lists[name] = {}
      names[#names + 1] = name
    end
    local parts = {}
    for i = 1, select("#", ...) do parts[i] = text_of((select(i, ...))) end
    table.insert(lists[name], (table.concat(parts, ", "):gsub("handle .- is", "handle is")))
  end
  return log, function()
    table.sort(names)
    local lines = {}
    for _, name in ipairs(names) do lines[#lines + 1] = name .. ": " .. table.concat(lists[name], " | ") end
    return table.concat(lines, "\n")
  end
end

local function on_luv(script)
  local log, result = new_log()
  local sigpipe = luv.new_signal() -- so that a write to a closed socket does not end the program
  sigpipe:start("sigpipe", function() end)
  sigpipe:unref()
  script(luv, log)
  luv.run()
  sigpipe:close()
  luv.run()
  return result()
end

local function in_world(script)
  local log, result = new_log()
  sim.run(function()
    local world = sim.world()
    world:host("here", function() script(require "runnel.sim.sim_luv", log) end)
    world:run()
  end)
  return result()
end

-- Two connected sockets, and the listener; calls f(client, accepted) when they are connected.
local function pair(uv, f)
  local listener, client = uv.new_tcp(), uv.new_tcp()
  local accepted, connected
  local function both()
    if accepted and connected then
      listener:close()
      f(client, accepted)
    end
  end
  listener:bind("127.0.0.1", 0)
  listener:listen(8, function()
    accepted = uv.new_tcp()
    listener:accept(accepted)
    both()
  end)
  client:connect("127.0.0.1", listener:getsockname().port, function()
    connected = true
    both()
  end)
end

-- Calls f after some ms, and several turns of the loop: on a busy machine a timer may be due before the events of
-- sockets that came first were read.
local function after(uv, ms, f)
  local timer, turns = uv.new_timer(), 0
  timer:start(ms, 2, function()
    turns = turns + 1
    if turns < 4 then return end
    timer:close()
    f()
  end)
end

-- Reads until the end or an error, then closes, unless `stays`.
local function read_all(log, name, handle, stays)
  local parts = {}
  log(name, handle:read_start(function(err, data)
    if data then
      parts[#parts + 1] = data
      return
    end
    log(name, err, #table.concat(parts), #parts > 0 and #table.concat(parts) < 50 and table.concat(parts) or "")
    if not stays then handle:close() end
  end))
end

local path = os.tmpname()
os.remove(path)

local SCRIPTS = {
  ["functions of a socket that is not connected"] = function(uv, log)
    local tcp = uv.new_tcp()
    log("try_write", tcp:try_write "x")
    log("write", tcp:write("x", function() end))
    log("read_start", tcp:read_start(function() end))
    log("read_stop", tcp:read_stop())
    log("shutdown", tcp:shutdown(function() end))
    log("accept", tcp:accept(uv.new_tcp()))
    log("getpeername", tcp:getpeername())
    log("nodelay", tcp:nodelay(true))
    log("queue", tcp:get_write_queue_size())
    log("is_closing", tcp:is_closing())
    log("close", tcp:close())
    log("is_closing", tcp:is_closing())
    log("close", pcall(tcp.close, tcp))
    log("try_write", tcp:try_write "x")
    log("getpeername", tcp:getpeername())
  end,

  ["addresses that are wrong"] = function(uv, log)
    local tcp = uv.new_tcp()
    log("bind", pcall(tcp.bind, tcp, "a.b.c.d", 1))
    log("connect", pcall(tcp.connect, tcp, "300.1.1.1", 1, function() end))
    log("bind", tcp:bind("203.0.113.7", 0))
    tcp:close()
  end,

  ["names that are looked up"] = function(uv, log)
    log("request", uv.getaddrinfo("127.0.0.1", nil, { socktype = "stream" }, function(err, list)
      log("address", err, #list, list[1])
    end))
  end,

  ["a port where nobody listens"] = function(uv, log)
    local tcp, other = uv.new_tcp(), uv.new_tcp()
    tcp:bind("127.0.0.1", 0)
    local port = tcp:getsockname().port
    log("connect", other:connect("127.0.0.1", port, function(err)
      log("connected", err)
      other:close()
      tcp:close()
    end))
  end,

  ["a port that is in use"] = function(uv, log)
    local one, two = uv.new_tcp(), uv.new_tcp()
    log("bind", one:bind("127.0.0.1", 0))
    log("listen", one:listen(8, function() end))
    log("bind", two:bind("127.0.0.1", one:getsockname().port))
    log("listen", two:listen(8, function() end))
    one:close()
    two:close()
  end,

  ["a port that was in use when it was bound"] = function(uv, log)
    local one, two = uv.new_tcp(), uv.new_tcp()
    one:bind("127.0.0.1", 0)
    one:listen(8, function() end)
    log("bind", two:bind("127.0.0.1", one:getsockname().port))
    one:close()
    after(uv, 10, function()
      log("listen", two:listen(8, function() end))
      two:close()
    end)
  end,

  ["bytes both ways, and their ends"] = function(uv, log)
    pair(uv, function(a, b)
      log("address", a:getpeername(), b:getsockname())
      read_all(log, "a", a)
      read_all(log, "b", b)
      log("try_write", a:try_write "hello ")
      log("try_write", a:try_write "")
      log("write", a:write("world", function(err)
        log("written", err)
        log("shutdown", a:shutdown(function(e) log("shut", e) end))
        log("after", a:try_write "more")
      end))
      log("write", b:write({ "an", "swer" }, function(err)
        log("answered", err)
        b:shutdown()
      end))
    end)
  end,

  ["a second reader, and reading again"] = function(uv, log)
    pair(uv, function(a, b)
      log("start", b:read_start(function() end))
      log("start", b:read_start(function() end))
      log("stop", b:read_stop())
      log("stop", b:read_stop())
      a:try_write "one "
      a:try_write "two"
      after(uv, 20, function()
        local got = {}
        b:read_start(function(err, data)
          got[#got + 1] = data or err or "the end"
          if #got == 2 then
            log("got", table.concat(got, "|"))
            b:close()
          end
        end)
        a:close()
      end)
    end)
  end,

  ["a write after the other end has closed"] = function(uv, log)
    pair(uv, function(a, b)
      b:close()
      after(uv, 20, function()
        log("first", a:try_write "x")
        after(uv, 20, function()
          log("second", a:try_write "x")
          log("third", a:write("x", function(err) log("written", err) end))
          read_all(log, "a", a)
        end)
      end)
    end)
  end,

  ["an end that closes and has not read all"] = function(uv, log)
    pair(uv, function(a, b)
      a:try_write "unread"
      after(uv, 20, function()
        b:close()
        after(uv, 20, function()
          read_all(log, "a", a, true)
          after(uv, 20, function()
            log("write", a:try_write "x")
            a:close()
          end)
        end)
      end)
    end)
  end,

  ["data that has arrived before a reset"] = function(uv, log)
    pair(uv, function(a, b)
      a:try_write "unread"
      b:try_write "kept"
      after(uv, 20, function()
        b:close()
        after(uv, 20, function() read_all(log, "a", a) end)
      end)
    end)
  end,

  ["a large write"] = function(uv, log)
    pair(uv, function(a, b)
      log("write", a:write(("x"):rep(3000000), function(err)
        log("written", err)
        log("queue", a:get_write_queue_size())
        a:close()
      end))
      read_all(log, "b", b)
    end)
  end,

  ["a write that is under way at the close"] = function(uv, log)
    pair(uv, function(a, b)
      log("write", a:write(("x"):rep(5000000), function(err)
        log("written", err)
        b:close()
      end))
      a:close()
    end)
  end,

  ["a connect that is closed before its end"] = function(uv, log)
    local listener, tcp = uv.new_tcp(), uv.new_tcp()
    listener:bind("127.0.0.1", 0)
    listener:listen(8, function() end)
    log("connect", tcp:connect("127.0.0.1", listener:getsockname().port, function(err)
      log("connected", err)
      listener:close()
    end))
    log("again", tcp:connect("127.0.0.1", listener:getsockname().port, function() end))
    tcp:close()
  end,

  ["connections that are accepted later"] = function(uv, log)
    local listener, called = uv.new_tcp(), 0
    listener:bind("127.0.0.1", 0)
    listener:listen(8, function(err)
      called = called + 1
      log("connection", err)
    end)
    local clients = {}
    for i = 1, 2 do
      clients[i] = uv.new_tcp()
      clients[i]:connect("127.0.0.1", listener:getsockname().port, function(err) log("connected", err) end)
    end
    after(uv, 20, function()
      log("called", called)
      local one, two = uv.new_tcp(), uv.new_tcp()
      log("accept", listener:accept(one))
      log("accept", listener:accept(two))
      after(uv, 20, function()
        log("called", called)
        log("accept", listener:accept(two))
        log("accept", listener:accept(uv.new_tcp()))
        for _, handle in ipairs { listener, one, two, clients[1], clients[2] } do handle:close() end
      end)
    end)
  end,

  ["files: opening, reading and writing"] = function(uv, log)
    local O, mode = luv.constants, tonumber("644", 8)
    log("missing", uv.fs_open(path, O.O_RDONLY, 0))
    uv.fs_open("/none/of/it", O.O_RDONLY, 0, function(err, fd) log("missing, later", err, fd) end)
    local fd = uv.fs_open(path, O.O_CREAT | O.O_RDWR, mode)
    log("write", uv.fs_write(fd, "hello", -1))
    log("write", uv.fs_write(fd, { " ", "world" }, -1))
    log("read", uv.fs_read(fd, 10, -1))
    log("read", uv.fs_read(fd, 4, 3))
    log("write at", uv.fs_write(fd, "J", 0))
    log("write beyond", uv.fs_write(fd, "!", 13))
    log("read", (uv.fs_read(fd, 100, 0):gsub("%z", "0")))
    log("truncate", uv.fs_ftruncate(fd, 5))
    log("sync", uv.fs_fsync(fd))
    log("stat", uv.fs_fstat(fd))
    uv.fs_stat(path, function(err, stat) log("stat, later", err, stat) end)
    log("kind", uv.guess_handle(fd))
    log("close", uv.fs_close(fd))
    log("close", uv.fs_close(fd))
    log("read", uv.fs_read(fd, 1, 0))
    log("exclusive", uv.fs_open(path, O.O_CREAT | O.O_EXCL | O.O_RDWR, mode))
    local reader = uv.fs_open(path, O.O_RDONLY, 0)
    log("write", uv.fs_write(reader, "x", -1))
    uv.fs_read(reader, 100, -1, function(err, data)
      log("read, later", err, data)
      uv.fs_close(reader)
      local appender = uv.fs_open(path, O.O_WRONLY | O.O_APPEND, 0)
      uv.fs_write(appender, " again", 0, function(err2, n)
        log("append", err2, n)
        log("read", uv.fs_read(appender, 1, 0))
        uv.fs_close(appender)
        local again = uv.fs_open(path, O.O_RDWR | O.O_TRUNC, 0)
        log("truncated", uv.fs_fstat(again))
        uv.fs_close(again)
        uv.fs_unlink(path)
      end)
    end)
  end,

  ["files: names and folders"] = function(uv, log)
    local O = luv.constants
    local function name(text) return text and (text:gsub(path, "P", nil, true)) end
    local function say(what, result, err, code) log(what, result, name(err), code) end
    local function touch(at) uv.fs_close((uv.fs_open(at, O.O_CREAT | O.O_WRONLY, 420))) end
    say("mkdir", uv.fs_mkdir(path, 493))
    say("mkdir", uv.fs_mkdir(path, 493))
    say("mkdir", uv.fs_mkdir(path .. "/a/b", 493))
    touch(path .. "/file")
    say("under a file", uv.fs_open(path .. "/file/x", O.O_RDONLY, 0))
    say("in no folder", uv.fs_open(path .. "/none/x", O.O_CREAT | O.O_WRONLY, 420))
    say("a folder", uv.fs_open(path, O.O_WRONLY, 0))
    local folder = uv.fs_open(path, O.O_RDONLY, 0)
    say("read", uv.fs_read(folder, 1, 0))
    say("sync", uv.fs_fsync(folder))
    uv.fs_close(folder)
    say("mkdir", uv.fs_mkdir(path .. "/sub", 493))
    say("rename", uv.fs_rename(path .. "/file", path .. "/sub/b"))
    say("rename", uv.fs_rename(path .. "/file", path .. "/sub/b"))
    say("rename", uv.fs_rename(path .. "/sub", path .. "/sub/b"))
    say("rename", uv.fs_rename(path .. "/sub/b", path .. "/sub"))
    say("rename", uv.fs_rename(path .. "/sub", path .. "/other/place"))
    say("rename", uv.fs_rename(path .. "/sub", path .. "/moved"))
    say("stat", uv.fs_stat(path .. "/moved/b"))
    say("rmdir", uv.fs_rmdir(path .. "/moved"))
    say("rmdir", uv.fs_rmdir(path .. "/moved/b"))
    say("unlink", uv.fs_unlink(path .. "/moved"))
    say("chmod", uv.fs_chmod(path .. "/none", 420))
    say("scandir", uv.fs_scandir(path .. "/none"))
    local scan = uv.fs_scandir(path)
    say("next", uv.fs_scandir_next(scan))
    say("next", uv.fs_scandir_next(scan))
    say("unlink", uv.fs_unlink(path .. "/moved/b"))
    say("unlink", uv.fs_unlink(path .. "/moved/b"))
    say("rmdir", uv.fs_rmdir(path .. "/moved"))
    say("rmdir", uv.fs_rmdir(path))
  end,

  ["files: changes that are watched"] = function(uv, log)
    local O = luv.constants
    local event = uv.new_fs_event()
    log("start", event:start(path, {}, function() end))
    uv.fs_mkdir(path, 493)
    local seen = {}
    log("start", event:start(path, {}, function(err, name, what)
      seen[#seen + 1] = ("%s %s%s"):format(err or name, what.change and "c" or "", what.rename and "r" or "")
    end))
    local fd = uv.fs_open(path .. "/one", O.O_CREAT | O.O_WRONLY, 420)
    after(uv, 20, function()
      uv.fs_write(fd, "x", -1)
      uv.fs_close(fd)
      after(uv, 20, function()
        uv.fs_unlink(path .. "/one")
        after(uv, 20, function()
          uv.fs_rmdir(path)
          event:close()
          local last -- several changes in a row may be reported as one
          for _, text in ipairs(seen) do
            if text ~= last then log("seen", text) end
            last = text
          end
        end)
      end)
    end)
  end,

  ["timers"] = function(uv, log)
    local timer, count = uv.new_timer(), 0
    log("start", timer:start(5, 5, function()
      count = count + 1
      log("tick", count)
      if count == 3 then
        log("stop", timer:stop())
        log("close", timer:close())
      end
    end))
    log("active", timer:is_active())
    local never = uv.new_timer()
    never:start(1, 0, function() log("never", "it was stopped") end)
    log("stop", never:stop())
    log("active", never:is_active())
    never:close()
  end,

  ["Unix sockets"] = function(uv, log)
    local listener, client, early = uv.new_pipe(false), uv.new_pipe(false), uv.new_pipe(false)
    log("connect", early:connect(path, function(err)
      log("early", err)
      early:close()
      log("bind", listener:bind(path))
      log("bind", uv.new_pipe(false):bind(path))
      log("listen", listener:listen(8, function(err2)
        log("connection", err2)
        local conn = uv.new_pipe(false)
        log("accept", listener:accept(conn))
        read_all(log, "server", conn)
        listener:close()
      end))
      log("name", listener:getsockname() == path)
      client:connect(path, function(err2)
        log("connected", err2)
        log("peer", client:getpeername() == path)
        log("try_write", client:try_write "hello")
        client:close()
      end)
    end))
  end,

  ["writes to a Unix socket whose other end has closed"] = function(uv, log)
    local listener, client = uv.new_pipe(false), uv.new_pipe(false)
    listener:bind(path)
    listener:listen(8, function()
      local conn = uv.new_pipe(false)
      listener:accept(conn)
      conn:close()
      listener:close()
      after(uv, 20, function()
        log("try_write", client:try_write "x")
        read_all(log, "client", client)
      end)
    end)
    client:connect(path, function() end)
  end,
}

-- What libuv does before 1.53, and the world's answer: a reset that it sees together with the last data was an end.
local BEFORE_1_53 = {
  ["data that has arrived before a reset"] = { "nil, 4, kept", "ECONNRESET, 4, kept" },
}

describe("the luv of a simulated world", function()
  if not has_luv then return pending "luv is not installed" end
  before_each(stage.open)
  after_each(stage.close)

  local names = {}
  for name in pairs(SCRIPTS) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    it("does what luv does: " .. name, function()
      local expected = on_luv(SCRIPTS[name])
      assert.is_true(#expected > 0)
      local change = luv.version() < 0x013500 and BEFORE_1_53[name]
      if change then expected = expected:gsub(change[1], change[2]) end
      assert.equal(expected, in_world(SCRIPTS[name]))
    end)
  end
end)
