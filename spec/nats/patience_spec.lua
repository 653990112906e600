-- lua/runnel/nats/internal/patience.lua

local patience = require "runnel.nats.internal.patience"

describe("the patience of runnel.nats", function()
  after_each(function() patience.scale(1) end)

  it("is shortened for specs where something is only waited for, and not where something is given up", function()
    local usual = {}
    for name, ms in pairs(patience) do usual[name] = ms end
    patience.scale(0.1)
    assert.equal(500, patience.jobs_idle)
    assert.equal(75, patience.job_again)
    assert.equal(20000, patience.answer)
    for name, ms in pairs(patience) do
      if name ~= "scale" then assert.is_true(math.type(ms) == "integer" and ms > 0 and ms <= usual[name], name) end
    end
    patience.scale(1)
    assert.same(usual, patience)
  end)

  it("is in this table alone #ci", function()
    local pipe <close> = assert(io.popen "find lua/runnel/nats lua/runnel/queue -name '*.lua' ! -name patience.lua")
    local n = 0
    for path in pipe:lines() do
      local file <close> = assert(io.open(path))
      local text = file:read "a"
      n = n + 1
      for _, call in ipairs { "sleep", "timeout" } do
        local found = text:match("[^\n]*" .. call .. "%(%d%d[^\n]*")
        assert.is_nil(found and path .. ": " .. found)
      end
    end
    assert.is_true(n > 30)
  end)
end)
