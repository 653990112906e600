-- How `runnel build` finds the modules that a source requires.

describe("the search for modules in a source", function()
  local scan = require("runnel.host.build_scan").scan

  local function names(source, sure)
    local list = {}
    for _, module in ipairs(scan(source).modules) do
      if sure == nil or module.sure == sure then list[#list + 1] = module.name end
    end
    return table.concat(list, " ")
  end

  it("finds calls of require, in every form of strings", function()
    assert.equal("a b c d e", names [==[#! require "x"
      require "a" require'b' local c = require("c").f(require [[d]]) m.require ( [=[
e]=] )]==])
  end)

  it("does not take comments and strings for code", function()
    assert.equal("a", names [==[-- require "x"
      --[[ require "x" ]] --[=[ require
      "x" ]] ]=] local s = "require 'x'" .. 'require \'x\' \\' local require_ = 1 -- require 'x'
      require "a"]==])
  end)

  it("finds names that pcall, threads and workers load", function()
    assert.equal("a b c d e", names([[pcall(require, "a") rn.thread "b" rn.threads(f("x"), "c", { n = 2 })
      conn:serve("d", 8, "e") thread("x" .. y)]], false))
    assert.equal("", names [[local threads = "x" f("x")]])
  end)

  it("tells in which lines a name is computed", function()
    local found = scan [[require(name)
      local r = require
      require("a" .. b)
      pcall(require, "a." .. b)
      function require(x) end]]
    assert.same({ 1, 3, 4 }, found.computed)
    assert.same({}, found.modules)
  end)

  it("ends where the source ends", function()
    for _, source in ipairs { "", "#", "--", "--[[", "[[", "'", "'\\", "require", "require(", "pcall(require,",
      "threads(" } do
      assert.same({}, scan(source).modules, source)
    end
  end)
end)
