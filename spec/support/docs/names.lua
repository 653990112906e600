---The names of the tests in a spec file, as busted shows them: the names of the surrounding describes, then its own.
---Loads the file without running tests. The names are those of the long form, which has all cases (support/long.lua).

local long = require "spec.support.long"

local function nothing() end

local function names_of(path)
  local names, around = {}, {}

  local function describe(name, body)
    around[#around + 1] = name
    body()
    around[#around] = nil
  end

  local function it(name)
    local full = table.concat(around, " ") .. " " .. name
    names[full:gsub(" #%l+", "")] = true
  end

  local file = {
    describe = describe, it = it,
    before_each = nothing, after_each = nothing, setup = nothing, teardown = nothing,
    pending = nothing, lazy_setup = nothing, lazy_teardown = nothing, finally = nothing,
  }
  local is_long = long.is_long
  long.is_long = true
  local ok, err = pcall(assert(loadfile(path, "t", setmetatable(file, { __index = _G }))))
  long.is_long = is_long
  assert(ok, err)
  return names
end

---@param path string
---@return table<string, boolean> # a set, without the tags
return names_of
