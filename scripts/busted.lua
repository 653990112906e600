-- Runs busted in the interpreter that runs this file. The `busted` command would start one of its own choice.
local options = { "--ignore-lua" } -- stay in this interpreter, whatever .busted says
-- Without bash there is no watchdog, and a spec that hangs hangs for ever.
if os.execute "command -v bash >/dev/null 2>&1" then options[2] = "--helper=scripts/busted_helper.lua" end
table.move(arg, 1, #arg, #options + 1)
table.move(options, 1, #options, 1, arg)
-- busted forgets what a spec has loaded. Without this, luv's loop would be collected then, and the next spec use it.
local has_luv, luv = pcall(require, "luv")
if has_luv then debug.getregistry()["luv, kept for all specs"] = luv end
package.loaded.luv = nil
require "busted.runner" { standalone = false }
