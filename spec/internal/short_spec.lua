-- Values, times and lists as short texts.

local rn = require "runnel"
local short = require "runnel.internal.short"

describe("short texts", function()
  it("write a time in the unit that suits it, rounded", function()
    for ms, text in pairs {
      [-5] = "0 ms", [0] = "0 ms", [0.4] = "0 ms", [249.6] = "250 ms", [999.4] = "999 ms", [999.6] = "1.0 s",
      [3249] = "3.2 s", [59949] = "59.9 s", [59999] = "1 min 0 s", [303000] = "5 min 3 s", [3599999] = "1 h 0 min",
      [7500000] = "2 h 5 min", [273600000] = "3 d 4 h",
    } do
      assert.equal(text, short.duration(ms))
    end
  end)

  it("write the first texts of a list, and how many more there are", function()
    assert.equal("", short.list({}, 2))
    assert.equal("a, b", short.list({ "a", "b" }, 2))
    assert.equal("a, b and 1 more", short.list({ "a", "b", "c" }, 2))
    assert.equal("a and 8 more", short.list({ "a" }, 2, 9))
    assert.equal("", short.lines({}, 2))
    assert.equal("\n  a\n  b\n  and 1 more", short.lines({ "a", "b", "c" }, 2))
  end)

  it("write a value in one line, without cutting a character", function()
    assert.equal([["a\nb"]], short.value "a\nb")
    assert.equal('"äöü"', short.value "äöü")
    assert.equal('"ä...', short.value("äöü", 4))
    assert.equal("{ 1, table (1 entry), \"k\" = true }", short.value { 1, { 2 }, k = true })
  end)

  it("write an object as its own __tostring does", function()
    local ch = rn.chan():name "jobs"
    assert.equal(tostring(ch), short.value(ch))
    assert.equal(("{ %s }"):format(ch), short.value { ch })
    assert.equal("a letter", short.value(setmetatable({ 1 }, { __tostring = function() return "a\nletter" end })))
    assert.equal("(error in __tostring)", short.value(setmetatable({}, { __tostring = error })))
  end)
end)
