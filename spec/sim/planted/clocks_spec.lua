-- Bugs with names: clocks. Each program has one fault, which a search finds; its twin has none.

local hosts = require "spec.support.host_programs"
local planting = require "spec.support.planted"
local rn = require "runnel"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local answer, insist = hosts.answer, hosts.insist

describe("bugs of clocks: a search finds #heavy", function()
  if not hosts.has_luv then return pending "luv is not installed" end
  before_each(uv_stage.open)
  after_each(uv_stage.close)
  local planted = planting(it)

  -- Numbers from the clock (Snowflake): the clock goes back, and a number comes twice.
  planted("a number from a clock that goes back", "each order has a number of its own", function(remembers, holds)
    local world = sim.world()
    local last, count = 0, 0
    local shop = world:host("shop", function()
      answer(function()
        local now = remembers and math.max(last, os.time()) or os.time()
        count = now == last and count + 1 or 1
        last = now
        return ("%d-%d"):format(now, count)
      end)
    end)
    local seen = {}
    world:host("client", function()
      for _ = 1, 3 do
        local number = insist("shop", "order")
        holds(not seen[number], "two have %s", number)
        seen[number] = true
        rn.sleep(1000)
      end
    end)
    rn.sleep(1500)
    shop:move_clock(-2000)
    world:run()
  end)

  -- A time limit by the time of day: the clock goes back by an hour, and the program waits for an hour.
  planted("a time limit by the time of day", "a wait of 5 s ends", function(uses_rn_now, holds)
    local world = sim.world()
    local client = world:host("client", function()
      local function now() return uses_rn_now and rn.now() / 1000 or os.time() end
      local deadline = now() + 5
      while now() < deadline do rn.sleep(100) end
      holds(sim.elapsed() < 10000, "it took %d s", sim.elapsed() // 1000)
    end)
    rn.sleep(1000 * sim.choose(5))
    client:move_clock(-20000)
    world:run()
  end)

  -- Last write wins, by the clocks of the writers (Cassandra): the clock of one is behind, and its new write is lost.
  planted("a last write that does not win", "the register has the write that was last", function(has_versions, holds)
    local world, value, stamp = sim.world(), nil, 0
    world:host("register", function()
      answer(function(line)
        local new_stamp, new_value = line:match "(%d+) (%a+)"
        if new_stamp and tonumber(new_stamp) > stamp then value, stamp = new_value, tonumber(new_stamp) end
        return tostring(stamp)
      end)
    end)
    for i, new in ipairs { "old", "new" } do
      world:host("writer" .. i, function()
        rn.sleep(i * 1000)
        local own = has_versions and insist("register", "get") + 1 or os.time()
        insist("register", ("%d %s"):format(own, new))
      end, { skew = i == 2 and -30000 or 0 })
    end
    world:run()
    holds(value == "new", "it has the %s one", value)
  end)

  -- A lease that ends at a time of day: the holder's clock is behind the service's.
  planted("a lease until a time of day", "one holds the lease", function(uses_durations, holds)
    local world, owner, until_ = sim.world(), nil, 0
    world:host("lock", function()
      answer(function(line)
        if owner and owner ~= line and os.time() <= until_ then return "no" end
        owner, until_ = line, os.time() + 5
        return uses_durations and "4" or tostring(until_)
      end)
    end)
    local busy
    for i = 1, 2 do
      world:host("worker" .. i, function()
        local asked, text = rn.now(), nil
        for _ = 1, 20 do
          asked, text = rn.now(), insist("lock", "worker" .. i)
          if text ~= "no" then break end
          rn.sleep(1000)
        end
        local function is_mine()
          return uses_durations and rn.now() < asked + text * 1000 or not uses_durations and os.time() < tonumber(text)
        end
        while text ~= "no" and is_mine() do
          busy = busy or i
          holds(busy == i, "worker%d and worker%d", busy, i)
          rn.sleep(500)
        end
        if busy == i then busy = nil end
      end, { skew = i == 1 and -10000 or 0 })
    end
    world:run()
  end)

  -- "Not valid yet": a token that was made a moment ago is from the future, for a server whose clock is behind.
  planted("a token from the future", "a fresh token is valid", function(has_leeway, holds)
    local world = sim.world()
    world:host("login", function() answer(function() return tostring(os.time()) end) end)
    world:host("service", function()
      answer(function(line)
        local age = os.time() - tonumber(line)
        local leeway = has_leeway and 60 or 0
        return age >= -leeway and age < 3600 and "welcome" or "no"
      end)
    end, { skew = -5000 })
    world:host("client", function()
      local text = insist("service", insist("login", "ann"))
      holds(text == "welcome", "the service says %s", text)
    end)
    world:run()
  end)

  -- "Changed since", by the time: two changes come in one second, and the second one is seen by no poll. A number of
  -- each change has no such gap.
  planted("a poll by the time of change", "each change is seen", function(has_numbers, holds)
    local world, changes = sim.world(), {}
    world:host("database", function()
      answer(function(line)
        local what, since = line:match "(%a+) ?(%d*)"
        if what == "add" then changes[#changes + 1] = has_numbers and #changes + 1 or os.time() end
        local n = 0
        for _, mark in ipairs(changes) do
          if what == "since" and mark > tonumber(since) then n = n + 1 end
        end
        return ("%d %d"):format(n, changes[#changes] or 0)
      end)
    end)
    world:host("writer", function()
      for _ = 1, 2 do
        rn.sleep(300)
        insist("database", "add")
      end
    end)
    world:host("reader", function()
      local seen, last = 0, 0
      for _ = 1, 4 do
        rn.sleep(400)
        local n, mark = insist("database", "since " .. last):match "(%d+) (%d+)"
        seen, last = seen + n, mark
      end
      holds(seen == 2, "%d of 2", seen)
    end)
    world:run()
  end)

  -- The hour that comes twice (daylight saving time): a job runs when the clock says two, and the clock says it twice.
  planted("a job in the hour that comes twice", "the job runs once a day", function(remembers, holds)
    local world, runs = sim.world(), 0
    local host = world:host("host", function()
      local begin, last_day = os.time(), nil
      for _ = 1, 100 do
        local minutes = (os.time() - begin) // 60
        local day = minutes // (24 * 60)
        if minutes == 10 and not (remembers and last_day == day) then
          runs, last_day = runs + 1, day
        end
        rn.sleep(60000)
      end
    end)
    rn.sleep(30 * 60000)
    host:move_clock(-25 * 60000)
    world:run()
    holds(runs == 1, "%d times", runs)
  end)
end)
