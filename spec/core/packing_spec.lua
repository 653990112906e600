-- Values as bytes and back, as modules that send them to other machines use it. tests/shared/pack.c tests the format.
local rn = require "runnel"
local internal = require("runnel.core").internal

describe("internal.pack and unpack", function()
  it("copy what can be sent", function()
    local values = {
      false, true, 0, -1, 1 << 62, 1.5, "", "text", "\xff\0", {}, { 1, 2, { "three" } },
      { a = { b = false }, [7] = "x" },
    }
    for _, value in ipairs(values) do
      local bytes = assert(internal.pack(value, "value"))
      assert.same(value, internal.unpack(bytes))
      assert.same(value, internal.unpack("ab" .. bytes .. "c", 3, 2 + #bytes))
    end
    assert.is_nil(internal.unpack(internal.pack(nil, "value")))
  end)

  it("say what cannot be sent, and where it is", function()
    local function message(value) return select(2, internal.pack(value, "value")) end
    assert.equal("value: a function cannot be sent", message(print))
    assert.equal("value.list[2]: a table with a metatable cannot be sent",
      message { list = { 1, setmetatable({}, {}) } })
    assert.equal("value[1]: a userdata cannot be sent", message { io.stdout })
    assert.equal("value.ch: a channel cannot be sent to another machine", message { ch = rn.chan() })
    assert.equal("value.ch: a channel cannot be sent to another machine", message { ch = rn.shared_chan() })
  end)

  it("say what is wrong with bytes", function()
    assert.same({ nil, "the packed value is cut short" }, { internal.unpack "" })
    assert.same({ nil, "the packed value is cut short" }, { internal.unpack(internal.pack("long", "value"), 1, 3) })
    assert.same({ nil, "the packed value is followed by other bytes" }, { internal.unpack "\1\2" })
    assert.has_error(function() internal.unpack("abc", 0) end)
    assert.has_error(function() internal.unpack("abc", 5) end)
    assert.has_error(function() internal.unpack("abc", 2, 4) end)
    assert.has_error(function() internal.unpack("abc", 3, 1) end)
  end)
end)
