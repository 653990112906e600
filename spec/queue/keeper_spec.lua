-- What every keeper of messages promises (docs/manual/keepers.md): a stream of JetStream, a queue in a store, one in
-- memory; and one of your own:
--
--     make test SPEC=spec/queue/keeper_spec.lua KEEPER=my.module
local patience = require "spec.support.patience"
local rn = require "runnel"

-- What each module needs is on the page.
local KEEPERS = {
  ["in memory"] = "spec.support.queue.memory_place", ["in a stream of JetStream"] = "spec.support.queue.nats_keeper",
  ["in a store"] = "spec.support.queue.store_keeper",
}
local own = os.getenv "KEEPER"
if own then KEEPERS = { ["of " .. own] = own } end

-- ---- a process with a keeper ----

-- Has the messages that come, up to `room`.
local function process(queue, room)
  local self = { keeper = queue.keeper(), messages = {}, answered = 0, room = room or 100 }
  assert(self.keeper:open {
    n = room or 100,
    room = function() return self.room - #self.messages end,
    take = function(message)
      if self.is_closed then return self.keeper:back(message) end
      self.messages[#self.messages + 1] = message
    end,
    answered = function() self.answered = self.answered + 1 end,
    silent = function() end, over = function() end,
  })
  self.keeper:fetch()
  function self.wait(n)
    assert.is_truthy(patience.wait_until(function() return #self.messages >= n end), #self.messages)
    return self.messages[n]
  end
  return self
end

local wait_for = patience.wait_for

for name, module in pairs(KEEPERS) do
  local place = require(module)

  local function with(f)
    return function()
      if place.missing then return pending(place.missing) end
      place.with(f)
    end
  end

  describe("a keeper of messages " .. name, function()
    it("delivers each message once, in order, and no more than there is room for", with(function(queue)
      for i = 1, 5 do assert.is_true(queue.append("v" .. i, { headers = { Kind = "k" .. i } })) end
      local one = process(queue, 3)
      one.wait(3)
      rn.sleep(50)
      assert.equal(3, #one.messages)
      assert.same({ waiting = 2, running = 3 }, queue.count())
      for i, message in ipairs(one.messages) do
        assert.same({ "v" .. i, "k" .. i, "first", 1 },
          { message.value, message.headers.Kind, message.again, message.deliveries })
        assert.is_true(math.abs(message.time - os.time() * 1000) < 60000)
      end
      one.room = 5
      one.keeper:fetch()
      one.wait(5)
      for _, message in ipairs(one.messages) do assert.is_true(one.keeper:done(message)) end
      wait_for(function() return queue.count().running == 0 end)
      assert.equal(5, one.answered)
    end))

    it("stores one message with an id", with(function(queue)
      assert.same({ true, false }, { queue.append("a", { id = "x" }) })
      assert.same({ true, true }, { queue.append("b", { id = "x" }) })
      assert.is_true(queue.append("c", { id = "y" }))
      local one = process(queue)
      one.wait(2)
      assert.same({ "a", "c" }, { one.messages[1].value, one.messages[2].value })
      one.keeper:close()
    end))

    it("leaves a message with the process that has it, however long that takes", with(function(queue)
      queue.append "v"
      local one = process(queue)
      one.wait(1)
      local other = process(queue)
      rn.sleep(2 * queue.lease)
      assert.same({ 1, 0 }, { #one.messages, #other.messages })
      one.keeper:done(one.messages[1])
      wait_for(function() return queue.count().running == 0 end)
      assert.equal(0, #other.messages)
    end))

    it("delivers a message of a process that has ended to another one, not as if for the first time", with(
      function(queue)
        queue.append "v"
        local one = process(queue)
        one.wait(1)
        queue.kill(one.keeper)
        local other = process(queue)
        local message = other.wait(1)
        assert.same({ "v", true }, { message.value, message.again ~= "first" })
        assert.is_true(other.keeper:done(message))
        wait_for(function() return queue.count().running == 0 end)
      end))

    it("delivers what is given back again, at once or later; what was answered stays answered", with(function(queue)
      queue.append "v"
      local one = process(queue)
      one.keeper:back(one.wait(1))
      local second = one.wait(2)
      assert.is_true(second.again ~= "first")
      local before = rn.now()
      one.keeper:back(second, 200)
      local third = one.wait(3)
      assert.is_true(rn.now() - before >= 150, rn.now() - before)
      one.keeper:drop(third)
      one.keeper:back(third)
      wait_for(function() return queue.count().running == 0 end)
      rn.sleep(50)
      assert.same({ 3, 3, 0 }, { #one.messages, one.answered, queue.count().waiting })
    end))

    it("stores results once, also if their process ended after some of them", with(function(queue)
      queue.append "v"
      local one = process(queue)
      local id = one.keeper:id(one.wait(1))
      -- It has stored the first one, and ends. A keeper that stores all of them in one step stores none.
      if not queue.is_atomic then assert.is_true(queue.append("r1", { id = id .. ".1", results = true })) end
      queue.kill(one.keeper)
      local other = process(queue)
      local message = other.wait(1)
      assert.equal(id, other.keeper:id(message))
      local results = { { id = id .. ".1", value = "r1" }, { id = id .. ".2", value = "r2" } }
      assert.same({ true, queue.is_atomic and 0 or 1 }, { other.keeper:done(message, results) })
      assert.equal(2, queue.results())
      assert.is_true(other.keeper:done(message, { table.unpack(results) }))
      assert.equal(2, queue.results())
      wait_for(function() return queue.count().running == 0 end)
    end))

    it("stores the results once of a message that is given back while its `done` is cancelled", with(function(queue)
      for _, wait in ipairs { 0, 0.2, 1 } do -- ms
        local before = queue.results()
        queue.append "v"
        local one = process(queue)
        local function done(message)
          return one.keeper:done(message, { { id = one.keeper:id(message) .. ".1", value = "r" } })
        end
        local message = one.wait(1)
        local block = rn.go(done, message)
        rn.sleep(wait)
        rn.cancel(block, "the stage stops")
        one.keeper:back(message)
        one.keeper:back(message)
        local function is_ended()
          local count = queue.count()
          return count.waiting == 0 and count.running == 0
        end
        wait_for(function() return one.messages[2] or is_ended() end)
        if one.messages[2] then assert.is_true(done(one.messages[2])) end
        wait_for(is_ended)
        assert.same({ before + 1, #one.messages }, { queue.results(), one.answered })
        one.is_closed = true
        one.keeper:close()
      end
    end))

    it("keeps the count of starts with a message", with(function(queue)
      queue.append "v"
      local one = process(queue)
      local message = one.wait(1)
      assert.is_nil(one.keeper:starts(message))
      assert.is_true(one.keeper:set_starts(message, { starts = 1, raises = 0 }))
      assert.is_true(one.keeper:set_starts(message, { starts = 1, raises = 1, error = "no",
        errors = { { start = 1, time = 1, error = "no" } } }))
      queue.kill(one.keeper)
      local other = process(queue)
      local again = other.wait(1)
      local count, err = other.keeper:starts(again)
      assert.same({ { starts = 1, raises = 1, error = "no", errors = { { start = 1, time = 1, error = "no" } } } },
        { count, err })
      assert.is_true(other.keeper:set_starts(again, { starts = 2, raises = 1 }))
      other.keeper:note_starts(again, { starts = 3, raises = 1 })
      wait_for(function()
        local now = other.keeper:starts(again)
        return now and now.starts == 3
      end)
      other.keeper:done(again)
      other.keeper:forget_starts(again)
      assert.is_nil(other.keeper:starts(again))
    end))

    it("refuses a count of starts that follows an older one", with(function(queue)
      queue.append "v"
      local one = process(queue)
      local message = one.wait(1)
      assert.is_nil(one.keeper:starts(message))
      local other = process(queue)
      local copy = setmetatable({}, { __index = message })
      assert.is_nil(other.keeper:starts(copy))
      assert.is_true(one.keeper:set_starts(message, { starts = 1, raises = 0 }))
      local ok, _, has_changed = other.keeper:set_starts(copy, { starts = 1, raises = 0 })
      assert.same({ false, true }, { ok, has_changed })
      assert.equal(1, other.keeper:starts(copy).starts)
      assert.is_true(other.keeper:set_starts(copy, { starts = 2, raises = 0 }))
      one.keeper:done(message)
    end))

    it("delivers nothing after it was closed, and still answers what it has delivered", with(function(queue)
      queue.append "a"
      local one = process(queue)
      one.wait(1)
      one.is_closed = true
      one.keeper:close()
      queue.append "b"
      local other = process(queue)
      assert.equal("b", other.wait(1).value)
      assert.equal(1, #one.messages)
      one.keeper:back(one.messages[1])
      assert.equal("a", other.wait(2).value)
      for _, message in ipairs(other.messages) do other.keeper:done(message) end
      wait_for(function() return queue.count().running == 0 end)
    end))

    it("stores one dead letter with an id", with(function(queue)
      queue.append "v"
      local one = process(queue)
      local message = one.wait(1)
      for _ = 1, 2 do
        assert.is_true(one.keeper:bury {
          kind = "message", name = "spec", data = message.data, encoding = message.form,
          id = one.keeper:id(message), error = "no", starts = 1, raises = 1,
          since = message.time, subject = "queue", position = message.sequence,
        })
      end
      assert.equal(1, queue.letters())
      one.keeper:drop(message)
    end))
  end)
end
