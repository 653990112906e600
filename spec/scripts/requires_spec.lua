-- scripts/check_requires.lua: finds modules of lua/ that use a module of a higher floor.

local pages = require "spec.support.docs.pages"
local process = require "spec.support.process"

describe("scripts/check_requires.lua", function()
  local SCRIPT = assert(io.popen "pwd"):read() .. "/scripts/check_requires.lua"
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  -- Writes these modules below lua, and checks them. Returns what the script says, and its status.
  local function check(files)
    for path, text in pairs(files) do
      os.execute(("mkdir -p '%s/lua/%s'"):format(dir.path, path:match "^(.+)/" or "."))
      dir:write("lua/" .. path, text)
    end
    local result = process.run(dir.path, ("%s '%s' lua"):format(os.getenv "LUA" or "lua5.4", SCRIPT))
    return result.err, result.status
  end

  it("accepts what requires lower floors, its own room, and modules in C", function()
    assert.same({ "", 0 }, { check {
      ["runnel/internal/low.lua"] = 'local core = require "runnel.core"\n',
      ["runnel/flow/one.lua"] = 'local low = require "runnel.internal.low"\nrequire("runnel.flow.two")\n',
      ["runnel/flow/two.lua"] = '-- not require "runnel.host.live_prompt"\nlocal uv = require "luv"\n',
      ["runnel/host/live_prompt.lua"] = 'return require("runnel.flow.one")\n',
    } })
  end)

  it("finds what requires upward, at once, later or through package.loaded", function()
    local files = {
      ["runnel/sim/sim_http.lua"] = "return {}\n",
      ["runnel/internal/a.lua"] = 'local core = require "runnel.core"\nlocal sim = require "runnel.sim.sim_http"\n',
      ["runnel/http/b.lua"] = 'return function() return require("runnel.sim.sim_http").x end\n',
      ["runnel/uv/c.lua"] = 'local is_there = package.loaded["runnel.sim.sim_http"]\n',
    }
    local err, status = check(files)
    assert.equal(1, status)
    assert.equal("lua/runnel/http/b.lua:1: requires runnel.sim.sim_http, of a higher floor\n"
      .. "lua/runnel/internal/a.lua:2: requires runnel.sim.sim_http, of a higher floor\n"
      .. "lua/runnel/uv/c.lua:1: requires runnel.sim.sim_http, of a higher floor\n", err)
  end)

  it("finds rooms of one floor that know each other, and folders without a floor", function()
    local err, status = check {
      ["runnel/queue/a.lua"] = 'local b = require "runnel.flow.b"\n',
      ["runnel/flow/b.lua"] = "return {}\n",
      ["runnel/attic/c.lua"] = 'local b = require "runnel.flow.b"\n',
    }
    assert.equal(1, status)
    assert.equal("lua/runnel/attic/c.lua:1: the file is on no floor\n"
      .. "lua/runnel/queue/a.lua:1: requires runnel.flow.b, of another room on its floor\n", err)
  end)

  it("fails if it finds nothing to check", function()
    local err, status = check { ["runnel/a.txt"] = "" }
    assert.equal(1, status)
    assert.equal("lua has no module that requires another one\n", err)
  end)

  it("has the floors of docs/architecture.md", function()
    local listed = {}
    for line in assert(pages.read(SCRIPT):match "local FLOORS = {\n(.-)\n}\n"):gmatch "[^\n]+" do
      local rooms = {}
      for room in line:gmatch '"([^"]+)"' do rooms[#rooms + 1] = room end
      listed[#listed + 1] = table.concat(rooms, "; ")
    end
    local shown = assert(pages.read "docs/architecture.md":match "From the lowest:\n\n```text\n(.-)\n```")
    assert.equal(table.concat(listed, "\n"), shown)
  end)
end)
