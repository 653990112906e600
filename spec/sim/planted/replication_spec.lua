-- Bugs with names: replication. Each program has one fault, which a search finds; its twin has none.

local hosts = require "spec.support.host_programs"
local planting = require "spec.support.planted"
local rn = require "runnel"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local answer, ask, insist, read, write = hosts.answer, hosts.ask, hosts.insist, hosts.read, hosts.write

describe("bugs of replication: a search finds #heavy", function()
  if not hosts.has_luv then return pending "luv is not installed" end
  before_each(uv_stage.open)
  after_each(uv_stage.close)
  local planted = planting(it)

  -- Adds a host that keeps a value with its version: "set VERSION VALUE" does nothing if it has a newer one; "get".
  local function add_register(world, name)
    local version, value = 0, "none"
    return world:host(name, function()
      answer(function(line)
        local new_version, new_value = line:match "set (%d+) (.*)"
        if new_version and tonumber(new_version) > version then version, value = tonumber(new_version), new_value end
        return version .. " " .. value
      end)
    end)
  end

  -- Reading one's own write from a replica that does not have it yet.
  planted("a read of an old replica", "a client reads what it has written", function(asks_for_version, holds)
    local world = sim.world { faults = { delay = 1 }, delays = { 50 } }
    add_register(world, "replica")
    world:host("primary", function()
      local version, value = 0, nil
      answer(function(line)
        if line == "get" then return version .. " " .. value end
        version, value = version + 1, line
        rn.go(insist, "replica", ("set %d %s"):format(version, value))
        return tostring(version)
      end)
    end)
    world:host("client", function()
      local wanted = insist("primary", "blue")
      rn.sleep(20)
      local version, value = insist("replica", "get"):match "(%d+) (.*)"
      if asks_for_version and version < wanted then value = insist("primary", "get"):match "%d+ (.*)" end
      holds(value == "blue", "it reads %s", value)
    end)
    world:run()
  end)

  -- Asynchronous replication: the primary acknowledges, dies, and takes the write with it.
  planted("an acknowledgement before the replica has it", "an acknowledged write survives the loss of the primary",
    function(waits, holds)
      local world = sim.world { faults = { delay = 1 }, delays = { 50 } }
      local is_told
      add_register(world, "replica")
      local primary = world:host("primary", function()
        answer(function(line)
          local copying = rn.go(insist, "replica", "set 1 " .. line)
          if waits then copying:take() end
          return "stored"
        end)
      end)
      world:host("client", function()
        is_told = ask("primary", "blue") == "stored"
        primary:kill()
        rn.sleep(100)
        local value = insist("replica", "get")
        holds(not is_told or value == "1 blue", "the replica has %s", value)
      end)
      world:run()
    end)

  -- Split brain: each half of a network thinks that the other one is dead, and both go on. A majority is in one only.
  planted("a split brain", "a seat is sold once", function(needs_majority, holds)
    local world, sold = sim.world(), {}
    for i = 1, 3 do
      world:host("node" .. i, function()
        local granted
        answer(function(line)
          local what, buyer = line:match "(%a+) (%a+)"
          granted = granted or buyer
          if what == "grant" then return granted == buyer and "yes" or "no" end
          local yes, no = granted == buyer and 1 or 0, granted == buyer and 0 or 1
          for k = 1, 3 do
            local text = k ~= i and ask("node" .. k, "grant " .. buyer, 100)
            if text == "yes" then yes = yes + 1 elseif text == "no" then no = no + 1 end
          end
          local is_sold = needs_majority and yes >= 2 or not needs_majority and no == 0
          if is_sold then sold[#sold + 1] = buyer end
          return is_sold and "sold" or "no"
        end)
      end)
    end
    world:partition("node1", "node2")
    world:partition("node1", "node3")
    world:host("ann", function() ask("node1", "buy ann", 5000) end)
    world:host("bob", function() ask("node2", "buy bob", 5000) end)
    rn.sleep(10000)
    world:heal()
    world:run()
    holds(#sold <= 1, "to %s", table.concat(sold, " and "))
  end)

  -- Quorums that do not overlap (R + W <= N): who is asked has not been told.
  planted("quorums that do not overlap", "a read after a write sees it", function(overlaps, holds)
    local world = sim.world { faults = { delay = 1 }, delays = { 50 } }
    for i = 1, 3 do add_register(world, "replica" .. i) end
    local needed = overlaps and 2 or 1
    -- The first answers of the replicas to a line.
    local function ask_all(line)
      local answers, list = rn.chan(3), {}
      for i = 1, 3 do
        rn.go(function() answers:put(insist("replica" .. i, line)) end)
      end
      for i = 1, needed do list[i] = answers:take() end
      table.sort(list)
      return list[needed]
    end
    world:host("client", function()
      ask_all "set 1 blue"
      local newest = ask_all "get"
      holds(newest == "1 blue", "it is %s", newest)
    end)
    world:run()
  end)

  -- The zombie: a replica that was away has not heard of the deletion, and brings the record back. A deletion is
  -- something to be kept, too: a tombstone.
  planted("a deletion without a tombstone", "a record that was deleted stays away", function(has_tombstones, holds)
    local world = sim.world()
    local tables = { { x = "blue" }, { x = "blue" } }
    for i = 1, 2 do
      world:host("node" .. i, function()
        answer(function(line)
          if line == "delete" then tables[i].x = has_tombstones and "deleted" or nil end
          if line == "sync" then
            local other = insist("node" .. 3 - i, "get")
            if other ~= "none" and tables[i].x ~= "deleted" then tables[i].x = other end
          end
          return tables[i].x or "none"
        end)
      end)
    end
    world:host("client", function()
      insist("node1", "delete")
      for i = 1, 2 do insist("node" .. i, "sync") end
    end)
    world:run()
    for i = 1, 2 do holds(tables[i].x ~= "blue", "node%d has it", i) end
  end)

  -- A vote that a restart forgets (Raft's votedFor): the voter votes twice in one term, and there are two leaders.
  planted("a vote that a restart forgets", "a term has one leader", function(keeps, holds)
    local world, leaders = sim.world { faults = { crash = 1 } }, {}
    world:host("voter", function()
      local vote = keeps and read "/var/vote" or nil
      answer(function(candidate)
        if not vote then
          vote = candidate
          if keeps then write("/var/new", vote, { sync = true }) end
          if keeps then os.rename("/var/new", "/var/vote") end
          if keeps then write("/var/vote", "", { append = true, sync = true }) end
        elseif keeps and read "/var/vote" ~= vote then -- it is not on the disk yet
          return "no"
        end
        return vote == candidate and "yes" or "no"
      end)
    end, { restart = 10 })
    for i = 1, 2 do
      world:host("node" .. i, function()
        if insist("voter", "node" .. i, 1000) == "yes" then leaders[#leaders + 1] = i end -- with its own: 2 of 3
      end)
    end
    world:run()
    holds(#leaders <= 1, "node%s and node%s", leaders[1], leaders[2])
  end)

  -- The stale set (Facebook's memcache, 2013): between a reader's look at the database and its filling of the cache
  -- come an update and its invalidation.
  planted("a cache that is filled with an old value", "the cache is as the database", function(has_versions, holds)
    local world = sim.world { faults = { delay = 1 }, delays = { 50 } }
    local database, version, cached, cached_version = "old", 1, nil, 0
    world:host("cache", function()
      answer(function(line)
        local what, n, value = line:match "(%a+) (%d+) ?(%a*)"
        n = tonumber(n)
        if has_versions and n < cached_version then return "too late" end
        cached, cached_version = what == "set" and value or nil, n
        return "ok"
      end)
    end)
    world:host("database", function()
      answer(function(line)
        if line ~= "get" then database, version = line, version + 1 end
        return version .. " " .. database
      end)
    end)
    world:host("reader", function() insist("cache", "set " .. insist("database", "get")) end)
    world:host("writer", function() insist("cache", "drop " .. insist("database", "new"):match "%d+") end)
    world:run()
    holds(cached == nil or cached == database, "it has %s", cached)
  end)

  -- Replaying what was applied already: the replica connects again, and gets changes from a place before its own.
  planted("changes that are applied twice", "the replica has what the primary has", function(keeps_place, holds)
    local world, sum, place = sim.world { faults = { reset = 1 } }, 0, 0
    world:host("primary", function()
      hosts.serve(function(conn)
        local from = conn:lines():take()
        for i = (tonumber(from) or 0) + 1, 2 do conn:write(("%d 5\n"):format(i)) end
      end)
    end)
    world:host("replica", function()
      local seen = 0
      while seen < 2 do
        local conn <close> = hosts.uv.connect("primary", 80)
        local lines = conn and conn:write(keeps_place and place .. "\n" or "0\n") and conn:lines()
        while lines do
          local line = lines:take()
          if not line then break end
          local number, amount = line:match "(%d+) (%d+)"
          sum, place, seen = sum + amount, tonumber(number), tonumber(number)
        end
        rn.sleep(10)
      end
    end)
    world:run()
    holds(sum == 10, "%d, and not 10", sum)
  end)

  -- The lost update: two read, both change, both write.
  planted("a write that does not look what it replaces", "each increment counts", function(compares, holds)
    local world, value = sim.world(), 0
    world:host("register", function()
      answer(function(line)
        local before, after = line:match "set (%d+) (%d+)"
        if before and compares and tonumber(before) ~= value then return "changed" end
        if after then value = tonumber(after) end
        return tostring(value)
      end)
    end)
    for i = 1, 2 do
      world:host("client" .. i, function()
        repeat
          local before = tonumber(insist("register", "get"))
        until insist("register", ("set %d %d"):format(before, before + 1)) ~= "changed"
      end)
    end
    world:run()
    holds(value == 2, "the value is %d", value)
  end)
end)
