-- One message of a stream in a store, by the id of its put: cancelled, replaced, dropped while it waits; given back for
-- later; and queues that are paused for a while.

local consumers = require "runnel.store.consumer"
local generator = require "spec.support.generator"
local in_world = require "spec.support.in_world"(it)
local long = require "spec.support.long"
local message_of = require "runnel.store.message".new
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local rn = require "runnel"

describe("a message of a store that waits", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"

  local function with_store(f)
    return function()
      local dir <close> = process.directory()
      local store <close> = stores.open(dir.path .. "/work.db", { synchronous = "off" })
      f(store)
    end
  end

  it("is named by the id of its put: other arguments are errors at the program's line", with_store(function(store)
    local stream, sink = assert(store:stream("jobs", { max_message = 100 })), assert(store:sink "jobs")
    for pattern, f in pairs {
      ["cancel: the id of a put expected, a string, got 17"] = function() stream:cancel(17) end,
      ["replace: the id of a put expected, a string, got nothing"] = function() stream:replace() end,
      ["replace: a value other than nil expected"] = function() stream:replace("1") end,
      ["replace: value: a channel cannot be kept"] = function() stream:replace("1", rn.shared_chan()) end,
      ["replace: value%[table%]: only booleans, numbers and strings can be kept as keys"] = function()
        stream:replace("1", { [{}] = 1 })
      end,
      ["replace: value: a function cannot be kept"] = function() stream:replace("1", print) end,
      ["put: if_waiting: the option id says for which"] = function() sink:put(1, { if_waiting = "drop" }) end,
      ['put: if_waiting: "replace" or "drop" expected, got "keep"'] = function()
        sink:put(1, { id = "1", if_waiting = "keep" })
      end,
    } do
      raises(pattern, f)
    end
    assert.same({ nil, 'no message "1" of "jobs" waits', n = 2 }, table.pack(stream:cancel "1"))
    assert.same({ nil, 'no message "1" of "jobs" waits', n = 2 }, table.pack(stream:replace("1", 2)))
    assert(sink:put("small", { id = "1" }))
    assert.same({ nil, "message size exceeds maximum allowed", n = 2 },
      table.pack(stream:replace("1", ("x"):rep(101))))
    assert.same({ 7, 1 }, { stream:stats().bytes, stream:stats().messages })
    assert(stream:replace("1", "larger")) -- with the quotes of JSON
    assert.equal(8, stream:stats().bytes)
    assert.equal("larger", assert(store:source "jobs"):take().value)
    assert(stream:delete())
    local none, err = stream:cancel "1"
    assert.is_nil(none)
    assert.matches("^there is no stream", err)
  end))

  in_world("is found after any time, cancelled, and its id is free then", function()
    local store <close> = stores.open(os.tmpname(), { synchronous = "off" })
    local stream = assert(store:stream("jobs", { retention = "workqueue", duplicates = 10 }))
    local sink = assert(store:sink "jobs")
    assert(sink:put("a", { id = "1", delay = 3600000 }))
    rn.sleep(30)
    assert(sink:put("b", { id = "2" })) -- forgets ids that are over
    assert.is_true(stream:cancel "1")
    local stored, _, is_duplicate = sink:put("c", { id = "1" })
    assert.same({ true, false }, { stored, is_duplicate })
    local source = assert(store:source("jobs", { name = "s", max_running = 1 }))
    assert.equal("b", source:take().value)
    assert.same({ nil, 'the message "2" of "jobs" does not wait any more', n = 2 }, table.pack(stream:cancel "2"))
    assert.is_true(stream:cancel "1")
    assert.equal(1, stream:stats().messages)
    source:close()
  end)

  in_world("makes a put be dropped, which changes nothing: not how long its id is known, nor whether", function()
    local store <close> = stores.open(os.tmpname(), { synchronous = "off" })
    local stream = assert(store:stream("jobs", { retention = "workqueue", duplicates = 10 }))
    local sink = assert(store:sink "jobs")
    local function drop() return table.pack(sink:put("dropped", { id = "1", if_waiting = "drop" })) end
    assert.same({ true, 1, false, n = 3 }, table.pack(sink:put("a", { id = "1", delay = 3600000 })))
    rn.sleep(30)
    assert.same({ true, 1, true, n = 3 }, drop())
    assert.same({ true, 2, false, n = 3 }, table.pack(sink:put("b", { id = "1", delay = 3600000 }))) -- the id is over
    assert.same({ true, 2, true, n = 3 }, drop()) -- the last one that waits
    assert.is_true(stream:cancel "1")
    assert.same({ true, 3, false, n = 3 }, drop())
    assert.same({ 1, 9 }, { stream:stats().messages, stream:stats().bytes })
  end)

  it("again after it was handed back is the one whose number a dropped put returns", with_store(function(store)
    local stream, sink = assert(store:stream "jobs"), assert(store:sink "jobs")
    local function drop(...)
      assert.same({ n = 3, ... }, table.pack(sink:put("x", { id = "1", if_waiting = "drop" })))
    end
    local consumer = assert(consumers.open(store, "jobs", "s", { usual_pending = 10 }))
    drop(true, 1, false)
    local first = message_of(consumer:claim(1)[1], {})
    drop(true, 2, false)
    local second = message_of(consumer:claim(1)[1], {})
    assert.same({ 1, 2 }, { first.sequence, second.sequence })
    consumer:back(first, 1000000)
    patience.wait_for(function() return store.settling == 0 end)
    drop(true, 1, true)
    assert.is_true(stream:cancel "1") -- so the id is free
    drop(true, 3, false)
    assert.is_true(stream:cancel "1")
    consumer:back(second, 1000000)
    patience.wait_for(function() return store.settling == 0 end)
    drop(true, 2, true)
    assert.same({ true, 4, false, n = 3 }, table.pack(sink:put("y", { id = "1" })))
  end))

  in_world("comes once after the last of many puts that replace it, and with the first value if they are dropped",
    function()
      local store <close> = stores.open(os.tmpname(), { synchronous = "off" })
      local stream = assert(store:stream("jobs", { retention = "workqueue" }))
      local sink, got, began = assert(store:sink "jobs"), rn.chan(10), nil
      local delay = math.max(1500, math.ceil(500 * patience.factor())) -- ms, in which the puts come
      local stage = assert(store:stage("jobs", 4, function(value, m)
        got:put { value, m.deliveries, rn.now() - began }
      end, nil, { name = "s" }))
      for _, what in ipairs { "replace", "drop" } do
        began = rn.now()
        for i = 1, 4 do
          local stored, _, is_dropped = sink:put(i, { id = "user 7", delay = delay, if_waiting = what })
          assert.same({ true, what == "drop" and i > 1 }, { stored, is_dropped })
          if i < 4 then rn.sleep(30) end
        end
        local value, deliveries, ms = table.unpack(got:take())
        assert.same({ what == "drop" and 1 or 4, 1 }, { value, deliveries })
        assert.is_true(ms >= (what == "drop" and delay - 1 or delay + 89), ms)
        -- Once it is done, a put is stored again, although its id is known.
        patience.wait_for(function() return stream:stats().messages == 0 end)
      end
      stage:drain()
      assert.is_nil((got:poll()))
    end)

  in_world("for a stage is given back for a time that the function says, which is no failure", function()
    local store <close> = stores.open(os.tmpname(), { synchronous = "off" })
    assert(store:stream("jobs", { retention = "workqueue" }))
    local reported, times, over = {}, {}, rn.chan(1)
    rn.on_error(function(err) reported[#reported + 1] = tostring(err) end)
    local stage = assert(store:stage("jobs", 1, function(_, m)
      times[#times + 1] = rn.now()
      if #times < 4 then stores.hand_back(#times == 3 and "not yet" or nil, { after = 50 }) end
      over:put(m.deliveries)
    end, nil, { name = "s", tries = 1, starts = 1 }))
    assert(store:sink "jobs"):put(1)
    assert.equal(4, over:take())
    for i = 2, 4 do assert.is_true(times[i] - times[i - 1] >= 49) end
    assert.equal(0, stage:stats().failed)
    stage:drain()
    rn.on_error(nil)
    assert.same({ "stage s: a message was handed back: not yet" }, reported)
  end)

  in_world("starts when a pause of its queue ends, or before if that is resumed", function()
    local store <close> = stores.open(os.tmpname(), { synchronous = "off" })
    assert(store:stream("jobs", { retention = "workqueue" }))
    local sink, got = assert(store:sink "jobs"), rn.chan(1)
    local stage = assert(store:stage("jobs", 1, function(v) got:put { v, rn.now() } end, nil, { name = "s" }))
    local queue = assert(store:queue "jobs/s")
    assert.equal(1, queue:pause { lasts = 3600000 })
    assert(sink:put(1))
    local seen = assert(store:queue "jobs/s")
    assert.is_true(seen.paused)
    assert.equal(queue.resumes, seen.resumes)
    local began = rn.now()
    assert.equal(1, queue:pause { lasts = 300 }) -- in place of the first one
    local value, at = table.unpack(got:take())
    assert.equal(1, value)
    assert.is_true(at - began >= 299, at - began)
    seen = assert(store:queue "jobs/s")
    assert.same({ false, nil }, { seen.paused, seen.resumes })
    assert(queue:pause { lasts = 3600000 })
    assert(sink:put(2))
    assert(queue:resume())
    assert.equal(2, got:take()[1])
    assert(queue:pause(10)) -- without an end
    assert.is_nil(assert(store:queue "jobs/s").resumes)
    stage:stop()
    raises("pause: lasts: a number of milliseconds, at least 1, expected, got 0", function()
      queue:pause { lasts = 0 }
    end)
  end)

  -- ---- a model ----

  local SUBJECTS <const> = { "x.1", "y" }
  local PATTERNS <const> = { false, "x.>" }

  -- A put that is dropped changes nothing. So an id is known only if a message with it was stored, and no later one
  -- with it was cancelled: `known` has the number of that message.

  -- What a message is for a consumer: nil before it is delivered; "waits" again; "done"; a message, which it holds.
  local function waits(message)
    for _, state in pairs(message.of) do
      if state ~= "waits" then return false end
    end
    return true
  end

  local function find(messages, id)
    local found, others = {}, false
    for _, one in ipairs(messages) do
      if one.id == id and waits(one) then found[#found + 1] = one else others = others or one.id == id end
    end
    return found, others
  end

  local function remove(messages, which)
    for i = #messages, 1, -1 do
      if messages[i] == which then table.remove(messages, i) end
    end
  end

  it("is the one that a model says, whatever consumers have done with it #ci", with_store(function(store)
    for seed = 1, long.times(20, 500) do
      local random, name = generator(seed), "s" .. seed
      local stream = assert(store:stream(name, { subjects = SUBJECTS, duplicates = 1000000 }))
      local sink, messages, list, known, last = assert(store:sink(name)), {}, {}, {}, 0
      for i = 1, random(3) - 1 do
        list[i] = assert(consumers.open(store, name, "c" .. i, { subject = PATTERNS[i] or nil, usual_pending = 1000 }))
      end
      local function expect(wanted, found, what)
        if wanted ~= found then
          error(("seed %d, %s: %s, not %s"):format(seed, what, tostring(found), tostring(wanted)))
        end
      end
      for step = 1, 100 do
        local id, what = "id" .. random(5), random(9)
        local found = find(messages, id)
        if what <= 3 then
          local mode = ({ false, "replace", "drop" })[what]
          local opts = { id = id, subject = SUBJECTS[random(2)], if_waiting = mode or nil, priority = random(3) - 1 }
          if random(4) == 1 then opts.delay = 1000000 end
          local stored, sequence, is_duplicate = sink:put(step, opts)
          local drops = not mode and known[id] ~= nil or mode == "drop" and found[1] ~= nil
          expect(true, stored, "stored")
          expect(drops, is_duplicate, "duplicate of " .. tostring(mode))
          if drops then expect(mode and found[#found].seq or known[id], sequence, "sequence of the one before") end
          if mode == "replace" then
            for _, one in ipairs(found) do remove(messages, one) end
          end
          if not drops then
            last = last + 1
            expect(last, sequence, "sequence")
            messages[#messages + 1] = { id = id, seq = sequence, value = step, of = {} }
            known[id] = sequence
          end
        elseif what == 4 then
          expect(found[1] and true or nil, (stream:cancel(id)), "cancelled")
          for _, one in ipairs(found) do remove(messages, one) end
          if found[1] then known[id] = nil end
        elseif what == 5 then
          expect(found[1] and true or nil, (stream:replace(id, -step)), "replaced")
          if found[1] then found[#found].value = -step end
        elseif what == 6 and list[1] then
          local consumer = list[random(#list)]
          for _, row in ipairs(consumer:claim(1)) do
            local one
            for _, message in ipairs(messages) do one = message.seq == row.seq and message or one end
            expect(one and tostring(one.value), row.value, "value")
            one.of[consumer] = message_of(row, {})
          end
        elseif list[1] then
          local consumer = list[random(#list)]
          for _, one in ipairs(messages) do
            local held = one.of[consumer]
            if type(held) == "table" then
              if what == 7 then
                consumer:finish(held)
                one.of[consumer] = "done"
              elseif what == 8 then
                consumer:lease(held)
              else
                consumer:back(held, random(2) == 1 and 1000000 or nil)
                one.of[consumer] = "waits"
              end
              patience.wait_for(function() return store.settling == 0 end)
              break
            end
          end
        end
        expect(#messages, stream:stats().messages, "messages")
        local bytes = 0
        for _, one in ipairs(messages) do bytes = bytes + #tostring(one.value) end
        expect(bytes, stream:stats().bytes, "bytes")
      end
    end
  end))
end)
