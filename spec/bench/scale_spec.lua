-- bench/scale.lua as a person runs it.

local shell = require "spec.support.shell"

describe("bench/scale.lua", function()
  it("prints a table of the chosen measurements #slow #ci", function()
    local output, errors, status = shell.run "lua bench/scale.lua --quick alts waiters"
    assert.same({ "waiters\nalts\n", 0 }, { errors:gsub("took %d+ s\n", ""), status })
    assert.matches("\n| alts over n channels, ns +| +[%d.]+ | +[%d.]+ | +O%(n%) | +%d%.%d%d |\n", output)
    assert.matches("\n| a message, while n wait on the channel, ns | +[%d.]+ | +[%d.]+ | +O%(1%) |", output)
    assert.matches("\nNothing grows faster than 3 times its law%.\n$", output)
    assert.not_matches("timer", output)
  end)

  it("says what grows faster than its law, and fails", function()
    local output, _, status = shell.run [[
      dir=$(mktemp -d)
      printf '#!/bin/sh\ncase $3 in 64) echo ns 12500;; *) echo ns 200;; esac\n' >"$dir/lua"
      chmod +x "$dir/lua"
      LUA="$dir/lua" $LUA bench/scale.lua --quick alts; s=$?
      rm -r "$dir"; exit $s]]
    assert.matches("\nGrows too fast:\n\n%- alts over n channels, ns: grows 3%.9 times as fast as O%(n%)\n$", output)
    assert.equal(1, status)
  end)

  it("says how to use it", function()
    local output, errors, status = shell.run "lua bench/scale.lua alts other"
    assert.same({ "", 2 }, { output, status })
    assert.matches("^usage: lua5.4 bench/scale.lua %[%-%-quick%] %[NAME...%]\n", errors)
    assert.matches("\nnames: park after .* lateness start\n$", errors)
  end)
end)
