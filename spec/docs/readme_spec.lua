-- The README's code runs and prints what it says, and its tables name only what there is.

local rn = require "runnel"
local sim = require "runnel.sim"
local snippets = require "spec.support.snippets"

local README = "README.md"

local function contents(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

describe("README.md", function()
  local list = snippets.of(README)

  it("has code", function() assert.is_true(#list >= 10) end)

  for _, snippet in ipairs(list) do
    it("runs: " .. snippet.name, function() assert.same(snippet.expected, snippets.run(snippet)) end)
  end

  -- The names behind a prefix, anywhere in the text, as a set.
  local function names(prefix)
    local set = {}
    for name in contents(README):gmatch("%f[%w]" .. prefix .. "([%l_]+)") do set[name] = true end
    return set
  end

  it("names only what there is", function()
    for name in pairs(names "rn%.") do assert.is_not_nil(rn[name], "rn." .. name) end
    for name in pairs(names "sim%.") do assert.is_not_nil(sim[name], "sim." .. name) end
    for name in pairs(names "ch:") do assert.is_function(rn.chan()[name], "ch:" .. name) end
  end)

  it("names all of the simulator and of a channel's methods", function()
    local simulator, methods = names "sim%.", names "ch:"
    for name in pairs(sim) do assert.is_true(simulator[name], "sim." .. name) end
    for name in pairs(require("runnel.core").methods) do assert.is_true(methods[name], "ch:" .. name) end
  end)

  it("says of the prompt's commands what the manual page says", function()
    local page = contents("docs/runnel.1"):gsub("\\", "")
    local commands = 0
    for name, text in contents(README):gmatch "\n| `(:%l+)[^`]*` | ([^\n]*) |" do
      local words = page:match("\n%.BI? " .. name .. "%f[^%l][^\n]*\n([^\n]*)\n")
      assert.equal(text:gsub("`", ""), words, name)
      commands = commands + 1
    end
    assert.is_true(commands >= 10)
  end)

  it("names the commands that make has", function()
    local makefile = contents "Makefile"
    for text in contents(README):gmatch "%f[%w]make (%l+)" do
      if text ~= "is" then assert.is_truthy(makefile:find("\n" .. text .. ":", 1, true), "make " .. text) end
    end
  end)

  it("links to files that exist", function()
    for target in contents(README):gmatch "%]%(([^)#]+)%)" do
      local file = io.open(target)
      assert.is_truthy(file, target)
      file:close()
    end
  end)
end)
