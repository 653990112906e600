-- bench/programs.lua as a person runs it.

local shell = require "spec.support.shell"

describe("bench/programs.lua", function()
  local has_time = os.execute "test -x /usr/bin/time"
  if not (has_time and pcall(require, "luv")) then return pending "GNU time or luv is not installed" end

  it("prints tables of the chosen programs and peers #slow #ci", function()
    local output, errors, status = shell.run "lua bench/programs.lua --quick actors commands lua luv"
    assert.equal(0, status)
    assert.match("commands: round 1: luv\n", errors)
    assert.match("| 1,000 commands, 8 at a time +| +[%d.]+ s | +| +[%d.]+ |", output)
    assert.match("| 100,000 actors, 10 messages each +| +%d+ MB | +[%d.]+ |", output)
  end)

  it("says how to use it", function()
    local output, errors, status = shell.run "lua bench/programs.lua --fast"
    assert.same({ "", 2 }, { output, status })
    assert.match("^usage: lua5.4 bench/programs.lua", errors)
  end)

  it("fails if a program prints something else than runnel's", function()
    local _, errors, status = shell.run [[
      dir=$(mktemp -d)
      cp -r bench "$dir"
      cd "$dir" || exit 3
      sed -i 's/print(total)/print(total + 1)/' bench/programs/lua/main.lua
      lua bench/programs.lua --quick actors lua
      status=$?
      rm -r "$dir"
      exit $status]]
    assert.equal(1, status)
    assert.match("actors: lua prints", errors)
  end)
end)
