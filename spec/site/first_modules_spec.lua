-- The page's first module has what every program needs (WASM_LUA_FIRST in site/site.mk). A module that is missing there
-- makes the page load all others before the first output.

local process = require "spec.support.process"

describe("the modules of Lua in the page's first module", function()
  it("are all that a program needs to begin, and to use channels, go blocks and sleeps #ci", function()
    local pipe <close> = assert(io.popen "make -s --no-print-directory --eval='first: ; @echo $(WASM_LUA_FIRST)' first")
    local list = pipe:read "a"
    local is_first, count = {}, 0
    for name in list:gmatch "lua/(%S+)%.lua" do
      is_first[name:gsub("/", ".")], count = true, count + 1
    end
    assert.is_true(count > 10, list)
    local dir <close> = process.directory()
    dir:write("loaded.lua", [[
      local rn = require "runnel"
      rn.run(function()
        local ch = rn.chan(1):name "words"
        rn.go(function()
          for i = 1, 3 do ch:put(i) rn.sleep(1) end
          ch:close()
        end)
        for _ in ch do end
      end)
      for name in pairs(package.loaded) do if package.searchpath(name, package.path) then print(name) end end]])
    local tree = io.popen("pwd"):read "l"
    local result = process.run(dir.path, ("cd '%s' && ${LUA:-lua5.4} '%s/loaded.lua'"):format(tree, dir.path))
    assert.equal(0, result.status, result.err)
    local others, n = {}, 0
    for name in result.out:gmatch "runnel[^\n]*" do
      n = n + 1
      if not is_first[name] and name ~= "runnel.core" then others[#others + 1] = name end
    end
    assert.is_true(n > 10, result.out)
    assert.same({}, others)
  end)
end)
