local owners = require "runnel.queue.owners"

-- An owner of one queue.
local function owner(fields)
  fields.queues = function()
    if fields.why then return nil, fields.why end
    return { { name = fields.queue, waiting = 1, running = 0, redelivered = 0, given_up = 0, workers = {} } }
  end
  owners.add(fields)
  return fields
end

describe("runnel.queue.owners", function()
  local opened
  local function open(fields)
    opened[#opened + 1] = owner(fields)
    return opened[#opened]
  end
  before_each(function() opened = {} end)
  after_each(function()
    for _, one in ipairs(opened) do one.has_ended = true end
  end)

  it("has one owner for each server and each file, the newest, and each store in memory", function()
    local _, nats = open { url = "nats://a" }, open { url = "nats://a" }
    local _, jobs = open { path = "link.db", file = "/jobs.db" }, open { path = "jobs.db", file = "/jobs.db" }
    local first, second = open { path = ":memory:" }, open { path = ":memory:" }
    open { path = "old.db", file = "/old.db" }.has_ended = true
    assert.same({ nats, jobs, first, second }, owners.open())
  end)

  it("writes the queues of each below its name, if there are several, and why those of one are not known", function()
    local nats, store = open { url = "nats://a", queue = "resize" }, open { path = "jobs.db", why = "it is locked" }
    local one, both = owners.lines { nats }, owners.lines { nats, store }
    assert.matches("^queue", one[1])
    assert.equal("NATS at nats://a", both[1])
    assert.same(one, table.move(both, 2, #one + 1, 1, {}))
    assert.same({ "", "the store jobs.db", "it is locked" }, table.move(both, #one + 2, #both, 1, {}))
    local changed = owners.lines({ nats }, function(queues)
      queues[1].name = "hidden"
      return queues
    end)
    assert.matches("hidden", table.concat(changed))
  end)
end)
