-- Bugs of distributed programs, planted: sim.explore finds each of them within seconds, and none in the mended version.
-- Those that people have names for are in spec/sim/planted.

local hosts = require "spec.support.host_programs"
local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local uv, serve, answer, ask, insist, write = hosts.uv, hosts.serve, hosts.answer, hosts.ask, hosts.insist, hosts.write

describe("a search of a simulated world finds", function()
  if not hosts.has_luv then return pending "luv is not installed" end
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  -- `test(mended)` runs a program in a world and checks it.
  local function finds(what, pattern, test)
    it(what, function() search.finds_bug(pattern, test) end)
  end

  finds("an acknowledgement before the store", "lost", function(mended)
    local world = sim.world { faults = { crash = 1 } }
    local server = world:host("server", function()
      answer(function(line)
        if mended then
          write("/var/log", line .. "\n", { append = true, sync = true })
          return "stored"
        end
        rn.go(write, "/var/log", line .. "\n", { append = true, sync = true })
        return "stored"
      end)
    end, { restart = 10 })
    world:host("client", function() insist("server", "hello") end)
    world:run()
    if not (server:get "/var/log" or ""):find("hello\n", 1, true) then error("lost", 0) end
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
