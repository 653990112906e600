-- .ci/run: counts what its checks say, and fails if one of them does. `make` and scripts/setup are stand-ins here.

local process = require "spec.support.process"

describe(".ci/run", function()
  local dir
  before_each(function()
    dir = process.directory()
    os.execute(("mkdir -p '%s/.ci' '%s/scripts' '%s/bin' && cp .ci/run '%s/.ci'"):format(dir.path, dir.path, dir.path,
      dir.path))
    dir:write("scripts/setup", "#!/bin/sh\n")
  end)
  after_each(function() dir:remove() end)

  -- A run in which the specs have these sums, and `fails` is a pattern of the shell for the targets that fail. git says
  -- that the commit is `commit`. check-differences is skipped.
  -- It began `seconds` ago.
  local function run(specs, fails, commit, seconds)
    dir:write("bin/make", ([[#!/bin/sh
      echo "$*${SPEC_SHARE:+ of $SPEC_SHARE}${OOM_SCENARIOS:+: $OOM_SCENARIOS}" >>%s/made
      case $1 in test | check-specs-rest | check-san-*) echo '%s : 1.0 seconds, 2.0 of CPU time' ;; esac
      case $1 in check-differences) echo "$1: skipped: there is no node" ;; esac
      case $1 in %s) exit 1 ;; skipped) ;; esac
    ]]):format(dir.path, specs, fails or "none"))
    dir:write("bin/git", ("#!/bin/sh\necho %s\n"):format(commit or "000000ff"))
    os.execute(("chmod +x '%s'/bin/* '%s/scripts/setup'"):format(dir.path, dir.path))
    local result = process.run(dir.path, ("SECONDS=%d PATH=$PWD/bin:$PATH .ci/run"):format(seconds or 0))
    return result.out:match "([^\n]*)\n$", result.status, result.out
  end

  local GOOD = "7 successes / 0 failures / 0 errors / 1 pending"

  it("counts each spec, and each check that is not only a run of specs #ci", function()
    -- Three times the specs, the run with sanitizers, lint, check-oom and check-fresh.
    local line, status, out = run(GOOD)
    assert.same({ "25 passed, 0 failed, 3 skipped", 0 }, { line, status }, out)
  end)

  it("counts each check that fails, and goes on with the others #ci", function()
    local targets = { "test", "check-specs-rest", "lint", "check-san-gcc", "check-oom", "check-fresh" }
    local line, status, out = run(GOOD, table.concat(targets, " | "))
    assert.same({ "21 passed, 6 failed, 3 skipped", 1 }, { line, status }, out)
    for _, target in ipairs(targets) do
      assert.is_truthy(out:find("FAILED: make " .. target .. "\n", 1, true), out)
    end
  end)

  it("fails if a spec does, or if no specs ran #ci", function()
    local line, status = run "6 successes / 1 failure / 2 errors / 0 pending"
    assert.same({ "21 passed, 10 failed", 1 }, { line, status })
    line, status = run "nothing"
    assert.same({ "3 passed, 3 failed", 1 }, { line, status })
  end)

  it("counts a check as skipped that says so, and that ends well #ci", function()
    local line, status, out = run(GOOD, nil, "000010ff")
    assert.same({ "24 passed, 0 failed, 4 skipped", 0 }, { line, status }, out)
  end)

  it("leaves out on a slow machine what takes turns, and says so #ci", function()
    for _, seconds in ipairs { 420, 5000 } do
      local line, status, out = run(GOOD, nil, nil, seconds)
      assert.same({ "8 passed, 0 failed, 5 skipped", 0 }, { line, status }, out)
      for _, check in ipairs { "each optional check-fresh", "share 5 sanitized check-san-gcc", "third check check-oom",
        "share 3 specs check-specs-rest" } do
        assert.is_truthy(out:find("\n=== skipped, since this machine is slow: " .. check .. "\n", 1, true), out)
      end
    end
    assert.equal("25 passed, 0 failed, 3 skipped", (run(GOOD, nil, nil, 300)))
  end)

  it("builds what several checks use before it starts them #ci", function()
    run(GOOD)
    assert.matches("^%-j%d+ programs\n", dir:read "made")
  end)

  it("has a part that depends on the commit #ci", function()
    for commit, targets in pairs {
      ["000001"] = { "check-browser", "check-trace-viewers" },
      ["000003"] = { "check-embed", "check-install" },
      ["000004"] = { "check-crashes", "check-runs" },
      ["00000a"] = { "check-httpd" },
      ["00000c"] = { "check-model", "check-prove" },
      ["000010"] = { "check-differences" },
    } do
      run(GOOD, nil, commit .. "ff")
      local made = dir:read "made"
      for _, target in ipairs(targets) do assert.is_truthy(made:find(target .. "\n", 1, true), made) end
      os.remove(dir.path .. "/made")
    end
  end)

  it("lets memory run out in every third scenario, which the commit chooses #ci", function()
    os.execute(("cd '%s' && mkdir -p tests/oom && cd tests/oom && touch a.lua b.lua c.lua d.lua"):format(dir.path))
    for digits, files in pairs {
      ["00"] = "tests/oom/c.lua ", ["01"] = "tests/oom/a.lua tests/oom/d.lua ", ["02"] = "tests/oom/b.lua ",
    } do
      run(GOOD, nil, "000000ff000000" .. digits)
      assert.is_truthy(dir:read "made":find("\ncheck-oom: " .. files .. "\n", 1, true), dir:read "made")
      os.remove(dir.path .. "/made")
    end
  end)

  it("runs a fifth of the spec files with gcc's sanitizers, and a third of those that compute #ci", function()
    local SHARES <const> = { ["00"] = { "1/5", "1/3" }, ["01"] = { "2/5", "2/3" }, ["fe"] = { "5/5", "3/3" } }
    for digits, shares in pairs(SHARES) do
      local commit = "000000ef0000" .. digits
      run(GOOD, nil, commit)
      local made = dir:read "made"
      assert.is_truthy(made:find("\ncheck-san-gcc of " .. shares[1] .. "\n", 1, true), made)
      assert.is_truthy(made:find("\ncheck-specs-rest of " .. shares[2] .. "\n", 1, true), made)
      assert.is_truthy(made:find("\ntest\n", 1, true), made)
      os.remove(dir.path .. "/made")
    end
  end)
end)
