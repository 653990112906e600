-- Finished messages that a work queue still has: which of them are removed. The server is a script.
local json = require "runnel.json"
local rn = require "runnel"
local sim = require "runnel.sim"
local tidying = require "runnel.nats.internal.tidying"

-- Runs it against a server whose consumer says one of `infos` after the other, and whose stream has the messages
-- `sequences`. Returns the requests that change something, and the messages that are left. The server does not answer
-- the first `silent` of them. `more`: the stream's `last` number; from which message on, `late`, they were stored after
-- the last one that was delivered; and `skipped`: whether the consumer has to be made anew.
local function run(infos, sequences, silent, more)
  local requests, n = {}, 0
  local conn = {}
  local function find(from)
    for i, sequence in ipairs(sequences) do
      if sequence >= from then return i, sequence end
    end
  end
  function conn.request(_, subject, body)
    body = body ~= "" and type(body) == "string" and json.decode(body) or body
    if subject == "$JS.API.CONSUMER.INFO.s.c" then
      n = n + 1
      local info = assert(infos[n], "it looks too often")
      info.delivered, info.config = info.delivered or { stream_seq = 80 }, {}
      return { data = assert(json.encode(info)) }
    elseif subject == "$JS.API.STREAM.INFO.s" then
      local state = { first_seq = sequences[1] or 81, last_seq = more and more.last or 90, messages = #sequences }
      return { data = assert(json.encode { config = { retention = "workqueue" }, state = state }) }
    elseif subject == "$JS.API.STREAM.MSG.GET.s" then
      local _, sequence = find(body.seq)
      local is_late = more and more.late and sequence and sequence >= more.late
      local time = is_late and "2026-11-28T18:44:25.839841772Z" or "2026-11-28T18:44:25.839839772Z"
      local answer = sequence and { message = { seq = sequence, time = time } }
        or { error = { code = 404, err_code = 10037, description = "no message found" } }
      return { data = assert(json.encode(answer)) }
    end
    requests[#requests + 1] = ("%s %d"):format(subject, body.seq)
    if #requests <= (silent or 0) then return nil, "the server is busy" end
    table.remove(sequences, (find(body.seq)))
    return { data = '{"success":true}' }
  end
  sim.run(function()
    local go = rn.go(tidying.run, conn, "s", "c", function() return n == #infos end, 1795891465839839772 / 1e6)
    local skipped, err = go:take()
    assert(not err, err)
    assert.equal(more and more.skipped or false, skipped ~= nil)
  end)
  return requests, sequences
end

local function info(floor, pending, redelivered)
  return { ack_floor = { stream_seq = floor }, num_ack_pending = pending, num_redelivered = redelivered }
end

describe("a work queue's finished messages", function()
  it("are removed one by one, since a purge makes servers forget what they have delivered", function()
    assert.same({
      { "$JS.API.STREAM.MSG.DELETE.s 40", "$JS.API.STREAM.MSG.DELETE.s 42", "$JS.API.STREAM.MSG.DELETE.s 80" },
      { 81, 90 },
    }, { run({ info(80, 0, 0), info(80, 0, 0) }, { 40, 42, 80, 81, 90 }) })
  end)

  it("stay while a message is not acknowledged: the floor may have passed it", function()
    assert.same({ {}, { 40, 42, 81 } }, { run({ info(70, 1, 0), info(80, 2, 0), info(80, 1, 0), info(80, 1, 0) },
      { 40, 42, 81 }) })
    assert.same({ 81 }, (select(2, run({ info(70, 3, 0), info(80, 0, 0), info(80, 0, 0) }, { 40, 42, 81 }))))
  end)

  it("stay while messages were delivered again, and were not acknowledged", function()
    assert.same({ 81 }, (select(2, run({
      info(70, 3, 2), info(80, 0, 1), info(80, 0, 0), info(80, 0, 0),
    }, { 40, 42, 81 }))))
  end)

  it("are removed at the next look if the server has not answered", function()
    assert.same({
      { "$JS.API.STREAM.MSG.DELETE.s 40", "$JS.API.STREAM.MSG.DELETE.s 40", "$JS.API.STREAM.MSG.DELETE.s 41" }, {},
    }, { run({ info(80, 0, 0), info(80, 0, 0), info(80, 0, 0) }, { 40, 41 }, 1) })
  end)

  it("may not be finished if the stream has lost the last numbers: they stay", function()
    for pending = 0, 1 do
      assert.same({ {}, { 40, 79 } },
        { run({ info(80, pending, 0) }, { 40, 79 }, 0, { last = 79, skipped = true }) })
    end
  end)

  it("are only those that are older than what was delivered before the connection was lost", function()
    assert.same({ { "$JS.API.STREAM.MSG.DELETE.s 40" }, { 42, 80, 81 } },
      { run({ info(80, 0, 0) }, { 40, 42, 80, 81 }, 0, { late = 42, skipped = true }) })
    assert.same({ {}, { 81 } }, { run({ info(80, 0, 0) }, { 81 }, 0, { late = 81 }) })
  end)

  it("stay as they are if there are none", function()
    assert.same({ {}, { 81, 90 } }, { run({ info(80, 0, 0), info(80, 0, 0) }, { 81, 90 }) })
  end)
end)
