-- The names of the library's chunks inside the executable, librunnel and the site. The core takes a function for one of
-- the library by the beginning of its chunk's name, so all modules of a program have the same one.

local process = require "spec.support.process"

local LUA <const> = os.getenv "LUA" or "lua5.4"

describe("the chunk name of a module of the library", function()
  local tree = io.popen("pwd"):read "l"

  it("begins with =, which no file's does, if the module is inside a program", function()
    local dir <close> = process.directory()
    for _, option in ipairs { "", "--bare" } do
      local result = process.run(dir.path, ("cd '%s' && %s scripts/embed.lua %s modules x.h lua/runnel/rn/mix.lua")
        :format(tree, LUA, option))
      assert.matches('{"runnel.rn.mix", "=runnel/rn/mix.lua", ', result.out, 1, true)
    end
  end)

  it("is made in the same way by a page of the site, which loads some modules later", function()
    local dir <close> = process.directory()
    dir:write("late.lua", [[
      package.preload["runnel.site.core"] = function()
        return { module_text = function() return "return debug.getinfo(1, 'S').source" end }
      end
      dofile "csrc/site/runnel.site.lua"
      print((require "runnel.late.module"))]])
    local result = process.run(dir.path, ("cd '%s' && %s '%s/late.lua'"):format(tree, LUA, dir.path))
    assert.same({ out = "=runnel/late/module.lua\n", err = "", status = 0 }, result)
  end)
end)
