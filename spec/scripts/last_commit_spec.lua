-- scripts/last_commit, with which the checks of a release get the files they build; most run where there is no
-- repository.

local pages = require "spec.support.docs.pages"
local process = require "spec.support.process"

describe("scripts/last_commit", function()
  local dir
  before_each(function()
    dir = process.directory()
    assert(os.execute(("cd '%s' && mkdir -p scripts build bin"):format(dir.path)))
    assert(os.execute(("cp scripts/last_commit '%s/scripts'"):format(dir.path)))
    dir:write("build/built", "")
    dir:write("README.md", "a tree\n")
  end)
  after_each(function() dir:remove() end)

  -- A stand-in for git, which writes what it is asked for. `is_clean`: nothing differs from the last commit.
  local function with_git(is_clean)
    dir:write("bin/git", ('#!/bin/sh\n[ "$1" != diff ] || exit %d\necho "$*"\n'):format(is_clean and 0 or 1))
    assert(os.execute(("chmod +x '%s/bin/git' && mkdir -p '%s/.git'"):format(dir.path, dir.path)))
    return process.run(dir.path, "PATH=$PWD/bin:$PATH scripts/last_commit")
  end

  it("writes the files that are there, without what was built, if there is no repository", function()
    local result = process.run(dir.path, "scripts/last_commit | tar -t | grep '[a-z]' | grep -v '/[.]' | LC_ALL=C sort")
    assert.equal("./README.md\n./bin/\n./scripts/\n./scripts/last_commit\n", result.out)
  end)

  it("writes the last commit of a repository, and says when files differ from it", function()
    local result = with_git(true)
    assert.same({ "archive HEAD\n", "" }, { result.out, result.err })
    result = with_git(false)
    assert.same({ "archive HEAD\n", "note: uncommitted changes are not checked\n" }, { result.out, result.err })
  end)

  it("has nothing to write that a spec has left in the tree", function()
    local pipe <close> = assert(io.popen "scripts/last_commit 2>/dev/null | tar -t")
    for path in pipe:lines() do
      local name = path:match "[^/]*$"
      assert.is_true(name ~= ".command" and name ~= ".stderr", path)
    end
    assert.error_matches(function() process.run(".", "true") end, "a directory of its own")
  end)
end)

describe("a check of a release that runs in an unpacked archive", function()
  it("does not call git itself", function()
    -- The table itself, and a row that runs in the repository.
    local here = { check_release = true, check_version = true }
    local pipe <close> = assert(io.popen "ls scripts/check_* tests/*/check site/check/check scripts/debian_*")
    local n = 0
    for path in pipe:lines() do
      if not here[path:match "[^/]*$"] then
        n = n + 1
        for line in pages.read(path):gmatch "[^\n]+" do
          assert.is_nil(line:match "^[^#]*%f[%w_./-]git ", path .. ": " .. line)
        end
      end
    end
    assert.is_true(n > 10)
  end)

  it("is said to run there by the list of rows #ci", function()
    local pipe <close> = assert(io.popen "scripts/check_release --list")
    local rows = pipe:read "a"
    local places = { version = "here", container = "there", fresh = "there", reproducible = "there", deb = "there" }
    for row, place in pairs(places) do
      assert.equal(place, rows:match("%f[^\n%z]" .. row .. " +(%w+) "), row)
    end
  end)
end)
