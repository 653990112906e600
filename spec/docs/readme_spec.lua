-- The README's code runs and prints what it says, and it names only what exists.

local rn = require "runnel"
local sim = require "runnel.sim"
local pages = require "spec.support.docs.pages"
local snippets = require "spec.support.docs.snippets"

local README = "README.md"

describe("README.md", function()
  local list = snippets.of(README)

  it("has code", function() assert.is_true(#list >= 8) end)

  for _, snippet in ipairs(list) do
    it("runs: " .. snippet.name, function() assert.same(snippet.expected, snippets.run(snippet)) end)
  end

  it("has at most 220 lines", function()
    local _, count = pages.read(README):gsub("\n", "")
    assert.is_true(count <= 220, count .. " lines")
  end)

  it("names only functions that exist", function()
    local text = pages.read(README)
    for name in text:gmatch "%f[%w]rn%.([%l_]+)" do assert.is_not_nil(rn[name], "rn." .. name) end
    for name in text:gmatch "%f[%w]sim%.([%l_]+)" do assert.is_not_nil(sim[name], "sim." .. name) end
    for name in text:gmatch "%f[%w]ch:([%l_]+)" do assert.is_function(rn.chan()[name], "ch:" .. name) end
  end)

  it("names only commands that make has", function()
    local makefile = pages.read "Makefile" .. pages.read "bench/bench.mk" .. pages.read "site/site.mk"
    for text in (pages.read(README) .. pages.read "docs/install.md"):gmatch "%f[%w]make (%l+)%f[`%s]" do
      assert.is_truthy(makefile:find("\n" .. text .. ":", 1, true), "make " .. text)
    end
  end)

  it("links only to files that exist", function() assert.same({}, pages.broken_links(README)) end)
end)
