-- The version: it is in one place, and what must agree with it does (scripts/check_version).

local pages = require "spec.support.docs.pages"
local process = require "spec.support.process"

local VERSION <const> = pages.read("csrc/capi/runnel.h"):match '\n#define RUNNEL_VERSION "([^"]+)"'

describe("the version", function()
  it("is named in runnel.h, the changelog and what is said of releases only", function()
    local pipe <close> = assert(io.popen(("grep -rlIF '%s' . --exclude-dir=.git --exclude-dir=build "
      .. "--exclude-dir=fixtures --exclude-dir=vendor"):format(VERSION)))
    local found = {}
    for path in pipe:lines() do
      local text = (" " .. pages.read(path) .. " "):gsub("%d+%.%d+%.%d+%.%d+", "")
      if text:find("%f[%w.]" .. VERSION:gsub("%.", "%%.") .. "%f[^%w]") then found[#found + 1] = path end
    end
    table.sort(found)
    assert.same({ "./CHANGELOG.md", "./csrc/capi/runnel.h", "./docs/releasing.md" }, found)
  end)

  it("has a section in the changelog, fixtures, and its number in the name of the library", function()
    local dir <close> = setmetatable(process.directory(), { __close = function(self) self:remove() end })
    local result = process.run(dir.path, ("'%s/scripts/check_version'"):format(io.popen("pwd"):read "l"))
    local is_released = pages.read("CHANGELOG.md"):find("\n## [" .. VERSION .. "] - 20", 1, true)
    if is_released then
      assert.same({ 0, "check_version: " .. VERSION .. "\n" }, { result.status, result.out })
    else
      assert.equal(("check_version: CHANGELOG.md has no section '## [%s] - DATE'\n"):format(VERSION), result.err)
      assert.is_truthy(pages.read("CHANGELOG.md"):find("\n## [" .. VERSION .. "] - not released yet\n", 1, true))
    end
    assert.equal(VERSION:match "^%d+", pages.read("Makefile"):match "\nABI +%= (%d+)\n")
  end)

  it("has its first number in each name of the library and of its package", function()
    local major = VERSION:match "^%d+"
    local pipe <close> = assert(io.popen "grep -rhoE 'librunnel(\\.so\\.)?[0-9]+' docs packaging README.md SECURITY.md")
    local n = 0
    for name in pipe:lines() do
      n = n + 1
      assert.equal(major, name:match "%d+$", name)
    end
    assert.is_true(n > 1)
  end)
end)

describe("the check of a version", function()
  local dir
  before_each(function()
    dir = process.directory()
    assert(os.execute(("cd '%s' && mkdir -p scripts csrc/capi spec/fixtures/1.2.0"):format(dir.path)))
    assert(os.execute(("cp scripts/check_version scripts/release_notes.lua '%s/scripts'"):format(dir.path)))
    dir:write("csrc/capi/runnel.h", '#define RUNNEL_VERSION "1.2.0"\n')
    dir:write("CHANGELOG.md", "# Changelog\n\n## [1.2.0] - 2027-01-31\n\n- A change.\n")
    dir:write("Makefile", "ABI          = 1\n")
    dir:write("spec/fixtures/1.2.0/nats.lua", "return {}\n")
  end)
  after_each(function() dir:remove() end)

  local function check() return process.run(dir.path, "scripts/check_version") end

  it("is content when all agrees", function()
    assert.same({ 0, "check_version: 1.2.0\n" }, { check().status, check().out })
  end)

  for name, case in pairs {
    ["the section has no date"] = { "CHANGELOG.md", "## [1.2.0] - not released yet\n\n- A change.\n", "no section" },
    ["the section is empty"] = { "CHANGELOG.md", "## [1.2.0] - 2027-01-31\n", "no changes of version 1.2.0" },
    ["the library has another number"] = { "Makefile", "ABI = 0\n", "the library is librunnel.so.0" },
    ["there are no fixtures"] = { "spec/fixtures/1.2.0/nats.lua", "", "make fixtures writes them" },
    ["it is no version"] = { "csrc/capi/runnel.h", '#define RUNNEL_VERSION "1.2-dev"\n', "is not MAJOR.MINOR.PATCH" },
  } do
    it("complains when " .. name, function()
      dir:write(case[1], case[2])
      local result = check()
      assert.equal(1, result.status)
      assert.is_truthy(result.err:find(case[3], 1, true), result.err)
    end)
  end
end)
