-- Finished messages that a work queue still has: which of them are removed. The server is a script.
local json = require "runnel.json"
local rn = require "runnel"
local sim = require "runnel.sim"
local tidying = require "runnel.nats.internal.tidying"

-- Runs it against a server whose consumer says one of `infos` after the other, and whose stream has the messages from
-- `first` to `last`. Returns the requests that remove some. It does not answer the first `silent` of them.
local function removed(infos, first, last, silent)
  local requests, n = {}, 0
  local conn = {}
  function conn.request(_, subject, body)
    if subject == "$JS.API.CONSUMER.INFO.s.c" then
      n = n + 1
      local info = assert(infos[n], "it looks too often")
      info.delivered, info.config = { stream_seq = 80 }, {}
      return { data = assert(json.encode(info)) }
    elseif subject == "$JS.API.STREAM.INFO.s" then
      local state = { first_seq = first, last_seq = last, messages = last - first + 1 }
      return { data = assert(json.encode { config = { retention = "workqueue" }, state = state }) }
    end
    requests[#requests + 1] = ("%s %s"):format(subject, type(body) == "table" and json.encode(body) or body)
    if #requests <= (silent or 0) then return nil, "the server is busy" end
    return { data = "{}" }
  end
  sim.run(function()
    local run = rn.go(tidying.run, conn, "s", "c", function() return n == #infos end)
    run:take()
  end)
  return requests
end

describe("a work queue's finished messages", function()
  it("are removed up to the first that is not finished", function()
    assert.same({ '$JS.API.STREAM.PURGE.s {"seq":51}' }, removed({
      { ack_floor = { stream_seq = 50 }, num_ack_pending = 3, num_redelivered = 0 },
    }, 40, 90))
  end)

  it("stay while messages were delivered again: the floor may have passed some of these", function()
    assert.same({ '$JS.API.STREAM.PURGE.s {"seq":81}' }, removed({
      { ack_floor = { stream_seq = 70 }, num_ack_pending = 3, num_redelivered = 2 },
      { ack_floor = { stream_seq = 80 }, num_ack_pending = 0, num_redelivered = 1 },
      { ack_floor = { stream_seq = 80 }, num_ack_pending = 0, num_redelivered = 0 },
    }, 40, 90))
  end)

  it("are removed at the next look if the server has not answered", function()
    local purge = '$JS.API.STREAM.PURGE.s {"seq":81}'
    local info = { ack_floor = { stream_seq = 80 }, num_ack_pending = 0, num_redelivered = 0 }
    assert.same({ purge, purge }, removed({ info, info, info }, 40, 90, 1))
  end)

  it("stay as they are if there are none", function()
    assert.same({}, removed({ { ack_floor = { stream_seq = 39 }, num_ack_pending = 3, num_redelivered = 0 } }, 40, 90))
  end)
end)
