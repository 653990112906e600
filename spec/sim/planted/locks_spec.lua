-- Bugs with names: locks and leases. Each program has one fault, which a search finds; its twin has none.

local hosts = require "spec.support.host_programs"
local planting = require "spec.support.planted"
local rn = require "runnel"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local answer, ask, read, write = hosts.answer, hosts.ask, hosts.read, hosts.write

local LEASE <const> = 1000 -- ms

describe("bugs of locks and leases: a search finds #heavy", function()
  if not hosts.has_luv then return pending "luv is not installed" end
  before_each(uv_stage.open)
  after_each(uv_stage.close)
  local planted = planting(it)

  -- Asks for the lock, at most 30 times. Returns the answer, and when it asked.
  local function acquire(name)
    for _ = 1, 30 do
      local asked = sim.elapsed()
      local text = ask("lock", "take " .. name, 3 * LEASE)
      if text and text ~= "no" then return text, asked end
      rn.sleep(200)
    end
  end

  -- Works for some time, in which it must be the only one: f() says whether it may go on.
  local function new_work(holds)
    local busy = {}
    return function(name, ms, may_go_on)
      for _ = 1, ms // 100 do
        if may_go_on and not may_go_on() then break end
        busy[name] = true
        for other in pairs(busy) do holds(other == name, "%s and %s", name, other) end
        rn.sleep(100)
      end
      busy[name] = nil
    end
  end

  -- A lock without expiry: its holder crashes, and nobody gets it any more.
  planted("a lock without expiry", "each worker gets its turn", function(has_expiry, holds)
    local world = sim.world { faults = { crash = 1 } }
    local owner, until_ = nil, math.huge
    world:host("lock", function()
      answer(function(line)
        local what, name = line:match "(%a+) (.*)"
        if what == "free" then owner = nil return "ok" end
        if owner and sim.elapsed() < until_ then return "no" end
        owner, until_ = name, has_expiry and sim.elapsed() + LEASE or math.huge
        return "yes"
      end)
    end)
    for i = 1, 2 do
      world:host("worker" .. i, function()
        holds(acquire("worker" .. i), "worker%d does not", i)
        ask("lock", "free worker" .. i)
      end, { restart = i == 1 and 100 or nil })
    end
    world:run()
  end)

  -- A lock by "get, then set" (time of check to time of use): two see that it is free.
  planted("a lock that is looked at and then taken", "one holds the lock", function(is_atomic, holds)
    local world = sim.world()
    local owner
    world:host("lock", function()
      answer(function(line)
        local what, name = line:match "(%a+) ?(.*)"
        if what == "get" then return owner or "none" end
        if what == "free" then owner = nil return "ok" end
        if what == "create" and owner then return "no" end
        owner = name
        return "yes"
      end)
    end)
    local work = new_work(holds)
    for i = 1, 2 do
      world:host("worker" .. i, function()
        local name = "worker" .. i
        if not is_atomic and ask("lock", "get") ~= "none" then return end
        if ask("lock", (is_atomic and "create " or "set ") .. name) == "yes" then
          work(name, 300)
          ask("lock", "free")
        end
      end)
    end
    world:run()
  end)

  -- Adds the host of a lock with leases: "take NAME" gives a lease's number, or "no"; "free NAME" ends it.
  local function lease_service(world, frees)
    local owner, until_, number = nil, 0, 0
    world:host("lock", function()
      answer(function(line)
        local what, name = line:match "(%a+) (.*)"
        if what == "free" then
          if frees(name, owner) then owner = nil end
          return "ok"
        end
        if owner and sim.elapsed() < until_ then return "no" end
        owner, until_, number = name, sim.elapsed() + LEASE, number + 1
        return tostring(number)
      end)
    end)
  end

  local function frees_own(name, owner) return name == owner end

  -- A lease that is counted from the answer, which was late: the holder believes in it for longer than the service.
  planted("a lease that is counted from the answer", "one holds the lock", function(counts_from_request, holds)
    local world = sim.world { faults = { delay = 1 }, delays = { 700 } }
    lease_service(world, frees_own)
    local work = new_work(holds)
    for i = 1, 2 do
      world:host("worker" .. i, function()
        local lease, asked = acquire("worker" .. i)
        local from = counts_from_request and asked or sim.elapsed()
        if lease then work("worker" .. i, LEASE, function() return sim.elapsed() + 100 < from + LEASE end) end
      end)
    end
    world:run()
  end)

  -- A lock without a fencing token: a write that was late arrives after the lease is over, and after the next holder's.
  planted("a lease without a fencing token", "writes come in the order of the leases", function(has_fence, holds)
    local world = sim.world { faults = { delay = 1 }, delays = { 3000 } }
    lease_service(world, frees_own)
    local written, highest = {}, 0
    world:host("storage", function()
      answer(function(line)
        local lease = tonumber(line)
        if has_fence and lease < highest then return "too late" end
        highest = math.max(highest, lease)
        written[#written + 1] = lease
        return "ok"
      end)
    end)
    for i = 1, 2 do
      world:host("worker" .. i, function()
        local lease = acquire("worker" .. i)
        if lease then ask("storage", lease) end
      end)
    end
    world:run()
    holds(#written < 2 or written[1] < written[2], "%s", table.concat(written, " before "))
  end)

  -- Deleting a lock without asking whose it is (Redis' DEL): a late release frees the next holder's lock.
  planted("a release of another's lock", "one holds the lock", function(asks_whose, holds)
    local world = sim.world { faults = { delay = 1 }, delays = { 700 } }
    lease_service(world, asks_whose and frees_own or function() return true end)
    local work = new_work(holds)
    for i = 1, 3 do
      world:host("worker" .. i, function()
        rn.sleep(10 * i)
        local lease, asked = acquire("worker" .. i)
        if not lease then return end
        work("worker" .. i, 600, function() return sim.elapsed() + 100 < asked + LEASE end)
        ask("lock", "free worker" .. i)
      end)
    end
    world:run()
  end)

  -- The leader that is cut off and does not know: it cannot renew its lease, and works on.
  planted("a leader that has lost its lease", "there is one leader", function(looks_at_clock, holds)
    local world = sim.world()
    local owner, until_ = nil, 0
    world:host("lock", function()
      answer(function(line)
        local name = line:match "take (.*)"
        if owner ~= name and sim.elapsed() < until_ then return "no" end
        owner, until_ = name, sim.elapsed() + LEASE
        return "yes"
      end)
    end)
    local work = new_work(holds)
    for i = 1, 2 do
      world:host("node" .. i, function()
        local name = "node" .. i
        local yes, from = acquire(name)
        if not yes then return end
        local renewal = rn.go(function()
          for _ = 1, 3 do
            rn.sleep(300)
            local asked = sim.elapsed()
            if ask("lock", "take " .. name, 2 * LEASE) == "yes" then from = asked end
          end
        end)
        work(name, 2000, function() return not looks_at_clock or sim.elapsed() + 100 < from + LEASE end)
        renewal:take()
      end)
    end
    rn.sleep(500)
    world:partition("lock", owner or "node1")
    rn.sleep(5000)
    world:heal()
    world:run()
  end)

  -- Lock ordering (AB and BA): each has one lock and waits for the other's.
  planted("two locks that are taken in any order", "the transfers end", function(sorts)
    local world = sim.world()
    local free = { a = rn.chan(1), b = rn.chan(1) }
    for _, lock in pairs(free) do lock:put(true) end
    world:host("locks", function()
      answer(function(line)
        local what, name = line:match "(%a+) (%a)"
        if what == "take" then free[name]:take() else free[name]:put(true) end
        return "ok"
      end)
    end)
    for i, names in ipairs { { "a", "b" }, { "b", "a" } } do
      world:host("transfer" .. i, function()
        if sorts then table.sort(names) end
        for _, name in ipairs(names) do ask("locks", "take " .. name) end
        for _, name in ipairs(names) do ask("locks", "free " .. name) end
      end)
    end
    world:run()
  end, { alarm = "the program of host transfer%d waits for ever" })

  -- A lock service that forgets (Redlock without persistence): it restarts, and gives the lock to the next one.
  planted("a lock that a restart forgets", "one holds the lock", function(keeps, holds)
    local world = sim.world { faults = { crash = 1 } }
    world:host("lock", function()
      local owner = keeps and read "/var/lock" or ""
      answer(function(line)
        local what, name = line:match "(%a+) (.*)"
        local new = what == "take" and name or ""
        if what == "take" and owner ~= "" and owner ~= name or what == "free" and owner ~= name then return "no" end
        owner = new -- before the write, which lets others ask
        if keeps then
          write("/var/new", new, { sync = true })
          os.rename("/var/new", "/var/lock")
          write("/var/lock", "", { append = true, sync = true })
        end
        return "yes"
      end)
    end, { restart = 10 })
    local work = new_work(holds)
    for i = 1, 2 do
      world:host("worker" .. i, function()
        if not acquire("worker" .. i) then return end
        work("worker" .. i, 300)
        hosts.insist("lock", "free worker" .. i, LEASE)
      end)
    end
    world:run()
  end)
end)
