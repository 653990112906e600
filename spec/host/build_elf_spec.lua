-- How `runnel build` finds the shared libraries that an executable needs.

local process = require "spec.support.process"

-- A shell command's output.
local function output_of(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read "a"
end

describe("what an executable needs", function()
  it("is what the system's tools find", function()
    if not os.execute "command -v readelf >/dev/null" then return pending "there is no readelf" end
    local elf = require "runnel.host.build_elf"
    for _, path in ipairs { process.runnel, "build/runnel/core.so" } do
      local file <close> = io.open(path, "rb")
      if file then
        local needs = assert(elf.needs(file:read "a"))
        local expected, versions = {}, output_of(("readelf -V '%s'"):format(path))
        for name in output_of(("readelf -d '%s'"):format(path)):gmatch "%(NEEDED%)[^\n]*%[(.-)%]" do
          expected[#expected + 1] = name
        end
        assert.same(expected, needs.libraries)
        local newest
        for version in versions:gmatch "Name: GLIBC_([%d.]+)" do newest = elf.newer(newest, version) end
        assert.equal(newest, needs.glibc)
      end
    end
  end)

  it("compares versions by their numbers", function()
    local newer = require("runnel.host.build_elf").newer
    assert.equal("2.34", newer("2.4", "2.34"))
    assert.equal("2.34.1", newer("2.34", "2.34.1"))
    assert.equal("2.4", newer(nil, "2.4"))
  end)

  it("is nothing for another file", function()
    assert.is_nil(require("runnel.host.build_elf").needs "#!/bin/sh\n")
  end)
end)
