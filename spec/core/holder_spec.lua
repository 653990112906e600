local rn = require "runnel"
local core = require "runnel.core"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

-- A lock is a channel with a buffer: a take takes the lock that a put gives back, or a put takes the place that a take
-- gives back. Each kind: how many may have it; take, give.
local KINDS = {
  ["a lock that is a value"] = { n = 1, take = "take", give = "put" },
  ["a lock that is a place"] = { n = 1, take = "put", give = "take" },
  ["a pool of values"] = { n = 3, take = "take", give = "put" },
  ["a pool of places"] = { n = 3, take = "put", give = "take" },
  ["a pool whose values are in a table"] = { n = 200, take = "take", give = "put" },
  ["a pool whose places are in a table"] = { n = 200, take = "put", give = "take" },
}

-- A channel of a kind, and its functions acquire and release.
local function lock_of(kind, name)
  local ch = rn.chan(kind.n):name(name)
  if kind.take == "take" then for i = 1, kind.n do ch:put(i) end end
  return ch, function() ch[kind.take](ch, true) end, function() ch[kind.give](ch, true) end
end

local function block(name, f)
  return rn.go(function()
    rn.rename(name)
    f()
  end)
end

-- The holders that rn.ps shows, by the names of the go blocks that wait.
local function holders()
  local found = {}
  for _, entry in ipairs(stage.entries()) do
    if entry.holder then found[entry.name] = entry.holder.name or "#" .. entry.holder.id end
  end
  return found
end

local function pause() rn.sleep(1) end

describe("the holder of a lock", function()
  before_each(stage.open)
  after_each(stage.close)

  for name, kind in pairs(KINDS) do
    it("is named where others wait for " .. name, stage.sim(function()
      local _, acquire = lock_of(kind, "lock")
      local never = rn.chan()
      block("first", function() for _ = 1, kind.n do acquire() end never:take() end)
      pause()
      block("waits", acquire)
      block("waits, too", acquire)
      pause()
      assert.same({ waits = "first", ["waits, too"] = "first" }, holders())
    end))

    it("is the one that got it last, by handing it off, where that is " .. name, stage.sim(function()
      local _, acquire, release = lock_of(kind, "lock")
      local never = rn.chan()
      block("first", function() for _ = 1, kind.n do acquire() end rn.sleep(2) release() end)
      pause()
      block("second", function() acquire() never:take() end)
      block("third", acquire)
      rn.sleep(5)
      assert.same({ third = "second" }, holders())
    end))

    it("is known to have ended where that is " .. name, stage.sim(function()
      local _, acquire = lock_of(kind, "lock")
      local first = block("first", function() for _ = 1, kind.n do acquire() end end)
      pause()
      block("waits", acquire)
      pause()
      local id = first:stats().id
      assert.same({ waits = "#" .. id }, holders())
    end))

    it("may be the main program where that is " .. name, function()
      local _, acquire = lock_of(kind, "lock")
      for _ = 1, kind.n do acquire() end
      block("waits", acquire)
      rn.sleep(1)
      assert.same({ waits = "the main program" }, holders())
    end)

    it("may be the go block itself, which takes twice what nobody has given back: " .. name, stage.sim(function()
      local _, acquire = lock_of(kind, "lock")
      block("twice", function() for _ = 1, kind.n + 1 do acquire() end end)
      pause()
      assert.same({ twice = "twice" }, holders())
    end))
  end

  it("is none where workers share a channel, of whose values the last one has been done", stage.sim(function()
    local jobs = rn.chan(2):name "jobs"
    for i = 1, 3 do block("worker " .. i, function() while true do jobs:take() end end) end
    for i = 1, 7 do jobs:put(i) end
    pause()
    assert.same({}, holders())
  end))

  it("is none where nobody has taken or put yet, nor for a channel without a buffer", stage.sim(function()
    local ch, result = rn.chan(), rn.go(function() rn.sleep(10) end)
    block("buffered", function() rn.chan(1):take() end)
    block("waits for a go block", function() result:take() end)
    block("puts", function() ch:put(1) end)
    block("waits", function() rn.chan():take() end)
    pause()
    assert.same({}, holders())
  end))

  it("is named with the channel where an alts waits for several", stage.sim(function()
    local _, acquire = lock_of(KINDS["a lock that is a value"], "other")
    local lock = rn.chan(1):name "lock"
    block("first", function() lock:put(1) acquire() rn.chan():take() end)
    block("waits", function() rn.alts { rn.chan(), { lock, 2 } } end)
    pause()
    local entry = stage.entries()[2]
    assert.same({ "first", lock, "put" }, { entry.holder.name, entry.holder.channel, entry.holder.operation })
  end))

  -- The records of a trace say who has used a channel last.
  it("is the one of the last record of a trace, whatever random go blocks do", function()
    local checked = 0
    for seed = 1, 60 do
      sim.run(function()
        local trace = core.internal.trace
        trace.hold("lr", 65536)
        local state = seed
        local function random(n)
          state = (state * 1103515245 + 12345) % 2147483648
          return state // 65536 % n + 1
        end
        local locks = {}
        for _, kind in pairs { KINDS["a lock that is a value"], KINDS["a lock that is a place"],
          KINDS["a pool of values"], KINDS["a pool of places"] } do
          local ch, acquire, release = lock_of(kind, "lock " .. #locks + 1)
          locks[#locks + 1] = { ch = ch, id = ch:stats().id, acquire = acquire, release = release }
        end
        for i = 1, 6 do
          block("block " .. i, function()
            for _ = 1, random(8) do
              local lock = locks[random(#locks)]
              lock.acquire()
              if random(3) == 1 then rn.yield() end
              if random(3) > 1 then lock.release() end
            end
          end)
        end
        rn.sleep(1)
        local last = {}
        local first_record, next_record = trace.ring()
        for n = first_record, next_record - 1 do
          local kind, _, go, ch = trace.read(n)
          if kind == 6 or kind == 7 then last[ch] = go end
        end
        local list = stage.entries()
        for _, entry in ipairs(list) do
          if entry.channel then
            local id, stats = entry.channel:stats().id, entry.channel:stats()
            local waits_too = false
            for _, other in ipairs(list) do
              waits_too = waits_too or other.id == last[id] and other.channel == entry.channel
            end
            local expected = (not waits_too or stats.put_total == stats.capacity) and last[id] or nil
            assert.equal(expected, entry.holder and entry.holder.id)
            checked = checked + 1
          end
        end
        trace.release "lr"
        for _, entry in ipairs(list) do rn.cancel(entry.result) end
      end, { seed = seed })
    end
    assert.is_true(checked > 100)
  end)
end)

describe("the error of a deadlock", function()
  it("names who has taken last what others wait for, in a line and for the main program", function()
    local err = select(2, pcall(function()
      local never = rn.chan()
      local lock = rn.chan(1):name "lock"
      local first = block("first", function() lock:put(1) never:take() end)
      rn.sleep(1)
      local waits = block("waits", function() lock:put(2) end)
      local _, text = pcall(function() lock:put(3) end)
      rn.cancel(first)
      rn.cancel(waits)
      error(text, 0)
    end))
    assert.matches("deadlock: put on chan: lock, put last by #%d+ %(first%), would wait for ever: ", err)
    assert.matches("#%d+ %(waits%): put on chan: lock at [^\n]*, put last by #%d+ %(first%)", err)
  end)
end)
