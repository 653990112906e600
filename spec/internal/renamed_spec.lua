-- What the errors say about names that were changed before 1.0. The file goes with runnel.internal.renamed.

local rn = require "runnel"
local renamed = require "runnel.internal.renamed"

-- The error of a call, which is raised at this line.
local function error_of(f, ...)
  local _, problem = pcall(function(...) local _ = f(...) end, ...)
  return (tostring(problem):gsub("^%S+renamed_spec.lua:%d+: ", "HERE: "))
end

describe("an old name", function()
  it("of a field of ch:stats() says the new one, at the caller's line", function()
    for old, new in pairs { puts = "puts_waiting", takes = "takes_waiting", count = "values" } do
      local stats = rn.chan():stats()
      assert.equal(("HERE: ch:stats().%s is called ch:stats().%s now"):format(old, new),
        error_of(function() local _ = stats[old] end))
      assert.equal(0, stats[new])
    end
    assert.is_nil(rn.chan():stats().nothing)
  end)

  it("does not keep ch:stats() from being sent to another state", function()
    local ch = rn.shared_chan(1)
    ch:put(rn.chan(3):stats())
    assert.equal(3, ch:take().capacity)
    assert.error_matches(function() ch:put(setmetatable({}, {})) end, "a table with a metatable cannot be sent")
  end)

  it("of a channel's row in rn.metrics says the new one", function()
    rn.metrics()
    local jobs = rn.chan(2):name "renamed jobs"
    jobs:put(1)
    local row = rn.metrics().channels["renamed jobs"]
    assert.same({ 1, 0, 0 }, { row.put_total, row.take_total, row.puts_waiting })
    assert.equal("HERE: channels[name].puts is called channels[name].put_total now",
      error_of(function() local _ = row.puts end))
    rn.metrics(false)
  end)

  it("of an option is told only where a new one is known", function()
    assert.equal("backoff", renamed.option("retry", { backoff = true }))
    assert.is_nil(renamed.option("retry", { timeout = true }))
    assert.is_nil(renamed.option("size", { timeout = true }))
    assert.is_nil(renamed.option(1, { timeout = true }))
  end)

  it("of a method says the new one, at the caller's line", function()
    local class = {}
    renamed.methods(class, "f", { ping = "stats" })
    assert.equal("HERE: f:ping is called f:stats now", error_of(function() local _ = class.ping() end))
  end)
end)
