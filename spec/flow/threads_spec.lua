-- Stages in threads, and on other machines.

local rn = require "runnel"
local flow = require "runnel.flow"
local long = require "spec.support.long"

describe("a flow with a pool of threads as a stage", function()
  it("keeps each value and the order, with tries and errors", function()
    for round = 1, long.times(2, 50) do
      local pool <close> = rn.threads(2, function(n)
        if n % 7 == 0 then error("seven", 0) end
        return n * 2
      end)
      local values, got, bad, begun = {}, {}, {}, rn.chan()
      for i = 1, 400 do values[i] = i end
      local f = flow("job", {
        values = { from = values },
        double = { pool, n = 8, tries = 2, backoff = 0 },
        save = function(n)
          got[#got + 1] = n
          if #got == round then begun:close() end
        end,
        bad = function(e) bad[#bad + 1] = e.value end,
        "values > double > save",
        "double.error > bad",
      }):start()
      begun:take()
      f:pause "double"
      rn.sleep(1)
      f:workers("double", 3):resume "double"
      assert.is_true(f:wait())
      local expected, failing = {}, {}
      for i = 1, 400 do
        if i % 7 == 0 then failing[#failing + 1] = i else expected[#expected + 1] = i * 2 end
      end
      assert.same(expected, got)
      assert.same(failing, bad)
    end
  end)
end)
