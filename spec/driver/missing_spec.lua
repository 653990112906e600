-- The drivers' messages if their library is missing.

local stage = require "spec.support.stage"

local PACKAGES = {
  luv = { library = "luv", name = "lua%-luv" },
  copas = { library = "copas", name = "LuaRocks' copas" },
  cqueues = { library = "cqueues", name = "lua%-cqueues" },
  luasocket = { library = "socket", name = "lua%-socket" },
}

describe("a driver whose library is missing", function()
  for driver, package in pairs(PACKAGES) do
    it(("names the package: %s"):format(driver), function()
      local output = stage.script(([[
        for i = #package.searchers, 1, -1 do
          local search = package.searchers[i]
          package.searchers[i] = function(name)
            if name ~= "%s" then return search(name) end
            return "\n\tno such file"
          end
        end
        print(pcall(function()
          require "runnel.driver.%s"
        end))
      ]]):format(package.library, driver))
      assert.matches("^false\t[^\n]+:9: the library " .. package.library .. " is needed here %(.*" .. package.name ..
        "[^)]*%): it is not installed\n$", output)
    end)
  end

  it("says what to do about C modules of this library that were not built", function()
    for module, what in pairs { ["runnel.http.client"] = "LuaRocks' runnel%-http, or libcurl, zlib and their",
      ["runnel.nats"] = "LuaRocks' runnel%-nats, or libnats and its",
      ["runnel.sqlite"] = "LuaRocks' runnel%-sqlite, or libsqlite3 and its",
      ["runnel.tls"] = "LuaRocks' runnel%-tls, or OpenSSL and its" } do
      local output = stage.script(([[
        package.cpath = package.cpath:match "[^;]*/%%?%%.so" -- of the tree, for the core
        require "runnel.core"
        package.cpath = ""
        print(pcall(function() require "%s" end))
      ]]):format(module))
      assert.matches("^false\t[^\n]+:4: the library runnel%.[^\n]+ is needed here %(install the package lua%-runnel, "
        .. what
        .. " headers, on Debian lib[^\n]*%-dev, and then runnel again with make install%): it is not installed\n$",
        output)
    end
  end)

  it("says what to do about a server that was not built", function()
    local output = stage.script [[
      package.cpath = package.cpath:match "[^;]*/%?%.so" -- of the tree, for the core
      require "runnel.core"
      package.cpath = ""
      print(pcall(function() return require "runnel.http".serve end))
    ]]
    assert.matches("^false\t[^\n]+:4: the library runnel.http.core is needed here %(install the package lua%-runnel, "
      .. "LuaRocks' runnel, or runnel again with make install%): it is not installed\n$", output)
  end)

  it("says why an installed library cannot be loaded", function()
    local output = stage.script [[
      package.preload.luv = function() error("this luv is broken", 0) end
      print(pcall(require, "runnel.driver.luv"))
    ]]
    assert.matches("the library luv is needed here %(.*%): this luv is broken", output)
  end)
end)
