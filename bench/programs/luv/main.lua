-- The programs of make bench-programs in luv's callbacks: main.lua NAME ARGUMENT...

local uv = require "luv"

local programs = {}

function programs.commands(n)
  n = tonumber(n)
  local started, ok = 0, 0
  local function start()
    if started == n then return end
    started = started + 1
    local handle
    handle = uv.spawn("true", {}, function(code)
      ok = ok + (code == 0 and 1 or 0)
      handle:close()
      start()
    end)
  end
  for _ = 1, 8 do start() end
  uv.run()
  print(ok)
end

function programs.proxy(port)
  local listener = uv.new_tcp()
  listener:bind("127.0.0.1", 0)
  listener:listen(1024, function()
    local client, server = uv.new_tcp(), uv.new_tcp()
    listener:accept(client)
    local function close()
      if not client:is_closing() then client:close() end
      if not server:is_closing() then server:close() end
    end
    local function copy(from, to)
      from:read_start(function(err, piece)
        if err or not piece then return close() end
        from:read_stop()
        to:write(piece, function(failed)
          if failed or from:is_closing() then return close() end
          copy(from, to)
        end)
      end)
    end
    server:connect("127.0.0.1", tonumber(port), function(err)
      if err then return close() end
      copy(client, server)
      copy(server, client)
    end)
  end)
  print("port " .. listener:getsockname().port)
  io.stdout:flush()
  uv.run()
end

function programs.timers(n)
  local timers, sum = {}, 0
  for i = 1, tonumber(n) do
    local timer = uv.new_timer()
    timers[i] = timer
    timer:start(2000 + i * 7919 % 1000, 0, function()
      sum = sum + i
      timer:close()
    end)
  end
  for i = 1, #timers do
    if i % 10 ~= 0 then timers[i]:close() end
  end
  uv.run()
  print(sum)
end

function programs.chat()
  local clients, listener = {}, uv.new_tcp()
  listener:bind("127.0.0.1", 0)
  listener:listen(1024, function()
    local client, part = uv.new_tcp(), ""
    listener:accept(client)
    clients[client] = true
    client:nodelay(true)
    client:write "welcome\n"
    client:read_start(function(_, piece)
      if not piece then
        clients[client] = nil
        if not client:is_closing() then client:close() end
        return
      end
      local last = 0
      part = part .. piece
      for line, to in part:gmatch "([^\n]*\n)()" do
        last = to - 1
        for other in pairs(clients) do other:write(line) end
      end
      part = part:sub(last + 1)
    end)
  end)
  print("port " .. listener:getsockname().port)
  io.stdout:flush()
  uv.run()
end

programs[arg[1]](table.unpack(arg, 2))
