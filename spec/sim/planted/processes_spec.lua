-- Bugs with names: processes and restarts. Each program has one fault, which a search finds; its twin has none.

local hosts = require "spec.support.host_programs"
local planting = require "spec.support.planted"
local rn = require "runnel"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local uv, answer, ask, insist, read, write = hosts.uv, hosts.answer, hosts.ask, hosts.insist, hosts.read, hosts.write

describe("bugs of processes and restarts: a search finds #heavy", function()
  if not hosts.has_luv then return pending "luv is not installed" end
  before_each(uv_stage.open)
  after_each(uv_stage.close)
  local planted = planting(it)

  -- A client that asks until it gets an answer, ten times.
  local function client_that_tries(world, holds)
    world:host("client", function()
      for _ = 1, 10 do
        if ask("server", "hello", 1000) then return end
        rn.sleep(1000)
      end
      holds(false, "it does not answer")
    end)
  end

  -- Saves a text, so that a crash leaves the old one or the new one.
  local function save(path, text)
    write(path .. ".new", text, { sync = true })
    os.rename(path .. ".new", path)
    write(path, "", { append = true, sync = true })
  end

  -- Ready too soon: the server listens, and has not read its state yet, since the disk is slow today.
  planted("a server that listens before it has read", "a balance is that of the disk", function(reads_first, holds)
    local world = sim.world()
    local bank = world:host("bank", function()
      local balance = 0
      local function load() balance = tonumber(read "/var/balance") end
      local loading = rn.go(load)
      if reads_first then loading:take() end
      answer(function() return tostring(balance) end)
    end)
    bank:put("/var/balance", "100")
    world:host("client", function()
      rn.sleep(5)
      local text = insist("bank", "balance")
      holds(text == "100", "it is %s", text)
    end)
    world:run()
  end)

  -- State in memory only: after a restart the numbers begin again at 1.
  planted("a restart that forgets", "each order has a number of its own", function(keeps, holds)
    local world = sim.world { faults = { crash = 1 } }
    world:host("shop", function()
      local last = keeps and tonumber(read "/var/last" or "") or 0
      answer(function()
        last = last + 1
        local number = last
        if keeps then save("/var/last", tostring(number)) end
        return tostring(number)
      end)
    end, { restart = 10 })
    world:host("client", function()
      local one = insist("shop", "order", 1000)
      local two = insist("shop", "order", 1000)
      holds(one ~= two, "both have %s", one)
    end)
    world:run()
  end)

  -- The stale lock file: a crash leaves it behind, and the service thinks that it runs already.
  planted("a lock file that is left behind", "the service runs again after a crash", function(looks, holds)
    local world = sim.world { faults = { crash = 1 } }
    world:host("server", function()
      local is_stale = looks and not uv.connect "/run/lock"
      if is_stale then os.remove "/run/lock" end
      local lock = uv.listen "/run/lock"
      if not lock then return end
      write("/var/log", "started\n", { append = true, sync = true })
      rn.go(function() for conn in lock do conn:close() end end)
      answer(function(line) return line end)
    end, { restart = 10 })
    client_that_tries(world, holds)
    world:run()
  end)

  -- A crash loop: the program stops at a file that its own crash has left half written, each time it starts.
  planted("a state that cannot be read", "the service runs again after a crash", function(is_careful, holds)
    local world = sim.world { faults = { crash = 1, torn = 1 } }
    world:host("server", function()
      local text = read "/var/config"
      if text and not text:find "}$" then return end -- as a parser would: it gives up
      if text ~= "{ port = 80 }" then
        if is_careful then save("/var/config", "{ port = 80 }")
        else write("/var/config", "{ port = 80 }", { sync = true }) end
      end
      answer(function(line) return line end)
    end, { restart = 10 })
    client_that_tries(world, holds)
    world:run()
  end)

  -- The exit status that nobody looks at: the backup has failed, and the original is removed.
  planted("an exit status that nobody looks at", "there is always one copy of the data", function(looks, holds)
    local world = sim.world { faults = { enospc = 1 } }
    world:program("copy", function(args)
      local n = write(args[2], read(args[1]) or "", { sync = true })
      return n and 0 or 1
    end)
    local host = world:host("host", function()
      local result = uv.run { "copy", "/var/data", "/var/backup" }
      if not looks or result and result.code == 0 then os.remove "/var/data" end
    end)
    host:put("/var/data", "precious")
    world:run()
    holds(host:get "/var/data" == "precious" or host:get "/var/backup" == "precious", "there is none")
  end)

  -- No graceful shutdown: SIGTERM (a deployment) comes while a message is in memory, which was acknowledged.
  planted("a shutdown that drops what is buffered", "an acknowledged event is in the file", function(drains, holds)
    local world, is_told = sim.world(), false
    local server = world:host("server", function()
      local buffer, is_over = {}, drains and uv.signal "term" or rn.chan()
      local function flush()
        local lines = table.concat(buffer)
        buffer = {}
        if lines ~= "" then write("/var/events", lines, { append = true, sync = true }) end
      end
      rn.go(answer, function(line)
        buffer[#buffer + 1] = line .. "\n"
        return "ok"
      end)
      repeat
        local _, port = rn.alts { is_over, rn.timeout(1000) }
        flush()
      until port == is_over
      rn.exit(0)
    end)
    world:host("client", function() is_told = ask("server", "event") == "ok" end)
    world:host("admin", function()
      rn.sleep(100)
      server:signal "term"
    end)
    world:run(10000)
    holds(not is_told or server:get "/var/events" == "event\n", "it has %q", server:get "/var/events")
  end)

  -- One bad connection ends the server: an error of a client is taken for an error of the program.
  planted("a connection that ends the server", "the server serves the next client", function(goes_on, holds)
    local world = sim.world { faults = { reset = 1 } }
    world:host("server", function()
      local conns = assert(uv.listen("0.0.0.0", 80))
      for conn in conns do
        local line = conn:lines():take()
        conn:write((line or "") .. "\n")
        conn:close()
        if not line and not goes_on then return conns:close() end
      end
    end)
    world:host("client", function()
      ask("server", "hello")
      rn.sleep(100)
      holds(ask("server", "hello") or ask("server", "hello"), "no answer")
    end)
    world:run()
  end)

  -- A migration that is not in one step: after a crash half of it is done again.
  planted("a migration that a restart repeats", "prices are converted once", function(in_one_step, holds)
    local world = sim.world { faults = { crash = 1 } }
    local host = world:host("host", function()
      local version, price = read("/var/prices"):match "(%d) (%d+)"
      if in_one_step then
        if version == "1" then save("/var/prices", "2 " .. price * 100) end
      elseif read "/var/version" ~= "2" then
        save("/var/prices", "1 " .. price * 100)
        save("/var/version", "2")
      end
    end, { restart = 10 })
    host:put("/var/prices", "1 5")
    world:run()
    local price = host:get("/var/prices"):match " (%d+)"
    holds(price == "500", "the price is %s", price)
  end)

  -- Dependencies at the start: a program that connects once, before the other one listens.
  planted("a start that needs another one's", "the client gets its answer, whoever starts first", function(tries, holds)
    local world = sim.world()
    local server = world:host("server", function()
      read "/var/data"
      answer(function(line) return line end)
    end)
    server:put("/var/data", "x")
    world:host("client", function()
      local text
      if tries then text = insist("server", "hello") else text = ask("server", "hello") end
      holds(text == "hello", "it gets none")
    end)
    world:run()
  end)
end)
