-- Whether a delivery is the first, from the numbers of the stream and the consumer.

local firsts = require "runnel.nats.internal.firsts"

describe("deliveries", function()
  local function look(of, list)
    local answers = {}
    for i, pair in ipairs(list) do answers[i] = of:look(pair[1], pair[2]) end
    return answers
  end

  it("are the first in the order of the stream, also if messages were removed before", function()
    assert.same({ "first", "first", "first" }, look(firsts.new(), { { 1, 1 }, { 2, 2 }, { 9, 3 } }))
    -- What the server says about the consumer may lack some messages.
    assert.same({ "perhaps", "first" }, look(firsts.new { consumer_seq = 9 }, { { 6, 10 }, { 20, 14 } }))
  end)

  it("are not the first if the message or a later one was delivered before", function()
    assert.same({ "first", "again", "again", "first" }, look(firsts.new(), { { 3, 1 }, { 3, 2 }, { 2, 3 }, { 6, 4 } }))
  end)

  it("may be the first if there were more deliveries than messages, or the numbers begin anew", function()
    assert.same({ "first", "perhaps", "first" }, look(firsts.new(), { { 1, 1 }, { 2, 3 }, { 3, 4 } }))
    assert.same({ "first", "perhaps", "first" }, look(firsts.new(), { { 90, 5 }, { 1, 1 }, { 2, 2 } }))
  end)

  it("are known if the server says that nothing was delivered before", function()
    local of = firsts.new { consumer_seq = 95 }
    of:begin { consumer_seq = 0 }
    assert.same({ "first", "again" }, look(of, { { 1, 1 }, { 1, 2 } }))
  end)
end)
