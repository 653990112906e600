-- lua/runnel/meta.lua, the types of the C core's functions: nothing loads it, so only this sees when it is out of date.
local core = require "runnel.core"

local META = "lua/runnel/meta.lua"

-- The names that lines of the file declare, by a pattern that captures one.
local function declared(pattern)
  local names = {}
  for line in io.lines(META) do
    local name = line:match(pattern)
    if name then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

local function functions_of(module)
  local names = {}
  for name, value in pairs(module) do
    if type(value) == "function" then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

-- The Lua files of the library.
local function sources()
  local list <close> = assert(io.popen "find lua -name '*.lua'")
  local paths = {}
  for path in list:lines() do paths[#paths + 1] = path end
  assert.is_true(#paths > 0)
  return paths
end

describe("meta.lua", function()
  it("declares every function of runnel.core, once, and no other", function()
    assert.same(functions_of(core), declared "^function core%.([%w_]+)%(")
    assert.same(functions_of(core.internal), declared "^function core%.internal%.([%w_]+)%(")
    assert.same(functions_of(core.internal.moving), declared "^function core%.internal%.moving%.([%w_]+)%(")
    assert.same(functions_of(core.internal.worker), declared "^function core%.internal%.worker%.([%w_]+)%(")
    assert.same(functions_of(core.internal.trace), declared "^function core%.internal%.trace%.([%w_]+)%(")
  end)

  it("has nothing at the top of runnel.core that programs cannot use: what is private is in core.internal", function()
    local rn = require "runnel"
    -- The last two are for drivers and hosts.
    local elsewhere = { methods = true, internal = true, wait_readable = true, wakeup_fd = true }
    for name, value in pairs(core) do
      assert.is_true(elsewhere[name] or rawequal(rn[name], value), name)
    end
    for name in pairs(core.internal) do assert.is_nil(rawget(rn, name), name) end
  end)

  it("declares every method of channels, once, and no other", function()
    assert.same(functions_of(core.methods), declared "^function Channel:([%w_]+)")
  end)

  it("names the parameters that each function declares", function()
    local documented = {}
    for line in io.lines(META) do
      local name = line:match "^%-%-%-@param ([%w_.]+)"
      local parameters = line:match "^function [%w_.:]+%((.-)%)"
      if name and name ~= "self" then documented[#documented + 1] = name end
      if parameters then
        assert.equal(parameters, table.concat(documented, ", "), line)
        documented = {}
      end
    end
  end)

  it("and all other annotations say what a channel carries #ci", function()
    for _, path in ipairs(sources()) do
      local number = 0
      for line in io.lines(path) do
        number = number + 1
        local bare = line:find "^%s*%-%-%-@" and (line .. " "):find "runnel%.Channel[^<%w]"
        assert.is_falsy(bare, ("%s:%d: write runnel.Channel<T>, or <any>: %s"):format(path, number, line))
      end
    end
  end)
end)
