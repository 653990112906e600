-- The module itself, whose parts are loaded when they are first used.
local rn = require "runnel"
local stage = require "spec.support.stage"

local LATE = { "mix", "mult", "plumbing", "pmap", "priority_buffer", "pub", "scope", "xf" }

describe("runnel", function()
  it("loads what few programs need when it is first used", function()
    local output, status = stage.script [[
      local rn = require "runnel"
      local function loaded()
        local list = {}
        for name in pairs(package.loaded) do
          local part = name:match "^runnel%.(.*)"
          if part == "mix" or part == "scope" or part == "xf" then list[#list + 1] = part end
        end
        table.sort(list)
        return table.concat(list, " ")
      end
      print("at first: " .. loaded())
      assert(rn.nothing == nil)
      assert(rn.xf.map == require "runnel.xf".map)
      print("used: " .. loaded())
      local names = {}
      for name, value in pairs(rn) do
        assert(type(value) == "function" or name == "xf", name)
        names[name] = true
      end
      assert(names.scope and names.mix and names.chan and names.pipeline and names.exit and not names.runnel)
      print("listed: " .. loaded())
    ]]
    assert.equal("at first: \nused: xf\nlisted: mix scope xf\n", output)
    assert.equal(0, status)
  end)

  it("has all that these modules have", function()
    for _, name in ipairs(LATE) do
      local module = require("runnel." .. name)
      if name == "xf" then
        assert.equal(module, rn.xf)
      else
        for key, value in pairs(module) do assert.equal(value, rn[key], name .. "." .. key) end
      end
    end
  end)

  it("can be added to", function()
    local before = rn.mult
    rn.mult = print
    assert.equal(print, rn.mult)
    rn.mult = before
    rn.of_our_own = 1
    assert.equal(1, rn.of_our_own)
    rn.of_our_own = nil
    assert.is_nil(rn.of_our_own)
  end)
end)
