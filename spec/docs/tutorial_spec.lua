-- The code in docs/*.md runs and prints what it says, and the links lead to files.

local pages = require "spec.support.docs.pages"
local snippets = require "spec.support.docs.snippets"

for _, path in ipairs(pages.of "docs") do
  local is_heavy = path:find "testing%-runs" -- it searches
  describe("the code in " .. path .. (is_heavy and " #heavy" or ""), function()
    for _, snippet in ipairs(snippets.of(path)) do
      local it = snippets.can_run(snippet) and it or pending
      it("prints what is said at " .. snippet.name, function()
        assert.are.same(snippet.expected, snippets.run(snippet))
      end)
    end

    it("is on a page that links only to files that exist", function() assert.same({}, pages.broken_links(path)) end)
  end)
end
