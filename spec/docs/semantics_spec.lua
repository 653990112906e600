local pages = require "spec.support.docs.pages"

describe("docs/semantics.md", function()
  it("is made from the rules in lite.lua (lua scripts/semantics.lua >docs/semantics.md)", function()
    local pipe <close> = assert(io.popen((os.getenv "LUA" or "lua5.4") .. " scripts/semantics.lua"))
    assert.equal(pipe:read "a", pages.read "docs/semantics.md")
  end)
end)
