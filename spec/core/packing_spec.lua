-- Values as bytes and back, as modules that send them to other machines use it. tests/shared/pack.c tests the format.
local process = require "spec.support.process"
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

  it("takes each table once, however deep it is in lists that Lua does not keep in order", function()
    local dir <close> = process.directory()
    dir:write("deep.lua", [[
      local internal = require("runnel.core").internal
      local value = 1
      for _ = 1, 60 do
        local list = { value, a = 1, b = 1, c = 1 }
        list.a, list.b, list.c = nil, nil, nil
        list[2], list[3] = 2, 3 -- take the places of those: behind the first, and the third comes first
        value = list
      end
      local got = internal.unpack(assert(internal.pack(value, "value")))
      for _ = 1, 60 do
        assert(#got == 3 and got[2] == 2 and got[3] == 3)
        got = got[1]
      end
      print(got)
    ]])
    assert.same({ out = "1\n", err = "", status = 0 }, process.run(dir.path, process.runnel .. " deep.lua"))
  end)

  it("make no more of wrong bytes than these can have values, however they are nested", function()
    local bytes, size = {}, 10000
    for i = 1, 100 do bytes[i] = "\xdd" .. string.pack(">I4", size - 5 * i) end
    local wrong = table.concat(bytes) .. ("\1"):rep(size - 500)
    collectgarbage()
    collectgarbage "stop"
    local before = collectgarbage "count"
    local value, problem = internal.unpack(wrong)
    local grown = collectgarbage "count" - before
    collectgarbage "restart"
    assert.same({ nil, "the packed value is cut short" }, { value, problem })
    assert.is_true(grown < 1000, grown)
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
