-- Runs busted under the very interpreter that runs this file; the `busted` command would start one of its own choice.
table.insert(arg, 1, "--ignore-lua") -- stay here, whatever .busted says
-- busted forgets what a spec has loaded. Without this, luv's loop would be collected then, and the next spec use it.
local has_luv, luv = pcall(require, "luv")
if has_luv then debug.getregistry()["luv, kept for all specs"] = luv end
package.loaded.luv = nil
require "busted.runner" { standalone = false }
