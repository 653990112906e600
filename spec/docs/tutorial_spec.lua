local snippets = require "spec.support.snippets"

for _, path in ipairs { "docs/tutorial.md", "docs/from-core-async.md", "docs/from-go.md" } do
  describe("the code in " .. path, function()
    for _, snippet in ipairs(snippets.of(path)) do
      it("prints what is said at " .. snippet.name, function()
        assert.are.same(snippet.expected, snippets.run(snippet))
      end)
    end
  end)
end
