-- The macros, and programs in Fennel; needs Fennel's compiler as the module `fennel`.

local stage = require "spec.support.stage"

local installed = pcall(require, "fennel")

-- A test that is pending without the compiler.
local function with_fennel(name, f)
  if installed then it(name, f) else pending(name .. " (Fennel's compiler is not installed)") end
end

-- Runs Fennel code in an interpreter of its own, after some Lua code.
local function run(code, lua)
  return stage.script(("local fennel = require 'fennel'.install()\n%s\nfennel.eval(%q)"):format(lua or "", code))
end

local MACRO_PATH = "fennel['macro-path'] = package.path:gsub('%.lua', '.fnl')"

describe("Fennel", function()
  with_fennel("runs a program that was written for the port", function()
    local output, status = stage.script "require 'fennel'.install().dofile 'spec/support/port.fnl'"
    assert.are.equal(([[
go: 42
nothing: nil
go-loop: 1 4 9
default: none default
alts: timeout
alts: put x
mult: 1 2 3
mult: 1 2 3
fruit: fig kiwi
tree: oak
pipeline: 1 10 2 20 3 30
split: 24 13
reduce: 3
merge: 1 2 3 4
callback: called
]]), output)
    assert.are.equal(0, status or 0)
  end)

  with_fennel("finds the macros by the name of the module or their own", function()
    for _, import in ipairs {
      "(doto :runnel.core_async require)", "(doto :runnel.macros (do (require :runnel.core_async)))",
    } do
      assert.are.equal("3\n", (run(([[
        (local {: <!!} (require :runnel.core_async))
        (import-macros {: go} %s)
        (print (<!! (go 3)))]]):format(import))))
    end
    for _, import in ipairs { ":runnel.macros", ":runnel.core_async" } do
      assert.are.equal("3\n", (run(([[
        (local {: <!!} (require :runnel.core_async))
        (import-macros {: go} %s)
        (print (<!! (go 3)))]]):format(import), MACRO_PATH)))
    end
  end)

  with_fennel("says what is wrong with a go-loop", function()
    for binding, message in pairs {
      ["[i]"] = "go-loop: a name without a value",
      ["(i 1)"] = "go-loop: a sequence of names and values expected",
      ["[(i j) 1]"] = "go-loop: cannot bind several values at once",
    } do
      local output = run(([[
        (import-macros {: go-loop} (doto :runnel.core_async require))
        (go-loop %s nil)]]):format(binding))
      assert.is_truthy(output:find(message, 1, true), output)
    end
  end)

  with_fennel("takes nil and the error of a go block that raises", function()
    local output = run [[
      (local {: <!!} (require :runnel.core_async))
      (import-macros {: go} (doto :runnel.core_async require))
      (print (select 1 (<!! (go (error :oops)))))]]
    assert.matches("^nil\t[^\n]*oops\n$", output)
  end)
end)
