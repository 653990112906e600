-- rn.file in a program that was not built; spec/host/build_spec.lua has those that were.

local process = require "spec.support.process"
local raises = require "spec.support.raises"
local rn = require "runnel"

describe("rn.file", function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  it("reads a whole file", function()
    dir:write("a.txt", "one\r\n\0two")
    assert.equal("one\r\n\0two", rn.file(dir.path .. "/a.txt"))
    dir:write("a.txt", "")
    assert.equal("", rn.file(dir.path .. "/a.txt"))
  end)

  it("returns nil and the reason if it cannot", function()
    local bytes, why = rn.file(dir.path .. "/none")
    assert.is_nil(bytes)
    assert.equal(dir.path .. "/none: No such file or directory", why)
    bytes, why = rn.file(dir.path)
    assert.is_nil(bytes)
    assert.equal(dir.path .. ": Is a directory", why)
  end)

  it("wants a path", function()
    raises("^file: a path expected, got nothing", function() rn.file() end)
  end)
end)
