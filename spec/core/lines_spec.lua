-- rn.each_line.
local rn = require "runnel"

local function lines_of(text)
  local list = {}
  for line in rn.each_line(text) do list[#list + 1] = line end
  return list
end

describe("each_line", function()
  it("gives the lines of a string without their newlines, the last one too if it has none", function()
    for text, expected in pairs {
      [""] = {}, ["\n"] = { "" }, ["a"] = { "a" }, ["a\n"] = { "a" }, ["a\nb"] = { "a", "b" },
      ["\n\na\n\n"] = { "", "", "a", "" }, ["a\r\nb\0c\n"] = { "a", "b\0c" }, ["\r\n\r\n"] = { "", "" },
      ["a\rb\n\r\r\n"] = { "a\rb", "\r" }, ["a\nb\r"] = { "a", "b\r" }, [("x\n"):rep(3)] = { "x", "x", "x" },
    } do
      assert.same(expected, lines_of(text))
    end
  end)

  it("goes on giving nil at the end", function()
    local next_line = rn.each_line "a\nb"
    assert.same({ "a", "b", nil, nil, n = 4 }, table.pack(next_line(), next_line(), next_line(), (next_line())))
  end)

  it("may wait between two lines, and several may run at once", function()
    rn.run(function()
      local text, all = "1\n2\n3", {}
      local function collect()
        for line in rn.each_line(text) do
          all[#all + 1] = line
          rn.yield()
        end
      end
      local other = rn.go(collect)
      collect()
      other:take()
      table.sort(all)
      assert.same({ "1", "1", "2", "2", "3", "3" }, all)
    end)
  end)

  it("accepts only a string", function()
    for _, wrong in ipairs { {}, true, print } do
      assert.error_matches(function() rn.each_line(wrong) end, "each_line.*string expected")
    end
    assert.error_matches(function() rn.each_line() end, "each_line.*string expected")
  end)
end)
