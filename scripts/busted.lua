-- Runs busted under the very interpreter that runs this file; the `busted` command would start one of its own choice.
table.insert(arg, 1, "--ignore-lua") -- stay here, whatever .busted says
require "busted.runner" { standalone = false }
