-- The table of bugs with names in docs/testing.md has those of spec/sim/planted.

local function contents(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

describe("docs/testing.md", function()
  local page = contents "docs/testing.md"

  for name in page:gmatch "%(%.%./spec/sim/planted/(%l+)_spec%.lua%)" do
    it("lists the bugs with names of spec/sim/planted/" .. name .. "_spec.lua, in their order", function()
      local names = {}
      for bug in contents("spec/sim/planted/" .. name .. "_spec.lua"):gmatch '\n  planted%("([^"]+)"' do
        names[#names + 1] = bug
      end
      assert.is_true(#names >= 6)
      local pattern = "| %[" .. name .. "%]%([^)]*%) | ([^\n]*) |"
      assert.equal(table.concat(names, "; "), page:match(pattern))
    end)
  end
end)
