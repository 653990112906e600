-- Bugs with names: queues and retries. Each program has one fault, which a search finds; its twin has none.

local hosts = require "spec.support.host_programs"
local planting = require "spec.support.planted"
local rn = require "runnel"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local answer, ask, insist, read, write = hosts.answer, hosts.ask, hosts.insist, hosts.read, hosts.write

local VISIBLE <const> = 1000 -- ms: how long a message that was taken belongs to its worker

describe("bugs of queues and retries: a search finds #heavy", function()
  if not hosts.has_luv then return pending "luv is not installed" end
  before_each(uv_stage.open)
  after_each(uv_stage.close)
  local planted = planting(it)

  -- Adds the host of a queue, as SQS is: "take" gives "NUMBER TRY TEXT", and again after VISIBLE ms unless "ack NUMBER"
  -- or "extend NUMBER" comes before; "back NUMBER" hands it back at once.
  local function add_queue(world, texts)
    local messages = {}
    for i, text in ipairs(texts) do messages[i] = { text = text, free_at = 0, tries = 0 } end
    world:host("queue", function()
      answer(function(line)
        local what, number = line:match "(%a+) ?(%d*)"
        local message = messages[tonumber(number)]
        if what == "ack" then message.is_done = true end
        if what == "extend" then message.free_at = sim.elapsed() + VISIBLE end
        if what == "back" then message.free_at = 0 end
        if what ~= "take" then return "ok" end
        for i, one in ipairs(messages) do
          if not one.is_done and one.free_at <= sim.elapsed() then
            one.free_at, one.tries = sim.elapsed() + VISIBLE, one.tries + 1
            return ("%d %d %s"):format(i, one.tries, one.text)
          end
        end
        return "empty"
      end)
    end)
  end

  -- Takes messages for some seconds of the simulation, and calls f(number, text, try) for each.
  local function work(f)
    for _ = 1, 8 do
      local number, try, text = (ask("queue", "take", 5000) or ""):match "(%d+) (%d+) (.*)"
      if number then f(number, text, tonumber(try)) else rn.sleep(400) end
    end
  end

  -- At most once: the acknowledgement comes before the work, and a crash between them loses the job.
  planted("an acknowledgement before the work", "each job is done", function(acks_late, holds)
    local world, is_done = sim.world { faults = { crash = 1 } }, false
    add_queue(world, { "job" })
    world:host("worker", function()
      work(function(number)
        if not acks_late then ask("queue", "ack " .. number) end
        rn.sleep(10)
        is_done = write("/var/result", "done", { sync = true }) ~= nil
        if acks_late then ask("queue", "ack " .. number) end
      end)
    end, { restart = 100 })
    world:run()
    holds(is_done, "it is not")
  end)

  -- At least once: the crash comes after the work and before its acknowledgement, so it is done again. The service that
  -- has the effect must know a key of the job (an idempotency key).
  planted("a job without an idempotency key", "a customer is charged once", function(sends_key, holds)
    local world, charges, seen = sim.world { faults = { crash = 1 } }, 0, {}
    add_queue(world, { "5" })
    world:host("bank", function()
      answer(function(line)
        local key = line:match "key (%d+)"
        if not key or not seen[key] then charges = charges + 1 end
        if key then seen[key] = true end
        return "ok"
      end)
    end)
    world:host("worker", function()
      work(function(number, text)
        insist("bank", "charge " .. text .. (sends_key and " key " .. number or ""))
        ask("queue", "ack " .. number)
      end)
    end, { restart = 100 })
    world:run()
    holds(charges == 1, "%d times", charges)
  end)

  -- A visibility timeout that is shorter than the work: another worker gets the same job meanwhile.
  planted("work that takes longer than its lease", "a job has one worker", function(extends, holds)
    local world, busy = sim.world(), nil
    add_queue(world, { "job" })
    for i = 1, 2 do
      world:host("worker" .. i, function()
        work(function(number)
          holds(not busy, "worker%d gets it while worker%d has it", i, busy or 0)
          busy = i
          for _ = 1, 4 do
            rn.sleep(400)
            if extends then ask("queue", "extend " .. number) end
          end
          busy = nil
          ask("queue", "ack " .. number)
        end)
      end)
    end
    world:run()
  end)

  -- A poison message: it fails each time, is handed back, and comes again before all others.
  planted("a poison message", "a message that fails stops no other", function(has_limit, holds)
    local world, done = sim.world(), {}
    add_queue(world, { "bad", "good" })
    world:host("worker", function()
      work(function(number, text, try)
        local ok = pcall(function()
          if text == "bad" then error "cannot read it" end
          done[text] = true
        end)
        local is_dead_letter = has_limit and try == 3
        ask("queue", ((ok or is_dead_letter) and "ack " or "back ") .. number)
      end)
    end)
    world:run()
    holds(done.good, "the good one is not done")
  end)

  -- The dual write: an order is stored, and then an event is sent, or not, if a crash comes between. The outbox pattern
  -- stores what is to be sent together with the order, and sends it after a restart.
  planted("a dual write", "an order that is stored is announced", function(has_outbox, holds)
    local world, is_announced = sim.world { faults = { crash = 1 } }, false
    world:host("mail", function()
      answer(function()
        is_announced = true
        return "ok"
      end)
    end)
    local shop = world:host("shop", function()
      local function announce()
        insist("mail", "order 17")
        if has_outbox then write("/var/sent", "17", { sync = true }) end
      end
      if read "/var/order" ~= nil then
        if has_outbox and read "/var/order" == "17" and read "/var/sent" ~= "17" then announce() end
        return
      end
      if write("/var/order", "17", { sync = true }) then announce() end
    end, { restart = 100 })
    world:run()
    holds(shop:get "/var/order" ~= "17" or is_announced, "it is not")
  end)

  -- Competing consumers: two workers do the two jobs of one key at the same time, in any order.
  planted("jobs of one key in any order", "a file that was made and removed is gone", function(has_one_worker, holds)
    local world, exists = sim.world { faults = { delay = 1 }, delays = { 50 } }, false
    add_queue(world, { "make", "remove" })
    world:host("storage", function()
      answer(function(line)
        exists = line == "make"
        return "ok"
      end)
    end)
    for i = 1, has_one_worker and 1 or 2 do
      world:host("worker" .. i, function()
        work(function(number, text)
          insist("storage", text)
          ask("queue", "ack " .. number)
        end)
      end)
    end
    world:run()
    holds(not exists, "it is there")
  end)

  -- Committing the highest offset (Kafka): of two messages that are processed at the same time the second is done
  -- first. Its offset stands for both, and a crash loses the first.
  planted("an offset that is ahead of the work", "each message is processed", function(commits_in_order, holds)
    local world, done = sim.world { faults = { crash = 1 } }, {}
    world:host("storage", function()
      answer(function(line)
        done[tonumber(line)] = true
        return "ok"
      end)
    end)
    world:host("consumer", function()
      local offset, finished = tonumber(read "/var/offset" or "") or 0, {}
      local blocks = {}
      for i = offset + 1, 2 do
        blocks[#blocks + 1] = rn.go(function()
          rn.sleep(i == 1 and 30 or 10)
          insist("storage", tostring(i))
          finished[i] = true
          local next_offset = commits_in_order and offset or i
          while commits_in_order and finished[next_offset + 1] do next_offset = next_offset + 1 end
          if next_offset <= offset then return end
          offset = next_offset
          write("/var/new" .. i, tostring(offset), { sync = true })
          os.rename("/var/new" .. i, "/var/offset")
          write("/var/offset", "", { append = true, sync = true })
        end)
      end
      for _, block in ipairs(blocks) do block:take() end
    end, { restart = 100 })
    world:run()
    for i = 1, 2 do holds(done[i], "message %d is not", i) end
  end)

  -- Remembering a message before its work is done: after a crash, the second try is taken for a duplicate.
  planted("a duplicate that was not done", "each job is done", function(marks_late, holds)
    local world, is_done = sim.world { faults = { crash = 1 } }, false
    add_queue(world, { "job" })
    world:host("worker", function()
      work(function(number)
        local mark = "/var/seen" .. number
        if not read(mark) then
          if not marks_late then write(mark, "seen", { sync = true }) end
          is_done = insist("printer", "print") == "ok"
          if marks_late then write(mark, "seen", { sync = true }) end
        end
        ask("queue", "ack " .. number)
      end)
    end, { restart = 100 })
    world:host("printer", function() answer(function() return "ok" end) end)
    world:run()
    holds(is_done, "it is not")
  end)

  -- A pool that is used up by calls in a circle: the only place of `a` waits for `b`, which asks `a`.
  planted("calls in a circle through a pool of one", "a request is answered", function(has_second_pool, holds)
    local world = sim.world()
    world:host("a", function()
      local places = { outer = rn.chan(1), inner = rn.chan(1) }
      answer(function(line)
        local place = has_second_pool and line == "inner" and places.inner or places.outer
        place:put(true)
        local text = line == "inner" and "fine" or insist("b", "hello", 3000)
        place:take()
        return text
      end)
    end)
    world:host("b", function() answer(function() return ask("a", "inner", 10000) or "no answer of a" end) end)
    world:host("client", function()
      local text = ask("a", "outer", 20000)
      holds(text == "fine", "it is %s", text)
    end)
    world:run()
  end)
end)
