-- scripts/release_notes.lua: the changes of a version, from the changelog.

local process = require "spec.support.process"

local SCRIPT <const> = io.popen("pwd"):read "l" .. "/scripts/release_notes.lua"
local CHANGELOG <const> = [[
# Changelog

## [Unreleased]

### Added

- Something new.

## [0.2.0] - 2026-01-02

### Fixed

- A fault.

## [0.1.0] - 2026-01-01

- The first one.
]]

describe("the notes of a release", function()
  local dir
  setup(function() dir = process.directory() end)
  teardown(function() dir:remove() end)

  local function notes(version, changelog)
    dir:write("CHANGELOG.md", changelog)
    return process.run(dir.path, ("%s %s %s <CHANGELOG.md"):format(os.getenv "LUA" or "lua5.4", SCRIPT, version))
  end

  it("are the section of its version", function()
    assert.equal("# runnel 0.2.0\n\n### Fixed\n\n- A fault.\n", notes("0.2.0", CHANGELOG).out)
    assert.equal("# runnel 0.1.0\n\n- The first one.\n", notes("0.1.0", CHANGELOG).out)
  end)

  it("are what is unreleased while it has no section", function()
    assert.equal("# runnel 0.3.0\n\n### Added\n\n- Something new.\n", notes("0.3.0", CHANGELOG).out)
  end)

  it("are an error if there are none", function()
    local result = notes("0.3.0", "# Changelog\n\n## [Unreleased]\n")
    assert.same({ "", 1 }, { result.out, result.status })
    assert.matches("the changelog has no changes of version 0.3.0", result.err)
  end)
end)
