-- The pages of a file of a simulated disk, beside a string that is copied whole.

local contents = require "runnel.sim.contents"
local generator = require "spec.support.generator"

describe("the contents of a file of a simulated disk", function()
  -- The string after a write.
  local function after(old, pos, data)
    return old:sub(1, pos) .. ("\0"):rep(pos - #old) .. data .. old:sub(pos + #data + 1)
  end

  local function resized(old, size) return old:sub(1, size) .. ("\0"):rep(size - #old) end

  it("are those of a string, whatever is written, cut, synced and copied #ci", function()
    for seed = 1, 60 do
      local random = generator(seed)
      local file, copy, text, synced = contents.new(), contents.new(), "", ""
      local places = {}
      for _ = 1, 40 do
        local pos = random(4) * (random(2) == 1 and 4096 or 3000) - random(3)
        local what = random(6)
        if what == 1 then
          local size = random(16000) - 1
          file:resize(size)
          text, places = resized(text, size), {}
          copy, synced = file:copy(), text
        elseif what == 2 then
          for _, place in ipairs(places) do copy:take(file, place[1], place[2]) end
          synced, places = text, {}
        elseif what == 3 then
          assert.equal(text:sub(pos + 1, pos + 5000), file:read(pos, 5000))
        else
          local data = string.char(96 + random(26)):rep(random(2) == 1 and 4096 or random(9000))
          file:write(pos, data)
          text = after(text, pos, data)
          places[#places + 1] = { pos, #data }
        end
        assert.equal(#text, file.size)
        assert.is_true(text == file:text(), seed)
        assert.is_true(synced == copy:text(), seed)
        assert.equal(text == synced, file:equals(copy))
        assert.equal(text == synced, copy:equals(file))
      end
    end
  end)

  it("are equal where one has zeros and the other one a hole", function()
    local a, b = contents.new(), contents.new()
    a:resize(10000)
    b:write(0, ("\0"):rep(10000))
    assert.is_true(a:equals(b))
    a:write(9999, "x")
    assert.is_false(a:equals(b))
  end)
end)
