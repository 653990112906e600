-- Bugs with names: networks. Each program has one fault, which a search finds; its twin has none.

local hosts = require "spec.support.host_programs"
local planting = require "spec.support.planted"
local rn = require "runnel"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local uv, answer, ask, insist = hosts.uv, hosts.answer, hosts.ask, hosts.insist

describe("bugs of networks: a search finds #heavy", function()
  if not hosts.has_luv then return pending "luv is not installed" end
  before_each(uv_stage.open)
  after_each(uv_stage.close)
  local planted = planting(it)

  -- A double charge: the answer is lost, the client cannot know whether its request was done, and sends it again.
  planted("a retry that is not idempotent", "a deposit is booked once", function(knows_ids, holds)
    local world = sim.world { faults = { reset = 1 } }
    local sum, done = 0, {}
    world:host("bank", function()
      answer(function(line)
        local id, amount = line:match "(%d+) (%d+)"
        if not (knows_ids and done[id]) then sum = sum + amount end
        done[id] = true
        return "done"
      end)
    end)
    world:host("client", function() insist("bank", "1 5") end)
    world:run()
    holds(sum == 5, "the sum is %d", sum)
  end)

  -- The two generals: no answer in time is taken for "not done", and another shop gets the order, too.
  planted("a timeout that is taken for a failure", "goods are sent once", function(cancels, holds)
    local world = sim.world { faults = { delay = 1 } }
    local sent = 0
    for i = 1, 2 do
      world:host("shop" .. i, function()
        local is_cancelled, has_sent
        answer(function(line)
          is_cancelled = is_cancelled or line == "cancel"
          if not is_cancelled and not has_sent then has_sent, sent = true, sent + 1 end
          return has_sent and "sent" or "cancelled"
        end)
      end)
    end
    world:host("client", function()
      if ask("shop1", "order", 1000) then return end
      if cancels and insist("shop1", "cancel") == "sent" then return end
      insist("shop2", "order")
    end)
    world:run()
    holds(sent == 1, "%d times", sent)
  end)

  -- Fire and forget: a write that succeeds has reached the system, and not the other program.
  planted("a write that is taken for a delivery", "an event that was sent is counted", function(waits_for_ack, holds)
    local world = sim.world { faults = { reset = 1 } }
    local seen, has_sent = {}, false
    world:host("counter", function()
      answer(function(line)
        seen[line] = true
        return "ack"
      end)
    end)
    world:host("client", function()
      if waits_for_ack then
        has_sent = insist("counter", "event 1") == "ack"
      else
        local conn <close> = uv.connect("counter", 80)
        has_sent = conn and conn:write "event 1\n"
        rn.sleep(10)
      end
    end)
    world:run()
    holds(seen["event 1"] or not has_sent, "it is lost")
  end)

  -- Message framing: TCP is a stream of bytes, and a read may give half of what was written.
  planted("a read that is taken for a message", "a message arrives whole", function(reads_lines, holds)
    local world = sim.world { faults = { short = 1 } }
    world:host("server", function()
      hosts.serve(function(conn)
        local text = (reads_lines and conn:lines() or conn:read()):take()
        text = text and text:gsub("\n", "")
        holds(text == "hello", "it is %q", text)
      end)
    end)
    world:host("client", function()
      local conn <close> = assert(uv.connect("server", 80))
      conn:write "hello\n"
      rn.sleep(100)
    end)
    world:run()
  end)

  -- A half-open connection: the other end is gone, and no packet says so.
  planted("a wait without a time limit", "the client ends", function(has_limit)
    local world = sim.world { faults = { silent = 1 } }
    world:host("server", function() answer(function(line) return line end) end)
    world:host("client", function()
      if has_limit then insist("server", "hello", 1000) else ask("server", "hello") end
    end)
    world:run()
  end, { alarm = "the program of host client waits for ever" })

  -- Desynchronisation: a connection that goes back to the pool after a timeout still has the old answer in it. So
  -- users of a chat service saw the titles of others' chats in 2023 (a client of Redis).
  planted("a late answer that is taken for the next one", "an answer is that of its request", function(closes, holds)
    local world = sim.world { faults = { delay = 1 }, delays = { 1500 } }
    world:host("server", function() answer(function(line) return "the " .. line end) end)
    world:host("client", function()
      local conn, lines
      for _, what in ipairs { "name", "price" } do
        if not conn then
          conn = assert(uv.connect("server", 80))
          lines = conn:lines()
        end
        conn:write(what .. "\n")
        local text, port = rn.alts { lines, rn.timeout(1000) }
        if port == lines then holds(text == "the " .. what, "%s for %s", text, what) end
        if port ~= lines and closes then
          conn:close()
          conn = nil
        end
      end
      if conn then conn:close() end
    end)
    world:run()
  end)

  -- Messages that overtake each other: each webhook has a connection of its own, so nothing keeps them in order.
  planted("events that overtake each other", "the order is in the state of its last event", function(has_numbers, holds)
    local world = sim.world { faults = { delay = 1 }, delays = { 50 } }
    local state, last = nil, 0
    world:host("shop", function()
      answer(function(line)
        local number, new = line:match "(%d+) (%a+)"
        if has_numbers and tonumber(number) < last then return "old" end
        state, last = new, tonumber(number)
        return "ok"
      end)
    end)
    world:host("bank", function()
      for i, event in ipairs { "paid", "refunded" } do
        rn.go(insist, "shop", i .. " " .. event)
        rn.sleep(10)
      end
    end)
    world:run()
    holds(state == "refunded", "it is %s", state)
  end)

  -- Caching a name for ever, as the JVM did: a service that moves to another machine is never found again.
  planted("an address that is kept for ever", "the service is found where it is", function(looks_up, holds)
    local world = sim.world()
    local server = world:host("server", function() answer(function(line) return line end) end)
    world:host("client", function()
      local address = uv.resolve("server"):take()
      for i = 1, 2 do
        holds(ask(looks_up and "server" or address, "hello"), "request %d fails", i)
        rn.sleep(1000)
      end
    end)
    rn.sleep(500)
    server:move()
    world:run()
  end)

  -- Slowloris, or head-of-line blocking: a server that serves one connection after another waits for the slowest.
  planted("a client that blocks the others", "each client gets its answer", function(has_blocks, holds)
    local world = sim.world()
    world:host("server", function()
      for conn in assert(uv.listen("0.0.0.0", 80)) do
        local block = rn.go(function()
          local line = conn:lines():take()
          if line then conn:write(line .. "\n") end
          conn:close()
        end)
        if not has_blocks then block:take() end
      end
    end)
    world:host("idle", function()
      local conn = assert(uv.connect("server", 80))
      rn.sleep(60000)
      conn:close()
    end)
    world:host("client", function()
      rn.sleep(10)
      holds(ask("server", "hello", 1000), "none within a second")
    end)
    world:run()
  end)
end)
