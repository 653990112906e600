---Claims of the documents that no snippet there shows: a spec checks each, and that the documents still make it.

local pages = require "spec.support.docs.pages"

local documents

-- The text of README.md, docs/ and docs/manual/, with a space in place of each newline or other white space.
local function text()
  if documents then return documents end
  local list = { pages.read "README.md" }
  for _, dir in ipairs { "docs", "docs/manual" } do
    for _, path in ipairs(pages.of(dir)) do list[#list + 1] = pages.read(path) end
  end
  documents = table.concat(list, " "):gsub("%s+", " ")
  return documents
end

---Makes the function by which a spec file declares its claims.
---@param it fun(name: string, body: function) busted's, or pending if something is missing
---@param reason? string what is missing, as "luv is not installed"
---@return fun(words: string, check: function, tags?: string) claim fails unless a document says `words` and `check`
---passes; `tags` are tags of its spec
return function(it, reason)
  return function(words, check, tags)
    it(words .. (reason and ": " .. reason or "") .. (tags and " " .. tags or ""), function()
      assert(text():find(words, 1, true), "no document says this any more")
      check()
    end)
  end
end
