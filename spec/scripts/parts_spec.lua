-- scripts/parts.lua: which Lua modules a C library has that is built with some parts only (make librunnel PARTS=...).

local process = require "spec.support.process"

local LUA = os.getenv "LUA" or "lua5.4"
local MODULES = "$(find lua -name '*.lua' -not -path 'lua/runnel/host/*' | sort)"
local FILES = MODULES .. " $(find csrc -name '*.c' -not -path 'csrc/host/*' -not -path 'csrc/site/*')"

local HERE = assert(io.popen "pwd"):read()

-- A program that has only the files of its standard input, and requires each of them; and each name of them that is
-- loaded late. Modules of C libraries that are missing here may fail.
local USE_ALL <const> = [[
local files = {}
for file in io.lines() do files[file:match "^lua/(.*)%.lua$":gsub("/", ".")] = file end
package.path = ""
table.insert(package.searchers, 2, function(name) return files[name] and assert(loadfile(files[name])) end)
local function check(ok, err)
  local missing = not ok and tostring(err):match "module 'runnel[^']*' not found"
  if missing and not missing:find "[.]core'" and not missing:find "[.]curl'" then print(err) os.exit(1) end
end
for name in pairs(files) do
  if not name:find "^runnel%.sim" and not name:find "^runnel%.lite" and not name:find "%.driver%." then
    local ok, module = pcall(require, name)
    check(ok, module)
    if ok and type(module) == "table" then check(pcall(function() for _ in pairs(module) do end end)) end
  end
end
print "all"
os.exit(0)
]]

-- What requires modules by their names: threads, pools, and the core, of what blocks and what never runs.
local USE_NAMES <const> = [[
local rn = require "runnel.all"
print(rn.thread(function() return 1 end):take())
do
  local pool <close> = rn.threads(1, function(v) return v + 1 end)
  print(rn.pmap(1, pool, { 1 }):take())
end
rn.go(function() os.execute "sleep 0.1" end):take()
rn.go(function() end)
]]

describe("scripts/parts.lua", function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  local function run(command) return process.run(dir.path, ("cd '%s' && %s"):format(HERE, command)) end

  -- The files of these parts; what is written to stderr; the status.
  local function files_of(parts)
    local result = run(("%s scripts/parts.lua '%s' %s"):format(LUA, parts, FILES))
    local list = {}
    for file in result.out:gmatch "[^\n]+" do list[file] = true end
    return list, result.err, result.status
  end

  for _, parts in ipairs {
    "rn", "rn flow", "json,csv xf", "uv", "http", "sqlite", "store", "nats", "monitor", "otlp",
  } do
    it(("contains all that the parts require, at once or later: %s"):format(parts), function()
      dir:write("use_all.lua", USE_ALL)
      local result = run(("%s scripts/parts.lua '%s' %s | %s %s/use_all.lua")
        :format(LUA, parts, FILES, LUA, dir.path))
      assert.equal("all\n", result.out, result.err)
    end)
  end

  it("contains what threads and the core require", function()
    dir:write("use_names.lua", USE_NAMES)
    assert.equal(0, run(("cp --parents $(%s scripts/parts.lua rn %s) %s"):format(LUA, FILES, dir.path)).status)
    local result = run(("LUA_PATH='%s/lua/?.lua' %s %s/use_names.lua"):format(dir.path, LUA, dir.path))
    assert.equal("1\n2\n", result.out, result.err)
    assert.matches("use_names.lua:7: os.execute has blocked the thread", result.err)
    assert.matches("rn.run%(%)", result.err)
  end)

  it("leaves out the rest", function()
    assert.same({}, (files_of "core"))
    local flow = files_of "flow"
    assert.is_true(flow["lua/runnel/flow.lua"] and flow["lua/runnel/workers/workers.lua"])
    for file in pairs(flow) do
      for _, other in ipairs { "http", "store", "nats", "sim", "uv" } do
        assert.is_nil(file:find("/" .. other, 1, true), file)
      end
    end
    assert.is_nil(files_of "rn"["lua/runnel/flow.lua"])
  end)

  it("knows all of them #ci", function()
    local all, count = files_of "all", 0
    for _ in pairs(all) do count = count + 1 end
    assert.equal(tonumber(run("ls " .. MODULES .. " | wc -l").out), count)
  end)

  it("says which parts there are", function()
    local list, err, status = files_of "rn flwo"
    assert.same({}, list)
    assert.equal(1, status)
    assert.matches("^PARTS: there is no part 'flwo'; known: core, rn, .*flow, .*uv", err)
  end)
end)
