-- examples/import.lua, killed in the middle, and examples/ingest.lua.

local process = require "spec.support.process"

local dir

-- Calls `specs` with the command that runs an example. Each spec has a directory of its own.
local function describe_example(file, specs)
  describe(file, function()
    if not pcall(require, "runnel.sqlite") then return pending "libsqlite3 is not installed" end
    before_each(function() dir = process.directory() end)
    after_each(function() dir:remove() end)
    local pwd <close> = io.popen "pwd"
    specs(("%s '%s/%s'"):format(os.getenv "LUA" or "lua5.4", pwd:read "l", file))
  end)
end

describe_example("examples/import.lua", function(program)
  it("continues after it was killed, and charges no order twice, except those that were under way #ci", function()
    local lines = {}
    for i = 1, 600 do lines[i] = i .. ",500\n" end
    dir:write("orders.csv", table.concat(lines))
    local got = process.run(dir.path, ([[
      mkfifo charges
      %s work.db orders.csv 2>charges & p=$!
      n=0
      while read -r id; do
        echo "$id" >>charged
        n=$((n + 1))
        if [ $n = 100 ]; then kill -9 $p; fi
      done <charges
      wait $p 2>/dev/null
      %s work.db orders.csv 2>>charged
      %s work.db orders.csv 2>>charged
    ]]):format(program, program, program))
    assert.equal(("600 orders, 300000 cents\n"):rep(2), got.out)
    local times, twice = {}, 0
    for id in dir:read("charged"):gmatch "%d+" do times[id] = (times[id] or 0) + 1 end
    for i = 1, 600 do
      local n = times[tostring(i)]
      assert.is_true(n == 1 or n == 2)
      if n == 2 then twice = twice + 1 end
    end
    assert.is_true(twice <= 32)
  end)

  it("says which line is wrong, and how to use it", function()
    dir:write("orders.csv", "1,500\nnonsense\n")
    local got = process.run(dir.path, program .. " work.db orders.csv")
    assert.same({ "", 1 }, { got.out, got.status })
    assert.matches('not a number and cents: "nonsense"', got.err)
    got = process.run(dir.path, program .. " work.db")
    assert.same({ "", "usage: lua5.4 examples/import.lua STORE FILE\n", 2 }, { got.out, got.err, got.status })
  end)
end)

describe_example("examples/ingest.lua", function(program)
  program = program .. " w.db "

  it("stores each file once, also when it is started again after a file that could not be read", function()
    local many = {}
    for i = 1, 250 do many[i] = "snow," .. i end
    dir:write("a.csv", "rain,3\nwind,9\nrain,x\nrain, 4\n")
    local got = process.run(dir.path, program .. "a.csv b.csv")
    assert.same({ "", 1 }, { got.out, got.status })
    assert.equal('ingest: not a name and a number: "rain,x"\na.csv: 3 rows, 1 lines skipped\n',
      got.err:match "^(.-\n.-\n)")
    assert.matches("b.csv: No such file or directory\n$", got.err)
    dir:write("b.csv", table.concat(many, "\n"))
    for _ = 1, 2 do
      got = process.run(dir.path, program .. "a.csv b.csv")
      assert.same({ "rain             7\nsnow             31375\nwind             9\n", 0 }, { got.out, got.status })
      assert.equal("a.csv: 3 rows, 1 lines skipped\nb.csv: 250 rows, 0 lines skipped\n", got.err)
    end
  end)

  it("says how to use it", function()
    local got = process.run(dir.path, program)
    assert.same({ "", "usage: lua5.4 examples/ingest.lua DATABASE FILE...\n", 2 }, { got.out, got.err, got.status })
  end)
end)
