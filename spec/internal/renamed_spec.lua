-- Names that were changed: warnings about the old ones.

local renamed = require "runnel.internal.renamed"

describe("a deprecated name", function()
  -- What f writes to stderr.
  local function warnings_of(f)
    local texts, stderr = {}, io.stderr
    -- luacheck: push ignore 122
    io.stderr = { write = function(_, ...) texts[#texts + 1] = table.concat { ... } end }
    local ok, err = pcall(f)
    io.stderr = stderr
    -- luacheck: pop
    assert(ok, err)
    return table.concat(texts)
  end

  local function here(text) return (text:gsub("runnel: %S*renamed_spec.lua:%d+: ", "HERE: ")) end

  it("of a function works, and warns once at each line that uses it, with the new name", function()
    local module = { settle = function(a, b) return a + b, "second" end }
    renamed.deprecate(module, "rn.", { debounce = "settle" }, "1.3")
    local results = {}
    local text = warnings_of(function()
      for i = 1, 3 do results[i] = table.pack(module.debounce(i, 10)) end
      module.debounce(0, 0)
    end)
    assert.same({ 12, "second", n = 2 }, results[2])
    local line = "HERE: rn.debounce is called rn.settle now; the old name goes with version 1.3\n"
    assert.equal(line .. line, here(text))
    local first, second = text:match "renamed_spec.lua:(%d+): .-renamed_spec.lua:(%d+): "
    assert.equal(tonumber(first) + 1, tonumber(second))
  end)

  it("of a method works, for the object itself", function()
    local class = { stats = function(self, what) return self.name .. what end }
    class.__index = class
    renamed.deprecate(class, "f:", { ping = "stats" }, "1.3")
    local object, result = setmetatable({ name = "a" }, class), nil
    local text = warnings_of(function() result = object:ping "b" end)
    assert.equal("ab", result)
    assert.equal("HERE: f:ping is called f:stats now; the old name goes with version 1.3\n", here(text))
  end)

  it("of an option works, and leaves the caller's table as it is", function()
    local function pmap(opts)
      opts = renamed.options(opts, "rn.pmap", { retry = "backoff" }, "1.3", 2)
      return opts
    end
    local opts, got = { retry = 5, tries = 2 }, nil
    local text = warnings_of(function()
      for _ = 1, 2 do got = pmap(opts) end
    end)
    assert.same({ backoff = 5, tries = 2 }, got)
    assert.same({ retry = 5, tries = 2 }, opts)
    assert.equal("HERE: the option retry of rn.pmap is called backoff now; the old name goes with version 1.3\n",
      here(text))
    local plain = { tries = 1 }
    assert.equal(plain, pmap(plain))
    assert.is_nil(pmap(nil))
  end)
end)
