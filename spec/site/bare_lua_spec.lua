-- Modules for the site and the C library are embedded without comments: that must change nothing else.

local bare = require "scripts.bare_lua"
local pages = require "spec.support.docs.pages"

local function files()
  local list, names = {}, assert(io.popen "find lua csrc/site scripts examples -name '*.lua'")
  for name in names:lines() do list[#list + 1] = name end
  names:close()
  return list
end

-- The same instructions and the same numbers of lines.
local function compiled(text) return string.dump(assert(load(text, "=file"))) end

describe("scripts.bare_lua", function()
  it("leaves the code and the lines of every file as they are #ci", function()
    local list, saved = files(), 0
    assert.is_true(#list > 100, #list)
    for _, name in ipairs(list) do
      local text = pages.read(name):gsub("^#[^\n]*", "")
      local rest = bare(text)
      assert.is_true(compiled(text) == compiled(rest), name)
      saved = saved + #text - #rest
    end
    assert.is_true(saved > 100000, saved)
  end)

  it("removes comments, and nothing that looks like one inside a string", function()
    local text = 'local a = "-- no \\" comment" --[[ a\n comment ]] local b = [==[ -- ]] ]==] -- end\nreturn a .. b --x'
    assert.equal('local a ="-- no \\" comment"\n local b =[==[ -- ]] ]==]\nreturn a .. b ', bare(text))
    assert.equal(load(text)(), load(bare(text))())
  end)
end)
