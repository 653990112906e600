-- scripts/sbom.lua: what an executable is made of, as SPDX.

local json = require "runnel.json"
local process = require "spec.support.process"

local LUA <const> = os.getenv "LUA" or "lua5.4"

local function sbom(arguments)
  local command = ("'%s' scripts/sbom.lua 1.2.3 abc 2026-01-01T00:00:00Z %s"):format(LUA, arguments)
  local pipe <close> = assert(io.popen(command))
  local text = pipe:read "a"
  return assert(json.decode(text)), text
end

describe("scripts/sbom.lua", function()
  it("names runnel, what is vendored, and each library once, with its licence and how it is linked", function()
    local document, text = sbom "/nowhere/liblua5.4.a -lm -lc libssl.so.3 libcrypto.so.3 libother.so.1"
    assert.equal("SPDX-2.3", document.spdxVersion)
    local found = {}
    for _, package in ipairs(document.packages) do
      assert.is_nil(found[package.name])
      found[package.name] = package
    end
    local linked = {}
    for _, relation in ipairs(document.relationships) do
      linked[relation.relatedSpdxElement] = relation.relationshipType
    end
    assert.equal("1.2.3", found.runnel.versionInfo)
    for name, expected in pairs { Lua = { "MIT", "STATIC_LINK" }, glibc = { "LGPL-2.1-or-later", "DYNAMIC_LINK" },
      OpenSSL = { "Apache-2.0", "DYNAMIC_LINK" }, preact = { "MIT", "CONTAINS" }, uPlot = { "MIT", "CONTAINS" },
      other = { "NOASSERTION", "DYNAMIC_LINK" } } do
      assert.same(expected, { found[name].licenseDeclared, linked[found[name].SPDXID] }, name)
    end
    assert.is_truthy(found.uPlot.versionInfo:find "^%d+%.%d+%.%d+$")
    assert.equal(text, select(2, sbom "/nowhere/liblua5.4.a -lm -lc libssl.so.3 libcrypto.so.3 libother.so.1"))
  end)

  it("lists what a program of runnel build carries", function()
    local dir = process.directory()
    dir:write("app.lua", "print 'hello'")
    process.run(dir.path, process.runnel .. " build app.lua -o app")
    local document = sbom("--program '" .. dir.path .. "/app'")
    dir:remove()
    local names = {}
    for _, package in ipairs(document.packages) do names[package.name] = true end
    assert.is_true(names["script app.lua"])
  end)
end)
