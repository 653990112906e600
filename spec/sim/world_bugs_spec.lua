-- Bugs of distributed programs, planted: sim.explore finds each of them within seconds, and none in the mended version.

local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local has_luv = pcall(require, "luv")

describe("a search of a simulated world finds", function()
  if not has_luv then return pending "luv is not installed" end
  local uv = require "runnel.uv"
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  -- `test(mended)` runs a program in a world and checks it.
  local function finds(what, pattern, test)
    it(what, function() search.finds_bug(pattern, test) end)
  end

  -- Calls f(conn) for each connection, in a go block of its own.
  local function serve(f, port)
    for conn in assert(uv.listen("0.0.0.0", port or 80)) do
      rn.go(function()
        f(conn)
        conn:close()
      end)
    end
  end

  -- Calls f(line) for each line of each connection, and sends what it returns.
  local function answer(f, port)
    serve(function(conn)
      local lines = conn:lines()
      while true do
        local line = lines:take()
        if not line then return end
        local text = f(line)
        if text then conn:write(text .. "\n") end
      end
    end, port)
  end

  local function ask(host, line, timeout)
    local conn <close> = uv.connect(host, 80)
    if not conn then return nil end
    conn:write(line .. "\n")
    local lines = conn:lines()
    return (rn.alts { lines, timeout and rn.timeout(timeout) or nil })
  end

  -- Asks until there is an answer.
  local function insist(host, line, timeout)
    for _ = 1, 10 do
      local text = ask(host, line, timeout)
      if text then return text end
      rn.sleep(100)
    end
    error "no answer"
  end

  -- Appends a line to a file.
  local function append(path, line, sync)
    local ch = rn.chan(1)
    ch:put(line)
    ch:close()
    return uv.write(path, ch, { append = true, lines = true, sync = sync }):take()
  end

  local function lines_of(text)
    local list = {}
    for line in (text or ""):gmatch "([^\n]*)\n" do list[#list + 1] = line end
    return list
  end

  finds("a retry that is not idempotent", "the sum is 10", function(mended)
    local world = sim.world { faults = { reset = 1 } }
    local sum, done = 0, {}
    world:host("bank", function()
      answer(function(line)
        local id, n = line:match "(%d+) (%d+)"
        if not (mended and done[id]) then sum = sum + n end
        done[id] = true
        return "done"
      end)
    end)
    world:host("client", function() insist("bank", "1 5") end)
    world:run()
    if sum ~= 5 then error("the sum is " .. sum, 0) end
  end)

  finds("a timeout that is taken for a failure", "the sum is 10", function(mended)
    local world = sim.world { faults = { delay = 1 } }
    local sum, done = 0, {}
    world:host("bank", function()
      answer(function(line)
        if not (mended and done[line]) then sum = sum + 5 end
        done[line] = true
        return "done"
      end)
    end)
    world:host("client", function() insist("bank", "1", 1000) end)
    world:run()
    if sum ~= 5 then error("the sum is " .. sum, 0) end
  end)

  finds("a read that is taken for a message", "got h%a*", function(mended)
    local world = sim.world { faults = { short = 1 } }
    world:host("server", function()
      serve(function(conn)
        local text = (mended and conn:lines() or conn:read()):take()
        if text and text:gsub("\n", "") ~= "hello" then error("got " .. text, 0) end
      end)
    end)
    world:host("client", function()
      local conn <close> = assert(uv.connect("server", 80))
      conn:write "hello\n"
      rn.sleep(100)
    end)
    world:run()
  end)

  finds("a connection that ends the server", "ECONNRE", function(mended)
    local world = sim.world { faults = { reset = 1 } }
    world:host("server", function()
      for conn in assert(uv.listen("0.0.0.0", 80)) do
        local line, err = conn:lines():take()
        if not line and not mended then error(err or "no line") end
        conn:write "done\n"
        conn:close()
      end
    end)
    world:host("client", function() insist("server", "hello") end)
    world:run()
  end)

  finds("a client that waits for ever on a silent connection", "waits for ever", function(mended)
    local world = sim.world { faults = { silent = 1 } }
    world:host("server", function() answer(function(line) return line end) end)
    world:host("client", function()
      if mended then return insist("server", "hello", 1000) end
      ask("server", "hello")
    end)
    world:run()
  end)

  finds("an acknowledgement before the store", "lost", function(mended)
    local world = sim.world { faults = { crash = 1 } }
    local server = world:host("server", function()
      answer(function(line)
        if mended then
          append("/var/log", line, true)
          return "stored"
        end
        rn.go(append, "/var/log", line, true)
        return "stored"
      end)
    end, { restart = 10 })
    world:host("client", function() insist("server", "hello") end)
    world:run()
    if not (server:get "/var/log" or ""):find("hello\n", 1, true) then error("lost", 0) end
  end)

  finds("a store that was not synced", "lost", function(mended)
    local world = sim.world { faults = { crash = 1 } }
    local server = world:host("server", function()
      answer(function(line)
        append("/var/log", line, mended)
        return "stored"
      end)
    end, { restart = 10 })
    world:host("client", function() insist("server", "hello") end)
    world:run()
    if not (server:get "/var/log" or ""):find("hello\n", 1, true) then error("lost", 0) end
  end)

  local function write(path, text)
    local ch = rn.chan(1)
    ch:put(text)
    ch:close()
    return uv.write(path, ch, { sync = true }):take()
  end

  finds("a file that is replaced in place", "the file is", function(mended)
    local world = sim.world { faults = { crash = 1, torn = 1 } }
    local host = world:host("host", function()
      if mended then
        write("/var/new", "new contents")
        os.rename("/var/new", "/var/state")
      else
        write("/var/state", "new contents")
      end
    end, { restart = 10 })
    host:put("/var/state", "old contents")
    world:run(5)
    local text = host:get "/var/state"
    if text ~= "old contents" and text ~= "new contents" then error("the file is " .. text, 0) end
  end)

  finds("a rename before the data is on the disk", "the file is", function(mended)
    local world = sim.world { faults = { crash = 1, torn = 1 } }
    local host = world:host("host", function()
      local ch = rn.chan(1)
      ch:put "new contents"
      ch:close()
      uv.write("/var/new", ch, { sync = mended }):take()
      os.rename("/var/new", "/var/state")
    end, { restart = 10 })
    host:put("/var/state", "old contents")
    world:run(5)
    local text = host:get "/var/state"
    if text ~= "old contents" and text ~= "new contents" then error("the file is " .. text, 0) end
  end)

  finds("a record that was written in part", "the sum is", function(mended)
    local world = sim.world { faults = { crash = 1, torn = 1 } }
    local sum
    local server = world:host("server", function()
      answer(function(line)
        append("/var/log", line, true)
        return "stored"
      end)
    end, { restart = 10 })
    world:host("client", function() ask("server", "1234") end)
    world:run()
    sum = 0
    local text = server:get "/var/log" or ""
    if mended then
      for _, line in ipairs(lines_of(text)) do sum = sum + line end
    else
      for line in text:gmatch "[^\n]+" do sum = sum + line end
    end
    if sum ~= 0 and sum ~= 1234 then error("the sum is " .. sum, 0) end
  end)

  finds("a full disk that is not noticed", "lost", function(mended)
    local world = sim.world { faults = { enospc = 1, eio = 1 } }
    local server = world:host("server", function()
      answer(function(line)
        local n = append("/var/log", line, true)
        if not n and mended then return nil end
        return "stored"
      end)
    end)
    world:host("client", function() insist("server", "hello", 1000) end)
    world:run()
    if not (server:get "/var/log" or ""):find("hello\n", 1, true) then error("lost", 0) end
  end)

  finds("an address that is kept for ever", "no answer", function(mended)
    local world = sim.world()
    local server = world:host("server", function() answer(function(line) return line end) end)
    world:host("client", function()
      local address = uv.resolve("server"):take()
      for _ = 1, 2 do
        insist(mended and "server" or address, "hello")
        rn.sleep(1000)
      end
    end)
    rn.sleep(500)
    server:move()
    world:run()
  end)

  finds("a stale address that is an error", "EHOSTUNREACH", function(mended)
    local world = sim.world { faults = { stale = 1 } }
    local server = world:host("server", function() answer(function(line) return line end) end)
    server:move()
    world:host("client", function()
      rn.yield()
      if mended then return insist("server", "hello") end
      assert(uv.connect("server", 80)):close()
    end)
    world:run()
  end)

  for _, each in ipairs { { "dns", "EAI_AGAIN" }, { "refuse", "ECONNREFUSED" }, { "emfile", "EMFILE" } } do
    local fault, err = each[1], each[2]
    finds("a first connect that must succeed, with the fault " .. fault, err, function(mended)
      local world = sim.world { faults = { [fault] = 1 } }
      world:host("server", function() answer(function(line) return line end) end)
      world:host("client", function()
        rn.yield()
        if mended then return insist("server", "hello") end
        assert(uv.connect("server", 80)):close()
      end)
      world:run()
    end)
  end

  finds("a Unix socket that is left behind by a crash", "EADDRINUSE", function(mended)
    local world = sim.world { faults = { crash = 1, torn = 1 } }
    world:host("host", function()
      if mended then os.remove "/run/socket" end
      local conns = assert(uv.listen "/run/socket")
      rn.go(function() for conn in conns do conn:close() end end)
      append("/var/log", "started", true)
      conns:close()
    end, { restart = 10 })
    world:run()
  end)

  finds("an event that is missed while a subscriber reconnects", "waits for ever", function(mended)
    local world = sim.world { faults = { reset = 1 } }
    local events, more = {}, rn.chan(rn.sliding_buffer(1))
    world:host("publisher", function()
      rn.go(function()
        for i = 1, 2 do
          rn.sleep(20)
          events[i] = "event " .. i
          more:put(true)
        end
      end)
      serve(function(conn)
        local from = conn:lines():take()
        if not from then return end
        local next_one = mended and from + 0 or #events + 1
        while true do
          while events[next_one] do
            if not conn:write(events[next_one] .. "\n") then return end
            next_one = next_one + 1
          end
          rn.sleep(1)
          if next_one > 2 or not conn:peer() then return end
        end
      end)
    end)
    world:host("subscriber", function()
      local seen = 0
      while seen < 2 do
        local conn = uv.connect("publisher", 80)
        if conn then
          conn:write(seen + 1 .. "\n")
          local lines = conn:lines()
          while true do
            local line = lines:take()
            if not line then break end
            seen = seen + 1
          end
          conn:close()
        end
        rn.sleep(30)
        if sim.elapsed() > 1000 then rn.chan():take() end
      end
    end)
    world:run()
  end)

  finds("two leaders", "two leaders", function(mended)
    local world = sim.world { faults = { delay = 1 }, delays = { 1500 } }
    local owner, until_ = nil, 0
    world:host("lock", function()
      answer(function(line)
        if owner and owner ~= line and sim.elapsed() < until_ then return "no" end
        owner, until_ = line, sim.elapsed() + 1000
        return "yes"
      end)
    end)
    local leads = {}
    for _, name in ipairs { "one", "two" } do
      world:host(name, function()
        if name == "two" then rn.sleep(1200) end
        local asked = sim.elapsed()
        if ask("lock", name) ~= "yes" then return end
        local ends = (mended and asked or sim.elapsed()) + 1000
        leads[name] = true
        local other = name == "one" and "two" or "one"
        while sim.elapsed() < ends do
          if leads[other] then error("two leaders", 0) end
          rn.sleep(100)
        end
        leads[name] = nil
      end)
    end
    world:run()
  end)

  finds("a count of connections that only a good end lowers", "still 1", function(mended)
    local world = sim.world { faults = { reset = 1 } }
    local count = 0
    world:host("server", function()
      serve(function(conn)
        count = count + 1
        local lines = conn:lines()
        local line, err
        repeat
          line, err = lines:take()
          if line then conn:write(line .. "\n") end
        until not line
        if mended or not err then count = count - 1 end
      end)
    end)
    world:host("client", function() ask("server", "hello") end)
    world:run()
    if count ~= 0 then error("still " .. count, 0) end
  end)
end)
