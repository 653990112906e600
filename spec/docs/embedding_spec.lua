-- docs/embedding.md shows the signatures of the functions that it uses, as runnel.h has them.

local pages = require "spec.support.docs.pages"

-- The declarations of functions in a text of C, by the names of the functions.
local function declarations(text)
  local list = {}
  for declaration, name in text:gmatch "\n%s*(%l[%w_%s*]-(runnel_[%l_]+)%([^;{]-%);)" do
    if not declaration:find "^return" then list[name] = declaration:gsub("%s+", " ") end
  end
  return list
end

-- The code in C of a page.
local function code_of(page)
  local parts = {}
  for part in page:gmatch "\n```c\n(.-)```" do parts[#parts + 1] = part end
  return "\n" .. table.concat(parts, "\n")
end

describe("docs/embedding.md", function()
  local page = pages.read "docs/embedding.md"
  local header = declarations((pages.read "csrc/capi/runnel.h":gsub("RUNNEL_API ", "")))
  local shown = declarations(code_of(page))

  it("shows the signature of each function that it names, as in runnel.h", function()
    local count = 0
    for name in page:gmatch "%f[%w]runnel_[%l_]+" do
      -- C modules get this one, and the functions in a table.
      if header[name] and name ~= "runnel_get_functions" then
        assert.equal(header[name], shown[name], name)
        count = count + 1
      end
    end
    assert.is_true(count > 50)
  end)

  it("has an example of waiting in the manual that is a test", function()
    local example = pages.read "docs/manual/c-api.md":match "```c\n(runnel_chan %*answer.-)```"
    local tests = pages.read "tests/capi/waits.c":gsub("\n  ", "\n")
    assert.is_truthy(tests:find(example, 1, true))
  end)

  it("shows no other signatures", function()
    for name, declaration in pairs(shown) do assert.equal(header[name], declaration, name) end
  end)
end)
