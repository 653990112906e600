-- Finished messages that a work queue still has: which of them are removed. The server is a script.
local json = require "runnel.json"
local rn = require "runnel"
local sim = require "runnel.sim"
local tidying = require "runnel.nats.internal.tidying"

-- Runs it against a server whose consumer says one of `infos` after the other, and whose stream has the messages
-- `sequences`. Returns the requests that change something, and the messages that are left. The server does not answer
-- the first `silent` of them.
local function run(infos, sequences, silent)
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
      local state = { first_seq = sequences[1] or 81, messages = #sequences }
      return { data = assert(json.encode { config = { retention = "workqueue" }, state = state }) }
    elseif subject == "$JS.API.STREAM.MSG.GET.s" then
      local _, sequence = find(body.seq)
      local answer = sequence and { message = { seq = sequence } }
        or { error = { code = 404, err_code = 10037, description = "no message found" } }
      return { data = assert(json.encode(answer)) }
    end
    requests[#requests + 1] = ("%s %d"):format(subject, body.seq)
    if #requests <= (silent or 0) then return nil, "the server is busy" end
    table.remove(sequences, (find(body.seq)))
    return { data = '{"success":true}' }
  end
  sim.run(function()
    local go = rn.go(tidying.run, conn, "s", "c", function() return n == #infos end)
    local _, err = go:take()
    assert(not err, err)
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

  it("stay as they are if there are none", function()
    assert.same({ {}, { 81, 90 } }, { run({ info(80, 0, 0), info(80, 0, 0) }, { 81, 90 }) })
  end)
end)
