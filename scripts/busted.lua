-- busted.lua [OPTIONS] FILE...: runs busted in the interpreter that runs this file. The `busted` command would choose
-- an interpreter itself. scripts/specs.lua runs this for each spec file.
local options = { "--ignore-lua", "--output=scripts/spec_report.lua" } -- override .busted
table.move(arg, 1, #arg, #options + 1)
table.move(options, 1, #options, 1, arg)
-- busted unloads the modules that a spec file has loaded. Without this, luv's loop would be collected and used again by
-- specs that use luv before runnel.driver.luv keeps it.
local has_luv, luv = pcall(require, "luv")
if has_luv then debug.getregistry()["luv, kept for all specs"] = luv end
package.loaded.luv = nil
-- os.tmpname makes files in /tmp, whatever TMPDIR says. scripts/specs.lua removes those that are in the list.
local list, tmpname = os.getenv "SPEC_TMPNAMES", os.tmpname
if list then
  function os.tmpname() -- luacheck: ignore 122
    local path, names = tmpname(), assert(io.open(list, "a"))
    names:write(path, "\n")
    names:close()
    return path
  end
end
require "busted.runner" { standalone = false }
