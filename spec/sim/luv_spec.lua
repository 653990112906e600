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
  local parts = {}
  for _, key in ipairs { "ip", "family", "addr", "socktype", "protocol", "type", "size", "name" } do
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
    world:host("here", function() script(require "runnel.sim.luv", log) end)
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

-- Calls f after some ms.
local function after(uv, ms, f)
  local timer = uv.new_timer()
  timer:start(ms, 0, function()
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
        a:close()
      end))
      log("try_write", a:try_write "y")
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
      assert.equal(expected, in_world(SCRIPTS[name]))
    end)
  end
end)
